//! What a snapshot request would do, and why it may not.

use std::path::PathBuf;

use jiff::Timestamp;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::image;
use super::super::layout::Layout;
use super::super::resize::Sizes;
use super::inside::{self, Inside, Node};
use super::record::{Record, Records};
use super::{HIBERNATED, name_fault};
use crate::backend::contract::{Prepared, TakeSnapshot, free_name, satisfies};
use crate::model::{Consistency, Error, Instance, Refusal, Result, Step, encode_segment, shown};

/// Taken again by its rule within this time, a snapshot is there already.
const SAME_RUN: i64 = 60;

/// A VM as a plan sees it.
pub(super) struct Plan<'a> {
    pub(super) ctx: &'a Ctx,
    pub(super) on: &'a Instance,
    pub(super) vm: &'a Definition,
    pub(super) nodes: &'a [Node],
    pub(super) running: bool,
    pub(super) inside: &'a Inside,
    pub(super) records: &'a Records,
    /// What a snapshot without RAM is at best, and why not more.
    pub(super) outlook: Outlook,
    /// Disks of its folder that are detached, and the snapshots in them.
    pub(super) detached: Vec<(PathBuf, Vec<String>)>,
    /// What it would be started with.
    pub(super) accel: &'a str,
}

/// How consistent a snapshot without RAM can be.
pub(super) struct Outlook {
    /// This.
    pub(super) best: Consistency,
    /// Why it is not more, where more was asked for.
    pub(super) why: Option<String>,
}

