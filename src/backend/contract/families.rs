//! What a backend can do beyond looking: one accessor per family, absent unless it says otherwise.

use super::{
    AutostartRequest, BackupRequest, Backups, Changes, CloneRequest, CreateRequest,
    DiskMoveRequest, DiskRequest, EditNative, Events, ExportRequest, FilesRequest,
    HibernateRequest, Hosts, ImageRequest, Images, ImportRequest, Logs, MediaRequest, Metrics,
    MigrateRequest, Networks, NicRequest, NoteRequest, PauseRequest, PortableSource, PowerRequest,
    PublishRequest, RemoveRequest, RenameRequest, ResizeRequest, Routes, Screenshots,
    SendKeyRequest, SnapshotRequest, Storage, TagsRequest, TemplateRequest, UnlockRequest,
};
use crate::model::Family;

/// The families of one backend. The support law: all operations of a family are `No` exactly where it is absent.
pub trait Families: Send + Sync {
    /// Start, stop, restart.
    fn power(&self) -> Option<&dyn Changes<PowerRequest>> {
        None
    }

    /// Pause and resume.
    fn pause(&self) -> Option<&dyn Changes<PauseRequest>> {
        None
    }

    /// Saved to disk, memory freed; `start` goes on from there.
    fn hibernate(&self) -> Option<&dyn Changes<HibernateRequest>> {
        None
    }

    /// Create. The instance given to `prepare` is a stub with the wanted ID.
    fn create(&self) -> Option<&dyn Changes<CreateRequest>> {
        None
    }

    /// Delete.
    fn remove(&self) -> Option<&dyn Changes<RemoveRequest>> {
        None
    }

    /// Another name.
    fn rename(&self) -> Option<&dyn Changes<RenameRequest>> {
        None
    }

    /// Another instance like this one.
    fn clone_instance(&self) -> Option<&dyn Changes<CloneRequest>> {
        None
    }

    /// A master that refuses start.
    fn template(&self) -> Option<&dyn Changes<TemplateRequest>> {
        None
    }

    /// Tags.
    fn tags(&self) -> Option<&dyn Changes<TagsRequest>> {
        None
    }

    /// The note.
    fn notes(&self) -> Option<&dyn Changes<NoteRequest>> {
        None
    }

    /// Starts with its host.
    fn autostart(&self) -> Option<&dyn Changes<AutostartRequest>> {
        None
    }

    /// Snapshots. They are listed by `detail`.
    fn snapshots(&self) -> Option<&dyn Changes<SnapshotRequest>> {
        None
    }

    /// CPUs and memory.
    fn resize(&self) -> Option<&dyn Changes<ResizeRequest>> {
        None
    }

    /// Disks. They are listed by `detail`.
    fn disks(&self) -> Option<&dyn Changes<DiskRequest>> {
        None
    }

    /// A disk to another place.
    fn disk_move(&self) -> Option<&dyn Changes<DiskMoveRequest>> {
        None
    }

    /// Network interfaces. They are listed by `detail`.
    fn nics(&self) -> Option<&dyn Changes<NicRequest>> {
        None
    }

    /// Media in drives.
    fn media(&self) -> Option<&dyn Changes<MediaRequest>> {
        None
    }

    /// To another host while it runs.
    fn migrate(&self) -> Option<&dyn Changes<MigrateRequest>> {
        None
    }

    /// Ports of the guest at its host.
    fn publish(&self) -> Option<&dyn Changes<PublishRequest>> {
        None
    }

    /// Out into files.
    fn export(&self) -> Option<&dyn Changes<ExportRequest>> {
        None
    }

    /// In from files. The instance given to `prepare` is a stub with the wanted ID.
    fn import(&self) -> Option<&dyn Changes<ImportRequest>> {
        None
    }

    /// Dated copies.
    fn backup(&self) -> Option<&dyn Changes<BackupRequest>> {
        None
    }

    /// The dated copies that are there.
    fn backups(&self) -> Option<&dyn Backups> {
        None
    }

    /// Instances as data for any backend.
    fn portable(&self) -> Option<&dyn PortableSource> {
        None
    }

    /// The definition as the backend has it.
    fn edit(&self) -> Option<&dyn EditNative> {
        None
    }

    /// Removes a lock that nobody holds.
    fn unlock(&self) -> Option<&dyn Changes<UnlockRequest>> {
        None
    }

    /// Files into the guest and out of it.
    fn files(&self) -> Option<&dyn Changes<FilesRequest>> {
        None
    }

    /// Keys to its keyboard.
    fn sendkey(&self) -> Option<&dyn Changes<SendKeyRequest>> {
        None
    }

    /// Its screen as a picture.
    fn screenshot(&self) -> Option<&dyn Screenshots> {
        None
    }

    /// Ways in.
    fn routes(&self) -> Option<&dyn Routes> {
        None
    }

    /// Load.
    fn metrics(&self) -> Option<&dyn Metrics> {
        None
    }

    /// What the backend recorded.
    fn events(&self) -> Option<&dyn Events> {
        None
    }

    /// What guest and launcher wrote.
    fn logs(&self) -> Option<&dyn Logs> {
        None
    }

    /// The machines that run instances.
    fn hosts(&self) -> Option<&dyn Hosts> {
        None
    }

    /// Where disks are kept.
    fn storage(&self) -> Option<&dyn Storage> {
        None
    }

    /// What NICs connect to.
    fn networks(&self) -> Option<&dyn Networks> {
        None
    }

    /// What instances are made from.
    fn images(&self) -> Option<&dyn Images> {
        None
    }

    /// Fetches and deletes images.
    fn image_pull(&self) -> Option<&dyn Changes<ImageRequest>> {
        None
    }

    /// Whether the family is there.
    fn has(&self, family: Family) -> bool {
        match family {
            Family::Power => self.power().is_some(),
            Family::Pause => self.pause().is_some(),
            Family::Hibernate => self.hibernate().is_some(),
            Family::Create => self.create().is_some(),
            Family::Remove => self.remove().is_some(),
            Family::Rename => self.rename().is_some(),
            Family::Clone => self.clone_instance().is_some(),
            Family::Template => self.template().is_some(),
            Family::Tags => self.tags().is_some(),
            Family::Notes => self.notes().is_some(),
            Family::Autostart => self.autostart().is_some(),
            Family::Snapshots => self.snapshots().is_some(),
            Family::Resize => self.resize().is_some(),
            Family::Disks => self.disks().is_some(),
            Family::DiskMove => self.disk_move().is_some(),
            Family::Nics => self.nics().is_some(),
            Family::Media => self.media().is_some(),
            Family::Migrate => self.migrate().is_some(),
            Family::Publish => self.publish().is_some(),
            Family::Export => self.export().is_some(),
            Family::Import => self.import().is_some(),
            Family::Backup => self.backup().is_some(),
            Family::EditNative => self.edit().is_some(),
            Family::Unlock => self.unlock().is_some(),
            Family::Files => self.files().is_some(),
            Family::SendKey => self.sendkey().is_some(),
            Family::Screenshot => self.screenshot().is_some(),
            Family::Routes => self.routes().is_some(),
            Family::Metrics => self.metrics().is_some(),
            Family::Events => self.events().is_some(),
            Family::Logs => self.logs().is_some(),
            Family::Hosts => self.hosts().is_some(),
            Family::Storage => self.storage().is_some(),
            Family::Networks => self.networks().is_some(),
            Family::Images => self.images().is_some(),
            Family::ImagePull => self.image_pull().is_some(),
        }
    }
}

/// Can only look.
pub struct NoFamilies;

impl Families for NoFamilies {}
