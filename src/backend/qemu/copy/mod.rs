//! Files into a guest and out of it, by its agent.

mod pull;
mod push;
mod talk;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::change::Seen;
use super::ctx::Ctx;
use super::{locks, process};
use crate::backend::contract::{Changes, FilesRequest, Prepared, ReadCx, TaskCx};
use crate::link::files;
use crate::model::{Bytes, Error, Instance, InstanceId, Outcome, Result, State, Step, shown};
use talk::Talk;

/// Until an agent that is there has said so.
const AGENT: Duration = Duration::from_secs(5);

/// The files family.
#[derive(Clone, Debug)]
pub struct Files(pub Arc<Ctx>);

/// What was copied.
struct Copied {
    size: u64,
    /// Both ends have the same SHA-256.
    compared: bool,
    notes: Vec<String>,
}

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

#[async_trait]
impl Changes<FilesRequest> for Files {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: FilesRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token());
        if let Some(refused) = seen.unclear(&token) {
            return Ok(refused);
        }
        if seen.live.state != State::Running {
            let state = seen.live.state;
            let verb = if state == State::Paused {
                "resume"
            } else {
                "start"
            };
            return Ok(Prepared::refused(
                token,
                format!("{id} is {state}: nobody inside can answer"),
                Some(format!("corral {verb} {id}")),
            ));
        }
        let looked = async {
            let mut talk =
                Talk::begin(&self.0, &seen.vm, AGENT.min(cx.left().mul_f64(0.7))).await?;
            plan(&mut talk, &seen, request).await
        };
        Ok(match looked.await {
            Ok(prepared) => prepared,
            Err(error) => Prepared::failed(token, &error),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let plan: Plan = prepared.take()?;
        let ctx = &self.0;
        let vm = super::inventory::load(ctx, &plan.id)?;
        {
            let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
            let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
            seen.still(&prepared.token)?;
        }
        // Others may stop it or ask it meanwhile: a large copy takes long.
        let copy = async {
            let mut talk = Talk::begin(ctx, &vm, talk::ANSWER).await?;
            match &plan.way {
                Way::Push { from, to } => {
                    cx.step(format!("Write {} inside {}", shown(to), plan.id));
                    if !plan.overwrite && there(&mut talk, to).await {
                        return Err(taken(to));
                    }
                    let copied = push::push(cx, &mut talk, from, to).await?;
                    Ok(told(&format!("{}:{}", plan.id, shown(to)), &copied))
                }
                Way::Pull { from, to } => {
                    cx.step(format!("Read {} from {}", shown(from), plan.id));
                    let copied = pull::pull(cx, &mut talk, from, to, plan.overwrite).await?;
                    Ok(told(&shown(&to.display().to_string()), &copied))
                }
            }
        };
        let done: Result<String> = match cx.timeout {
            None => copy.await,
            Some(limit) => match tokio::time::timeout(limit, copy).await {
                Ok(done) => done,
                Err(_) => Err(Error::timed_out(format!(
                    "the copy did not end within {} s; a part of it may be left inside as .NAME.*.part",
                    limit.as_secs()
                ))),
            },
        };
        done.map(Outcome::changed).map_err(|error| Error {
            message: format!("{}: {}", plan.id, error.message),
            ..error
        })
    }
}

