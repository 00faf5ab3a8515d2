//! Other processes of this machine: are they there, what are they, end one.

use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::model::{Error, Result};

/// A process's argument list; `None` when there is no such process (a zombie has none either).
pub fn argv(pid: u32) -> Option<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let list: Vec<String> = bytes
        .split(|b| *b == 0)
        .filter(|part| !part.is_empty())
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect();
    if list.is_empty() { None } else { Some(list) }
}

/// Whether a process is there and is no zombie. Its argument list would not do: it is empty for a
/// moment while a program is being replaced by another.
pub fn is_alive(pid: u32) -> bool {
    // `PID (name) STATE …`, and the name may hold anything.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next())
        .is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Whether the file that a process was started from is gone, or another took its place.
pub fn is_replaced(pid: u32) -> bool {
    let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
    exe.is_ok_and(|exe| exe.to_string_lossy().ends_with(" (deleted)"))
}

/// The number in a pidfile.
pub fn read_pidfile(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Kills `pid` if `is_it` still holds once the process is pinned, so that a number used anew is
/// never hit.
///
/// # Errors
/// `NotFound` when it is gone or is another process.
pub fn kill(pid: u32, is_it: impl Fn(&[String]) -> bool) -> Result<()> {
    let gone = || Error::not_found(format!("process {pid} has ended"));
    let raw = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(gone)?;
    let pinned = pidfd_open(raw, PidfdFlags::empty()).map_err(|_| gone())?;
    if !argv(pid).is_some_and(|argv| is_it(&argv)) {
        return Err(gone());
    }
    pidfd_send_signal(&pinned, Signal::KILL)
        .map_err(|error| Error::backend(format!("process {pid} cannot be killed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_was_meant_is_killed() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let pid = child.id();
        while !argv(pid).is_some_and(|argv| argv.iter().any(|a| a == "1000")) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let error = kill(pid, |argv| argv.iter().any(|a| a == "another")).unwrap_err();
        assert_eq!(error.kind, crate::model::ErrorKind::NotFound);
        assert!(is_alive(pid));
        kill(pid, |argv| argv.iter().any(|a| a == "1000")).unwrap();
        child.wait().unwrap();
        assert!(!is_alive(pid));
        assert!(kill(pid, |_| true).is_err());
    }
}
