//! Files into an instance and out of it: `/1.0/instances/NAME/files`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::ctx::Ctx;
use super::json::encoded;
use super::seen::Seen;
use super::upload;
use super::work::LOOK;
use crate::backend::contract::{Changes, FilesRequest, Prepared, ReadCx, TaskCx};
use crate::link::files::{beside, can_place, settle};
use crate::link::http::{Answer, Request};
use crate::model::{
    Bytes, Error, ErrorKind, Instance, InstanceId, InstanceKind, Outcome, Result, State, Step,
    shown,
};

/// Longest refusal that is read.
const MESSAGE: u64 = 64 << 10;
/// Read at once.
const PIECE: usize = 256 << 10;

/// The files family.
#[derive(Clone, Debug)]
pub struct Files(pub Arc<Ctx>);

/// A copy with both ends as they are.
#[derive(Clone, Debug)]
enum Way {
    Push { from: PathBuf, to: String },
    Pull { from: String, to: PathBuf },
}

struct Plan {
    id: InstanceId,
    way: Way,
    overwrite: bool,
}

/// What is at a path inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum There {
    Nothing,
    File(Option<u64>),
    Folder,
    Other,
}

fn url(seen: &Seen, path: &str) -> String {
    format!("{}&path={}", seen.path(&["files"]), encoded(path))
}

/// Asks for a file; its body is not read.
async fn open(ctx: &Ctx, seen: &Seen, path: &str) -> Result<Option<Answer>> {
    let url = url(seen, path);
    let answer = ctx.api()?.http.send(Request::get(&url)).await?;
    match answer.status() {
        200 => Ok(Some(answer)),
        404 => Ok(None),
        status => Err(said(answer, status).await),
    }
}

async fn said(answer: Answer, status: u16) -> Error {
    use super::json::Look as _;
    let bytes = answer.whole(MESSAGE).await.unwrap_or_default();
    let envelope: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    super::api::fault(
        u64::from(status),
        envelope.text("error").unwrap_or("no reason given"),
    )
}

async fn look(ctx: &Ctx, cx: &ReadCx, seen: &Seen, path: &str) -> Result<There> {
    let opened = cx.within("the file", open(ctx, seen, path)).await?;
    let Some(answer) = opened else {
        return Ok(There::Nothing);
    };
    let kind = answer
        .header("x-incus-type")
        .or_else(|| answer.header("x-lxd-type"));
    Ok(match kind {
        Some("directory") => There::Folder,
        Some("file") | None => There::File(answer.length()),
        Some(_) => There::Other,
    })
}

fn absolute(path: &str) -> Result<()> {
    if path.starts_with('/') && !path.contains('\0') {
        return Ok(());
    }
    Err(
        Error::invalid(format!("{:?} is no absolute path inside", shown(path)))
            .remedy("Write it from the root: NAME:/path"),
    )
}

fn file_name(path: &str) -> Option<&str> {
    path.trim_end_matches('/')
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
}

async fn push(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    from: PathBuf,
    to: &str,
    overwrite: bool,
) -> Result<(Step, Way)> {
    absolute(to)?;
    let meta = std::fs::metadata(&from).map_err(|error| {
        Error::not_found(format!("{}: {error}", shown(&from.display().to_string())))
    })?;
    if !meta.is_file() {
        return Err(Error::unsupported(format!(
            "{} is no file",
            shown(&from.display().to_string())
        ))
        .remedy("Copy one file at a time, or a packed folder: tar"));
    }
    let name = from
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let mut to = to.to_owned();
    let mut there = look(ctx, cx, seen, &to).await?;
    if there == There::Folder || to.ends_with('/') {
        if there == There::Nothing {
            return Err(Error::not_found(format!(
                "there is no folder {} inside",
                shown(&to)
            )));
        }
        to = format!("{}/{name}", to.trim_end_matches('/'));
        there = look(ctx, cx, seen, &to).await?;
    }
    match there {
        There::Nothing => {}
        There::File(_) if overwrite => {}
        There::File(_) => {
            return Err(
                Error::refused(format!("{} is there already inside", shown(&to)))
                    .remedy("Replace it: add --overwrite"),
            );
        }
        There::Folder | There::Other => {
            return Err(Error::refused(format!("{} inside is no file", shown(&to))));
        }
    }
    let step = Step::new(
        format!(
            "Write {} ({}) to {} inside",
            shown(&from.display().to_string()),
            Bytes(meta.len()),
            shown(&to)
        ),
        format!("POST {}", url(seen, &to)),
    );
    Ok((step, Way::Push { from, to }))
}

