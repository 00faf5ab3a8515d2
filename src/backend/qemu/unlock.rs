//! What a process that is gone still holds: a change that was interrupted, sockets of a QEMU that
//! was killed. What a living one holds is told, and left alone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::definition::Definition;
use super::doctor::vms;
use super::op::{self, Leftover};
use super::{live, locks, process, recover};
use crate::backend::contract::{Changes, Prepared, ReadCx, TaskCx, UnlockRequest};
use crate::link::{files, signal};
use crate::model::{Error, Instance, InstanceId, Outcome, Result, Step, shown};

/// The unlock family.
#[derive(Clone, Debug)]
pub struct Unlock(pub Arc<Ctx>);

/// What is held, and by nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// A change that was cut short, as its record says.
    Change(String),
    /// A record that cannot be read.
    Torn(String),
    /// Sockets or pid of a QEMU that is gone.
    Sockets,
}

impl Held {
    fn step(&self) -> Step {
        match self {
            Self::Change(what) => Step::new(
                format!("Complete \"{what}\", or take it back: its corral is gone"),
                "corral doctor --fix",
            ),
            Self::Torn(why) => Step::new(
                format!("Remove the record of a change, which cannot be read ({why})"),
                format!("rm {}", op::FILE),
            ),
            Self::Sockets => Step::new(
                "Remove the sockets and the pid of a QEMU that is gone",
                "rm qmp.sock ev.sock ga.sock serial.sock vnc.sock pid",
            ),
        }
    }
}

/// What is held of a VM by nobody.
///
/// # Errors
/// `Refused` naming who holds it, where somebody does.
async fn held(ctx: &Ctx, id: &InstanceId, limit: Duration) -> Result<Vec<Held>> {
    let name = id.key();
    let dir = ctx.store.dir(name)?;
    let mut found = Vec::new();
    match op::read(&dir.join(op::FILE)) {
        Ok(Some(op)) if op.is_alive() => {
            return Err(holder(id, op.pid, Some(&op.change.title())));
        }
        Ok(Some(op)) => found.push(Held::Change(op.change.title())),
        Ok(None) => {}
        Err(error) => found.push(Held::Torn(error.message)),
    }
    let vm: Option<Definition> = ctx.store.load(name).ok();
    if let Some(vm) = vm {
        let lock = ctx.paths(&vm.uuid)?.dir.join("vm.lock");
        if lock.exists() && files::lock(&lock, name, Duration::ZERO).is_err() {
            let pid = signal::read_pidfile(&lock).unwrap_or_default();
            return Err(holder(id, pid, None));
        }
        let live = live::look(ctx, &vm, limit).await;
        if vms::stale(ctx, &vm, &live) {
            found.push(Held::Sockets);
        }
    }
    Ok(found)
}

/// Who holds it: a process, by number and command line.
fn holder(id: &InstanceId, pid: u32, what: Option<&str>) -> Error {
    let command = signal::argv(pid).unwrap_or_default().join(" ");
    let what = what.map_or_else(String::new, |what| format!(" for \"{what}\""));
    Error::refused(format!(
        "{id} is held by process {pid}{what}: {}",
        shown(&command)
    ))
    .remedy("Wait for it: corral tasks list")
}

#[async_trait]
impl Changes<UnlockRequest> for Unlock {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, _: UnlockRequest) -> Result<Prepared> {
        let id = &on.id;
        let limit = cx.left().min(process::MONITOR);
        let held = match held(&self.0, id, limit).await {
            Ok(held) => held,
            Err(error) => return Ok(Prepared::failed("held", &error)),
        };
        let token = format!("{held:?}");
        if held.is_empty() {
            return Ok(Prepared::unchanged(
                token,
                format!("nothing of {id} is held"),
            ));
        }
        let mut prepared = Prepared::new(token, held.iter().map(Held::step).collect());
        if held.iter().any(|held| matches!(held, Held::Torn(_))) {
            prepared.notes.push(
                "what that change did cannot be known: look at its disks with qemu-img check"
                    .to_owned(),
            );
        }
        Ok(prepared.with(id.clone()))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let id: InstanceId = prepared.take()?;
        let ctx = &self.0;
        let found = held(ctx, &id, process::MONITOR).await?;
        if format!("{found:?}") != prepared.token {
            return Err(Error::conflict(format!(
                "what is held of {id} changed meanwhile. Nothing was done"
            ))
            .remedy("Look at it and ask again."));
        }
        let mut said = Vec::new();
        for held in found {
            cx.checkpoint()?;
            cx.step(held.step().title);
            let name = id.key().to_owned();
            match held {
                Held::Change(_) => {
                    let file = ctx.store.dir(&name)?.join(op::FILE);
                    let op = op::read(&file).transpose();
                    let left = Leftover { name, op };
                    said.extend(recover::recover(ctx, &left).await?.message);
                }
                Held::Torn(_) => {
                    let _lock = match ctx.store.load(&name) {
                        Ok(vm) => Some(locks::vm(ctx, &vm.uuid, &name).await?),
                        Err(_) => None,
                    };
                    op::remove(&ctx.store.dir(&name)?.join(op::FILE))?;
                    said.push("the record is removed".to_owned());
                }
                Held::Sockets => {
                    let key = crate::model::encode_segment(&name);
                    said.extend(vms::tidy(ctx, &key).await?.message);
                }
            }
        }
        Ok(Outcome::changed(said.join("; ")))
    }
}

/// Who or what holds a VM, for its row; `None`: nobody.
pub(super) fn locked(ctx: &Ctx, name: &str) -> Option<String> {
    let dir = ctx.store.dir(name).ok()?;
    match op::read(&dir.join(op::FILE)) {
        Ok(None) => None,
        Ok(Some(op)) if op.is_alive() => {
            Some(format!("{} (process {})", op.change.title(), op.pid))
        }
        Ok(Some(op)) => Some(format!("{} was interrupted", op.change.title())),
        Err(_) => Some("the record of a change cannot be read".to_owned()),
    }
}
