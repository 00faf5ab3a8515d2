//! The local QEMU as a backend.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::clone::Clone;
use super::copy::Files;
use super::ctx::{Ctx, KIND};
use super::disks::{DiskMove, Disks};
use super::edit::Edit;
use super::events::Recorded;
use super::families::{Create, Remove, Snapshots};
use super::hibernate::Hibernate;
use super::host::Machine;
use super::images::Pulled;
use super::keyboard::Keyboard;
use super::logs::Written;
use super::marks::Marks;
use super::media::Media;
use super::metrics::Load;
use super::networks::Nets;
use super::nics::Nics;
use super::pause::Pause;
use super::power::Power;
use super::publish::Publish;
use super::rename::Rename;
use super::resize::Resize;
use super::routes::Forwards;
use super::screenshot::Screen;
use super::storage::Folders;
use super::transfer::backup::BackUp;
use super::transfer::export::Export;
use super::transfer::import::Import;
use super::transfer::source::Source;
use super::unlock::Unlock;
use super::{
    accel, disks, doctor, firmware, inventory, machine, process, snapshots, support, watch,
};
use crate::backend::contract::HibernateRequest;
use crate::backend::contract::{
    AutostartRequest, Backend, BackupRequest, Backups, Change, Changes, CreateRequest, Discovery,
    Env, Events, ExportRequest, Families, FilesRequest, Hosts, ImageRequest, Images, ImportRequest,
    KindInfo, Logs, Metrics, Networks, NoteRequest, PauseRequest, PortableSource, PowerRequest,
    ReadCx, RemoveRequest, Routes, Screenshots, SendKeyRequest, SnapshotRequest, Storage,
    TagsRequest, TaskCx, TemplateRequest,
};
use crate::backend::contract::{CloneRequest, EditNative, RenameRequest, UnlockRequest};
use crate::backend::contract::{DiskMoveRequest, DiskRequest, MediaRequest};
use crate::backend::contract::{NicRequest, PublishRequest, ResizeRequest};
use crate::model::{
    Check, ContextSpec, Detail, Error, Facts, Instance, InstanceId, Inventory, Kind, Operation,
    Outcome, Result, Support,
};

/// The kind.
pub const INFO: KindInfo = KindInfo {
    id: "qemu",
    title: "QEMU",
    noun: "VM",
    context_fields: &[],
    create_fields: super::create::CREATE_FIELDS,
    discover,
    open,
    support: support::cell,
};

/// Always there: with QEMU missing, the context says how to get it.
fn discover(env: &Env) -> Discovery {
    let spec = ContextSpec::new("local", KIND);
    let absent = Ctx::new(spec.clone(), Arc::new(env.clone()))
        .qemu()
        .err()
        .map(|error| {
            (
                "local QEMU".to_owned(),
                error.message,
                error.remedy.unwrap_or_default(),
            )
        });
    Discovery {
        contexts: vec![spec],
        absent,
    }
}

fn open(spec: ContextSpec, env: Arc<Env>) -> Result<Arc<dyn Backend>> {
    if spec.kind != KIND {
        return Err(Error::invalid(format!(
            "context {} is of kind {}, not {KIND}",
            spec.name, spec.kind
        )));
    }
    Ok(Arc::new(Qemu::new(spec, env)))
}

/// One context of this kind.
pub struct Qemu {
    ctx: Arc<Ctx>,
    power: Power,
    pause: Pause,
    hibernate: Hibernate,
    create: Create,
    remove: Remove,
    export: Export,
    import: Import,
    backup: BackUp,
    portable: Source,
    snapshots: Snapshots,
    resize: Resize,
    nics: Nics,
    publish: Publish,
    routes: Forwards,
    metrics: Load,
    events: Recorded,
    marks: Marks,
    files: Files,
    keyboard: Keyboard,
    screen: Screen,
    logs: Written,
    hosts: Machine,
    images: Pulled,
    storage: Folders,
    networks: Nets,
    rename: Rename,
    clone: Clone,
    edit: Edit,
    unlock: Unlock,
    disks: Disks,
    disk_move: DiskMove,
    media: Media,
}