impl Plan<'_> {
    fn has(&self, node: &str, tag: &str) -> bool {
        self.inside
            .get(node)
            .is_some_and(|list| list.iter().any(|i| i.tag == tag))
    }

    fn having(&self, tag: &str) -> usize {
        self.nodes
            .iter()
            .filter(|(node, _)| self.has(node, tag))
            .count()
    }

    fn has_memory(&self, tag: &str) -> bool {
        self.inside
            .values()
            .flatten()
            .any(|i| i.tag == tag && i.vm_state > 0)
    }

    fn offline(&self, title: &str, what: &str, tag: &str) -> Result<Vec<Step>> {
        let tool = image::tool(&self.ctx.env)?;
        Ok(self
            .nodes
            .iter()
            .map(|(node, path): &(String, PathBuf)| {
                let cmd = inside::offline_cmd(&tool, what, tag, path);
                Step::new(format!("{title} {node}"), cmd.shown())
            })
            .collect())
    }

    fn take(&self, name: &str, got: Consistency) -> Result<Vec<Step>> {
        let undo = format!(
            "corral snapshot delete {}@{}",
            self.on.id,
            encode_segment(name)
        );
        let tag = shown(name);
        if !self.running {
            let steps = self.offline("Mark", "-c", name)?;
            return Ok(steps.into_iter().map(|s| s.undo(undo.clone())).collect());
        }
        if got == Consistency::Memory {
            let native = format!("QMP snapshot-save tag={tag} devices={}", self.devices());
            return Ok(vec![Step::new("Save RAM and disks", native).undo(undo)]);
        }
        let mark = Step::new(
            "Mark all disks at one moment",
            format!(
                "QMP transaction blockdev-snapshot-internal-sync name={tag} devices={}",
                self.devices()
            ),
        )
        .undo(undo);
        if got != Consistency::Filesystem {
            return Ok(vec![mark]);
        }
        Ok(vec![
            Step::new("Freeze its file systems", "agent guest-fsfreeze-freeze"),
            mark,
            Step::new("Thaw them", "agent guest-fsfreeze-thaw"),
        ])
    }

    /// Every name that is there.
    fn tags(&self) -> impl Iterator<Item = &str> {
        self.inside.values().flatten().map(|i| i.tag.as_str())
    }

    /// When a snapshot was taken, by its image's word.
    fn taken_at(&self, name: &str) -> Option<Timestamp> {
        let mut all = self.inside.values().flatten();
        let seconds = all.find(|i| i.tag == name)?.seconds?;
        Timestamp::from_second(seconds).ok()
    }

    fn devices(&self) -> String {
        self.nodes
            .iter()
            .map(|(node, _)| node.as_str())
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Why a snapshot of this name cannot be taken.
    fn cannot_take(&self, name: &str, memory: bool) -> Option<Refusal> {
        if let Some(why) = name_fault(name) {
            return Some(Refusal::new(why, Some("Choose another name.".to_owned())));
        }
        if self.having(name) > 0 {
            return Some(Refusal::new(
                format!("there is already a snapshot called \"{name}\""),
                Some(format!(
                    "Choose another name, or delete it: corral snapshot delete {}@{}",
                    self.on.id,
                    crate::model::encode_segment(name)
                )),
            ));
        }
        let dir = self.nodes.first().and_then(|(_, path)| path.parent());
        if memory
            && let Some(dir) = dir
            && let Err(e) = image::room(dir, self.vm.memory)
        {
            return Some(Refusal::from(&e));
        }
        None
    }

    /// What it will be, or why it would not be what is required.
    fn promise(&self, take: &TakeSnapshot) -> std::result::Result<Consistency, Refusal> {
        if take.memory && !self.running {
            return Err(Refusal::new(
                format!("{} is not running: there is no RAM to save", self.on.id),
                Some("Leave --with-memory out.".to_owned()),
            ));
        }
        let got = if take.memory {
            Consistency::Memory
        } else {
            self.outlook.best
        };
        match take.require {
            Some(wanted) if !satisfies(got, wanted) => {
                let why = match (&self.outlook.why, wanted) {
                    (_, Consistency::Offline) => "it is running".to_owned(),
                    (Some(why), _) => why.clone(),
                    (None, _) => "it was not asked for".to_owned(),
                };
                Err(Refusal::new(
                    format!(
                        "the snapshot would be {}, not {}: {why}",
                        got.as_str(),
                        wanted.as_str()
                    ),
                    Some(match wanted {
                        Consistency::Offline => {
                            format!("Stop it first: corral stop {}.", self.on.id)
                        }
                        _ => "Mend that, or require less.".to_owned(),
                    }),
                ))
            }
            _ => Ok(got),
        }
    }

    /// The plan, and the name that the snapshot gets.
    pub(super) fn create(&self, take: &TakeSnapshot) -> Result<(Prepared, Take)> {
        let name = take.name_after(self.tags().map(|tag| {
            let record = self.records.get(tag);
            (tag, record.and_then(|record| record.policy.as_deref()))
        }));
        let refuse = |refusal: Refusal| {
            let mut prepared = Prepared::new("", Vec::new());
            prepared.refusals.push(refusal);
            Ok((prepared, Take::default()))
        };
        if let Some(done) = self.taken_already(take, &name) {
            return Ok((done, Take::default()));
        }
        if let Some(refusal) = self.cannot_take(&name, take.memory && self.running) {
            return refuse(refusal);
        }
        let got = match self.promise(take) {
            Ok(got) => got,
            Err(refusal) => return refuse(refusal),
        };
        let mut prepared = Prepared::new("", self.take(&name, got)?);
        prepared.notes.push(match got {
            Consistency::Memory => {
                "Consistency: memory. The guest stands still while its RAM is saved".to_owned()
            }
            Consistency::Filesystem => {
                "Consistency: filesystem. The guest's writes wait meanwhile".to_owned()
            }
            Consistency::Crash => match &self.outlook.why {
                Some(why) => format!("Consistency: crash, as after a power cut: {why}"),
                None => "Consistency: crash, as after a power cut".to_owned(),
            },
            Consistency::Offline => "Consistency: offline".to_owned(),
        });
        if self.vm.tpm && got != Consistency::Memory {
            prepared
                .notes
                .push("The TPM's keys are not in it".to_owned());
        }
        prepared.notes.extend(take.ending(Timestamp::now()));
        let doomed = self.beyond(take);
        prepared.deletes = !doomed.is_empty();
        for old in &doomed {
            prepared.steps.extend(self.drop_steps(old)?);
            prepared
                .losses
                .push(format!("the state kept as \"{}\"", shown(old)));
        }
        if let (Some(keep), Some(policy)) = (take.keep, &take.policy) {
            prepared.notes.push(format!(
                "Of those named by {} the newest {keep} stay",
                shown(policy)
            ));
        }
        let take = Take {
            name,
            consistency: Some(got),
            doomed,
        };
        Ok((prepared, take))
    }

    /// The same one of the same rule, taken a moment ago: cron may run twice.
    fn taken_already(&self, take: &TakeSnapshot, name: &str) -> Option<Prepared> {
        let record = self.records.get(name)?;
        if take.policy.is_none() || record.policy != take.policy {
            return None;
        }
        if self.having(name) < self.nodes.len() {
            return None;
        }
        let got = if self.has_memory(name) {
            Consistency::Memory
        } else {
            record.consistency?
        };
        if take.require.is_some_and(|wanted| !satisfies(got, wanted)) {
            return None;
        }
        let now = Timestamp::now().as_second();
        let age = now.checked_sub(self.taken_at(name)?.as_second())?;
        (0..SAME_RUN).contains(&age).then(|| {
            let said = format!("{} was taken just now, {}", shown(name), got.as_str());
            Prepared::unchanged("", said)
        })
    }

    /// Those of the same rule that are too many once the new one is there, oldest first.
    fn beyond(&self, take: &TakeSnapshot) -> Vec<String> {
        let (Some(keep), Some(_)) = (take.keep, &take.policy) else {
            return Vec::new();
        };
        let mut same: Vec<&Record> = self
            .records
            .snapshots
            .iter()
            .filter(|record| record.policy == take.policy && self.having(&record.name) > 0)
            .collect();
        // The order of the list decides where a clock went back.
        same.sort_by_key(|record| self.taken_at(&record.name));
        let most = keep.saturating_sub(1);
        let many = same.len().saturating_sub(most);
        same.iter().take(many).map(|r| r.name.clone()).collect()
    }

    fn drop_steps(&self, name: &str) -> Result<Vec<Step>> {
        if self.running {
            return Ok(vec![Step::new(
                format!("Delete {} from all disks", shown(name)),
                format!(
                    "QMP snapshot-delete tag={} devices={}",
                    shown(name),
                    self.devices()
                ),
            )]);
        }
        self.offline(&format!("Delete {} from", shown(name)), "-d", name)
    }

    pub(super) fn restore(
        &self,
        name: &str,
        stop: bool,
        start: bool,
        keep: Option<&str>,
    ) -> Result<(Prepared, Back)> {
        let memory = self.has_memory(name);
        let keep = keep.map(|keep| free_name(keep, self.tags()));
        let back = Back {
            memory,
            keep: keep.clone(),
            discard: self.hibernated(),
        };
        let refuse = |message: String, remedy: Option<String>| {
            Ok((Prepared::refused("", message, remedy), Back::default()))
        };
        let id = &self.on.id;
        let having = self.having(name);
        if having == 0 {
            let error =
                Error::not_found(format!("{id} has no snapshot called \"{}\"", shown(name)));
            let error = error.remedy(format!("List them: corral snapshot list {id}"));
            return Ok((Prepared::failed("", &error), Back::default()));
        }
        if having < self.nodes.len() {
            let lacks: Vec<&str> = self
                .nodes
                .iter()
                .map(|(node, _)| node.as_str())
                .filter(|node| !self.has(node, name))
                .collect();
            return refuse(
                format!(
                    "the snapshot \"{}\" is not in {}, which came later or was changed by other means",
                    shown(name),
                    lacks.join(", ")
                ),
                Some(lacking(id, self.vm, &lacks)),
            );
        }
        if self.running && !stop {
            return refuse(
                format!(
                    "{id} is running; stop it first: corral stop {id} (or add --stop --start)."
                ),
                None,
            );
        }
        if memory
            && start
            && let Some(layout) = self.records.get(name).and_then(|r| r.layout.as_ref())
        {
            let fitted = layout.fitted(self.vm);
            let unlike = layout.unlike(&Layout::of(&fitted, self.accel));
            if !unlike.is_empty() {
                return refuse(
                    format!(
                        "the RAM saved in \"{}\" does not fit the machine as it is: {}",
                        shown(name),
                        unlike.join("; ")
                    ),
                    Some(
                        "Change that back first. Or without --start: its disks go back, its RAM is left out."
                            .to_owned(),
                    ),
                );
            }
        }
        let mut steps = Vec::new();
        if let Some(keep) = &keep {
            if let Some(refusal) = self.cannot_take(keep, self.running) {
                return refuse(refusal.message, refusal.remedy);
            }
            let got = if self.running {
                Consistency::Memory
            } else {
                self.outlook.best
            };
            steps.extend(self.take(keep, got)?);
        }
        if self.running {
            steps.push(Step::new("Power it off", "QMP quit"));
        }
        steps.extend(self.offline("Take back", "-a", name)?);
        if back.discard {
            steps.extend(self.offline("Delete the saved state from", "-d", HIBERNATED)?);
        }
        if start && memory {
            steps.push(Step::new("Start it halted", "qemu-system-x86_64 … -S"));
            steps.push(Step::new(
                "Load its RAM",
                format!(
                    "QMP snapshot-load tag={} devices={}",
                    shown(name),
                    self.devices()
                ),
            ));
            steps.push(Step::new("Let its CPUs go on", "QMP cont"));
        } else if start {
            steps.push(Step::new("Start it", "qemu-system-x86_64 …"));
        }
        let mut prepared = Prepared::new("", steps);
        let layout = self.records.get(name).and_then(|r| r.layout.as_ref());
        if let Some(sizes) = layout.and_then(|layout| layout.sizes.as_ref())
            && memory
            && start
            && *sizes != Sizes::of(self.vm)
        {
            prepared.notes.push(format!(
                "Its size goes back with its RAM: {}",
                sizes.words()
            ));
        }
        for file in self.left_in(name) {
            prepared.notes.push(format!(
                "{file} was in it too, is detached and does not come back; before, to have it back: corral disk add {id} --image {file}"
            ));
        }
        let since = self.taken_at(name);
        if keep.is_none() {
            prepared.losses.push(match since {
                Some(at) => format!("everything written since {at}"),
                None => "everything written since it was taken".to_owned(),
            });
        }
        for (node, path) in self.nodes {
            let sizes = image::snapshot_sizes(path);
            let then = sizes.iter().find(|(tag, _)| tag == name);
            let now = image::header(path).and_then(|header| header.size);
            if let Some(((_, then), now)) = then.zip(now)
                && *then < now
            {
                prepared.losses.push(format!(
                    "what lies beyond {then} of {node}, which was grown to {now} since"
                ));
            }
        }
        if back.discard {
            prepared
                .losses
                .push("the RAM that was saved when it was hibernated".to_owned());
        }
        if memory && !start {
            prepared.notes.push(
                "Without --start it boots from the disk: the saved RAM is not used".to_owned(),
            );
        }
        let mut newer: Vec<&str> = self
            .tags()
            .filter(|tag| *tag != name && *tag != HIBERNATED)
            .filter(|tag| self.taken_at(tag) > since)
            .chain(self.records.children(name))
            .collect();
        newer.sort_unstable();
        newer.dedup();
        if !newer.is_empty() {
            let newer: Vec<_> = newer.into_iter().map(shown).collect();
            prepared
                .notes
                .push(format!("Newer snapshots stay: {}", newer.join(", ")));
        }
        Ok((prepared, back))
    }

    /// Detached files that hold a snapshot.
    fn left_in(&self, name: &str) -> Vec<String> {
        let holds = |tags: &Vec<String>| tags.iter().any(|tag| tag == name);
        let files = self.detached.iter().filter(|(_, tags)| holds(tags));
        files.map(|(file, _)| image::quoted(file)).collect()
    }

    /// It is off with its RAM saved.
    fn hibernated(&self) -> bool {
        !self.running && self.having(HIBERNATED) > 0
    }

    pub(super) fn delete(&self, names: &[String]) -> Result<Prepared> {
        let (there, missing): (Vec<&String>, Vec<&String>) = names
            .iter()
            .partition(|name| name.as_str() != HIBERNATED && self.having(name) > 0);
        let missing: Vec<String> = missing
            .into_iter()
            .map(|name| format!("there is no snapshot called \"{}\"", shown(name)))
            .collect();
        if there.is_empty() {
            return Ok(Prepared::unchanged("", missing.join("; ")));
        }
        let mut prepared = Prepared::new("", Vec::new());
        for name in &there {
            prepared.steps.extend(self.drop_steps(name)?);
            prepared
                .losses
                .push(format!("the state kept as \"{}\"", shown(name)));
            for file in self.left_in(name) {
                prepared.notes.push(format!(
                    "{0} stays in {file}, which is detached; to delete it there too: qemu-img snapshot -d {0} {file}",
                    shown(name)
                ));
            }
            let mut children = self.records.children(name);
            children.retain(|child| !names.iter().any(|name| name == child));
            if !children.is_empty() {
                prepared.notes.push(format!(
                    "Taken on top of it, stay whole: {}",
                    children.join(", ")
                ));
            }
        }
        prepared.notes.extend(missing);
        prepared
            .notes
            .push("The VM's disks and its present state stay".to_owned());
        Ok(prepared)
    }
}

/// What a create decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Take {
    /// Its name.
    pub(super) name: String,
    /// What it is to be; `None` where nothing is taken.
    pub(super) consistency: Option<Consistency>,
    /// What goes once it is taken.
    pub(super) doomed: Vec<String>,
}

/// What a restore decided.
#[derive(Clone, Debug, Default)]
pub(super) struct Back {
    /// The snapshot holds RAM.
    pub(super) memory: bool,
    /// How the present is kept.
    pub(super) keep: Option<String>,
    /// It is hibernated, and what was saved then goes.
    pub(super) discard: bool,
}

/// A disk that was added after a snapshot was taken can go again; nothing else that lacks it can.
fn lacking(id: &crate::model::InstanceId, vm: &Definition, lacks: &[&str]) -> String {
    let disk = |name: &&str| vm.disks.iter().any(|disk| disk.name == **name);
    match lacks.iter().find(|name| disk(name)) {
        Some(name) => format!(
            "It was taken before {0} was attached. Detach that first: corral disk remove {id} --disk {0}. Or delete the snapshot.",
            shown(name)
        ),
        None => "Delete it: it holds only a part of the machine.".to_owned(),
    }
}
