//! A change as one value, whatever its family.

use super::{
    AutostartRequest, Backend, BackupRequest, CloneRequest, CreateRequest, DiskMoveRequest,
    DiskRequest, EditRequest, ExportRequest, FilesRequest, HibernateRequest, ImageRequest,
    ImportRequest, MediaRequest, MigrateRequest, NicRequest, NoteRequest, PauseRequest,
    PowerRequest, Prepared, PublishRequest, ReadCx, RemoveRequest, RenameRequest, ResizeRequest,
    RestartMode, SendKeyRequest, SnapshotRequest, TagsRequest, TaskCx, TemplateRequest,
    UnlockRequest,
};
use crate::model::{Error, Instance, Operation, Outcome, Result};

/// One line per family of changes: variant, request, accessor, and the operation whose support decides.
macro_rules! families {
    ($($variant:ident($request:ty) => $accessor:ident, |$r:ident| $operation:expr;)*) => {
        /// A request of any family.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "one per target, never a list in memory for long")]
        pub enum Request {
            $(#[allow(missing_docs, reason = "named for their families")] $variant($request),)*
        }

        impl Request {
            /// The operation whose support decides.
            pub fn operation(&self) -> Operation {
                match self {
                    $(Self::$variant($r) => $operation,)*
                }
            }

            /// Asks the backend what it would do.
            pub async fn prepare(
                &self,
                backend: &dyn Backend,
                cx: &ReadCx,
                on: &Instance,
            ) -> Result<Prepared> {
                let families = backend.families();
                match self.clone() {
                    $(Self::$variant(request) => {
                        there(families.$accessor())?.prepare(cx, on, request).await
                    })*
                }
            }

            /// Does it.
            pub async fn run(
                &self,
                backend: &dyn Backend,
                cx: &TaskCx,
                prepared: Prepared,
            ) -> Result<Outcome> {
                let families = backend.families();
                match self {
                    $(Self::$variant(_) => there(families.$accessor())?.run(cx, prepared).await,)*
                }
            }
        }
    };
}

families! {
    Power(PowerRequest) => power, |r| match r {
        PowerRequest::Start | PowerRequest::StartFresh => Operation::Start,
        PowerRequest::Stop { force: false, .. } => Operation::Stop,
        PowerRequest::Stop { force: true, .. } => Operation::ForceStop,
        PowerRequest::Restart(RestartMode::Guest) => Operation::Restart,
        PowerRequest::Restart(RestartMode::Force) => Operation::Reset,
        PowerRequest::Restart(RestartMode::Cold) => Operation::ColdRestart,
    };
    Pause(PauseRequest) => pause, |r| match r {
        PauseRequest::Pause => Operation::Pause,
        PauseRequest::Resume => Operation::Resume,
    };
    Hibernate(HibernateRequest) => hibernate, |_r| Operation::Hibernate;
    Create(CreateRequest) => create, |_r| Operation::Create;
    Remove(RemoveRequest) => remove, |_r| Operation::Delete;
    Rename(RenameRequest) => rename, |_r| Operation::Rename;
    Clone(CloneRequest) => clone_instance, |r| match r {
        CloneRequest { linked: false, .. } => Operation::Clone,
        CloneRequest { linked: true, .. } => Operation::LinkedClone,
    };
    Template(TemplateRequest) => template, |_r| Operation::Template;
    Tags(TagsRequest) => tags, |_r| Operation::Tag;
    Note(NoteRequest) => notes, |_r| Operation::Note;
    Autostart(AutostartRequest) => autostart, |_r| Operation::Autostart;
    Snapshot(SnapshotRequest) => snapshots, |r| match r {
        SnapshotRequest::Create(take) if take.memory => Operation::SnapshotMemory,
        SnapshotRequest::Create(_) => Operation::SnapshotCreate,
        SnapshotRequest::Restore { .. } => Operation::SnapshotRestore,
        SnapshotRequest::Delete { .. } => Operation::SnapshotDelete,
    };
    Resize(ResizeRequest) => resize, |_r| Operation::Resize;
    Disk(DiskRequest) => disks, |r| match r {
        DiskRequest::Add { .. } => Operation::DiskAdd,
        DiskRequest::Remove { .. } => Operation::DiskRemove,
        DiskRequest::Grow { .. } => Operation::DiskGrow,
    };
    DiskMove(DiskMoveRequest) => disk_move, |_r| Operation::DiskMove;
    Nic(NicRequest) => nics, |r| match r {
        NicRequest::Add { .. } => Operation::NicAdd,
        NicRequest::Remove { .. } => Operation::NicRemove,
    };
    Media(MediaRequest) => media, |_r| Operation::Media;
    Migrate(MigrateRequest) => migrate, |_r| Operation::Migrate;
    Publish(PublishRequest) => publish, |_r| Operation::Publish;
    Export(ExportRequest) => export, |_r| Operation::Export;
    Import(ImportRequest) => import, |_r| Operation::Import;
    Backup(BackupRequest) => backup, |_r| Operation::Backup;
    Edit(EditRequest) => edit, |_r| Operation::Edit;
    Unlock(UnlockRequest) => unlock, |_r| Operation::Unlock;
    Files(FilesRequest) => files, |_r| Operation::Files;
    SendKey(SendKeyRequest) => sendkey, |_r| Operation::SendKey;
    Image(ImageRequest) => image_pull, |_r| Operation::ImagePull;
}

fn there<F: ?Sized>(family: Option<&F>) -> Result<&F> {
    family.ok_or_else(|| Error::unsupported("this backend cannot do that"))
}