async fn pull(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    from: String,
    to: PathBuf,
    overwrite: bool,
) -> Result<(Step, Way)> {
    absolute(&from)?;
    match look(ctx, cx, seen, &from).await? {
        There::File(_) => {}
        There::Nothing => {
            return Err(Error::not_found(format!(
                "there is no {} inside",
                shown(&from)
            )));
        }
        There::Folder => {
            return Err(Error::unsupported(format!("{} is a folder", shown(&from)))
                .remedy("Copy one file at a time, or a packed folder: tar"));
        }
        There::Other => {
            return Err(Error::unsupported(format!("{} is no file", shown(&from))));
        }
    }
    let to = if to.is_dir() {
        to.join(file_name(&from).unwrap_or("file"))
    } else {
        to
    };
    can_place(&to, overwrite)?;
    let step = Step::new(
        format!(
            "Read {} to {}",
            shown(&from),
            shown(&to.display().to_string())
        ),
        format!("GET {}", url(seen, &from)),
    );
    Ok((step, Way::Pull { from, to }))
}

#[async_trait]
impl Changes<FilesRequest> for Files {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: FilesRequest) -> Result<Prepared> {
        let ctx = &*self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token());
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        if seen.row.kind == InstanceKind::Vm && seen.state() != State::Running {
            return Ok(Prepared::refused(
                token,
                format!("{id} is {}: nobody inside can answer", seen.state()),
                Some(format!("Start it: corral start {id}")),
            ));
        }
        let overwrite = match &request {
            FilesRequest::Push { overwrite, .. } | FilesRequest::Pull { overwrite, .. } => {
                *overwrite
            }
        };
        let planned = match request {
            FilesRequest::Push { from, to, .. } => push(ctx, cx, &seen, from, &to, overwrite).await,
            FilesRequest::Pull { from, to, .. } => pull(ctx, cx, &seen, from, to, overwrite).await,
        };
        Ok(match planned {
            Ok((step, way)) => {
                let id = id.clone();
                Prepared::new(identity(&seen), vec![step]).with(Plan { id, way, overwrite })
            }
            Err(error) => Prepared::failed(token, &explained(error, &seen)),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &*self.0;
        let plan: Plan = prepared.take()?;
        let seen = Seen::now(ctx, &cx.read(LOOK), &plan.id).await?;
        seen.still(&prepared.token)?;
        cx.checkpoint()?;
        let done = match &plan.way {
            Way::Push { from, to } => {
                cx.step(format!("Write {} inside", shown(to)));
                if !plan.overwrite && look(ctx, &cx.read(LOOK), &seen, to).await? != There::Nothing
                {
                    return Err(Error::conflict(format!(
                        "{} is there by now. Nothing was done",
                        shown(to)
                    )));
                }
                write(ctx, cx, &seen, from, to).await
            }
            Way::Pull { from, to } => {
                cx.step(format!("Read {}", shown(from)));
                read(ctx, cx, &seen, from, to, plan.overwrite).await
            }
        };
        done.map(Outcome::changed)
            .map_err(|error| explained(error, &seen))
    }
}

/// Whoever it is: what it does and what it is made of does not matter here.
fn identity(seen: &Seen) -> String {
    let token = seen.token();
    token.split(' ').next().unwrap_or_default().to_owned()
}

