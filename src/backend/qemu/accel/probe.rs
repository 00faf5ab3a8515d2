//! The QEMU that runs the boot test: bounded by a clock of its own, so that it ends even where the
//! corral that started it was killed; and what such a one leaves behind.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::ctx::Ctx;
use super::super::proc;
use super::rom;
use crate::link::child::{Cmd, run};
use crate::link::{files, signal};
use crate::model::{Error, ErrorKind, Result};

/// A proof takes at most this long.
const LIMIT: Duration = Duration::from_secs(2);
/// Then it is ended without corral: a little later, so that corral itself says why.
const END: Duration = Duration::from_secs(3);
/// A test that is older belongs to nobody, even on a machine that is very busy. Seconds.
const OLD: u64 = 10;
/// How the payload's file is named, before the number of the corral that made it.
const PREFIX: &str = "probe-";

/// Boots the payload.
///
/// # Errors
/// With the reason why it did not come up.
pub(super) async fn boot(ctx: &Ctx, qemu: &Path, accel: &str, model: &str) -> Result<()> {
    let state = ctx.state_dir();
    files::make_dir(&state)?;
    let rom = tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .tempfile_in(state)
        .and_then(|file| std::fs::write(file.path(), rom::image()).map(|()| file))
        .map_err(|e| Error::backend(format!("the boot test cannot be written: {e}")).because(e))?;
    let cmd = Cmd::new(qemu)
        .args(["-machine", &format!("q35,accel={accel}"), "-cpu", model])
        .args(["-m", "16", "-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-device"])
        .arg("isa-debug-exit,iobase=0xf4,iosize=4")
        .arg("-bios")
        .arg(rom.path());
    // QEMU does not notice that its parent is gone, and a guest that hangs burns a core for ever.
    let cmd = match ctx.env.which("timeout") {
        Some(timeout) => cmd.ended_by(&timeout, END),
        None => cmd,
    };
    match run(&cmd, LIMIT).await {
        Ok(output) if output.status.code() == Some(rom::PASSED) => Ok(()),
        Ok(output) => Err(Error::backend(format!(
            "a test guest did not boot: {}",
            output.complaint()
        ))),
        Err(error) if error.kind == ErrorKind::TimedOut => Err(Error::timed_out(format!(
            "a test guest with CPU model {model} did not come up within {} s: it hangs, or is emulated instruction by instruction",
            LIMIT.as_secs()
        ))),
        Err(error) => Err(error),
    }
}

/// What a killed corral left of a boot test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Test guests that still run.
    pub pids: Vec<u32>,
    /// Payloads that nobody runs.
    pub files: Vec<PathBuf>,
}

impl Leftovers {
    /// Looks. A test that runs right now is none.
    pub fn find(ctx: &Ctx) -> Self {
        let state = ctx.state_dir();
        let pids = proc::own()
            .into_iter()
            .filter(|pid| {
                let argv = signal::argv(*pid).unwrap_or_default();
                payload(&argv, &state).is_some_and(|path| {
                    let stat = proc::Stat::read(*pid);
                    is_orphan(path) || stat.is_some_and(|stat| stat.age_seconds >= OLD)
                })
            })
            .collect();
        let all = std::fs::read_dir(&state).into_iter().flatten();
        let files = all
            .filter_map(std::result::Result::ok)
            .map(|entry| entry.path())
            .filter(|path| is_payload(path, &state) && (is_orphan(path) || is_old(path)))
            .collect();
        Self { pids, files }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.files.is_empty()
    }

    /// Ends and removes them.
    ///
    /// # Errors
    /// When a process cannot be ended or a file not be removed.
    pub fn remove(&self, ctx: &Ctx) -> Result<()> {
        let state = ctx.state_dir();
        for pid in &self.pids {
            match signal::kill(*pid, |argv| payload(argv, &state).is_some()) {
                Err(error) if error.kind != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        for file in &self.files {
            match std::fs::remove_file(file) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(files::fault("remove", file, e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The payload of a command line that [`boot`] made in this state directory.
fn payload<'a>(argv: &'a [String], state: &Path) -> Option<&'a Path> {
    if !argv.iter().any(|arg| arg.starts_with("isa-debug-exit,")) {
        return None;
    }
    argv.windows(2)
        .filter(|w| w[0] == "-bios")
        .map(|w| Path::new(&w[1]))
        .find(|path| is_payload(path, state))
}

/// The corral that made it has ended.
fn is_orphan(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let owner = name
        .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'))
        .and_then(|(pid, _)| pid.parse().ok());
    owner.is_some_and(|pid: u32| !signal::is_alive(pid))
}

fn is_payload(path: &Path, state: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    path.parent() == Some(state) && name.is_some_and(|name| name.starts_with(PREFIX))
}

fn is_old(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| {
        let age = meta.modified().ok().and_then(|at| at.elapsed().ok());
        meta.is_file() && age.is_some_and(|age| age.as_secs() >= OLD)
    })
}
