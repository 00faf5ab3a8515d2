//! `CORRAL_LOG=debug`: what corral did inside, in a file that only its owner reads.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

/// Starts logging to `corral.log` in `state`; ends when the guard is dropped.
pub fn start(state: &Path, filter: &str) -> io::Result<WorkerGuard> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)?;
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(state.join("corral.log"))?;
    let (writer, guard) = tracing_appender::non_blocking(file);
    let filter = EnvFilter::try_new(filter)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false)
        .try_init()
        .map_err(|e| io::Error::other(e.to_string()))?;
    Ok(guard)
}
