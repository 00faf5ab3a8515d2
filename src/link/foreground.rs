//! A child that has the terminal: an editor. Nothing else of corral reads from it meanwhile.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions, kill_current_process_group, waitpid};

use super::child::Cmd;
use crate::model::{Error, Result};

/// Runs a child on this process's own terminal, to its end. Blocks. Ctrl-Z in it stops corral with it,
/// as a shell expects of one job.
///
/// # Errors
/// `NotFound` when it cannot be started, `Backend` when it ended badly.
pub fn run(cmd: &Cmd) -> Result<()> {
    let name = cmd.name();
    let failed = |error: std::io::Error| Error::backend(format!("{name}: {error}")).because(error);
    let mut child = Command::new(cmd.program())
        .args(cmd.arguments())
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| {
            Error::not_found(format!("{name} cannot be started: {error}")).because(error)
        })?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let status = loop {
        match waitpid(pid, WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => {
                let _ = kill_current_process_group(Signal::STOP);
                let _ = kill_current_process_group(Signal::CONT);
            }
            Ok(Some((_, status))) => break status.exit_status(),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break child.wait().map_err(failed)?.code(),
        }
    };
    match status {
        Some(0) => Ok(()),
        Some(code) => Err(Error::backend(format!("{name} ended with {code}"))),
        None => Err(Error::backend(format!("{name} was killed"))),
    }
}
