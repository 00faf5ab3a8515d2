//! QMP: the JSON lines that a QEMU process speaks on a unix socket.
//!
//! The peer may hang, lie or die in mid-answer: every wait has a deadline, every line a bound, and
//! nothing is believed without a look at its type.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};

use crate::model::{Error, Result, shown};

/// A line longer than this is no QMP: the largest answer seen (block nodes of a machine with
/// hundreds of disks and snapshots) stays below a mebibyte.
const MAX_LINE: usize = 8 << 20;
/// Events kept for a reader that does not come: the oldest go first.
const MAX_EVENTS: usize = 1024;

/// Something that QEMU reported by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct QmpEvent {
    /// When, by QEMU's clock.
    pub at: Option<Timestamp>,
    /// The event's word: `SHUTDOWN`.
    pub name: String,
    /// What comes with it; an empty object where nothing does.
    pub data: Value,
}

/// A connection on which commands are taken.
pub struct Qmp {
    stream: UnixStream,
    who: String,
    buffer: Vec<u8>,
    /// Bytes of `buffer` already known to hold no newline.
    searched: usize,
    events: VecDeque<QmpEvent>,
    next_id: u64,
    version: String,
    /// Set when the byte stream can no longer be trusted.
    broken: Option<Error>,
    guard: Option<Box<dyn std::any::Any + Send + Sync>>,
}

impl std::fmt::Debug for Qmp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qmp")
            .field("who", &self.who)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Whether anyone listens there, whatever it says; one that takes no connection does too.
pub async fn is_listening(path: &Path) -> bool {
    let limit = Duration::from_millis(200);
    let tried = tokio::time::timeout(limit, UnixStream::connect(path)).await;
    !matches!(tried, Ok(Err(_)))
}

impl Qmp {
    /// Connects, reads the greeting and negotiates, all within `limit`. `who` names the guest in
    /// messages.
    ///
    /// # Errors
    /// `Unreachable` when nobody listens, `TimedOut` when somebody does and says nothing (it hangs,
    /// or another client has the socket), `Backend` when it is no QMP.
    pub async fn connect(path: &Path, who: &str, limit: Duration) -> Result<Self> {
        let until = Instant::now() + limit;
        let stream = match timeout_at(until, UnixStream::connect(path)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(Error::unreachable(format!(
                    "{who}: nobody answers at its monitor: {error}"
                ))
                .because(error));
            }
            Err(_) => return Err(silent(who, "accepts no connection")),
        };
        let mut qmp = Self {
            stream,
            who: who.to_owned(),
            buffer: Vec::new(),
            searched: 0,
            events: VecDeque::new(),
            next_id: 0,
            version: String::new(),
            broken: None,
            guard: None,
        };
        let greeting = qmp
            .object(
                until,
                "sends no greeting (the process hangs, or another program holds the socket)",
            )
            .await?;
        let Some(hello) = greeting.get("QMP").and_then(Value::as_object) else {
            return Err(qmp.lied("its first line is no QMP greeting"));
        };
        qmp.version = version_of(hello.get("version").unwrap_or(&Value::Null));
        qmp.execute(
            "qmp_capabilities",
            Value::Null,
            until.saturating_duration_since(Instant::now()),
        )
        .await?;
        Ok(qmp)
    }

    /// QEMU's version as it greeted: `7.2.22`; empty when it did not say.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The process at the other end, as the kernel knows it.
    pub fn peer_pid(&self) -> Option<u32> {
        self.stream
            .peer_cred()
            .ok()
            .and_then(|cred| cred.pid())
            .and_then(|pid| u32::try_from(pid).ok())
    }

    /// Keeps `guard` (a lock) as long as the connection lives.
    pub fn hold(&mut self, guard: impl Send + Sync + 'static) {
        self.guard = Some(Box::new(guard));
    }

    /// Runs `command` and returns what it returns. Events that come before the answer are kept.
    /// `arguments` is an object or null.
    ///
    /// # Errors
    /// `Backend` with QEMU's own words, `Unsupported` for a command it does not have, `TimedOut`
    /// (the command may still be carried out; a late answer is recognised and dropped),
    /// `Unreachable` when it hung up.
    pub async fn execute(
        &mut self,
        command: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Value> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let until = Instant::now() + limit;
        self.next_id += 1;
        let id = self.next_id;
        let mut request = Map::new();
        request.insert("execute".to_owned(), json!(command));
        if !arguments.is_null() {
            request.insert("arguments".to_owned(), arguments);
        }
        request.insert("id".to_owned(), json!(id));
        let mut line = Value::Object(request).to_string();
        line.push('\n');
        match timeout_at(until, self.stream.write_all(line.as_bytes())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(self.hung_up(command, &error.to_string())),
            // Half a request may be in the pipe: what follows would be read as its rest.
            Err(_) => {
                let error = silent(&self.who, &format!("did not take the command {command}"));
                self.broken = Some(error.clone());
                return Err(error);
            }
        }
        loop {
            let answer = self
                .object(until, &format!("did not answer {command} in time"))
                .await?;
            if let Some(event) = event_of(&answer) {
                self.keep(event);
                continue;
            }
            if answer.get("id").is_some_and(|got| *got != json!(id)) {
                // The late answer of a command that was given up on.
                continue;
            }
            if let Some(error) = answer.get("error") {
                return Err(refused_by_qemu(&self.who, command, error));
            }
            match answer.get("return") {
                Some(value) if answer.contains_key("id") => return Ok(value.clone()),
                _ => {
                    return Err(self.lied(&format!(
                        "its answer to {command} is neither a result nor an error"
                    )));
                }
            }
        }
    }

    /// The next event; waits as long as it takes.
    ///
    /// # Errors
    /// `Unreachable` when QEMU has gone, `Backend` when it speaks no QMP.
    pub async fn next_event(&mut self) -> Result<QmpEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let line = self.line().await?;
            if let Some(event) = event_of(&self.parse(&line)?) {
                return Ok(event);
            }
        }
    }

    /// The next event, waiting at most `limit`; `None` when none came.
    ///
    /// # Errors
    /// As [`Qmp::next_event`].
    pub async fn event(&mut self, limit: Duration) -> Result<Option<QmpEvent>> {
        match tokio::time::timeout(limit, self.next_event()).await {
            Ok(event) => event.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Events that came meanwhile, oldest first.
    pub fn take_events(&mut self) -> Vec<QmpEvent> {
        self.events.drain(..).collect()
    }

    fn keep(&mut self, event: QmpEvent) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    async fn object(&mut self, until: Instant, silence: &str) -> Result<Map<String, Value>> {
        let Ok(line) = timeout_at(until, self.line()).await else {
            return Err(silent(&self.who, silence));
        };
        let line = line?;
        self.parse(&line)
    }

    fn parse(&mut self, line: &[u8]) -> Result<Map<String, Value>> {
        match serde_json::from_slice(line) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err(self.lied("it sent a line that is no JSON object")),
            Err(_) => Err(self.lied("it sent a line that is no JSON")),
        }
    }

    /// One line. May be dropped at any await without losing bytes.
    async fn line(&mut self) -> Result<Vec<u8>> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        loop {
            if let Some(at) = self.buffer[self.searched..]
                .iter()
                .position(|b| *b == b'\n')
            {
                let end = self.searched + at;
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                self.searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(line);
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_LINE {
                self.buffer = Vec::new();
                self.searched = 0;
                return Err(self.lied("it sent a line of more than 8 MiB"));
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) if self.buffer.is_empty() => {
                    return Err(self.hung_up("", "the process has ended"));
                }
                Ok(0) => return Err(self.hung_up("", "it ended in the middle of an answer")),
                Ok(_) => {}
                Err(error) => return Err(self.hung_up("", &error.to_string())),
            }
        }
    }

    fn lied(&mut self, how: &str) -> Error {
        let error = Error::backend(format!(
            "{}: what listens at its monitor speaks no QMP: {how}",
            self.who
        ));
        self.broken = Some(error.clone());
        error
    }

    fn hung_up(&mut self, command: &str, why: &str) -> Error {
        let during = if command.is_empty() {
            String::new()
        } else {
            format!(" during {command}")
        };
        let error = Error::unreachable(format!("{}: its monitor hung up{during}: {why}", self.who));
        self.broken = Some(error.clone());
        error
    }
}

