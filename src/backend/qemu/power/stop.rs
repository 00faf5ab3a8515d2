//! Off: asked of the guest, or at once.

use std::time::Duration;

use tokio::time::Instant;

use super::super::change::Seen;
use super::super::ctx::Paths;
use super::super::definition::Definition;
use super::super::{events, process};
use super::{PATIENCE, Power, command};
use crate::backend::contract::TaskCx;
use crate::link::signal;
use crate::model::{Error, ErrorKind, EventLevel, Result, print_duration};

/// A guest that has not booted loses the request: it is sent again this often.
const AGAIN: Duration = Duration::from_secs(5);
/// A process that was told to quit is gone within this.
const QUIT: Duration = Duration::from_secs(10);

impl Power {
    /// Asks the guest until it is off. Never kills, unless `force_after` says when.
    pub(super) async fn stop(
        &self,
        cx: &TaskCx,
        seen: &Seen,
        force_after: Option<Duration>,
    ) -> Result<()> {
        let ctx = &self.0;
        let paths = ctx.paths(&seen.vm.uuid)?;
        cx.checkpoint()?;
        cx.step(format!("Ask {} to shut down", seen.id));
        let patience = cx.timeout.unwrap_or(PATIENCE);
        let began = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            if asked.is_none_or(|at| at.elapsed() >= AGAIN) {
                match command(ctx, seen, "system_powerdown").await {
                    Ok(_) => {}
                    // It went off while it was asked, or another corral talks to it right now.
                    Err(error)
                        if asked.is_some()
                            || matches!(
                                error.kind,
                                ErrorKind::NotFound | ErrorKind::Unreachable
                            ) => {}
                    Err(error) => return Err(error),
                }
                asked = Some(Instant::now());
            }
            let slice = Duration::from_millis(250);
            if process::ended(&paths, &seen.vm, seen.live.pid, slice).await {
                return Ok(());
            }
            if cx.cancel.is_cancelled() {
                return Err(Error::refused(format!(
                    "cancelled; {} was asked to shut down and may still do so",
                    seen.id
                ))
                .remedy(format!("See what it does: corral info {}", seen.id)));
            }
            let waited = began.elapsed();
            if force_after.is_some_and(|after| waited >= after) {
                cx.step(format!("Power off {}", seen.id));
                return self.off(cx, seen).await;
            }
            if waited >= patience {
                let span = print_duration(Duration::from_secs(patience.as_secs()));
                let id = &seen.id;
                return Err(Error::timed_out(format!(
                    "{id} is still running {span} after the shutdown request; the guest has not reacted"
                ))
                .remedy(format!(
                    "Wait: corral wait {id} --for stopped. Force: corral stop --force {id}"
                )));
            }
            let done = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            cx.progress(done / 1000, patience.as_secs());
        }
    }

    /// Off, now: `quit`, and the process is killed when it does not take even that.
    pub(super) async fn off(&self, cx: &TaskCx, seen: &Seen) -> Result<()> {
        let ctx = &self.0;
        let paths = ctx.paths(&seen.vm.uuid)?;
        let pid = seen.live.pid.or_else(|| process::owner(&paths, &seen.vm));
        let mut killed = false;
        match command(ctx, seen, "quit").await {
            // It may be gone before it has answered.
            Ok(_) => {}
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Unreachable) => {}
            Err(error) => {
                let Some(pid) = pid else { return Err(error) };
                cx.log(format!(
                    "its monitor does not answer ({}): process {pid} is killed",
                    error.message
                ));
                kill(&paths, &seen.vm, pid)?;
                killed = true;
            }
        }
        if process::ended(&paths, &seen.vm, pid, QUIT).await {
            self.settle(&paths, seen, killed);
            return Ok(());
        }
        if let Some(pid) = pid {
            cx.log(format!("process {pid} did not quit and is killed"));
            kill(&paths, &seen.vm, pid)?;
            if process::ended(&paths, &seen.vm, Some(pid), QUIT).await {
                self.settle(&paths, seen, true);
                return Ok(());
            }
        }
        Err(Error::timed_out(format!(
            "the process of {} does not end",
            seen.id
        )))
    }

    /// A process that was killed on purpose is no crash, and has no last word of its own.
    fn settle(&self, paths: &Paths, seen: &Seen, killed: bool) {
        let _ = std::fs::remove_file(&paths.pid);
        if killed {
            let _ = std::fs::remove_file(&paths.alive);
            let text = "killed: its monitor did not answer";
            events::say(&self.0, &seen.vm, EventLevel::Warn, "KILLED", text);
        }
    }
}

fn kill(paths: &Paths, vm: &Definition, pid: u32) -> Result<()> {
    match signal::kill(pid, |argv| process::is_ours(argv, paths, vm)) {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
