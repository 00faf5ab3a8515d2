//! Who may do what with a VM at the same time, among all corrals of this user.
//!
//! `flock` on sidecar files: gone with the process that held them. Order: VM, then files, then
//! ports, then monitor, then agent.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use super::ctx::Ctx;
use crate::link::files;
use crate::model::{Error, ErrorKind, Result};

/// How long a lock is waited for.
const WAIT: Duration = Duration::from_secs(5);

/// A lock, released when dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

async fn take(dir: &Path, name: &str, what: String, wait: Duration) -> Result<Lock> {
    files::make_dir(dir)?;
    let file = dir.join(name);
    let task = tokio::task::spawn_blocking(move || files::lock(&file, &what, wait));
    match task.await {
        Ok(result) => result.map(|file| Lock { _file: file }),
        Err(error) => Err(Error::backend(format!("internal: {error}"))),
    }
}

/// The right to change a VM: start, stop, snapshot, delete.
///
/// # Errors
/// `Conflict` naming the holder after 5 s.
pub async fn vm(ctx: &Ctx, uuid: &uuid::Uuid, name: &str) -> Result<Lock> {
    let dir = ctx.paths(uuid)?.dir;
    take(&dir, "vm.lock", ctx.id(name).to_string(), WAIT).await
}

/// The right to talk to the monitor. Waits at most `limit`.
///
/// # Errors
/// As [`vm`].
pub async fn monitor(ctx: &Ctx, uuid: &uuid::Uuid, limit: Duration) -> Result<Lock> {
    let dir = ctx.paths(uuid)?.dir;
    take(&dir, "qmp.lock", "the monitor".to_owned(), limit.min(WAIT)).await
}

/// The right to talk to the guest agent.
///
/// # Errors
/// As [`vm`].
pub async fn agent(ctx: &Ctx, uuid: &uuid::Uuid) -> Result<Lock> {
    let dir = ctx.paths(uuid)?.dir;
    take(&dir, "ga.lock", "the guest agent".to_owned(), WAIT).await
}

/// The right to read events; `None` when another corral has it.
///
/// # Errors
/// When the lock's file cannot be made.
pub async fn events(ctx: &Ctx, uuid: &uuid::Uuid) -> Result<Option<Lock>> {
    let dir = ctx.paths(uuid)?.dir;
    match take(&dir, "ev.lock", "the events".to_owned(), Duration::ZERO).await {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind == ErrorKind::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

/// The right to mend what a killed corral left: also of what has no definition, and no lock of its own.
///
/// # Errors
/// As [`vm`].
pub async fn mending(ctx: &Ctx) -> Result<Lock> {
    let dir = ctx.state_dir();
    take(&dir, "mend.lock", "the mending".to_owned(), WAIT).await
}

/// The right to begin to use a file that another VM may use or delete, or to delete one: from the last look at who
/// uses it until what is wanted of it is written down, in a definition or in the record of a change.
///
/// # Errors
/// As [`vm`].
pub async fn files(ctx: &Ctx) -> Result<Lock> {
    let dir = ctx.state_dir();
    take(&dir, "files.lock", "the files of all VMs".to_owned(), WAIT).await
}

/// The right to hand out forwarded ports.
///
/// # Errors
/// As [`vm`].
pub async fn ports(ctx: &Ctx) -> Result<Lock> {
    take(
        &ctx.state_dir(),
        "ports.lock",
        "the list of ports".to_owned(),
        WAIT,
    )
    .await
}