fn silent(who: &str, what: &str) -> Error {
    Error::timed_out(format!("{who}: its monitor {what}"))
}

fn refused_by_qemu(who: &str, command: &str, error: &Value) -> Error {
    let class = error.get("class").and_then(Value::as_str).unwrap_or("");
    let text = error
        .get("desc")
        .and_then(Value::as_str)
        .unwrap_or("it gave no reason");
    let message = format!("{who}: QEMU refused {command}: {}", shown(text));
    match class {
        "CommandNotFound" => Error::unsupported(message),
        "DeviceNotFound" => Error::not_found(message),
        _ => Error::backend(message),
    }
}

fn event_of(object: &Map<String, Value>) -> Option<QmpEvent> {
    let name = object.get("event")?.as_str()?.to_owned();
    let stamp = object.get("timestamp");
    let part = |key| stamp.and_then(|s| s.get(key)).and_then(Value::as_i64);
    let at = part("seconds").and_then(|seconds| {
        let micros = part("microseconds").unwrap_or(0);
        let nanos = i32::try_from(micros.clamp(0, 999_999) * 1000).ok()?;
        Timestamp::new(seconds, nanos).ok()
    });
    let data = match object.get("data") {
        Some(data @ Value::Object(_)) => data.clone(),
        _ => json!({}),
    };
    Some(QmpEvent { at, name, data })
}

/// `7.2.22` out of what the greeting or `query-version` says.
fn version_of(value: &Value) -> String {
    let part = |key: &str| {
        value
            .pointer(&format!("/qemu/{key}"))
            .and_then(Value::as_u64)
    };
    match (part("major"), part("minor"), part("micro")) {
        (Some(major), Some(minor), Some(micro)) => format!("{major}.{minor}.{micro}"),
        _ => String::new(),
    }
}

#[cfg(test)]
#[path = "qmp_tests.rs"]
mod tests;
