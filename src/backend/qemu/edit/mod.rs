//! The definition as its text: what is edited is `vm.toml`, byte for byte.

mod check;
mod place;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use similar::{ChangeTag, TextDiff};

use super::ctx::Ctx;
use super::definition::{Definition, FORMAT};
use super::image::quoted;
use super::live;
use super::store::{DEFINITION, LONGEST, Store};
use super::{locks, process};
use crate::backend::contract::{Changes, EditNative, EditRequest, Prepared, ReadCx, TaskCx};
use crate::link::files::{fault, write_atomically};
use crate::model::{
    Error, Instance, InstanceId, NativeFormat, NativeText, Outcome, Result, State, Step, shown,
};
use check::{Check, foreign};

/// More lines than this are counted, not listed.
const LINES: usize = 60;

/// The native-definition family.
#[derive(Clone, Debug)]
pub struct Edit(pub Arc<Ctx>);

struct Plan {
    id: InstanceId,
    text: String,
    vm: Definition,
}

impl Edit {
    fn file(&self, id: &InstanceId) -> Result<PathBuf> {
        Ok(self.0.store.dir(id.key())?.join(DEFINITION))
    }

    /// The text on disk, readable as a definition or not: to mend it is what this is for.
    fn text(&self, id: &InstanceId) -> Result<String> {
        let file = self.file(id)?;
        self.0.store.read_text(id.key()).map_err(|mut error| {
            if error.kind == crate::model::ErrorKind::NotFound && file.exists() {
                error.message = format!("{} cannot be read", file.display());
            }
            error
        })
    }
}

/// Says which text it is.
fn token(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[async_trait]
impl EditNative for Edit {
    async fn native(&self, _: &ReadCx, on: &Instance) -> Result<NativeText> {
        let text = self.text(&on.id)?;
        Ok(NativeText {
            format: NativeFormat::Toml,
            token: token(&text),
            text,
        })
    }
}

#[async_trait]
impl Changes<EditRequest> for Edit {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: EditRequest) -> Result<Prepared> {
        let (ctx, id) = (&self.0, &on.id);
        let now = match self.text(id) {
            Ok(now) => now,
            Err(error) => return Ok(Prepared::failed("", &error)),
        };
        let at = token(&now);
        if request.text == now {
            return Ok(Prepared::unchanged(
                at,
                format!("{id} is written so already"),
            ));
        }
        if request.base != at {
            return Ok(Prepared::refused(
                at,
                format!("the definition of {id} was changed since it was opened"),
                Some(format!("Look at it and edit it again: corral edit {id}")),
            ));
        }
        if request.text.len() as u64 > LONGEST {
            let error = Error::invalid("a definition of more than 1 MiB is none");
            return Ok(Prepared::failed(at, &error));
        }
        let old = ctx.store.load(id.key());
        // A text that nobody could have saved is edited too, so that it can be mended.
        let check = Check {
            ctx,
            name: id.key(),
            old: old.as_ref().ok(),
            old_text: &now,
            text: &request.text,
            label: &request.label,
        };
        let (vm, mut notes) = match check.read().await {
            Ok(read) => read,
            Err(error) => return Ok(Prepared::failed(at, &error)),
        };
        if let Some(why) = newer(&now) {
            let remedy = Some("Use the newer corral.".to_owned());
            return Ok(Prepared::refused(at, why, remedy));
        }
        let limit = cx.left().min(process::MONITOR);
        let live = live::look(ctx, &vm, limit).await;
        let starts_anew = old
            .as_ref()
            .map_or(true, |old| Store::start_hash(old) != Store::start_hash(&vm));
        if live.state == State::Hibernated && old.is_ok() && starts_anew {
            return Ok(Prepared::refused(
                at,
                format!("{id} is hibernated, and wakes up only with the hardware it had"),
                Some(format!(
                    "Start it first: corral start {id}. Or give its saved state up: corral start {id} --discard-state"
                )),
            ));
        }
        if live.is_active() && starts_anew {
            notes.push(format!(
                "{id} is {}: what is about its hardware takes effect at its next start: corral restart --cold {id}",
                live.state
            ));
        }
        let file = self.file(id)?;
        let mut steps = vec![Step::new(
            "Write the definition",
            format!("write {}", quoted(&file)),
        )];
        steps.extend(difference(&now, &request.text));
        let mut prepared = Prepared::new(at, steps);
        prepared.notes = notes;
        Ok(prepared.with(Plan {
            id: id.clone(),
            text: request.text,
            vm,
        }))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let plan: Plan = prepared.take()?;
        let ctx = &self.0;
        let name = plan.id.key();
        let _lock = locks::vm(ctx, &plan.vm.uuid, name).await?;
        super::op::unfinished(&ctx.store.dir(name)?)?;
        if token(&self.text(&plan.id)?) != prepared.token {
            return Err(Error::conflict(format!(
                "the definition of {} changed meanwhile. Nothing was done",
                plan.id
            ))
            .remedy("Look at it and ask again."));
        }
        cx.checkpoint()?;
        let _files = locks::files(ctx).await?;
        // The text is still the one it was checked against; who has its disks may not be.
        let old = ctx.store.load(name).ok();
        let taken = foreign(&ctx.store, name, old.as_ref(), &plan.vm)?;
        if let Some((_, what)) = taken.first() {
            return Err(Error::conflict(format!("{what}. Nothing was done"))
                .remedy("Look at it and ask again."));
        }
        cx.step("Write the definition");
        let file = self.file(&plan.id)?;
        write_atomically(&file, plan.text.as_bytes())?;
        // What is on disk now must be what was checked.
        let written = fs::read(&file).map_err(|e| fault("read", &file, e))?;
        if written != plan.text.as_bytes() {
            return Err(Error::backend(format!(
                "{} does not hold what was written",
                file.display()
            )));
        }
        Ok(Outcome::changed(format!("{} is written anew", plan.id)))
    }
}

/// Why a text must not be written over.
fn newer(text: &str) -> Option<String> {
    let table: toml::Table = text.parse().ok()?;
    let format = table.get("format")?.as_integer()?;
    (format > i64::from(FORMAT)).then(|| {
        format!(
            "it was written by a newer corral (format {format}, this one knows {FORMAT}): it can be looked at, not changed"
        )
    })
}

/// The lines that go and come.
fn difference(old: &str, new: &str) -> Vec<Step> {
    let diff = TextDiff::from_lines(old, new);
    let mut steps: Vec<Step> = diff
        .iter_all_changes()
        .filter_map(|change| {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => return None,
            };
            let line = change.value().trim_end_matches(['\n', '\r']);
            Some(Step::new(format!("{sign} {}", shown(line)), ""))
        })
        .collect();
    if steps.len() > LINES {
        let more = steps.len() - LINES;
        steps.truncate(LINES);
        steps.push(Step::new(format!("… and {more} more lines"), ""));
    }
    steps
}
