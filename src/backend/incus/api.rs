//! The REST API of Incus, and of LXD where it is the same: questions, changes, and operations followed to their end.
//!
//! <https://linuxcontainers.org/incus/docs/main/rest-api/>

use std::time::Duration;

use futures::Stream;
use serde_json::Value;
use tokio::time::Instant;

use super::call::Call;
use super::json::{Look as _, encoded};
use crate::backend::contract::{ReadCx, TaskCx};
use crate::link::http::{Answer, Body, Http, Request};
use crate::link::websocket;
use crate::model::{Error, ErrorKind, Result, shown};

/// An answer of the API is held in memory: thousands of instances have some megabytes.
const LONGEST: u64 = 256 << 20;
/// How long a server may think before it takes a change; the change itself has no deadline.
const TAKEN: Duration = Duration::from_secs(30);
/// One look at an operation waits at its server for so long, seconds.
const SLICE: u64 = 1;
/// An answer to a look may take so much longer: the server is busy.
const SLOW: Duration = Duration::from_secs(15);
/// A server that does not answer for so long while an operation runs is not waited for.
const SILENCE: Duration = Duration::from_secs(60);
/// What a server says of a wait whose time is up, in place of the operation.
const NOT_YET: &str = "context deadline exceeded";

/// A server.
#[derive(Debug)]
pub struct Api {
    /// How it is reached.
    pub http: Http,
    /// The context it is asked for.
    pub context: String,
}

/// What a server answers.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// What was asked for.
    pub metadata: Value,
    /// Names this version of it.
    pub etag: Option<String>,
    /// The operation that does it, by its path.
    pub operation: Option<String>,
}

impl Api {
    /// Asks.
    ///
    /// # Errors
    /// `TimedOut` at the deadline, `NotFound`, `Unauthorized`, and what else the server says.
    pub async fn get(&self, cx: &ReadCx, path: &str) -> Result<Reply> {
        let asked = self.exchange(Request::get(path));
        cx.within(&self.http.called(), asked)
            .await
            .map_err(|error| error.in_context(&self.context))
    }

    /// Sends one request and reads the envelope of its answer.
    pub async fn exchange(&self, request: Request<'_>) -> Result<Reply> {
        let answer = self.http.send(request).await?;
        self.read(answer).await
    }

    async fn read(&self, answer: Answer) -> Result<Reply> {
        let status = answer.status();
        let etag = answer.header("etag").map(str::to_owned);
        let bytes = answer.whole(LONGEST).await?;
        let mut envelope: Value = serde_json::from_slice(&bytes).map_err(|error| {
            let what = self.http.called();
            let why = if status >= 400 {
                format!("{what} answers with HTTP {status} and no message")
            } else {
                format!("{what} answers with what is no JSON: {error}")
            };
            Error::backend(why)
        })?;
        if envelope.text("type") == Some("error") || status >= 400 {
            let code = envelope.number("error_code").filter(|code| *code != 0);
            let code = code.unwrap_or_else(|| u64::from(status));
            let said = envelope.text("error").unwrap_or("no reason given");
            return Err(fault(code, said));
        }
        let operation = envelope.text("operation").map(str::to_owned);
        Ok(Reply {
            metadata: envelope["metadata"].take(),
            etag,
            operation,
        })
    }

    /// Makes a change and follows it to its end. Gives what the operation left: its `metadata`.
    ///
    /// # Errors
    /// What the server says; `Conflict` where `etag` is of another version.
    pub async fn change(&self, cx: &TaskCx, call: &Call, etag: Option<&str>) -> Result<Value> {
        let bytes = match &call.body {
            Value::Null => Body::Empty,
            body => Body::Bytes(body.to_string().into_bytes()),
        };
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(etag.map(|etag| ("if-match", etag)));
        let request = Request {
            method: call.method,
            path: &call.path,
            headers: &headers,
            body: bytes,
        };
        let taken = tokio::time::timeout(TAKEN, self.exchange(request)).await;
        let reply = taken.unwrap_or_else(|_| {
            Err(Error::timed_out(format!(
                "{} did not say in {} s whether it takes this; it may still do it",
                self.http.called(),
                TAKEN.as_secs()
            )))
        });
        self.finished(cx, reply.map_err(|error| error.in_context(&self.context))?)
            .await
    }

