//! Which QEMU is here.

use std::time::Duration;

use super::ctx::Ctx;
use crate::link::child::{Cmd, run_ok};
use crate::model::{Error, Result};

/// It only prints.
const LIMIT: Duration = Duration::from_secs(10);

/// QEMU's version: `7.2.22`.
///
/// # Errors
/// Without QEMU.
pub async fn version(ctx: &Ctx) -> Result<String> {
    let output = run_ok(&Cmd::new(ctx.qemu()?).arg("--version"), LIMIT).await?;
    let text = output.text();
    let version = text
        .split_whitespace()
        .skip_while(|word| *word != "version")
        .nth(1);
    version
        .map(|version| crate::model::shown(version).into_owned())
        .ok_or_else(|| Error::backend("qemu-system-x86_64 --version names no version"))
}
