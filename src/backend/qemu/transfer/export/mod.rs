//! The export family.

mod plan;
mod run;

pub use plan::{access, plan};
pub use run::run;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::convert::Access;
use super::form::Form;
use super::pieces::Piece;
use super::target::{self};
use super::{live, parts};
use crate::backend::contract::{Changes, ExportRequest, Prepared, ReadCx, TaskCx};
use crate::backend::qemu::change::Seen;
use crate::backend::qemu::ctx::Ctx;
use crate::backend::qemu::image::{self};
use crate::model::{Consistency, Instance, InstanceId, Outcome, Result, shown};
/// The export family.
#[derive(Clone, Debug)]
pub struct Export(pub Arc<Ctx>);

/// What `prepare` decided.
#[derive(Clone, Debug)]
pub struct Exporting {
    /// The VM.
    pub id: InstanceId,
    /// What it becomes.
    pub form: Form,
    /// Where.
    pub to: PathBuf,
    /// Replaces what is there.
    pub overwrite: bool,
    /// How its images are read.
    pub access: Access,
    /// Those that are written out.
    pub pieces: Vec<Piece>,
    /// What its disks hold of a guest that ran.
    pub consistency: Consistency,
    /// The guest ran when it was planned.
    pub ran: bool,
    /// What is read, for an export that goes on.
    pub source: String,
}

impl Exporting {
    /// The snapshot it is from.
    fn snapshot(&self) -> Option<&str> {
        match &self.access {
            Access::Snapshot(tag) => Some(tag),
            _ => None,
        }
    }

    fn live(&self) -> Option<live::Held> {
        matches!(self.access, Access::Live(_)).then_some(live::Held {
            frozen: self.consistency == Consistency::Filesystem,
            ran: self.ran,
        })
    }

    /// Whether a disk is written in parts: where the next run finds the same source again.
    fn in_parts(&self, piece: &Piece) -> bool {
        self.form == Form::Folder && self.access == Access::Files && parts::apply(piece)
    }

    fn total(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.size.0).sum()
    }
}

#[async_trait]
impl Changes<ExportRequest> for Export {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: ExportRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let to = image::absolute(&request.to);
        let form = match Form::of(&to, request.format.as_deref()) {
            Ok(form) => form,
            Err(e) => return Ok(Prepared::failed(seen.token(), &e)),
        };
        let lost = match target::fault_of(&to, form, request.overwrite) {
            Ok(lost) => lost,
            Err(e) => return Ok(Prepared::failed(seen.token(), &e)),
        };
        plan(&self.0, &seen, form, to, request.snapshot.as_deref(), lost).await
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let exporting: Exporting = prepared.take()?;
        let (portable, size) = run(&self.0, cx, &exporting, &prepared.token).await?;
        let mut outcome = Outcome::changed(format!(
            "{} is written to {} ({size})",
            exporting.id,
            shown(&exporting.to.to_string_lossy())
        ));
        outcome.consistency = Some(portable.consistency);
        Ok(outcome)
    }
}
