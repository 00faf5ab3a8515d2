//! Which families each impersonated kind has.

use super::backend::Demo;
use crate::backend::contract::{
    AutostartRequest, BackupRequest, Backups, Changes, CloneRequest, CreateRequest,
    DiskMoveRequest, DiskRequest, EditNative, Events, ExportRequest, Families, FilesRequest,
    HibernateRequest, Hosts, ImageRequest, Images, ImportRequest, Logs, MediaRequest, Metrics,
    Networks, NicRequest, NoteRequest, PauseRequest, PortableSource, PowerRequest, PublishRequest,
    RemoveRequest, RenameRequest, ResizeRequest, Routes, Screenshots, SendKeyRequest,
    SnapshotRequest, Storage, TagsRequest, TemplateRequest, UnlockRequest,
};
use crate::model::Family;

/// One line per accessor: there where the kind has the family.
macro_rules! accessors {
    ($($accessor:ident: $family:ident, $what:ty;)*) => {
        impl Families for Demo {
            $(fn $accessor(&self) -> Option<&$what> {
                self.world.dialect.has(Family::$family).then_some(self as _)
            })*
        }
    };
}

accessors! {
    power: Power, dyn Changes<PowerRequest>;
    pause: Pause, dyn Changes<PauseRequest>;
    hibernate: Hibernate, dyn Changes<HibernateRequest>;
    create: Create, dyn Changes<CreateRequest>;
    remove: Remove, dyn Changes<RemoveRequest>;
    rename: Rename, dyn Changes<RenameRequest>;
    clone_instance: Clone, dyn Changes<CloneRequest>;
    template: Template, dyn Changes<TemplateRequest>;
    tags: Tags, dyn Changes<TagsRequest>;
    notes: Notes, dyn Changes<NoteRequest>;
    autostart: Autostart, dyn Changes<AutostartRequest>;
    snapshots: Snapshots, dyn Changes<SnapshotRequest>;
    resize: Resize, dyn Changes<ResizeRequest>;
    disks: Disks, dyn Changes<DiskRequest>;
    disk_move: DiskMove, dyn Changes<DiskMoveRequest>;
    nics: Nics, dyn Changes<NicRequest>;
    media: Media, dyn Changes<MediaRequest>;
    publish: Publish, dyn Changes<PublishRequest>;
    export: Export, dyn Changes<ExportRequest>;
    import: Import, dyn Changes<ImportRequest>;
    backup: Backup, dyn Changes<BackupRequest>;
    backups: Backup, dyn Backups;
    portable: Export, dyn PortableSource;
    edit: EditNative, dyn EditNative;
    unlock: Unlock, dyn Changes<UnlockRequest>;
    files: Files, dyn Changes<FilesRequest>;
    sendkey: SendKey, dyn Changes<SendKeyRequest>;
    screenshot: Screenshot, dyn Screenshots;
    routes: Routes, dyn Routes;
    metrics: Metrics, dyn Metrics;
    events: Events, dyn Events;
    logs: Logs, dyn Logs;
    hosts: Hosts, dyn Hosts;
    storage: Storage, dyn Storage;
    networks: Networks, dyn Networks;
    images: Images, dyn Images;
    image_pull: ImagePull, dyn Changes<ImageRequest>;
}
