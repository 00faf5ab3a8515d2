//! The backup family: kept by the server, or as files in a folder of this machine.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::call::{self, Call};
use super::super::ctx::Ctx;
use super::super::json::Look as _;
use super::super::life::name_taken;
use super::super::power;
use super::super::seen::Seen;
use super::super::work::LOOK;
use super::kept::{self, ENDING, Kept, Note};
use super::moves::{consistency, fetched, settled};
use super::stream;
use crate::backend::contract::{BackupRequest, Backups, Changes, Prepared, ReadCx, TaskCx};
use crate::link::files::make_dir;
use crate::model::{
    Backup, Bytes, Consistency, Error, ErrorKind, Instance, InstanceId, Outcome, Result, Step,
    counted, shown,
};

/// What an instance is called while it takes another's place.
const COMING: &str = "corral-restored";

/// The backup family.
#[derive(Clone, Debug)]
pub struct BackUp(pub Arc<Ctx>);

/// Where a backup is.
#[derive(Clone, Debug)]
enum Where {
    /// The server keeps it.
    Server {
        name: String,
        project: String,
        backup: String,
    },
    /// A file of this machine.
    Here(Kept),
}

impl Where {
    fn called(&self) -> &str {
        match self {
            Self::Server { backup, .. } => backup,
            Self::Here(kept) => &kept.name,
        }
    }

    fn place(&self) -> String {
        match self {
            Self::Server { .. } => "the server".to_owned(),
            Self::Here(kept) => kept.path.display().to_string(),
        }
    }

    fn delete_step(&self) -> Step {
        let title = format!("Delete the backup {}", self.called());
        match self {
            Self::Server {
                name,
                project,
                backup,
            } => Step::new(title, stream::deleting(name, project, backup).shown()),
            Self::Here(kept) => Step::new(
                title,
                format!("rm {}", shown(&kept.path.display().to_string())),
            ),
        }
    }

