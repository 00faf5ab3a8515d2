//! The virtual TPM: one `swtpm` per running VM, which ends when its QEMU does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backend::contract::Env;
use crate::link::child::{Cmd, run};
use crate::link::files::make_dir;
use crate::model::{Error, Result};

/// It forks and leaves once its socket is there.
const START: Duration = Duration::from_secs(20);

/// Finds `swtpm`.
pub fn tool(env: &Env) -> Result<PathBuf> {
    env.which("swtpm").ok_or_else(|| {
        Error::unsupported("a virtual TPM needs swtpm, which is not installed")
            .remedy("apt install swtpm")
    })
}

/// The folder with the TPM's memory.
pub fn state_dir(vm: &Path) -> PathBuf {
    vm.join("tpm")
}

/// The command that starts it. It leaves by itself when QEMU closes the socket.
///
/// # Errors
/// `Invalid` where a path holds a comma: swtpm has no way to write one.
pub fn cmd(tool: &Path, vm: &Path, socket: &Path, pidfile: &Path) -> Result<Cmd> {
    let state = state_dir(vm);
    for path in [&state, socket, pidfile] {
        if path.to_string_lossy().contains(',') {
            return Err(Error::invalid(format!(
                "a VM with a TPM cannot be at {}: swtpm takes no comma in paths",
                path.display()
            ))
            .remedy("Use a name without a comma."));
        }
    }
    Ok(Cmd::new(tool)
        .args(["socket", "--tpm2", "--daemon", "--terminate", "--tpmstate"])
        .arg(format!("dir={},mode=0600", state.display()))
        .arg("--ctrl")
        .arg(format!("type=unixio,path={},mode=0600", socket.display()))
        .arg("--pid")
        .arg(format!("file={}", pidfile.display())))
}

/// Starts the TPM of a VM. QEMU must connect to `socket` next.
pub async fn start(env: &Env, vm: &Path, socket: &Path, pidfile: &Path) -> Result<()> {
    let cmd = cmd(&tool(env)?, vm, socket, pidfile)?;
    make_dir(&state_dir(vm))?;
    let _ = fs::remove_file(socket);
    let output = run(&cmd, START).await?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::backend(format!(
        "the virtual TPM did not start: {}",
        output.complaint()
    ))
    .remedy("Look for another swtpm that has its state: pgrep -a swtpm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_is_refused_before_anything_starts() {
        let error = cmd(
            Path::new("/usr/bin/swtpm"),
            Path::new("/d/a,b"),
            Path::new("/s/tpm"),
            Path::new("/s/pid"),
        )
        .unwrap_err();
        assert!(error.to_string().contains("comma"));
        let fine = cmd(
            Path::new("/usr/bin/swtpm"),
            Path::new("/d/a b"),
            Path::new("/s/tpm"),
            Path::new("/s/pid"),
        )
        .unwrap();
        assert!(fine.shown().contains("dir=/d/a b/tpm,mode=0600"));
    }
}