    /// Follows what `reply` began to its end.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub async fn finished(&self, cx: &TaskCx, reply: Reply) -> Result<Value> {
        let done = match &reply.operation {
            Some(operation) => self.follow(cx, operation).await,
            None => Ok(reply.metadata),
        };
        done.map_err(|error| error.in_context(&self.context))
    }

    async fn follow(&self, cx: &TaskCx, operation: &str) -> Result<Value> {
        cx.native_task(operation);
        let path = operation.split('?').next().unwrap_or(operation);
        let wait = format!("{path}/wait?timeout={SLICE}");
        let begun = Instant::now();
        let mut heard = Instant::now();
        let mut asked_to_stop = false;
        loop {
            let limit = Duration::from_secs(SLICE) + SLOW;
            let look = tokio::time::timeout(limit, self.exchange(Request::get(&wait)));
            let look = tokio::select! {
                look = look => look,
                () = cx.cancel.cancelled(), if !asked_to_stop => {
                    asked_to_stop = true;
                    self.stop(cx, path).await;
                    continue;
                }
            };
            match look {
                Ok(Ok(reply)) => {
                    if let Some(end) = ended(&reply.metadata, asked_to_stop) {
                        return end;
                    }
                    heard = Instant::now();
                }
                Ok(Err(error)) if error.kind == ErrorKind::NotFound => return Err(lost(path)),
                // Either the wait's time is up, or the operation failed: only the operation itself tells.
                Ok(Err(error)) if error.kind != ErrorKind::Unreachable => {
                    if !error.message.contains(NOT_YET) {
                        return Err(stopped(error, asked_to_stop));
                    }
                    heard = Instant::now();
                }
                Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(300)).await,
                Err(_) => {}
            }
            match tokio::time::timeout(SLOW, self.exchange(Request::get(path))).await {
                Ok(Ok(reply)) => {
                    heard = Instant::now();
                    if let Some(end) = ended(&reply.metadata, asked_to_stop) {
                        return end;
                    }
                    tell(cx, &reply.metadata);
                }
                Ok(Err(error)) if error.kind == ErrorKind::NotFound => return Err(lost(path)),
                _ => {}
            }
            let over = cx
                .timeout
                .is_some_and(|limit| begun.elapsed() > limit + SLOW);
            if heard.elapsed() > SILENCE || over || (asked_to_stop && heard.elapsed() > SLOW) {
                return Err(Error::timed_out(format!(
                    "{} does not say what became of it; it may still do it",
                    self.http.called()
                ))
                .remedy(format!("Look again: corral context test {}", self.context)));
            }
        }
    }

    /// Asks the server to give an operation up. Not all can be.
    async fn stop(&self, cx: &TaskCx, path: &str) {
        let request = Request {
            method: "DELETE",
            path,
            headers: &[],
            body: Body::Empty,
        };
        let asked = tokio::time::timeout(SLOW, self.exchange(request)).await;
        match asked {
            Ok(Ok(_)) => cx.log("the server was asked to give it up"),
            Ok(Err(error)) => cx.log(format!("it cannot be given up any more: {error}")),
            Err(_) => cx.log("the server did not say whether it gives it up"),
        }
    }

    /// What happens, as it happens: the texts of `/1.0/events`.
    ///
    /// # Errors
    /// As for a connection.
    pub async fn events(
        &self,
        project: Option<&str>,
    ) -> Result<impl Stream<Item = Result<String>> + Send + use<>> {
        let whose = match project {
            Some(project) => format!("project={}", encoded(project)),
            None => "all-projects=true".to_owned(),
        };
        let path = format!("/1.0/events?type=lifecycle,operation&{whose}");
        websocket::texts(&self.http, &path).await
    }
}

/// What an operation came to; `None` while it runs.
fn ended(operation: &Value, asked_to_stop: bool) -> Option<Result<Value>> {
    match operation.number("status_code") {
        Some(200) => Some(Ok(operation
            .get("metadata")
            .cloned()
            .unwrap_or(Value::Null))),
        Some(401) => Some(Err(Error::refused("cancelled"))),
        Some(400) => {
            let said = operation.text("err").unwrap_or("no reason given");
            Some(Err(stopped(fault(400, said), asked_to_stop)))
        }
        _ => None,
    }
}

fn stopped(error: Error, asked_to_stop: bool) -> Error {
    if asked_to_stop {
        return Error::refused(format!("cancelled; the server says: {}", error.message));
    }
    error
}

