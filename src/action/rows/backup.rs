//! `backup create|list|restore|delete`.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::super::around::gather;
use super::super::engine::Engine;
use super::super::paths::absolute_text;
use super::super::planner::{Planned, Shape, finish, plan_instances, prepare_all, resolve};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::create::{finish_new, home};
use super::naming::moment;
use crate::backend::contract::{BackupRequest, Request};
use crate::fleet::selector::Purpose;
use crate::model::{
    Action, Backup, Body, Data, Error, ErrorKind, Field, FieldKind, GroupNoun, Instance,
    InstanceId, InstanceKind, Operation, Result, Selector, State, shown,
};

const FROM: Field = Field::new(
    "from",
    FieldKind::Path,
    "Folder that backups are kept in [default: corral's own]",
);

const WHICH: Field = Field::new(
    "backup",
    FieldKind::Text,
    "Which one, where it is not named with the instance",
);

const CREATE: Row = Row {
    examples: &[
        "backup create local/web",
        "backup create --filter tag:prod --to /mnt/backup --keep 7 --headless -y",
    ],
    details: "Exports instances into dated folders: DIR/INSTANCE/TIME. A running instance goes on, its disks are taken \
at one moment. With --keep older whole backups of the same instance are deleted, once the new one is whole. Without a terminal \
several at once need -y, and more than 10 need --confirm with their number.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[
        Field::new(
            "to",
            FieldKind::Path,
            "Folder to keep them in [default: corral's own]",
        ),
        Field::new("keep", FieldKind::Count, "Keeps so many of each instance"),
        Field::new(
            "at",
            FieldKind::Text,
            "The time that it is named by [default: now]",
        ),
    ],
    heavy: true,
    operations: &[Operation::Backup],
    ..Row::new(
        "backup create",
        Group::Copies,
        "Makes dated copies",
        Run::Change(|e, a| Box::pin(create(e, a))),
    )
};

