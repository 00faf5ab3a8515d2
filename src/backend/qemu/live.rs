//! What one VM does right now.

use std::time::Duration;

use serde_json::Value;

use super::accel::boot_id;
use super::ctx::{Ctx, Paths};
use super::definition::Definition;
use super::process::{self, Launch};
use super::{events, hibernate};
use crate::link::qmp::{Qmp, is_listening};
use crate::link::signal;
use crate::model::{ErrorKind, EventLevel, State, shown};

/// One look at a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The state.
    pub state: State,
    /// Why, where the state alone does not say.
    pub reason: Option<String>,
    /// QEMU's own word.
    pub native: Option<String>,
    /// The process.
    pub pid: Option<u32>,
    /// A guest agent has opened its line, as QEMU sees it.
    pub agent: Option<bool>,
    /// Version of the QEMU it runs on, as its monitor greets.
    pub version: Option<String>,
}

impl Live {
    fn new(state: State, reason: Option<String>) -> Self {
        Self {
            state,
            reason,
            native: None,
            pid: None,
            agent: None,
            version: None,
        }
    }

    /// A process exists.
    pub fn is_active(&self) -> bool {
        self.pid.is_some()
    }
}

/// Looks, within `limit`. Never fails: what cannot be known is `unknown`, with the reason.
pub async fn look(ctx: &Ctx, vm: &Definition, limit: Duration) -> Live {
    let paths = match ctx.paths(&vm.uuid) {
        Ok(paths) => paths,
        Err(error) => return Live::new(State::Unknown, Some(error.to_string())),
    };
    let started = std::time::Instant::now();
    match process::connect_within(ctx, vm, limit).await {
        Ok(Some(mut qmp)) => {
            let left = limit.saturating_sub(started.elapsed());
            ask(ctx, &mut qmp, left, &paths, vm).await
        }
        Ok(None) => absent(ctx, &paths, vm).await,
        Err(error) => {
            let mut live = Live::new(State::Unknown, Some(error.message));
            live.pid = process::owner(&paths, vm);
            if live.pid.is_none()
                && error.kind == ErrorKind::TimedOut
                && !is_listening(&paths.qmp).await
            {
                // It ended while it was asked.
                return absent(ctx, &paths, vm).await;
            }
            live
        }
    }
}

async fn ask(ctx: &Ctx, qmp: &mut Qmp, limit: Duration, paths: &Paths, vm: &Definition) -> Live {
    let pid = qmp.peer_pid().or_else(|| process::owner(paths, vm));
    let status = match qmp.execute("query-status", Value::Null, limit).await {
        Ok(status) => status,
        Err(error) if error.kind == ErrorKind::Unreachable => {
            return absent(ctx, paths, vm).await;
        }
        Err(error) => {
            let mut live = Live::new(State::Unknown, Some(error.message));
            live.pid = pid;
            return live;
        }
    };
    let Some(word) = status.get("status").and_then(Value::as_str) else {
        let mut live = Live::new(State::Unknown, Some("QEMU names no status".to_owned()));
        live.pid = pid;
        return live;
    };
    let (state, mut reason) = state_of(word);
    if word == "io-error" {
        let blocks = qmp.execute("query-block", Value::Null, limit).await;
        if let Some(which) = blocks.ok().as_ref().and_then(|b| failed_disk(b, vm)) {
            reason = Some(which);
        }
    }
    // Nice to know, and no failure where this QEMU does not say.
    let lines = qmp.execute("query-chardev", Value::Null, limit).await;
    Live {
        state,
        reason,
        native: Some(shown(word).into_owned()),
        pid,
        agent: lines.ok().as_ref().and_then(agent_line),
        version: Some(qmp.version().to_owned()),
    }
}

fn agent_line(lines: &Value) -> Option<bool> {
    lines
        .as_array()?
        .iter()
        .find(|line| line.get("label").and_then(Value::as_str) == Some("ga0"))?
        .get("frontend-open")?
        .as_bool()
}

/// What QEMU's word means.
fn state_of(word: &str) -> (State, Option<String>) {
    let (state, reason) = match word {
        "running" => (State::Running, ""),
        "paused" => (State::Paused, ""),
        "io-error" => (State::Paused, "I/O error on a disk"),
        "prelaunch" | "inmigrate" => (State::Starting, ""),
        "postmigrate" | "finish-migrate" => (State::Paused, "moved away"),
        "save-vm" => (State::Paused, "a snapshot is being taken or deleted"),
        "restore-vm" => (
            State::Paused,
            "a snapshot is being restored, or could not be",
        ),
        "shutdown" => (State::Stopping, ""),
        "suspended" => (State::Paused, "the guest sleeps"),
        "watchdog" => (State::Paused, "the guest's watchdog fired"),
        "debug" => (State::Paused, "halted by a debugger"),
        "guest-panicked" => (State::Crashed, "the guest's kernel panicked"),
        "internal-error" => (State::Crashed, "QEMU could not go on: internal error"),
        other => {
            return (
                State::Unknown,
                Some(format!("QEMU says \"{}\"", shown(other))),
            );
        }
    };
    let reason = (!reason.is_empty()).then(|| reason.to_owned());
    (state, reason)
}

