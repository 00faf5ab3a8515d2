//! A backend change as one value, whatever its family.

use crate::backend::contract::{
    Backend, CreateRequest, PauseRequest, PowerRequest, Prepared, ReadCx, RemoveRequest,
    RestartMode, SnapshotRequest, TaskCx,
};
use crate::model::{Error, Instance, Operation, Outcome, Result};

/// A request of any family.
#[derive(Clone, Debug)]
pub enum Request {
    /// Start, stop, restart.
    Power(PowerRequest),
    /// Pause, resume.
    Pause(PauseRequest),
    /// Create.
    Create(Box<CreateRequest>),
    /// Delete.
    Remove(RemoveRequest),
    /// Snapshots.
    Snapshot(SnapshotRequest),
}

impl Request {
    /// The operation whose support decides.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Power(PowerRequest::Start) => Operation::Start,
            Self::Power(PowerRequest::Stop { force: false, .. }) => Operation::Stop,
            Self::Power(PowerRequest::Stop { force: true, .. }) => Operation::ForceStop,
            Self::Power(PowerRequest::Restart(RestartMode::Guest)) => Operation::Restart,
            Self::Power(PowerRequest::Restart(RestartMode::Force)) => Operation::Reset,
            Self::Power(PowerRequest::Restart(RestartMode::Cold)) => Operation::ColdRestart,
            Self::Pause(PauseRequest::Pause) => Operation::Pause,
            Self::Pause(PauseRequest::Resume) => Operation::Resume,
            Self::Create(_) => Operation::Create,
            Self::Remove(_) => Operation::Delete,
            Self::Snapshot(SnapshotRequest::Create { memory: false, .. }) => {
                Operation::SnapshotCreate
            }
            Self::Snapshot(SnapshotRequest::Create { memory: true, .. }) => {
                Operation::SnapshotMemory
            }
            Self::Snapshot(SnapshotRequest::Restore { .. }) => Operation::SnapshotRestore,
            Self::Snapshot(SnapshotRequest::Delete { .. }) => Operation::SnapshotDelete,
        }
    }

    /// Asks the backend what it would do.
    pub async fn prepare(
        &self,
        backend: &dyn Backend,
        cx: &ReadCx,
        on: &Instance,
    ) -> Result<Prepared> {
        match self.clone() {
            Self::Power(request) => family(backend.power())?.prepare(cx, on, request).await,
            Self::Pause(request) => family(backend.pause())?.prepare(cx, on, request).await,
            Self::Create(request) => family(backend.create())?.prepare(cx, on, *request).await,
            Self::Remove(request) => family(backend.remove())?.prepare(cx, on, request).await,
            Self::Snapshot(request) => family(backend.snapshots())?.prepare(cx, on, request).await,
        }
    }

    /// Does it.
    pub async fn run(
        &self,
        backend: &dyn Backend,
        cx: &TaskCx,
        prepared: Prepared,
    ) -> Result<Outcome> {
        match self {
            Self::Power(_) => family(backend.power())?.run(cx, prepared).await,
            Self::Pause(_) => family(backend.pause())?.run(cx, prepared).await,
            Self::Create(_) => family(backend.create())?.run(cx, prepared).await,
            Self::Remove(_) => family(backend.remove())?.run(cx, prepared).await,
            Self::Snapshot(_) => family(backend.snapshots())?.run(cx, prepared).await,
        }
    }
}

fn family<F: ?Sized>(family: Option<&F>) -> Result<&F> {
    family.ok_or_else(|| Error::unsupported("this backend cannot do that"))
}
