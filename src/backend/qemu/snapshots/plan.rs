//! What a snapshot request would do, and why it may not.

use std::path::PathBuf;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::image;
use super::inside::{self, Inside, Node};
use super::name_fault;
use super::record::Records;
use crate::backend::contract::Prepared;
use crate::model::{Error, Instance, Refusal, Result, Step, shown};

/// A VM as a plan sees it.
pub(super) struct Plan<'a> {
    pub(super) ctx: &'a Ctx,
    pub(super) on: &'a Instance,
    pub(super) vm: &'a Definition,
    pub(super) nodes: &'a [Node],
    pub(super) running: bool,
    pub(super) inside: &'a Inside,
    pub(super) records: &'a Records,
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

    fn take(&self, name: &str, memory: bool) -> Result<Vec<Step>> {
        let undo = format!(
            "corral snapshot delete {}@{}",
            self.on.id,
            crate::model::encode_segment(name)
        );
        let tag = shown(name);
        let steps = if self.running && memory {
            vec![Step::new(
                "Save RAM and disks",
                format!("QMP snapshot-save tag={tag} devices={}", self.devices()),
            )]
        } else if self.running {
            vec![Step::new(
                "Mark all disks at one moment",
                format!(
                    "QMP transaction blockdev-snapshot-internal-sync name={tag} devices={}",
                    self.devices()
                ),
            )]
        } else {
            self.offline("Mark", "-c", name)?
        };
        Ok(steps
            .into_iter()
            .map(|step| step.undo(undo.clone()))
            .collect())
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

    pub(super) fn create(&self, name: &str, memory: bool) -> Result<Prepared> {
        if let Some(refusal) = self.cannot_take(name, memory && self.running) {
            return Ok(Prepared::refused("", refusal.message, refusal.remedy));
        }
        if memory && !self.running {
            return Ok(Prepared::refused(
                "",
                format!("{} is not running: there is no RAM to save", self.on.id),
                Some("Leave --with-memory out.".to_owned()),
            ));
        }
        let mut prepared = Prepared::new("", self.take(name, memory)?);
        prepared.notes.push(match (self.running, memory) {
            (true, true) => {
                "Consistency: memory. The guest stands still while its RAM is saved".to_owned()
            }
            (true, false) => "Consistency: crash, as after a power cut".to_owned(),
            (false, _) => "Consistency: offline".to_owned(),
        });
        if self.vm.tpm && !(self.running && memory) {
            prepared
                .notes
                .push("The TPM's keys are not in it".to_owned());
        }
        Ok(prepared)
    }

    pub(super) fn restore(
        &self,
        name: &str,
        stop: bool,
        start: bool,
        keep: Option<&str>,
    ) -> Result<(Prepared, bool)> {
        let memory = self.has_memory(name);
        let refuse = |message: String, remedy: Option<String>| {
            Ok((Prepared::refused("", message, remedy), memory))
        };
        let id = &self.on.id;
        let having = self.having(name);
        if having == 0 {
            let error =
                Error::not_found(format!("{id} has no snapshot called \"{}\"", shown(name)));
            let error = error.remedy(format!("List them: corral snapshot list {id}"));
            return Ok((Prepared::failed("", &error), memory));
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
                    "the snapshot \"{}\" is not in {}",
                    shown(name),
                    lacks.join(", ")
                ),
                Some("Delete it: it holds only a part of the machine.".to_owned()),
            );
        }
        if self.running && !stop {
            return refuse(
                format!("{id} is running"),
                Some(format!(
                    "Stop it first: corral stop {id} (or add --stop --start)."
                )),
            );
        }
        let mut steps = Vec::new();
        if let Some(keep) = keep {
            if let Some(refusal) = self.cannot_take(keep, self.running) {
                return refuse(refusal.message, refusal.remedy);
            }
            steps.extend(self.take(keep, true)?);
        }
        if self.running {
            steps.push(Step::new("Power it off", "QMP quit"));
        }
        steps.extend(self.offline("Take back", "-a", name)?);
        if start {
            steps.push(Step::new("Start it", "qemu-system-x86_64 …"));
            if memory {
                steps.push(Step::new(
                    "Load its RAM",
                    format!(
                        "QMP snapshot-load tag={} devices={}",
                        shown(name),
                        self.devices()
                    ),
                ));
            }
        }
        let mut prepared = Prepared::new("", steps);
        if keep.is_none() {
            let since = self
                .inside
                .values()
                .flatten()
                .find(|i| i.tag == name)
                .and_then(|i| i.seconds);
            let since = since.and_then(|s| jiff::Timestamp::from_second(s).ok());
            prepared.losses.push(match since {
                Some(at) => format!("everything written since {at}"),
                None => "everything written since it was taken".to_owned(),
            });
        }
        if memory && !start {
            prepared.notes.push(
                "Without --start it boots from the disk: the saved RAM is not used".to_owned(),
            );
        }
        let others = self.records.children(name);
        if !others.is_empty() {
            prepared
                .notes
                .push(format!("Newer snapshots stay: {}", others.join(", ")));
        }
        Ok((prepared, memory))
    }

    pub(super) fn delete(&self, name: &str) -> Result<Prepared> {
        if self.having(name) == 0 {
            return Ok(Prepared::unchanged(
                "",
                format!("there is no snapshot called \"{}\"", shown(name)),
            ));
        }
        let steps = if self.running {
            vec![Step::new(
                "Delete it from all disks",
                format!(
                    "QMP snapshot-delete tag={} devices={}",
                    shown(name),
                    self.devices()
                ),
            )]
        } else {
            self.offline("Delete it from", "-d", name)?
        };
        let mut prepared = Prepared::new("", steps);
        prepared
            .losses
            .push(format!("the state kept as \"{}\"", shown(name)));
        let children = self.records.children(name);
        if !children.is_empty() {
            prepared.notes.push(format!(
                "Taken on top of it, stay whole: {}",
                children.join(", ")
            ));
        }
        prepared
            .notes
            .push("The VM's disks and its present state stay".to_owned());
        Ok(prepared)
    }
}