fn explained(error: Error, seen: &Seen) -> Error {
    if error.message.contains("agent") && seen.row.kind == InstanceKind::Vm {
        return Error::new(
            ErrorKind::Refused,
            format!("{}: {}", seen.id, error.message),
        )
        .remedy("Install incus-agent inside, or copy by ssh");
    }
    error
}

async fn write(ctx: &Ctx, cx: &TaskCx, seen: &Seen, from: &Path, to: &str) -> Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let odd = |error: std::io::Error| Error::invalid(format!("{}: {error}", from.display()));
    let file = tokio::fs::File::open(from).await.map_err(odd)?;
    let meta = file.metadata().await.map_err(odd)?;
    let mode = format!("{:04o}", meta.permissions().mode() & 0o777);
    let headers = [
        ("content-type", "application/octet-stream"),
        ("x-incus-type", "file"),
        ("x-incus-write", "overwrite"),
        ("x-incus-mode", mode.as_str()),
        ("x-incus-uid", "0"),
        ("x-incus-gid", "0"),
        ("x-lxd-type", "file"),
        ("x-lxd-mode", mode.as_str()),
        ("x-lxd-uid", "0"),
        ("x-lxd-gid", "0"),
    ];
    let size = meta.len();
    upload::stream(
        ctx,
        cx,
        &url(seen, to),
        &headers,
        Box::new(file),
        Some(size),
    )
    .await?;
    Ok(format!("{}:{} has {}", seen.id, shown(to), Bytes(size)))
}

async fn read(
    ctx: &Ctx,
    cx: &TaskCx,
    seen: &Seen,
    from: &str,
    to: &Path,
    overwrite: bool,
) -> Result<String> {
    let answer = open(ctx, seen, from)
        .await?
        .ok_or_else(|| Error::not_found(format!("there is no {} inside any more", shown(from))))?;
    let total = answer.length();
    let new = beside(to)?;
    let mut out = tokio::fs::File::from_std(
        new.as_file()
            .try_clone()
            .map_err(|error| crate::link::files::fault("write", to, error))?,
    );
    let size = copy(cx, answer.reader(), &mut out, total).await?.0;
    if total.is_some_and(|total| total != size) {
        return Err(Error::backend(format!(
            "{} ended before it was whole",
            shown(from)
        )));
    }
    settle(new, to, overwrite)?;
    Ok(format!(
        "{} has {}",
        shown(&to.display().to_string()),
        Bytes(size)
    ))
}

/// Copies all of `reader`; how many bytes there were, and their SHA-256.
///
/// # Errors
/// `Refused` when cancelled; what reading or writing says.
pub async fn copy(
    cx: &TaskCx,
    mut reader: impl tokio::io::AsyncRead + Unpin,
    out: &mut tokio::fs::File,
    total: Option<u64>,
) -> Result<(u64, String)> {
    let mut sum = Sha256::new();
    let mut piece = vec![0; PIECE];
    let (mut done, mut told) = (0_u64, 0_u64);
    loop {
        cx.checkpoint()?;
        let read = tokio::select! {
            read = reader.read(&mut piece) => read,
            () = cx.cancel.cancelled() => return Err(Error::refused("cancelled")),
        };
        let n = read.map_err(|error| Error::unreachable(format!("it broke off: {error}")))?;
        if n == 0 {
            break;
        }
        out.write_all(&piece[..n]).await.map_err(|error| {
            let full = error.kind() == std::io::ErrorKind::StorageFull;
            let error = Error::backend(format!("it cannot be written: {error}"));
            if full {
                error.remedy("Make room, or choose another place")
            } else {
                error
            }
        })?;
        sum.update(&piece[..n]);
        done += n as u64;
        if done - told > 8 << 20 {
            told = done;
            if let Some(total) = total {
                cx.progress(done, total);
            }
        }
    }
    out.flush()
        .await
        .map_err(|error| Error::backend(format!("it cannot be written: {error}")))?;
    let sum = sum
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok((done, sum))
}
