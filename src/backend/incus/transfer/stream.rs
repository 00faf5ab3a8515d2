//! A backup as bytes: made at the server, fetched, and sent back.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::AsyncRead;

use super::super::call::{self, Call};
use super::super::ctx::Ctx;
use super::super::files::copy;
use super::super::json::Look as _;
use super::super::upload;
use crate::backend::contract::TaskCx;
use crate::link::files::{beside, fault, settle};
use crate::link::http::{Answer, Request};
use crate::model::{Error, Result, shown};

/// Longest refusal that is read.
const MESSAGE: u64 = 64 << 10;
/// No end: the server keeps it until it is deleted.
pub const FOREVER: &str = "0001-01-01T00:00:00Z";

/// The call that makes a backup at the server.
pub fn making(name: &str, project: &str, backup: &str, alone: bool) -> Call {
    Call::new(
        "POST",
        call::instance(name, project, &["backups"]),
        json!({
            "name": backup,
            "expires_at": FOREVER,
            "instance_only": alone,
            "optimized_storage": false,
            "compression_algorithm": "gzip",
        }),
    )
}

/// The call that deletes one.
pub fn deleting(name: &str, project: &str, backup: &str) -> Call {
    Call::new(
        "DELETE",
        call::instance(name, project, &["backups", backup]),
        Value::Null,
    )
}

/// Where one is fetched.
pub fn place(name: &str, project: &str, backup: &str) -> String {
    call::instance(name, project, &["backups", backup, "export"])
}

/// Opens one for reading.
pub async fn open(ctx: &Ctx, name: &str, project: &str, backup: &str) -> Result<Answer> {
    let path = place(name, project, backup);
    let answer = ctx.api()?.http.send(Request::get(&path)).await?;
    match answer.status() {
        200 => Ok(answer),
        status => {
            let bytes = answer.whole(MESSAGE).await.unwrap_or_default();
            let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let said = said.text("error").unwrap_or("no reason given");
            Err(super::super::api::fault(u64::from(status), said))
        }
    }
}

/// Fetches one into a file that is whole or not there. How many bytes, and their SHA-256.
pub async fn fetch(
    ctx: &Ctx,
    cx: &TaskCx,
    (name, project, backup): (&str, &str, &str),
    to: &Path,
    overwrite: bool,
) -> Result<(u64, String)> {
    let answer = open(ctx, name, project, backup).await?;
    let total = answer.length();
    let new = beside(to)?;
    let file = new
        .as_file()
        .try_clone()
        .map_err(|error| fault("write", to, error))?;
    let mut out = tokio::fs::File::from_std(file);
    let (size, sum) = copy(cx, answer.reader(), &mut out, total).await?;
    if total.is_some_and(|total| total != size) {
        return Err(Error::backend("the backup ended before it was whole"));
    }
    out.sync_all()
        .await
        .map_err(|error| fault("write", to, error))?;
    settle(new, to, overwrite)?;
    Ok((size, sum))
}

/// Makes an instance of a backup's bytes.
pub async fn send(
    ctx: &Ctx,
    cx: &TaskCx,
    (name, project, pool): (&str, &str, Option<&str>),
    reader: Box<dyn AsyncRead + Send + Sync + Unpin>,
    total: Option<u64>,
) -> Result<()> {
    let path = call::at(&["instances"], project);
    let mut headers = vec![
        ("content-type", "application/octet-stream"),
        ("x-incus-name", name),
        ("x-lxd-name", name),
    ];
    if let Some(pool) = pool {
        headers.extend([("x-incus-pool", pool), ("x-lxd-pool", pool)]);
    }
    upload::stream(ctx, cx, &path, &headers, reader, total)
        .await
        .map(drop)
        .map_err(|mut error| {
            error.message = format!("{} is not made: {}", shown(name), error.message);
            error
        })
}

/// As a plan shows it.
pub fn sending(name: &str, project: &str) -> String {
    let call = Call::new(
        "POST",
        call::at(&["instances"], project),
        json!({"name": name}),
    );
    format!("{} with the backup", call.shown())
}