impl Qemu {
    /// No I/O.
    pub fn new(spec: ContextSpec, env: Arc<Env>) -> Self {
        let ctx = Arc::new(Ctx::new(spec, env));
        Self {
            power: Power(Arc::clone(&ctx)),
            pause: Pause(Arc::clone(&ctx)),
            hibernate: Hibernate(Arc::clone(&ctx)),
            create: Create(Arc::clone(&ctx)),
            remove: Remove(Arc::clone(&ctx)),
            export: Export(Arc::clone(&ctx)),
            import: Import(Arc::clone(&ctx)),
            backup: BackUp(Arc::clone(&ctx)),
            portable: Source(Arc::clone(&ctx)),
            snapshots: Snapshots(Arc::clone(&ctx)),
            resize: Resize(Arc::clone(&ctx)),
            nics: Nics(Arc::clone(&ctx)),
            publish: Publish(Arc::clone(&ctx)),
            routes: Forwards(Arc::clone(&ctx)),
            metrics: Load::new(Arc::clone(&ctx)),
            events: Recorded(Arc::clone(&ctx)),
            marks: Marks(Arc::clone(&ctx)),
            files: Files(Arc::clone(&ctx)),
            keyboard: Keyboard(Arc::clone(&ctx)),
            screen: Screen(Arc::clone(&ctx)),
            logs: Written(Arc::clone(&ctx)),
            hosts: Machine(Arc::clone(&ctx)),
            images: Pulled(Arc::clone(&ctx)),
            storage: Folders(Arc::clone(&ctx)),
            networks: Nets(Arc::clone(&ctx)),
            rename: Rename(Arc::clone(&ctx)),
            clone: Clone(Arc::clone(&ctx)),
            edit: Edit(Arc::clone(&ctx)),
            unlock: Unlock(Arc::clone(&ctx)),
            disks: Disks(Arc::clone(&ctx)),
            disk_move: DiskMove(Arc::clone(&ctx)),
            media: Media(Arc::clone(&ctx)),
            ctx,
        }
    }
}

#[async_trait]
impl Backend for Qemu {
    fn kind(&self) -> Kind {
        KIND
    }

    fn support(&self, operation: Operation, on: Option<&Instance>) -> Support {
        match on {
            Some(vm) => support::on(operation, vm),
            None => support::cell(operation),
        }
    }

    async fn probe(&self, cx: &ReadCx) -> Result<Facts> {
        let ctx = &self.ctx;
        cx.within("QEMU", async {
            let version = machine::version(ctx).await?;
            let accel = accel::prove(ctx, "host").await?;
            let uefi = firmware::find(&firmware::descriptor_dirs(&ctx.env), false);
            let mut features = BTreeMap::new();
            features.insert(
                "acceleration".to_owned(),
                format!("{}: {}", accel.word(), accel.why),
            );
            let found = match &uefi {
                Ok(found) => found.code.display().to_string(),
                Err(error) => error.message.clone(),
            };
            features.insert("uefi".to_owned(), found);
            let kvm = if accel.kvm {
                "KVM usable"
            } else {
                "no usable KVM (slow)"
            };
            let firmware = if uefi.is_ok() {
                "UEFI firmware found"
            } else {
                "no UEFI firmware"
            };
            Ok(Facts {
                server: Some(format!("{KIND}:{}", ctx.store.root().display())),
                summary: Some(format!("{KIND} {version}, {kvm}, {firmware}")),
                version: Some(version),
                features,
            })
        })
        .await
        .map_err(|error| error.in_context(&ctx.spec.name))
    }

    async fn inventory(&self, cx: &ReadCx) -> Result<Inventory> {
        inventory::all(&self.ctx, cx).await
    }

    async fn detail(&self, cx: &ReadCx, id: &InstanceId) -> Result<Detail> {
        let ctx = &self.ctx;
        let (vm, mut detail) = inventory::detail(ctx, cx, id).await?;
        let listed = async {
            let mut monitor =
                process::connect_within(ctx, &vm, cx.left().min(process::MONITOR)).await?;
            let Detail {
                disks, problems, ..
            } = &mut detail;
            disks::read::fill(ctx, &vm, monitor.as_mut(), disks, problems).await;
            snapshots::list(ctx, &vm, monitor.as_mut()).await
        };
        let listed = listed.await;
        match listed {
            Ok(list) => detail.snapshots = list,
            Err(error) => detail
                .problems
                .push(format!("snapshots cannot be listed: {error}")),
        }
        Ok(detail)
    }