fn lost(path: &str) -> Error {
    Error::backend(format!(
        "the server does not know {} any more: it was restarted in the middle of it, or has forgotten how it ended",
        shown(path)
    ))
    .remedy("See what came of it: corral list")
}

/// Progress, where the operation tells any: `create_instance_from_image_unpack_progress: "Unpack: 35% (7MB/s)"`.
fn tell(cx: &TaskCx, operation: &Value) {
    let Some(metadata) = operation.object("metadata") else {
        return;
    };
    for (key, value) in metadata {
        let (true, Some(text)) = (key.ends_with("progress"), value.as_str()) else {
            continue;
        };
        let percent = text.split('%').next().and_then(|before| {
            let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse::<u64>().ok()
        });
        match percent {
            Some(percent) if percent <= 100 => cx.progress(percent, 100),
            _ => cx.log(shown(text).into_owned()),
        }
    }
}

/// What a server's refusal means to a user.
pub fn fault(code: u64, said: &str) -> Error {
    let mut message = shown(said).into_owned();
    let words = said.to_ascii_lowercase();
    let taken = words.contains("already exists")
        || words.contains("already in use")
        || words.contains("unique constraint");
    if words.contains("unique constraint") {
        message = format!("there is another one of this name already ({message})");
    }
    let kind = match code {
        401 | 403 => ErrorKind::Unauthorized,
        404 => ErrorKind::NotFound,
        409 | 412 => ErrorKind::Conflict,
        503 => ErrorKind::Unreachable,
        // Said by a server that is on its way down, with whatever code.
        _ if words == "shutting down" || words.contains("database is closed") => {
            ErrorKind::Unreachable
        }
        _ if taken => ErrorKind::Conflict,
        _ if words.contains("not found") => ErrorKind::NotFound,
        _ => ErrorKind::Backend,
    };
    let error = Error::new(kind, message);
    let full = ["no space left", "out of disk space", "disk quota exceeded"];
    if full.iter().any(|full| words.contains(full)) {
        return error.remedy("See how full it is: corral storage list");
    }
    if kind == ErrorKind::Unauthorized {
        return error.remedy(
            "The server does not let this client do it: corral doctor says as whom it is known",
        );
    }
    error
}

/// The version that was asked for is no more.
pub fn is_stale(error: &Error) -> bool {
    error.kind == ErrorKind::Conflict && error.message.contains("ETag")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_end_of_an_operation_is_told_from_its_middle() {
        let of = |code: u64| {
            ended(
                &json!({"status_code": code, "err": "why", "metadata": {"a": 1}}),
                false,
            )
        };
        assert!(of(103).is_none() && of(105).is_none());
        assert_eq!(of(200).unwrap().unwrap(), json!({"a": 1}));
        assert_eq!(of(400).unwrap().unwrap_err().message, "why");
        assert_eq!(of(401).unwrap().unwrap_err().kind, ErrorKind::Refused);
        assert!(ended(&Value::Null, false).is_none());
        let failed = ended(&json!({"status_code": 400, "err": "x"}), true);
        assert!(
            failed
                .unwrap()
                .unwrap_err()
                .message
                .starts_with("cancelled")
        );
    }

    #[test]
    fn refusals_are_told_apart() {
        for (code, said, kind) in [
            (404, "Instance not found", ErrorKind::NotFound),
            (403, "not authorized", ErrorKind::Unauthorized),
            (412, "ETag doesn't match: a vs b", ErrorKind::Conflict),
            (400, "Instance \"x\" already exists", ErrorKind::Conflict),
            (500, "write /x: no space left on device", ErrorKind::Backend),
            (
                400,
                "Add: UNIQUE constraint failed: instances.name",
                ErrorKind::Conflict,
            ),
            (503, "Daemon is starting", ErrorKind::Unreachable),
            (400, "Shutting down", ErrorKind::Unreachable),
            (500, "sql: database is closed", ErrorKind::Unreachable),
            (400, "Failed shutting down instance: x", ErrorKind::Backend),
        ] {
            assert_eq!(fault(code, said).kind, kind, "{said}");
        }
        assert!(is_stale(&fault(412, "ETag doesn't match: a vs b")));
        assert!(fault(500, "no space left on device").remedy.is_some());
        assert!(!fault(400, "a\u{1b}[2Jb").message.contains('\u{1b}'));
    }
}
