//! QMP, the monitor protocol of QEMU: JSON lines over a unix socket.
//!
//! Source: `docs/interop/qmp-spec.rst` of QEMU. One client per socket; events may come between a
//! command and its reply. The peer is not trusted: lines are bounded, types are checked, and every
//! wait has a deadline.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::Instant;

use super::lines::read_line;
use crate::model::{Error, Result};

/// The longest line that is read. `query-qmp-schema`, the longest that QEMU sends, is 200 KiB.
const LINE: usize = 16 << 20;
/// Events kept while nobody reads them; older ones are dropped.
const EVENTS: usize = 1024;

/// An asynchronous message.
#[derive(Clone, Debug, PartialEq)]
pub struct QmpEvent {
    /// `SHUTDOWN`, `JOB_STATUS_CHANGE` …
    pub name: String,
    /// Its data; null where it has none.
    pub data: Value,
    /// Seconds since the epoch, where the event says so.
    pub seconds: Option<i64>,
}

/// A connection after the handshake.
pub struct Qmp {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    who: String,
    next: u64,
    events: std::collections::VecDeque<QmpEvent>,
    /// Bytes of a line whose reading was given up at a deadline.
    partial: Vec<u8>,
    /// Version as the greeting says it: `7.2.22`.
    pub version: String,
}

impl Qmp {
    /// Connects and shakes hands. `who` names the guest in messages.
    ///
    /// # Errors
    /// `Unreachable` when nobody listens, `TimedOut` when somebody does but says nothing (another
    /// client holds the socket, or the process hangs), `Backend` when it speaks no QMP.
    pub async fn connect(path: &Path, who: &str, limit: Duration) -> Result<Self> {
        let until = Instant::now() + limit;
        let stream = tokio::time::timeout_at(until, UnixStream::connect(path))
            .await
            .map_err(|_| silent(who))?
            .map_err(|error| {
                Error::unreachable(format!("{who}: nobody answers at its monitor: {error}"))
                    .because(error)
            })?;
        let (read, write) = stream.into_split();
        let mut qmp = Self {
            read: BufReader::new(read),
            write,
            who: who.to_owned(),
            next: 0,
            events: std::collections::VecDeque::new(),
            partial: Vec::new(),
            version: String::new(),
        };
        let greeting = qmp.line(until).await?;
        let version = greeting.pointer("/QMP/version/qemu").ok_or_else(|| {
            Error::backend(format!("{who}: what listens at its monitor speaks no QMP"))
        })?;
        let part = |name: &str| version.get(name).and_then(number).unwrap_or(0);
        qmp.version = format!("{}.{}.{}", part("major"), part("minor"), part("micro"));
        qmp.execute(
            "qmp_capabilities",
            Value::Null,
            until.saturating_duration_since(Instant::now()),
        )
        .await?;
        Ok(qmp)
    }