    fn watch(self: Arc<Self>) -> Option<BoxStream<'static, Result<Change>>> {
        Some(watch::start(Arc::clone(&self.ctx)))
    }

    async fn doctor(&self, cx: &ReadCx) -> Vec<Check> {
        doctor::checks(&self.ctx, cx).await
    }

    async fn repair(&self, cx: &TaskCx, check: &str) -> Result<Outcome> {
        doctor::repair(&self.ctx, cx, check).await
    }

    fn families(&self) -> &dyn Families {
        self
    }
}

impl Families for Qemu {
    fn power(&self) -> Option<&dyn Changes<PowerRequest>> {
        Some(&self.power)
    }

    fn pause(&self) -> Option<&dyn Changes<PauseRequest>> {
        Some(&self.pause)
    }

    fn hibernate(&self) -> Option<&dyn Changes<HibernateRequest>> {
        Some(&self.hibernate)
    }

    fn create(&self) -> Option<&dyn Changes<CreateRequest>> {
        Some(&self.create)
    }

    fn remove(&self) -> Option<&dyn Changes<RemoveRequest>> {
        Some(&self.remove)
    }

    fn snapshots(&self) -> Option<&dyn Changes<SnapshotRequest>> {
        Some(&self.snapshots)
    }

    fn edit(&self) -> Option<&dyn EditNative> {
        Some(&self.edit)
    }

    fn unlock(&self) -> Option<&dyn Changes<UnlockRequest>> {
        Some(&self.unlock)
    }

    fn rename(&self) -> Option<&dyn Changes<RenameRequest>> {
        Some(&self.rename)
    }

    fn clone_instance(&self) -> Option<&dyn Changes<CloneRequest>> {
        Some(&self.clone)
    }

    fn template(&self) -> Option<&dyn Changes<TemplateRequest>> {
        Some(&self.marks)
    }

    fn tags(&self) -> Option<&dyn Changes<TagsRequest>> {
        Some(&self.marks)
    }

    fn notes(&self) -> Option<&dyn Changes<NoteRequest>> {
        Some(&self.marks)
    }

    fn autostart(&self) -> Option<&dyn Changes<AutostartRequest>> {
        Some(&self.marks)
    }

    fn resize(&self) -> Option<&dyn Changes<ResizeRequest>> {
        Some(&self.resize)
    }

    fn nics(&self) -> Option<&dyn Changes<NicRequest>> {
        Some(&self.nics)
    }

    fn publish(&self) -> Option<&dyn Changes<PublishRequest>> {
        Some(&self.publish)
    }

    fn export(&self) -> Option<&dyn Changes<ExportRequest>> {
        Some(&self.export)
    }

    fn import(&self) -> Option<&dyn Changes<ImportRequest>> {
        Some(&self.import)
    }

    fn backup(&self) -> Option<&dyn Changes<BackupRequest>> {
        Some(&self.backup)
    }

    fn backups(&self) -> Option<&dyn Backups> {
        Some(&self.backup)
    }

    fn portable(&self) -> Option<&dyn PortableSource> {
        Some(&self.portable)
    }

    fn disks(&self) -> Option<&dyn Changes<DiskRequest>> {
        Some(&self.disks)
    }

    fn disk_move(&self) -> Option<&dyn Changes<DiskMoveRequest>> {
        Some(&self.disk_move)
    }

    fn media(&self) -> Option<&dyn Changes<MediaRequest>> {
        Some(&self.media)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        Some(&self.routes)
    }

    fn metrics(&self) -> Option<&dyn Metrics> {
        Some(&self.metrics)
    }

    fn events(&self) -> Option<&dyn Events> {
        Some(&self.events)
    }

    fn files(&self) -> Option<&dyn Changes<FilesRequest>> {
        Some(&self.files)
    }

    fn sendkey(&self) -> Option<&dyn Changes<SendKeyRequest>> {
        Some(&self.keyboard)
    }

    fn screenshot(&self) -> Option<&dyn Screenshots> {
        Some(&self.screen)
    }

    fn logs(&self) -> Option<&dyn Logs> {
        Some(&self.logs)
    }

    fn hosts(&self) -> Option<&dyn Hosts> {
        Some(&self.hosts)
    }

    fn storage(&self) -> Option<&dyn Storage> {
        Some(&self.storage)
    }

    fn images(&self) -> Option<&dyn Images> {
        Some(&self.images)
    }

    fn image_pull(&self) -> Option<&dyn Changes<ImageRequest>> {
        Some(&self.images)
    }

    fn networks(&self) -> Option<&dyn Networks> {
        Some(&self.networks)
    }
}
