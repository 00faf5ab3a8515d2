//! The QEMU guest agent on its unix socket.
//!
//! The socket is QEMU's end of a virtual serial line: it accepts also when nobody listens inside,
//! and bytes of an earlier, cut-off talk may still come. So each talk begins with
//! `guest-sync-delimited`, and silence is the normal way to find out that there is no agent.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};

use crate::model::{Error, Result, shown};

/// An agent's answer is bounded: it comes from inside a guest. `guest-file-read` of 48 KiB fits
/// many times.
const MAX_LINE: usize = 4 << 20;

/// A talk with the agent.
pub struct Agent {
    stream: UnixStream,
    buffer: Vec<u8>,
    /// Bytes of `buffer` already known to hold no newline.
    searched: usize,
}

impl Agent {
    /// Connects and syncs within `limit`.
    ///
    /// # Errors
    /// `Unreachable` when the socket is gone, `TimedOut` when no agent answers.
    pub async fn connect(path: &Path, limit: Duration) -> Result<Self> {
        let until = Instant::now() + limit;
        let stream = timeout_at(until, UnixStream::connect(path))
            .await
            .map_err(|_| silent())?
            .map_err(|error| {
                Error::unreachable(format!("no connection to {}: {error}", path.display()))
                    .because(error)
            })?;
        let mut agent = Self {
            stream,
            buffer: Vec::new(),
            searched: 0,
        };
        let token = u64::from(rand::random::<u32>());
        // The 0xff makes an agent that waits for the rest of an old line drop it.
        let mut bytes = vec![0xff];
        bytes.extend(request("guest-sync-delimited", &json!({ "id": token })));
        agent.send(&bytes, until).await?;
        loop {
            let line = agent.line(until).await?;
            let answer: Value = serde_json::from_slice(&line).unwrap_or(Value::Null);
            if answer.get("return").and_then(Value::as_u64) == Some(token) {
                return Ok(agent);
            }
        }
    }

    /// Runs a command and returns what it returns.
    ///
    /// # Errors
    /// `Backend` with the agent's words, `TimedOut`, `Unreachable`.
    pub async fn execute(&mut self, command: &str, args: &Value, limit: Duration) -> Result<Value> {
        let until = Instant::now() + limit;
        self.send(&request(command, args), until).await?;
        let line = self.line(until).await?;
        let answer: Value = serde_json::from_slice(&line).map_err(|_| {
            Error::backend(format!("the guest agent's answer to {command} is no JSON"))
        })?;
        if let Some(error) = answer.get("error") {
            let text = error
                .get("desc")
                .and_then(Value::as_str)
                .unwrap_or("no reason given");
            return Err(Error::backend(format!(
                "the guest agent refused {command}: {}",
                shown(text)
            )));
        }
        answer.get("return").cloned().ok_or_else(|| {
            Error::backend(format!(
                "the guest agent's answer to {command} is neither a result nor an error"
            ))
        })
    }

    /// Sends a command that answers nothing when it succeeds (`guest-shutdown`). An error that
    /// comes within `limit` is returned.
    ///
    /// # Errors
    /// As [`Agent::execute`], silence aside.
    pub async fn tell(&mut self, command: &str, args: &Value, limit: Duration) -> Result<()> {
        match self.execute(command, args, limit).await {
            Ok(_) => Ok(()),
            // Silence and hanging up are how success looks.
            Err(error) if error.is_temporary() => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn send(&mut self, bytes: &[u8], until: Instant) -> Result<()> {
        timeout_at(until, self.stream.write_all(bytes))
            .await
            .map_err(|_| silent())?
            .map_err(|error| hung_up(&error))
    }

    /// One line, without what stands before the last 0xff in it.
    async fn line(&mut self, until: Instant) -> Result<Vec<u8>> {
        loop {
            let fresh = &self.buffer[self.searched..];
            if let Some(at) = fresh.iter().position(|b| *b == b'\n') {
                let end = self.searched + at;
                self.searched = 0;
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                if let Some(mark) = line.iter().rposition(|b| *b == 0xff) {
                    line.drain(..=mark);
                }
                return Ok(line);
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_LINE {
                return Err(Error::backend(
                    "the guest agent sent a line of more than 4 MiB",
                ));
            }
            match timeout_at(until, self.stream.read_buf(&mut self.buffer)).await {
                Err(_) => return Err(silent()),
                Ok(Ok(0)) => return Err(Error::unreachable("the guest agent's socket hung up")),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(hung_up(&error)),
            }
        }
    }
}

fn request(command: &str, args: &Value) -> Vec<u8> {
    let mut line = json!({ "execute": command, "arguments": args }).to_string();
    line.push('\n');
    line.into_bytes()
}

fn silent() -> Error {
    Error::timed_out("the guest agent does not answer (not installed, not started yet, or hung)")
}

fn hung_up(error: &std::io::Error) -> Error {
    Error::unreachable(format!("the guest agent's socket hung up: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;
    use crate::model::ErrorKind;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Answers the sync after old garbage, then `answer`.
    fn serve(dir: &Path, answer: &'static [u8]) {
        let listener = UnixListener::bind(dir.join("ga")).unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 4096];
            let n = stream.read(&mut buffer).await.unwrap();
            assert_eq!(buffer[0], 0xff);
            let sync: Value = serde_json::from_slice(&buffer[1..n]).unwrap();
            let reply = json!({ "return": sync["arguments"]["id"] }).to_string();
            stream
                .write_all(b"{\"return\": 5}\n{\"retu\xff")
                .await
                .unwrap();
            stream
                .write_all(format!("{reply}\n").as_bytes())
                .await
                .unwrap();
            while stream.read(&mut buffer).await.unwrap_or(0) > 0 {
                stream.write_all(answer).await.unwrap();
            }
        });
    }

    #[tokio::test]
    async fn garbage_of_an_earlier_talk_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        serve(dir.path(), b"{\"return\": {\"version\": \"7\"}}\n");
        let mut agent = Agent::connect(&dir.path().join("ga"), LIMIT).await.unwrap();
        let info = agent
            .execute("guest-info", &json!({}), LIMIT)
            .await
            .unwrap();
        assert_eq!(info["version"], "7");
    }

    #[tokio::test]
    async fn refusals_and_silence() {
        let dir = tempfile::tempdir().unwrap();
        serve(
            dir.path(),
            b"{\"error\": {\"desc\": \"child process has failed\"}}\n",
        );
        let mut agent = Agent::connect(&dir.path().join("ga"), LIMIT).await.unwrap();
        let error = agent
            .tell("guest-shutdown", &json!({}), LIMIT)
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Backend);
        let mute = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(mute.path().join("ga")).unwrap();
        let short = Duration::from_millis(100);
        match Agent::connect(&mute.path().join("ga"), short).await {
            Err(error) => assert_eq!(error.kind, ErrorKind::TimedOut),
            Ok(_) => panic!("an agent that says nothing"),
        }
    }
}