    /// Runs a command and gives back its `return`.
    ///
    /// # Errors
    /// `Backend` with QEMU's own words, `TimedOut`, or `Unreachable` when the process went away.
    pub async fn execute(
        &mut self,
        command: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Value> {
        let until = Instant::now() + limit;
        self.next += 1;
        let id = self.next;
        let mut message = json!({ "execute": command, "id": id });
        if !arguments.is_null()
            && let Some(map) = message.as_object_mut()
        {
            map.insert("arguments".to_owned(), arguments);
        }
        let mut line = message.to_string();
        line.push('\n');
        tokio::time::timeout_at(until, self.write.write_all(line.as_bytes()))
            .await
            .map_err(|_| silent(&self.who))?
            .map_err(|error| self.lost(Some(&error)))?;
        loop {
            let mut reply = self.line(until).await?;
            // An answer to a command whose deadline had passed is not ours.
            if reply
                .get("id")
                .and_then(Value::as_u64)
                .is_some_and(|other| other != id)
            {
                continue;
            }
            if let Some(result) = reply.get_mut("return") {
                return Ok(result.take());
            }
            if let Some(error) = reply.get("error") {
                let said = error
                    .get("desc")
                    .and_then(Value::as_str)
                    .unwrap_or("it gave no reason");
                return Err(Error::backend(format!(
                    "{}: {command}: {}",
                    self.who,
                    crate::model::shown(said)
                )));
            }
            return Err(Error::backend(format!(
                "{}: {command}: an answer without a result",
                self.who
            )));
        }
    }

    /// The next event, waiting at most `limit`; `None` when none came.
    pub async fn event(&mut self, limit: Duration) -> Result<Option<QmpEvent>> {
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        let until = Instant::now() + limit;
        loop {
            match self.message(until).await {
                Ok(message) => {
                    if let Some(event) = as_event(&message) {
                        return Ok(Some(event));
                    }
                }
                Err(error) if error.kind == crate::model::ErrorKind::TimedOut => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// The next line that is no event; events are kept.
    async fn line(&mut self, until: Instant) -> Result<Value> {
        loop {
            let message = self.message(until).await?;
            match as_event(&message) {
                Some(event) => {
                    if self.events.len() == EVENTS {
                        self.events.pop_front();
                    }
                    self.events.push_back(event);
                }
                None => return Ok(message),
            }
        }
    }

    async fn message(&mut self, until: Instant) -> Result<Value> {
        let read = read_line(&mut self.read, &mut self.partial, LINE);
        let line = match tokio::time::timeout_at(until, read).await {
            Err(_) => return Err(silent(&self.who)),
            Ok(Err(error)) => return Err(self.lost(Some(&error))),
            Ok(Ok(None)) => return Err(self.lost(None)),
            Ok(Ok(Some(line))) => line,
        };
        serde_json::from_slice(&line).map_err(|error| {
            Error::backend(format!("{}: its monitor sent no JSON: {error}", self.who))
                .because(error)
        })
    }

    fn lost(&self, why: Option<&std::io::Error>) -> Error {
        let why = why.map_or_else(
            || "it closed the connection".to_owned(),
            ToString::to_string,
        );
        Error::unreachable(format!("{}: its monitor went away: {why}", self.who))
    }
}

fn silent(who: &str) -> Error {
    Error::timed_out(format!("{who}: its monitor does not answer"))
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn as_event(message: &Value) -> Option<QmpEvent> {
    let name = message.get("event")?.as_str()?.to_owned();
    Some(QmpEvent {
        name,
        data: message.get("data").cloned().unwrap_or(Value::Null),
        seconds: message
            .pointer("/timestamp/seconds")
            .and_then(Value::as_i64),
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;

    use super::*;
    use crate::model::ErrorKind;

    const GREETING: &str =
        r#"{"QMP":{"version":{"qemu":{"micro":22,"minor":"2","major":7}},"capabilities":[]}}"#;

    /// A peer that sends `first`, then for each line it gets the next of `answers` as it stands.
    async fn peer(first: &str, answers: &[&str]) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qmp.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let first = format!("{first}\n");
        let answers: Vec<String> = answers.iter().map(|a| (*a).to_owned()).collect();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (read, mut write) = stream.into_split();
            let mut lines = BufReader::new(read).lines();
            write.write_all(first.as_bytes()).await.unwrap();
            for answer in answers {
                if lines.next_line().await.unwrap().is_none() {
                    return;
                }
                let _ = write.write_all(answer.as_bytes()).await;
            }
            if lines.next_line().await.unwrap().is_some() {
                std::future::pending::<()>().await;
            }
        });
        (dir, path)
    }

    const OK: &str = "{\"return\":{},\"id\":1}\n";
    const SOON: Duration = Duration::from_millis(150);
    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn events_between_command_and_reply_are_kept() {
        let (_dir, path) = peer(
            GREETING,
            &[OK, "{\"event\":\"STOP\",\"timestamp\":{\"seconds\":5}}\n{\"return\":{\"status\":\"paused\"},\"id\":2}\n"],
        )
        .await;
        let mut qmp = Qmp::connect(&path, "vm", LONG).await.unwrap();
        assert_eq!(qmp.version, "7.2.22");
        let status = qmp
            .execute("query-status", Value::Null, LONG)
            .await
            .unwrap();
        assert_eq!(status["status"], "paused");
        let event = qmp.event(SOON).await.unwrap().unwrap();
        assert_eq!((event.name.as_str(), event.seconds), ("STOP", Some(5)));
        assert!(qmp.event(SOON).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_hanging_peer_is_given_up() {
        let (_dir, path) = peer(GREETING, &[OK]).await;
        let mut qmp = Qmp::connect(&path, "vm", LONG).await.unwrap();
        let error = qmp
            .execute("query-status", Value::Null, SOON)
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_late_answer_is_not_taken_for_the_next_one() {
        let (_dir, path) = peer(
            GREETING,
            &[OK, "", "{\"return\":1,\"id\":2}\n{\"return\":2,\"id\":3}\n"],
        )
        .await;
        let mut qmp = Qmp::connect(&path, "vm", LONG).await.unwrap();
        assert!(qmp.execute("a", Value::Null, SOON).await.is_err());
        assert_eq!(qmp.execute("b", Value::Null, LONG).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn lies_and_half_answers_are_errors() {
        for (first, answer) in [
            ("hello", ""),
            ("{}", ""),
            ("[1,2", ""),
            (GREETING, "{\"return\""),
            (GREETING, "null\n"),
            (GREETING, "{\"error\":{\"desc\":5},\"id\":1}\n"),
        ] {
            let (_dir, path) = peer(first, &[answer]).await;
            assert!(
                Qmp::connect(&path, "vm", SOON).await.is_err(),
                "{first} {answer}"
            );
        }
        let error = Qmp::connect(Path::new("/nonexistent/qmp.sock"), "vm", SOON)
            .await
            .err()
            .unwrap();
        assert_eq!(error.kind, ErrorKind::Unreachable);
    }

    #[tokio::test]
    async fn the_peers_words_are_quoted_without_control_characters() {
        let (_dir, path) = peer(
            GREETING,
            &[
                OK,
                "{\"error\":{\"class\":\"GenericError\",\"desc\":\"bad \\u001b[2J\"},\"id\":2}\n",
            ],
        )
        .await;
        let mut qmp = Qmp::connect(&path, "vm", LONG).await.unwrap();
        let error = qmp.execute("x", Value::Null, LONG).await.unwrap_err();
        assert_eq!(error.message, "vm: x: bad \\x1b[2J");
    }
}