/// What would be done, and what stands in its way.
async fn plan(talk: &mut Talk<'_>, seen: &Seen, request: FilesRequest) -> Result<Prepared> {
    let (id, token) = (&seen.id, seen.token());
    for command in ["guest-file-open", "guest-file-read", "guest-file-write"] {
        if !talk.can(command) {
            return Ok(Prepared::refused(
                token,
                format!("the guest agent of {id} does not do {command}"),
                Some("Allow it inside (allow-rpcs in qemu-ga.conf), or copy by ssh".to_owned()),
            ));
        }
    }
    let mut steps = Vec::new();
    let mut notes = Vec::new();
    let mut losses = Vec::new();
    let (way, overwrite) = match request {
        FilesRequest::Push {
            from,
            to,
            overwrite,
        } => {
            let size = file_here(&from)?;
            let to = match talk.is_folder(&to).await {
                Some(true) => within(&to, from.file_name().and_then(|n| n.to_str()))?,
                _ if to.ends_with('/') => {
                    return Err(Error::not_found(format!(
                        "{} is no folder inside {id}",
                        shown(&to)
                    )));
                }
                _ => to,
            };
            let parent = to.rsplit_once('/').map_or("/", |(dir, _)| dir);
            if !parent.is_empty() && talk.is_folder(parent).await == Some(false) {
                let parent = shown(parent);
                return Err(Error::not_found(format!(
                    "there is no folder {parent} inside {id}"
                )));
            }
            if there(talk, &to).await {
                if !overwrite {
                    return Err(taken(&to));
                }
                losses.push(format!("what {} inside {id} holds now", shown(&to)));
            }
            let what = format!(
                "Write {} of {} to {}:{}",
                Bytes(size),
                shown(&from.display().to_string()),
                id,
                shown(&to)
            );
            steps.push(Step::new(
                what,
                "QGA guest-file-open, guest-file-write …, guest-file-close",
            ));
            if talk.can_run() {
                steps.push(Step::new(
                    "Compare both ends, then give it its mode and its name",
                    "QGA guest-exec sha256sum, chmod, mv",
                ));
            } else {
                notes.push("no command can be run inside: it is written in place, not compared, and its mode is not kept".to_owned());
            }
            (Way::Push { from, to }, overwrite)
        }
        FilesRequest::Pull {
            from,
            to,
            overwrite,
        } => {
            if talk.is_folder(&from).await == Some(true) {
                return Err(Error::unsupported(format!(
                    "{} is a folder inside {id}",
                    shown(&from)
                ))
                .remedy("Pack it first, inside: tar -czf FILE FOLDER"));
            }
            let handle = talk.open(&from, "r").await?;
            let size = talk.length(handle).await;
            talk.close(handle).await?;
            let to = if to.is_dir() {
                let name = from
                    .rsplit('/')
                    .next()
                    .filter(|name| !matches!(*name, "" | "." | ".."));
                let name =
                    name.ok_or_else(|| Error::invalid(format!("{} names no file", shown(&from))))?;
                to.join(name)
            } else {
                to
            };
            files::can_place(&to, overwrite)?;
            let here = shown(&to.display().to_string()).into_owned();
            if overwrite && to.exists() {
                losses.push(format!("what {here} holds now"));
            }
            let size = size
                .ok()
                .filter(|size| *size > 0)
                .map_or_else(String::new, |size| format!("{} of ", Bytes(size)));
            let what = format!("Read {size}{id}:{} to {here}", shown(&from));
            steps.push(Step::new(
                what,
                "QGA guest-file-open, guest-file-read …, guest-file-close",
            ));
            if talk.can_run() {
                steps.push(Step::new(
                    "Compare both ends, and take over the mode",
                    "QGA guest-exec sha256sum, stat",
                ));
            } else {
                notes.push(
                    "no command can be run inside: it is not compared, and its mode is not kept"
                        .to_owned(),
                );
            }
            (Way::Pull { from, to }, overwrite)
        }
    };
    let mut prepared = Prepared::new(token, steps);
    prepared.notes = notes;
    prepared.losses = losses;
    Ok(prepared.with(Plan {
        id: seen.id.clone(),
        way,
        overwrite,
    }))
}

/// The size of a file here that can be copied.
fn file_here(path: &Path) -> Result<u64> {
    let meta = std::fs::metadata(path).map_err(|e| files::fault("read", path, e))?;
    let name = shown(&path.display().to_string()).into_owned();
    if meta.is_dir() {
        return Err(Error::unsupported(format!("{name} is a folder"))
            .remedy(format!("Pack it first: tar -czf FILE '{name}'")));
    }
    if !meta.is_file() {
        return Err(Error::unsupported(format!("{name} is no regular file")));
    }
    // Seen now, not in the middle of the change.
    std::fs::File::open(path).map_err(|e| files::fault("read", path, e))?;
    Ok(meta.len())
}

fn within(dir: &str, name: Option<&str>) -> Result<String> {
    let name =
        name.ok_or_else(|| Error::invalid("the file's name is no text: name the target too"))?;
    Ok(format!("{}/{name}", dir.trim_end_matches('/')))
}

/// Whether there is such a file inside.
async fn there(talk: &mut Talk<'_>, path: &str) -> bool {
    match talk.open(path, "r").await {
        Ok(handle) => {
            let _ = talk.close(handle).await;
            true
        }
        Err(error) => {
            !error.message.contains("No such file") && error.message.contains("ermission")
        }
    }
}

fn taken(path: &str) -> Error {
    Error::refused(format!("{} is there already inside", shown(path)))
        .remedy("Name another, or replace it: --overwrite")
}

fn told(place: &str, copied: &Copied) -> String {
    let mut text = format!("{place}, {}", Bytes(copied.size));
    text.push_str(if copied.compared {
        ", SHA-256 compared"
    } else {
        ", not compared"
    });
    for note in &copied.notes {
        let _ = write!(text, "; {note}");
    }
    text
}