/// Which disk halted the guest, and why: `I/O error on disk0: no space on /srv/vms`.
fn failed_disk(blocks: &Value, vm: &Definition) -> Option<String> {
    blocks.as_array()?.iter().find_map(|block| {
        let status = block.get("io-status")?.as_str()?;
        let device = block
            .pointer("/inserted/node-name")
            .or_else(|| block.get("qdev"))
            .and_then(Value::as_str)
            .unwrap_or("a disk");
        // A node of a chain above it has a name that only QEMU knows.
        let known = vm.disks.iter().find(|disk| {
            let qdev = block.get("qdev").and_then(Value::as_str).unwrap_or("");
            disk.name == device || qdev.contains(&format!("{}-dev", disk.name))
        });
        let file = known.map(|disk| shown(&disk.path.to_string_lossy()).into_owned());
        let folder = known
            .and_then(|disk| disk.path.parent())
            .map(|dir| shown(&dir.to_string_lossy()).into_owned());
        let why = match (status, file, folder) {
            ("nospace", _, Some(dir)) => format!("no space on {dir}"),
            ("nospace", ..) => "no space left where its image is".to_owned(),
            ("failed", Some(file), _) => format!("{file} cannot be written or read"),
            ("failed", ..) => "its image cannot be written or read".to_owned(),
            _ => return None,
        };
        let name = known.map_or(device, |disk| disk.name.as_str());
        Some(format!("I/O error on {}: {why}", shown(name)))
    })
}

/// No monitor: it is off, which is told if nobody saw it go.
async fn absent(ctx: &Ctx, paths: &Paths, vm: &Definition) -> Live {
    let mut live = ended(paths, vm);
    let saved = ctx
        .store
        .dir(&vm.name)
        .is_ok_and(|d| hibernate::is_saved(&d));
    if saved && !live.is_active() {
        live = Live::new(State::Hibernated, None);
    }
    let level = match live.state {
        State::Stopped | State::Hibernated => EventLevel::Info,
        State::Crashed => EventLevel::Error,
        _ => return live,
    };
    let why = live.reason.as_deref();
    let message = why.unwrap_or("found off: it ended while no corral watched");
    events::see_end(ctx, vm, level, message).await;
    live
}

/// QEMU removes its pidfile when it ends by itself, so one that stays tells of a process that did
/// not.
fn ended(paths: &Paths, vm: &Definition) -> Live {
    if let Some(pid) = process::owner(paths, vm) {
        let mut live = Live::new(
            State::Unknown,
            Some(format!("process {pid} runs, but its monitor is gone")),
        );
        live.pid = Some(pid);
        return live;
    }
    if signal::read_pidfile(&paths.pid).is_none() {
        return Live::new(State::Stopped, None);
    }
    match Launch::read(paths) {
        Some(launch) if launch.boot != boot_id() => Live::new(
            State::Stopped,
            Some("it ran when this machine went down".to_owned()),
        ),
        _ => Live::new(
            State::Crashed,
            Some("its process was killed or crashed".to_owned()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_agents_line_is_found() {
        let lines = json!([3, {"label": "qmp0"}, {"label": "ga0", "frontend-open": true}]);
        assert_eq!(agent_line(&lines), Some(true));
        assert_eq!(
            agent_line(&json!([{"label": "ga0", "frontend-open": 1}])),
            None
        );
        assert_eq!(agent_line(&Value::Null), None);
    }

    #[test]
    fn words_of_qemu() {
        assert_eq!(state_of("running"), (State::Running, None));
        assert_eq!(state_of("io-error").0, State::Paused);
        let (state, reason) = state_of("\u{1b}new");
        assert_eq!(state, State::Unknown);
        assert!(!reason.unwrap().contains('\u{1b}'));
    }

    #[test]
    fn a_full_disk_is_named() {
        use super::super::definition::tests::sample;
        let vm = sample("web", std::path::Path::new("/srv/vms"));
        let blocks = |status: &str, node: &str| {
            json!([
                null, {"io-status": 5}, {"io-status": "ok"},
                {"io-status": status, "qdev": "/x", "inserted": {"node-name": node}}
            ])
        };
        let said = |status, node| failed_disk(&blocks(status, node), &vm).unwrap();
        assert_eq!(
            said("nospace", "disk0"),
            "I/O error on disk0: no space on /srv/vms"
        );
        assert_eq!(
            said("failed", "disk0"),
            "I/O error on disk0: /srv/vms/disk0.qcow2 cannot be written or read"
        );
        assert_eq!(
            said("nospace", "\u{1b}x"),
            "I/O error on \\x1bx: no space left where its image is"
        );
        let sample: Value = serde_json::from_str(include_str!(
            "../../../tests/fixtures/qemu/query-block.json"
        ))
        .unwrap();
        assert_eq!(failed_disk(&sample["return"], &vm), None);
    }
}