    async fn delete(&self, ctx: &Ctx, cx: &TaskCx) -> Result<()> {
        match self {
            Self::Server {
                name,
                project,
                backup,
            } => {
                let call = stream::deleting(name, project, backup);
                match ctx.api()?.change(cx, &call, None).await {
                    Err(error) if error.kind != ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
            Self::Here(kept) => kept.remove(),
        }
    }

    /// Makes an instance of it.
    async fn send(&self, ctx: &Ctx, cx: &TaskCx, name: &str, project: &str) -> Result<()> {
        let whose = (name, project, None);
        match self {
            Self::Server {
                name: of,
                project: from,
                backup,
            } => {
                let answer = stream::open(ctx, of, from, backup).await?;
                let total = answer.length();
                stream::send(ctx, cx, whose, Box::new(answer.reader()), total).await
            }
            Self::Here(kept) => {
                let odd = |error: std::io::Error| {
                    Error::invalid(format!("{}: {error}", kept.path.display()))
                };
                let file = tokio::fs::File::open(&kept.path).await.map_err(odd)?;
                let total = file.metadata().await.map_err(odd)?.len();
                stream::send(ctx, cx, whose, Box::new(file), Some(total)).await
            }
        }
    }
}

enum Plan {
    Create {
        id: InstanceId,
        name: String,
        /// The folder of this instance's backups; `None`: the server's.
        dir: Option<PathBuf>,
        at: Timestamp,
        surplus: Vec<Where>,
    },
    New {
        from: Where,
        name: String,
        project: String,
        start: bool,
    },
    Onto {
        id: InstanceId,
        from: Where,
        start: bool,
    },
    Delete(Where),
}

/// A backup that the server keeps, by its name alone.
fn server_name(backup: &Value) -> Option<&str> {
    backup
        .text("name")
        .map(|name| name.rsplit('/').next().unwrap_or(name))
}

/// A name for another backup than those it has; only times are corral's.
fn is_time(name: &str) -> bool {
    let form = "0000-00-00T00-00-00Z";
    name.len() >= form.len()
        && form.bytes().zip(name.bytes()).all(|(f, b)| {
            if f == b'0' {
                b.is_ascii_digit()
            } else {
                f == b
            }
        })
}

async fn create(
    ctx: &Ctx,
    cx: &ReadCx,
    on: &Instance,
    at: Timestamp,
    to: Option<&str>,
    keep: Option<NonZeroU32>,
) -> Result<Prepared> {
    let seen = match Seen::for_plan(ctx, cx, &on.id).await {
        Ok(seen) => seen,
        Err(refused) => return Ok(refused),
    };
    if let Some(refused) = seen.unclear() {
        return Ok(refused);
    }
    let dir = to
        .map(kept::root)
        .transpose()?
        .map(|root| kept::of(&root, &seen.name));
    let there: Vec<(String, Where)> = match &dir {
        Some(dir) => kept::list(dir)?
            .into_iter()
            .map(|kept| (kept.name.clone(), Where::Here(kept)))
            .collect(),
        None => seen
            .value
            .list("backups")
            .iter()
            .filter_map(server_name)
            .map(|backup| {
                let at = Where::Server {
                    name: seen.name.clone(),
                    project: seen.project.clone(),
                    backup: backup.to_owned(),
                };
                (backup.to_owned(), at)
            })
            .collect(),
    };
    let name = kept::new_name(at, there.iter().map(|(name, _)| name.as_str()));
    // Only those of this very instance, and only those that are named by their time.
    let mut own: Vec<&(String, Where)> = there
        .iter()
        .filter(|(name, place)| {
            let mine = match place {
                Where::Server { .. } => true,
                Where::Here(kept) => kept
                    .note
                    .as_ref()
                    .is_ok_and(|note| note.uid == seen.row.uid),
            };
            mine && is_time(name)
        })
        .collect();
    own.sort_by(|(a, _), (b, _)| a.cmp(b));
    let surplus = keep.map_or(0, |keep| own.len().saturating_sub(keep.get() as usize - 1));
    let surplus: Vec<Where> = own
        .into_iter()
        .take(surplus)
        .map(|(_, place)| place.clone())
        .collect();
    let backup = if dir.is_some() {
        "corral-backup"
    } else {
        &name
    };
    let mut steps = vec![Step::new(
        format!("Make the backup {name}"),
        stream::making(&seen.name, &seen.project, backup, false).shown(),
    )];
    if let Some(dir) = &dir {
        let file = dir.join(format!("{name}{ENDING}"));
        steps.push(Step::new(
            format!("Fetch it to {}", shown(&file.display().to_string())),
            format!("GET {}", stream::place(&seen.name, &seen.project, backup)),
        ));
        steps.push(Step::new(
            "Delete it at the server",
            stream::deleting(&seen.name, &seen.project, backup).shown(),
        ));
    }
    steps.extend(surplus.iter().map(Where::delete_step));
    let mut prepared = Prepared::new(seen.token(), steps);
    prepared.deletes = !surplus.is_empty();
    for one in &surplus {
        prepared.losses.push(format!("the backup {}", one.called()));
    }
    prepared.notes.push(match consistency(&seen) {
        Consistency::Crash => "Consistency: crash, as after a power cut: it runs on".to_owned(),
        other => format!("Consistency: {}", other.as_str()),
    });
    Ok(prepared.with(Plan::Create {
        id: seen.id.clone(),
        name,
        dir,
        at,
        surplus,
    }))
}

/// Finds a backup of an instance.
async fn find(
    ctx: &Ctx,
    cx: &ReadCx,
    id: &InstanceId,
    backup: &str,
    from: Option<&str>,
) -> Result<Where> {
    let (project, name) = ctx.place(id);
    let missing = |place: &str| {
        Error::not_found(format!(
            "{} has no backup {} in {place}",
            shown(&name),
            shown(backup)
        ))
        .remedy("List them: corral backup list (kept elsewhere: --from DIR)")
    };
    if let Some(from) = from {
        let dir = kept::of(&kept::root(from)?, &name);
        let found = kept::list(&dir)?
            .into_iter()
            .find(|kept| kept.name == backup);
        return found.map(Where::Here).ok_or_else(|| missing(&shown(from)));
    }
    let path = call::instance(&name, &project, &["backups", backup]);
    match ctx.api()?.get(cx, &path).await {
        Ok(_) => Ok(Where::Server {
            name,
            project,
            backup: backup.to_owned(),
        }),
        Err(error) if error.kind == ErrorKind::NotFound => Err(missing("the server")),
        Err(error) => Err(error),
    }
}

async fn anew(
    ctx: &Ctx,
    cx: &ReadCx,
    on: &Instance,
    from: Where,
    name: String,
    start: bool,
) -> Result<Prepared> {
    if let Where::Here(kept) = &from {
        kept.note.clone()?;
    }
    let (project, _) = ctx.place(&on.id);
    if let Some(error) = name_taken(ctx, cx, &project, &name).await? {
        return Ok(Prepared::failed("new", &error));
    }
    let id = ctx.id(&project, &name);
    let mut steps = vec![
        Step::new(
            format!(
                "Make {id} of the backup {} ({})",
                from.called(),
                shown(&from.place())
            ),
            stream::sending(&name, &project),
        )
        .undo(format!("corral delete {id}")),
        Step::new(
            "Give it an identity of its own",
            format!(
                "PATCH {} config: volatile.uuid, MAC addresses",
                call::instance(&name, &project, &[])
            ),
        ),
    ];
    if start {
        let path = call::instance(&name, &project, &[]);
        steps.push(Step::new(
            format!("Start {id}"),
            power::call(&path, "start", json!({})).shown(),
        ));
    }
    Ok(Prepared::new("new", steps).with(Plan::New {
        from,
        name,
        project,
        start,
    }))
}

async fn onto(ctx: &Ctx, cx: &ReadCx, on: &Instance, from: Where, start: bool) -> Result<Prepared> {
    let seen = match Seen::for_plan(ctx, cx, &on.id).await {
        Ok(seen) => seen,
        Err(refused) => return Ok(refused),
    };
    let (id, token) = (&seen.id, seen.token());
    if let Where::Here(kept) = &from {
        kept.note.clone()?;
    }
    if let Some(refused) = seen.unclear() {
        return Ok(refused);
    }
    if seen.state().is_active() {
        return Ok(Prepared::refused(
            token,
            format!("{id} is {}", seen.state()),
            Some(format!("Stop it first: corral stop {id}")),
        ));
    }
    if matches!(from, Where::Server { .. }) {
        // It goes with the instance it is of.
        return Ok(Prepared::refused(
            token,
            format!(
                "the server keeps the backups of {id} with it: they would go when it is replaced"
            ),
            Some(format!(
                "Restore it as another one: corral backup restore {id}@{} --name NAME. Or keep backups in a folder: --to DIR",
                from.called()
            )),
        ));
    }
    let coming = ctx.id(&seen.project, COMING);
    let steps = vec![
        Step::new(
            format!("Make {coming} of the backup {}", from.called()),
            stream::sending(COMING, &seen.project),
        ),
        Step::new(
            format!("Delete {id} as it is now"),
            Call::new("DELETE", seen.path(&[]), Value::Null).shown(),
        ),
        Step::new(
            format!("Call {coming} {}", seen.name),
            Call::new(
                "POST",
                call::instance(COMING, &seen.project, &[]),
                json!({"name": seen.name}),
            )
            .shown(),
        ),
    ];
    let mut prepared = Prepared::new(token, steps);
    prepared
        .losses
        .push(format!("all that {id} holds now, its snapshots included"));
    let kept = seen.value.list("backups").len();
    if kept > 0 {
        prepared
            .losses
            .push(format!("{kept} backups that its server keeps"));
    }
    prepared.deletes = true;
    Ok(prepared.with(Plan::Onto {
        id: id.clone(),
        from,
        start,
    }))
}

#[async_trait]
impl Changes<BackupRequest> for BackUp {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: BackupRequest,
    ) -> Result<Prepared> {
        let ctx = &*self.0;
        let planned = match request {
            BackupRequest::Create { at, to, keep } => {
                create(ctx, cx, on, at, to.as_deref(), keep).await
            }
            BackupRequest::Restore {
                backup,
                from,
                name: None,
                start,
                ..
            } => match find(ctx, cx, &on.id, &backup, from.as_deref()).await {
                Ok(found) => onto(ctx, cx, on, found, start).await,
                Err(error) => Err(error),
            },
            BackupRequest::Restore {
                backup,
                from,
                name: Some(name),
                of,
                start,
            } => {
                let (project, own) = ctx.place(&on.id);
                let of = ctx.id(&project, of.as_deref().unwrap_or(&own));
                match find(ctx, cx, &of, &backup, from.as_deref()).await {
                    Ok(found) => anew(ctx, cx, on, found, name, start).await,
                    Err(error) => Err(error),
                }
            }
            BackupRequest::Delete { backup, from } => {
                match find(ctx, cx, &on.id, &backup, from.as_deref()).await {
                    Ok(found) => {
                        let mut prepared = Prepared::new(found.called(), vec![found.delete_step()]);
                        prepared
                            .losses
                            .push(format!("the backup {}", found.called()));
                        Ok(prepared.with(Plan::Delete(found)))
                    }
                    Err(error) if error.kind == ErrorKind::NotFound => {
                        Ok(Prepared::unchanged("gone", error.message))
                    }
                    Err(error) => Err(error),
                }
            }
        };
        planned.or_else(|error| match error.kind {
            ErrorKind::Unreachable | ErrorKind::TimedOut => Err(error),
            _ => Ok(Prepared::failed("", &error)),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &*self.0;
        match prepared.take::<Plan>()? {
            Plan::Create {
                id,
                name,
                dir,
                at,
                surplus,
            } => {
                let seen = Seen::now(ctx, &cx.read(LOOK), &id).await?;
                seen.still(&prepared.token)?;
                cx.checkpoint()?;
                made(ctx, cx, &seen, &name, dir, at, &surplus).await
            }
            Plan::New {
                from,
                name,
                project,
                start,
            } => {
                if let Some(error) = name_taken(ctx, &cx.read(LOOK), &project, &name).await? {
                    return Err(Error::new(ErrorKind::Conflict, error.message));
                }
                cx.checkpoint()?;
                let id = ctx.id(&project, &name);
                cx.step(format!("Make {id} of the backup {}", from.called()));
                from.send(ctx, cx, &name, &project).await?;
                settled(ctx, cx, &id, json!({}), start).await
            }
            Plan::Onto { id, from, start } => {
                replaced(ctx, cx, &id, &from, start, &prepared.token).await
            }
            Plan::Delete(found) => {
                cx.checkpoint()?;
                cx.step(format!("Delete the backup {}", found.called()));
                found.delete(ctx, cx).await?;
                Ok(Outcome::changed(format!(
                    "the backup {} is deleted",
                    found.called()
                )))
            }
        }
    }
}

async fn made(
    ctx: &Ctx,
    cx: &TaskCx,
    seen: &Seen,
    name: &str,
    dir: Option<PathBuf>,
    at: Timestamp,
    surplus: &[Where],
) -> Result<Outcome> {
    let got = consistency(seen);
    let mut said = format!("{} is backed up as {name}", seen.id);
    match dir {
        None => {
            cx.step(format!("Make the backup {name}"));
            let call = stream::making(&seen.name, &seen.project, name, false);
            ctx.api()?.change(cx, &call, None).await?;
        }
        Some(dir) => {
            make_dir(&dir)?;
            let file = dir.join(format!("{name}{ENDING}"));
            let (size, sum) = fetched(ctx, cx, seen, "corral-backup", &file, false).await?;
            let disks = seen.all_devices().into_iter().flatten();
            let note = Note {
                name: seen.name.clone(),
                project: seen.project.clone(),
                uid: seen.row.uid.clone(),
                taken_at: at,
                consistency: got,
                sha256: sum,
                size,
                disks: disks
                    .filter(|(_, device)| super::super::row::is_root(device))
                    .count() as u64,
            };
            kept::describe(&file, &note)?;
            said.push_str(&format!(" ({})", Bytes(size)));
        }
    }
    let mut gone = 0;
    for old in surplus {
        cx.step(format!("Delete the backup {}", old.called()));
        // It may have been deleted meanwhile; the new one is there in any case.
        match old.delete(ctx, cx).await {
            Ok(()) => gone += 1,
            Err(error) => cx.log(error.to_string()),
        }
    }
    if gone > 0 {
        said.push_str(&format!("; {} deleted", counted(gone, "old one")));
    }
    let mut outcome = Outcome::changed(said);
    outcome.consistency = Some(got);
    Ok(outcome)
}

/// In the place of what is there now: that goes only once the other one is whole.
async fn replaced(
    ctx: &Ctx,
    cx: &TaskCx,
    id: &InstanceId,
    from: &Where,
    start: bool,
    token: &str,
) -> Result<Outcome> {
    let api = ctx.api()?;
    let seen = Seen::now(ctx, &cx.read(LOOK), id).await?;
    seen.still(token)?;
    if let Some(error) = name_taken(ctx, &cx.read(LOOK), &seen.project, COMING).await? {
        return Err(
            Error::new(ErrorKind::Conflict, error.message).remedy(format!(
                "It was left by another restore. Look at it, then delete it: corral delete {}",
                ctx.id(&seen.project, COMING)
            )),
        );
    }
    cx.checkpoint()?;
    cx.step(format!("Make {COMING} of the backup {}", from.called()));
    from.send(ctx, cx, COMING, &seen.project).await?;
    cx.step(format!("Delete {id} as it is now"));
    let delete = Call::new("DELETE", seen.path(&[]), Value::Null);
    let left = |mut error: Error| {
        error.remedy = Some(format!(
            "What was restored is there as {}",
            ctx.id(&seen.project, COMING)
        ));
        error
    };
    api.change(cx, &delete, None).await.map_err(left)?;
    cx.step(format!("Call it {}", shown(&seen.name)));
    let rename = Call::new(
        "POST",
        call::instance(COMING, &seen.project, &[]),
        json!({"name": seen.name}),
    );
    api.change(cx, &rename, None).await.map_err(left)?;
    if start {
        cx.step(format!("Start {id}"));
        api.change(cx, &power::call(&seen.path(&[]), "start", json!({})), None)
            .await?;
    }
    let mut outcome = Outcome::changed(format!("{id} is as in the backup {}", from.called()));
    outcome.id = Some(id.clone());
    Ok(outcome)
}

#[async_trait]
impl Backups for BackUp {
    async fn backups(
        &self,
        cx: &ReadCx,
        on: Option<&Instance>,
        from: Option<&str>,
        verify: bool,
    ) -> Result<Vec<Backup>> {
        let ctx = &*self.0;
        match from {
            Some(from) => here(ctx, cx, on, from, verify).await,
            None => at_server(ctx, cx, on).await,
        }
    }
}

async fn here(
    ctx: &Ctx,
    cx: &ReadCx,
    on: Option<&Instance>,
    from: &str,
    verify: bool,
) -> Result<Vec<Backup>> {
    let root = kept::root(from)?;
    let names = match on {
        Some(on) => vec![on.name.clone()],
        None => kept::instances(&root)?,
    };
    let mut all = Vec::new();
    for name in names {
        for kept in kept::list(&kept::of(&root, &name))? {
            let deadline = cx.deadline;
            let checking = kept.clone();
            let broken = if verify {
                let checked = tokio::task::spawn_blocking(move || {
                    checking.verify(|_| {
                        if std::time::Instant::now() > deadline {
                            return Err(Error::timed_out("there was no time to check it"));
                        }
                        Ok(())
                    })
                });
                let checked = checked
                    .await
                    .map_err(|error| Error::backend(format!("internal: {error}")))?;
                checked.err()
            } else {
                kept.note.as_ref().err().cloned()
            };
            let note = kept.note.as_ref().ok();
            let project = note.map_or(super::super::ctx::DEFAULT, |note| note.project.as_str());
            all.push(Backup {
                instance: ctx.id(project, &name),
                taken_at: note.map(|note| note.taken_at),
                consistency: note.map(|note| note.consistency),
                disks: note.map(|note| note.disks),
                size_bytes: std::fs::metadata(&kept.path)
                    .ok()
                    .map(|meta| Bytes(meta.len())),
                place: kept.path.display().to_string(),
                broken: broken.map(|error| error.message),
                name: kept.name,
            });
        }
    }
    Ok(all)
}

async fn at_server(ctx: &Ctx, cx: &ReadCx, on: Option<&Instance>) -> Result<Vec<Backup>> {
    let values = match on {
        Some(on) => match Seen::now(ctx, cx, &on.id).await {
            Ok(seen) => vec![seen.value],
            Err(error) if error.kind == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        },
        None => {
            let path = format!("/1.0/instances?recursion=2&{}", ctx.scope());
            let reply = ctx.api()?.get(cx, &path).await?;
            reply.metadata.as_array().cloned().unwrap_or_default()
        }
    };
    let mut all = Vec::new();
    for value in &values {
        let Some(name) = value.text("name") else {
            continue;
        };
        let project = value.text("project").unwrap_or(super::super::ctx::DEFAULT);
        for backup in value.list("backups") {
            let Some(called) = server_name(backup) else {
                continue;
            };
            all.push(Backup {
                instance: ctx.id(project, name),
                name: called.to_owned(),
                taken_at: backup.time("created_at"),
                consistency: None,
                disks: None,
                size_bytes: None,
                place: "server".to_owned(),
                broken: None,
            });
        }
    }
    all.sort_by(|a, b| (&a.instance, a.taken_at).cmp(&(&b.instance, b.taken_at)));
    Ok(all)
}
