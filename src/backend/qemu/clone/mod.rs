//! Another VM like this one: with copies of its disks, or with overlays of them.

pub mod identity;
mod plan;
mod run;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::definition::Definition;
use crate::backend::contract::{Changes, CloneRequest, Prepared, ReadCx, TaskCx};
use crate::link::child::Cmd;
use crate::model::{Instance, InstanceId, Outcome, Result};
use identity::Identity;

/// The clone family.
#[derive(Clone, Debug)]
pub struct Clone(pub Arc<Ctx>);

/// What `prepare` decided.
struct Cloning {
    source: InstanceId,
    request: CloneRequest,
    /// The VM to be.
    definition: Definition,
    /// What makes its files, in order: the plan shows exactly these.
    jobs: Vec<Job>,
    /// First-boot seed: from here, to there.
    seed: Option<(PathBuf, PathBuf)>,
    /// The TPM's memory: from here, to there.
    tpm: Option<(PathBuf, PathBuf)>,
    /// What its guest gets of its own at the first start.
    identity: Option<Identity>,
}

/// One command that makes a file.
struct Job {
    title: String,
    cmd: Cmd,
    to: PathBuf,
}

#[async_trait]
impl Changes<CloneRequest> for Clone {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: CloneRequest) -> Result<Prepared> {
        plan::prepare(&self.0, cx, &on.id, request).await
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let cloning: Cloning = prepared.take()?;
        run::run(&self.0, cx, &cloning, &prepared.token).await
    }
}