const LIST: Row = Row {
    aliases: &["backup ls"],
    examples: &["backup list", "backup list local/web --verify -o json"],
    details: "Those of instances that are gone too. A damaged one is shown as broken; --verify computes every checksum, and its \
exit code is 1 where one is broken.",
    noun: GroupNoun::Instances,
    targets: Targets::Any,
    fields: &[FROM, Field::flag("verify", "Computes every checksum anew")],
    ..Row::new(
        "backup list",
        Group::Copies,
        "Shows backups",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

const RESTORE: Row = Row {
    examples: &[
        "backup restore local/web@2026-11-30T02-00-00Z --confirm web",
        "backup restore local/web@2026-11-30T02-00-00Z --name web2 --start",
    ],
    details: "Puts the disks of a backup in the place of the instance's own, which must be off; or with --name makes a \
new instance of it. Checksums are checked first.",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    fields: &[
        WHICH,
        Field::new("name", FieldKind::Name, "As this new instance"),
        FROM,
        Field::flag("start", "Starts it afterwards"),
    ],
    risk: Risk::TypeName,
    danger: true,
    heavy: true,
    form: true,
    operations: &[Operation::Backup],
    leads_to: &["running", "address", "agent", "stopped"],
    ..Row::new(
        "backup restore",
        Group::Copies,
        "Brings an instance back from a backup",
        Run::Change(|e, a| Box::pin(restore(e, a))),
    )
};

const DELETE: Row = Row {
    aliases: &["backup rm"],
    examples: &["backup delete local/web@2026-11-30T02-00-00Z"],
    noun: GroupNoun::Instances,
    targets: Targets::One,
    fields: &[WHICH, FROM],
    risk: Risk::Confirm,
    heavy: true,
    form: true,
    operations: &[Operation::Backup],
    ..Row::new(
        "backup delete",
        Group::Copies,
        "Deletes a backup",
        Run::Change(|e, a| Box::pin(delete(e, a))),
    )
};

/// Until all of a shelf is read.
const LONG: Duration = Duration::from_secs(24 * 3600);

pub(super) const ROWS: &[&Row] = &[&CREATE, &LIST, &RESTORE, &DELETE];

fn folder(engine: &Engine, action: &Action, flag: &str) -> Option<String> {
    let path = action.args.text(flag)?;
    Some(absolute_text(&engine.env().home, path))
}

async fn create(engine: Arc<Engine>, mut action: Action) -> Result<Planned> {
    let at = moment(&mut action)?;
    let to = folder(&engine, &action, "to");
    let count = |n: u64| {
        let count = u32::try_from(n).ok().and_then(NonZeroU32::new);
        count.ok_or_else(|| Error::invalid(format!("--keep: {n} is not possible: 1 or more")))
    };
    let keep = action.args.count("keep").map(count).transpose()?;
    let mut shape = Shape::of(&action)?;
    "Back up".clone_into(&mut shape.ask);
    plan_instances(&engine, action, shape, |_| {
        Ok(Request::Backup(BackupRequest::Create {
            at,
            to: to.clone(),
            keep,
        }))
    })
    .await
}

/// `INSTANCE@BACKUP`, or an instance and `--backup`.
fn split(action: &Action) -> Result<(Selector, String)> {
    let typed = action.targets.first();
    let (instance, backup) = match typed {
        Some(target) => target.split_snapshot()?,
        None => return Err(Error::invalid("which backup?")),
    };
    let given = action.args.text("backup").map(str::to_owned);
    if backup.is_some() && given.is_some() {
        return Err(Error::invalid("two backups were given"));
    }
    let backup = backup.or(given).ok_or_else(|| {
        Error::invalid(format!("which backup of {}?", shown(instance.as_str()))).remedy(format!(
            "Write {}@BACKUP; corral backup list shows them",
            shown(instance.as_str())
        ))
    })?;
    Ok((instance, backup))
}

async fn restore(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (instance, backup) = split(&action)?;
    let from = folder(&engine, &action, "from");
    let start = action.args.flag("start");
    let mut shape = Shape::of(&action)?;
    if let Some(name) = action.args.text("name") {
        let name = name.to_owned();
        let id = named(&engine, &action, &instance)?;
        let request = Request::Backup(BackupRequest::Restore {
            backup: backup.clone(),
            from,
            name: Some(name.clone()),
            of: Some(id.key().to_owned()),
            start,
        });
        // Nothing is replaced.
        shape.risk = Risk::Confirm;
        shape.danger = false;
        "Make".clone_into(&mut shape.ask);
        shape.tail = format!("from the backup {} of {id}", shown(&backup));
        let context = id.context().to_owned();
        return finish_new(&engine, action, shape, context, &name, request).await;
    }
    "Take".clone_into(&mut shape.ask);
    shape.tail = format!("back to the backup {}", shown(&backup));
    let mut plain = action.clone();
    plain.targets = vec![instance];
    let resolved = resolve(&engine, &plain, Purpose::Change).await?;
    let wanted = resolved
        .targets
        .into_iter()
        .map(|on| {
            let request = Request::Backup(BackupRequest::Restore {
                backup: backup.clone(),
                from: from.clone(),
                name: None,
                of: None,
                start,
            });
            (on, request)
        })
        .collect();
    let prepared = prepare_all(&engine, wanted).await?;
    finish(&engine, action, shape, prepared, resolved.left_out)
}

async fn delete(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (instance, backup) = split(&action)?;
    let request = Request::Backup(BackupRequest::Delete {
        backup: backup.clone(),
        from: folder(&engine, &action, "from"),
    });
    let mut shape = Shape::of(&action)?;
    shape.ask = format!("Delete the backup {} of", shown(&backup));
    let mut plain = action.clone();
    plain.targets = vec![instance.clone()];
    let on = match resolve(&engine, &plain, Purpose::Change).await {
        Ok(resolved) if resolved.targets.len() == 1 => Arc::clone(&resolved.targets[0]),
        Ok(_) => return Err(Error::invalid("one backup at a time")),
        // What it is a backup of may be gone.
        Err(error) if error.kind == ErrorKind::NotFound && !instance.is_glob() => {
            let id = named(&engine, &action, &instance)?;
            gone(&engine, &id)?
        }
        Err(error) => return Err(error),
    };
    let prepared = prepare_all(&engine, vec![(on, request)]).await?;
    finish(&engine, action, shape, prepared, Vec::new())
}

/// The ID of an instance that may be gone.
fn named(engine: &Engine, action: &Action, instance: &Selector) -> Result<InstanceId> {
    let typed = instance.as_str();
    let name = typed.strip_prefix("name:");
    let typed = typed.strip_prefix("id:").unwrap_or(typed);
    if name.is_none() && typed.contains('/') {
        return typed.parse();
    }
    let context = home(engine, action)?;
    Ok(InstanceId::new(&context, None, name.unwrap_or(typed)))
}

fn gone(engine: &Engine, id: &InstanceId) -> Result<Arc<Instance>> {
    let member = engine.fleet().member(id.context()).ok_or_else(|| {
        Error::not_found(format!("there is no context {:?}", shown(id.context())))
            .remedy("See corral context list")
    })?;
    Ok(Arc::new(Instance::new(
        id.clone(),
        member.spec.kind.clone(),
        InstanceKind::Vm,
        State::Stopped,
        Timestamp::now(),
    )))
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let from = folder(&engine, &action, "from");
    let mut found = gather(&engine, &action, Operation::Backup, &|backend, cx| {
        let family = backend.families().backups()?;
        let from = from.clone();
        Some(Box::pin(async move {
            family.backups(cx, None, from.as_deref(), false).await
        }))
    })
    .await?;
    retain_wanted(&engine, &action, &mut found.found).await?;
    if !action.args.flag("verify") {
        return Ok(found.data(Body::Backups));
    }
    let mut all = Vec::new();
    let of: BTreeSet<InstanceId> = found.found.iter().map(|row| row.instance.clone()).collect();
    for id in of {
        match verified(&engine, &id, from.as_deref()).await {
            Ok(rows) => all.extend(rows),
            Err(error) => found.errors.push(error.in_context(id.context())),
        }
    }
    found.found = all;
    let mut data = found.data(Body::Backups);
    if let Body::Backups(rows) = &data.body {
        data.faulty = rows.iter().any(|row| row.broken.is_some());
    }
    Ok(data)
}

/// Leaves those of the instances that are named and that match.
async fn retain_wanted(engine: &Engine, action: &Action, all: &mut Vec<Backup>) -> Result<()> {
    let mut kept = vec![action.targets.is_empty(); all.len()];
    for target in &action.targets {
        let mut any = false;
        for (row, kept) in all.iter().zip(&mut kept) {
            let is_it = is_named(target, &row.instance);
            *kept |= is_it;
            any |= is_it;
        }
        if !any {
            // Named in another way, or it has none; or there is no such instance at all.
            let mut plain = action.clone();
            plain.targets = vec![target.clone()];
            let meant = resolve(engine, &plain, Purpose::Read).await?.targets;
            for (row, kept) in all.iter().zip(&mut kept) {
                *kept |= meant.iter().any(|instance| instance.id == row.instance);
            }
        }
    }
    let mut keep = kept.into_iter();
    all.retain(|_| keep.next().unwrap_or(false));
    if action.scope.filter.is_some() {
        let mut plain = action.clone();
        plain.targets = Vec::new();
        let matching = resolve(engine, &plain, Purpose::Read).await?.targets;
        all.retain(|row| matching.iter().any(|instance| instance.id == row.instance));
    }
    Ok(())
}

/// The backups of one instance, every checksum computed.
async fn verified(engine: &Engine, id: &InstanceId, from: Option<&str>) -> Result<Vec<Backup>> {
    let on = gone(engine, id)?;
    let member = engine.fleet().member(id.context());
    let Some(family) = member.as_ref().and_then(|m| m.backend.families().backups()) else {
        return Ok(Vec::new());
    };
    let mut cx = engine.asking(engine.fleet().read_cx(id.context()));
    // All of them are read; whoever asked can wait, or stop it.
    cx.deadline = Instant::now() + LONG;
    family.backups(&cx, Some(&on), from, true).await
}

fn is_named(target: &Selector, id: &InstanceId) -> bool {
    let text = target.as_str();
    let text = text
        .strip_prefix("id:")
        .or_else(|| text.strip_prefix("name:"))
        .unwrap_or(text);
    let full = id.to_string();
    if target.is_glob() {
        let matches = |to: &str| crate::fleet::glob::matches(text, to);
        return matches(&full) || matches(id.key());
    }
    text == full || text == id.key()
}
