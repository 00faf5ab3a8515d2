//! A long talk with the guest agent, whose line is let go now and then: others want to ask it too.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::locks::{self, Lock};
use crate::link::qga::Agent;
use crate::model::{Error, ErrorKind, Result, shown};

/// Until an agent that is there has answered something small.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// Held at most so long without letting others in.
const TURN: Duration = Duration::from_secs(1);
/// So long the line is left to others.
const PAUSE: Duration = Duration::from_millis(40);

/// The talk.
pub(super) struct Talk<'a> {
    ctx: &'a Ctx,
    vm: &'a Definition,
    line: Option<(Agent, Lock, Instant)>,
    commands: BTreeSet<String>,
}

/// How a command inside ended.
pub(super) struct Ran {
    pub(super) code: i64,
    pub(super) out: Vec<u8>,
}

impl<'a> Talk<'a> {
    /// Finds the agent and asks what it may do.
    pub(super) async fn begin(ctx: &'a Ctx, vm: &'a Definition, limit: Duration) -> Result<Self> {
        let mut talk = Self {
            ctx,
            vm,
            line: None,
            commands: BTreeSet::new(),
        };
        let info = talk
            .ask("guest-info", json!({}), limit)
            .await
            .map_err(|error| {
                let id = ctx.called(vm);
                let message = format!("{id}: {}", error.message);
                Error { message, ..error }.remedy(format!(
                    "Install and start qemu-guest-agent inside; or copy by ssh: corral dial {id} serves as its ProxyCommand"
                ))
            })?;
        let listed = info.get("supported_commands").and_then(Value::as_array);
        talk.commands = listed
            .into_iter()
            .flatten()
            .filter(|c| c.get("enabled").and_then(Value::as_bool) == Some(true))
            .filter_map(|c| c.get("name").and_then(Value::as_str))
            .map(str::to_owned)
            .collect();
        Ok(talk)
    }

    /// Whether the agent does `command`.
    pub(super) fn can(&self, command: &str) -> bool {
        self.commands.contains(command)
    }

    /// Whether commands can be run inside.
    pub(super) fn can_run(&self) -> bool {
        self.can("guest-exec") && self.can("guest-exec-status")
    }

    /// Asks, and waits at most `limit`.
    pub(super) async fn ask(
        &mut self,
        command: &str,
        args: Value,
        limit: Duration,
    ) -> Result<Value> {
        if let Some((_, _, since)) = &self.line
            && since.elapsed() > TURN
        {
            self.line = None;
            tokio::time::sleep(PAUSE).await;
        }
        let (mut agent, lock, since) = match self.line.take() {
            Some(line) => line,
            None => self.connect(limit).await?,
        };
        let answer = agent.execute(command, &args, limit).await;
        // After silence its answer may still come: only a new talk begins with a clean line.
        if answer.as_ref().err().is_none_or(|e| !e.is_temporary()) {
            self.line = Some((agent, lock, since));
        }
        answer
    }

    async fn connect(&self, limit: Duration) -> Result<(Agent, Lock, Instant)> {
        let paths = self.ctx.paths(&self.vm.uuid)?;
        let lock = locks::agent(self.ctx, &self.vm.uuid).await?;
        let agent = Agent::connect(&paths.agent, limit.min(ANSWER)).await?;
        Ok((agent, lock, Instant::now()))
    }

    /// Opens a file inside.
    pub(super) async fn open(&mut self, path: &str, mode: &str) -> Result<i64> {
        let args = json!({ "path": path, "mode": mode });
        let handle = self.ask("guest-file-open", args, ANSWER).await?;
        handle
            .as_i64()
            .ok_or_else(|| lied("guest-file-open gave no handle"))
    }

    /// Closes it.
    pub(super) async fn close(&mut self, handle: i64) -> Result<()> {
        let args = json!({ "handle": handle });
        self.ask("guest-file-close", args, ANSWER).await.map(|_| ())
    }

    /// How long an open file is; it stands at its beginning then.
    pub(super) async fn length(&mut self, handle: i64) -> Result<u64> {
        let seek = |whence: &str| json!({ "handle": handle, "offset": 0, "whence": whence });
        let end = self.ask("guest-file-seek", seek("end"), ANSWER).await?;
        self.ask("guest-file-seek", seek("set"), ANSWER).await?;
        end.get("position")
            .and_then(Value::as_u64)
            .ok_or_else(|| lied("guest-file-seek gave no position"))
    }

    /// Runs a command inside, without a shell, to its end.
    pub(super) async fn run(&mut self, words: &[&str], limit: Duration) -> Result<Ran> {
        let until = Instant::now() + limit;
        let (program, args) = words.split_first().unwrap_or((&"", &[]));
        let args = json!({ "path": program, "arg": args, "capture-output": true });
        let started = self.ask("guest-exec", args, ANSWER).await?;
        let pid = started
            .get("pid")
            .and_then(Value::as_i64)
            .ok_or_else(|| lied("guest-exec gave no process"))?;
        let mut wait = Duration::from_millis(20);
        // The agent reports no end: it has to be asked.
        loop {
            let args = json!({ "pid": pid });
            let status = self.ask("guest-exec-status", args, ANSWER).await?;
            if status.get("exited").and_then(Value::as_bool) == Some(true) {
                let code = status.get("exitcode").and_then(Value::as_i64).unwrap_or(-1);
                let out = status.get("out-data").and_then(Value::as_str).unwrap_or("");
                return Ok(Ran {
                    code,
                    out: decode(out)?,
                });
            }
            if Instant::now() >= until {
                return Err(Error::timed_out(format!(
                    "{program} inside did not end within {} s",
                    limit.as_secs()
                )));
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_millis(500));
        }
    }

    /// Whether `path` is a folder; `None` where nobody inside can tell.
    pub(super) async fn is_folder(&mut self, path: &str) -> Option<bool> {
        if !self.can_run() {
            return None;
        }
        let ran = self.run(&["test", "-d", path], ANSWER).await.ok()?;
        Some(ran.code == 0)
    }

    /// SHA-256 of a file as the guest itself sees it; `None` where it has no tool for that.
    pub(super) async fn sha256(&mut self, path: &str, size: u64) -> Result<Option<String>> {
        if !self.can_run() {
            return Ok(None);
        }
        // Without acceleration a guest reads some MiB in a second.
        let limit = Duration::from_secs(60 + (size >> 20));
        let ran = match self.run(&["sha256sum", path], limit).await {
            Ok(ran) if ran.code == 0 => ran,
            Err(error) if error.kind == ErrorKind::TimedOut => return Err(error),
            _ => return Ok(None),
        };
        let text = String::from_utf8_lossy(&ran.out);
        let hash = text.trim_start_matches('\\').split_whitespace().next();
        Ok(hash.filter(|hash| hash.len() == 64).map(str::to_lowercase))
    }
}

/// Base64 of the agent.
pub(super) fn decode(text: &str) -> Result<Vec<u8>> {
    STANDARD
        .decode(text)
        .map_err(|e| lied(&format!("what it sent is no base64: {e}")))
}

/// Base64 for the agent.
pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// An answer that makes no sense.
pub(super) fn lied(how: &str) -> Error {
    Error::backend(format!(
        "the guest agent cannot be relied on: {}",
        shown(how)
    ))
    .remedy("Restart it inside: systemctl restart qemu-guest-agent")
}
