//! Takes one snapshot, and reads back what it became.

use std::path::Path;
use std::time::Duration;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::layout::Layout;
use super::super::op::{Change, Journal, Phase};
use super::super::process::Launch;
use super::freeze::{self, Tried};
use super::inside::{Inside, Node};
use super::record::{Record, Records};
use super::run::{reach, told};
use crate::backend::contract::satisfies;
use crate::link::qmp::Qmp;
use crate::model::{Consistency, Error, Result, shown};

/// Disks are marked within a moment; a guest is not held frozen for a QEMU that hangs.
const WHILE_FROZEN: Duration = Duration::from_secs(30);

/// A snapshot about to be taken.
pub(in super::super) struct Taking<'a> {
    ctx: &'a Ctx,
    vm: &'a Definition,
    /// What it is to be.
    wanted: Consistency,
    /// Less than this is taken back.
    pub(super) require: Option<Consistency>,
    /// What is noted of it.
    pub(super) record: Record,
    /// How long a freeze may take.
    pub(super) patience: Option<Duration>,
}

/// What was taken.
pub(super) struct Taken {
    /// What it is.
    pub(super) consistency: Consistency,
    /// Why it is less than was planned.
    pub(super) less: Option<String>,
}

impl<'a> Taking<'a> {
    pub(super) fn new(
        ctx: &'a Ctx,
        vm: &'a Definition,
        monitor: Option<&Qmp>,
        wanted: Option<Consistency>,
        name: &str,
    ) -> Self {
        let running = monitor.is_some();
        let wanted = wanted.unwrap_or(Consistency::Crash);
        let launch = ctx.paths(&vm.uuid).ok();
        let launch = launch.and_then(|paths| Launch::read(&paths));
        let record = Record {
            name: name.to_owned(),
            // What it is as long as nothing more was reached.
            consistency: Some(match wanted {
                Consistency::Offline if !running => wanted,
                _ => Consistency::Crash,
            }),
            layout: (wanted == Consistency::Memory).then(|| Layout::running(vm, launch.as_ref())),
            ..Record::default()
        };
        Self {
            ctx,
            vm,
            wanted,
            require: None,
            record,
            patience: None,
        }
    }

    /// Takes it.
    ///
    /// # Errors
    /// When there is none then. One that was killed or left its guest frozen stays written down.
    pub(super) async fn take(mut self, monitor: &mut Option<Qmp>, nodes: &[Node]) -> Result<Taken> {
        let ctx = self.ctx;
        let dir = ctx.store.dir(&self.vm.name)?;
        let quiet = self.wanted == Consistency::Filesystem && monitor.is_some();
        let memory = self.wanted == Consistency::Memory && monitor.is_some();
        let mut journal = Journal::begin(
            &dir,
            Change::SnapshotCreate {
                record: Box::new(self.record.clone()),
                frozen: quiet,
            },
        )?;
        journal.phase(Phase::Working)?;
        let (mut frozen, mut less) = (None, None);
        if quiet {
            match freeze::freeze(ctx, self.vm, self.patience).await? {
                Tried::Frozen(held) => frozen = Some(held),
                Tried::Thawed(error) => less = Some(error.message),
            }
        }
        if let (Some(why), Some(wanted)) = (&less, self.require)
            && !satisfies(Consistency::Crash, wanted)
        {
            journal.finish()?;
            return Err(Error::backend(format!(
                "no snapshot was taken: it would be crash, not {}: {why}",
                wanted.as_str()
            )));
        }
        let name = self.record.name.clone();
        let taken = match frozen {
            Some(held) => {
                let marking = reach(ctx, monitor).mark(nodes, &name, WHILE_FROZEN).await;
                // Whatever came of it, the guest goes on first.
                if held.thaw(ctx, self.vm).await? {
                    self.record.consistency = Some(Consistency::Filesystem);
                } else {
                    less = Some("the guest agent thawed its file systems too early".to_owned());
                }
                marking
            }
            None => reach(ctx, monitor).create(nodes, &name, memory).await,
        };
        let short = less.as_ref().zip(self.require);
        let short = short.filter(|(_, wanted)| !satisfies(Consistency::Crash, *wanted));
        let taken = match (taken, short) {
            (Ok(()), Some((why, wanted))) => {
                reach(ctx, monitor).delete(nodes, &name).await?;
                Err(Error::backend(format!(
                    "no snapshot was kept: it was crash, not {}: {why}",
                    wanted.as_str()
                )))
            }
            (taken, _) => taken,
        };
        if let Err(error) = taken {
            let mut reach = reach(ctx, monitor);
            // What one image has got already would block the name.
            let _ = reach.delete(nodes, &name).await;
            // Only a monitor that went away leaves it to doctor.
            if reach
                .list(nodes)
                .await
                .is_ok_and(|inside| inside.values().flatten().all(|i| i.tag != name))
            {
                journal.finish()?;
            }
            return Err(error);
        }
        journal.phase(Phase::Recording)?;
        let inside = reach(ctx, monitor).list(nodes).await?;
        let consistency = noted(&dir, &inside, self.record)?;
        journal.finish()?;
        told(
            ctx,
            self.vm,
            "SNAPSHOT_CREATED",
            format!("snapshot {} taken", shown(&name)),
        );
        Ok(Taken { consistency, less })
    }
}

/// Writes a snapshot that is in the images into the records. Says what it is.
pub(in super::super) fn noted(
    dir: &Path,
    inside: &Inside,
    mut record: Record,
) -> Result<Consistency> {
    let memory = inside
        .values()
        .flatten()
        .any(|i| i.tag == record.name && i.vm_state > 0);
    let consistency = if memory {
        Consistency::Memory
    } else {
        record.consistency.unwrap_or(Consistency::Crash)
    };
    if !memory {
        record.layout = None;
    }
    record.consistency = Some(consistency);
    let mut records = Records::load(dir)?;
    records.took(record);
    records.save(dir)?;
    Ok(consistency)
}
