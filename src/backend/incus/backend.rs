//! A server of Incus as a backend.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::create::Create;
use super::ctx::{Ctx, KIND};
use super::devices::{Volumes, disks, nics, pools};
use super::disks::Disks;
use super::edit::{self, Edit};
use super::events::Warnings;
use super::files::Files;
use super::host::Machines;
use super::images::Shelf;
use super::json::{Look as _, entry, is_true};
use super::life::Life;
use super::logs::Written;
use super::marks::Marks;
use super::media::Media;
use super::metrics::Load;
use super::networks::Nets;
use super::nics::Nics;
use super::power::Power;
use super::publish::Publish;
use super::resize::Resize;
use super::routes::Ways;
use super::screenshot::Screen;
use super::seen::Seen;
use super::snapshots::{self, Snapshots};
use super::storage::Pools;
use super::transfer::backup::BackUp;
use super::transfer::moves::Moves;
use super::{doctor, inventory, support, target, watch};
use crate::backend::contract::{
    AutostartRequest, Backend, BackupRequest, Backups, Change, Changes, CloneRequest,
    CreateRequest, Discovery, DiskMoveRequest, DiskRequest, EditNative, Env, Events, ExportRequest,
    Families, FilesRequest, HibernateRequest, Hosts, ImageRequest, Images, ImportRequest, KindInfo,
    Logs, MediaRequest, Metrics, Networks, NicRequest, NoteRequest, PauseRequest, PowerRequest,
    PublishRequest, ReadCx, RemoveRequest, RenameRequest, ResizeRequest, Routes, Screenshots,
    SnapshotRequest, Storage, TagsRequest, TemplateRequest,
};
use crate::model::{
    Check, ContextSpec, Detail, Error, Facts, Field, FieldKind, Instance, InstanceId, InstanceKind,
    Inventory, Kind, Operation, Result, Support,
};

/// The kind.
pub const INFO: KindInfo = KindInfo {
    id: "incus",
    title: "Incus",
    noun: "instance",
    context_fields: &[
        Field::new(
            "remote",
            FieldKind::Name,
            "a remote of the Incus client's own configuration",
        ),
        Field::new("url", FieldKind::Url, "https://HOST:8443"),
        Field::new(
            "socket",
            FieldKind::Path,
            "a unix socket [default: this machine's own]",
        ),
        Field::new(
            "project",
            FieldKind::Name,
            "only this project [default: all]",
        ),
        Field::new(
            "certificate",
            FieldKind::Path,
            "the client's certificate [default: the Incus client's]",
        ),
        Field::new("key", FieldKind::Path, "its key"),
        Field::new(
            "fingerprint",
            FieldKind::Text,
            "SHA-256 of the server's certificate",
        )
        .many(),
    ],
    create_fields: super::create::FIELDS,
    discover,
    open,
    support: support::cell,
};

/// The server of this machine, where its socket is.
fn discover(env: &Env) -> Discovery {
    if target::local(env).is_some() {
        return Discovery {
            contexts: vec![ContextSpec::new(INFO.id, KIND)],
            absent: None,
        };
    }
    Discovery {
        contexts: Vec::new(),
        absent: Some((
            INFO.title.to_owned(),
            "no socket found".to_owned(),
            "sudo apt install incus".to_owned(),
        )),
    }
}

fn open(spec: ContextSpec, env: Arc<Env>) -> Result<Arc<dyn Backend>> {
    if spec.kind != KIND {
        return Err(Error::invalid(format!(
            "context {} is of kind {}, not {KIND}",
            spec.name, spec.kind
        )));
    }
    Ok(Arc::new(Incus::new(spec, env)))
}

/// One context of this kind.
pub struct Incus {
    ctx: Arc<Ctx>,
    power: Power,
    create: Create,
    life: Life,
    marks: Marks,
    snapshots: Snapshots,
    resize: Resize,
    disks: Disks,
    nics: Nics,
    media: Media,
    publish: Publish,
    moves: Moves,
    backup: BackUp,
    edit: Edit,
    files: Files,
    screen: Screen,
    routes: Ways,
    metrics: Load,
    events: Warnings,
    logs: Written,
    hosts: Machines,
    storage: Pools,
    networks: Nets,
    images: Shelf,
}

impl Incus {
    /// No I/O.
    pub fn new(spec: ContextSpec, env: Arc<Env>) -> Self {
        let ctx = Arc::new(Ctx::new(spec, env));
        Self {
            power: Power(Arc::clone(&ctx)),
            create: Create(Arc::clone(&ctx)),
            life: Life(Arc::clone(&ctx)),
            marks: Marks(Arc::clone(&ctx)),
            snapshots: Snapshots(Arc::clone(&ctx)),
            resize: Resize(Arc::clone(&ctx)),
            disks: Disks(Arc::clone(&ctx)),
            nics: Nics(Arc::clone(&ctx)),
            media: Media(Arc::clone(&ctx)),
            publish: Publish(Arc::clone(&ctx)),
            moves: Moves(Arc::clone(&ctx)),
            backup: BackUp(Arc::clone(&ctx)),
            edit: Edit(Arc::clone(&ctx)),
            files: Files(Arc::clone(&ctx)),
            screen: Screen(Arc::clone(&ctx)),
            routes: Ways(Arc::clone(&ctx)),
            metrics: Load::new(Arc::clone(&ctx)),
            events: Warnings(Arc::clone(&ctx)),
            logs: Written(Arc::clone(&ctx)),
            hosts: Machines(Arc::clone(&ctx)),
            storage: Pools(Arc::clone(&ctx)),
            networks: Nets(Arc::clone(&ctx)),
            images: Shelf(Arc::clone(&ctx)),
            ctx,
        }
    }
}

#[async_trait]
impl Backend for Incus {
    fn kind(&self) -> Kind {
        KIND
    }

    fn support(&self, operation: Operation, on: Option<&Instance>) -> Support {
        match on {
            Some(row) => support::on(&self.ctx, operation, row),
            None => support::cell(operation),
        }
    }

    async fn ready(&self, cx: &ReadCx) -> Result<()> {
        doctor::enter(&self.ctx, cx).await
    }

    async fn probe(&self, cx: &ReadCx) -> Result<Facts> {
        let ctx = &self.ctx;
        let server = ctx.ask(cx).await?;
        let mut features = BTreeMap::new();
        features.insert("drivers".to_owned(), server.drivers.join(", "));
        features.insert("extensions".to_owned(), server.extensions.len().to_string());
        if server.clustered {
            features.insert("cluster".to_owned(), "yes".to_owned());
        }
        let version = server.version.clone();
        let what = if server.runs_vms() {
            "VMs and containers"
        } else {
            "containers"
        };
        let trusted = if server.trusted {
            ""
        } else {
            ", does not know this client"
        };
        Ok(Facts {
            server: server
                .fingerprint
                .as_ref()
                .map(|print| format!("{KIND}:{print}")),
            summary: Some(format!(
                "{} {}, {what}{trusted}",
                server.title(),
                version.as_deref().unwrap_or("of no version")
            )),
            version,
            features,
        })
    }

    async fn inventory(&self, cx: &ReadCx) -> Result<Inventory> {
        inventory::all(&self.ctx, cx).await
    }

    async fn detail(&self, cx: &ReadCx, id: &InstanceId) -> Result<Detail> {
        let ctx = &self.ctx;
        let seen = Seen::now(ctx, cx, id).await?;
        let (volumes, problems) = Volumes::of(ctx, cx, &seen.project, &pools(&seen)).await;
        let config = seen.all_config();
        let vm = seen.row.kind == InstanceKind::Vm;
        let mut facts = Vec::new();
        let mut fact = |label: &str, text: Option<String>| {
            facts.extend(text.map(|text| (label.to_owned(), text)));
        };
        let profiles: Vec<&str> = seen
            .value
            .list("profiles")
            .iter()
            .filter_map(serde_json::Value::as_str)
            .collect();
        fact(
            "Profiles",
            (!profiles.is_empty()).then(|| profiles.join(", ")),
        );
        fact(
            "Architecture",
            seen.value.text("architecture").map(str::to_owned),
        );
        fact(
            "Image",
            entry(config, "image.description").map(str::to_owned),
        );
        fact(
            "Processes",
            seen.value
                .get("state")
                .and_then(|live| live.number("processes"))
                .map(|n| n.to_string()),
        );
        fact(
            "Ephemeral",
            (seen.value.flag("ephemeral") == Some(true))
                .then(|| "deleted once it is off".to_owned()),
        );
        fact(
            "Privileged",
            is_true(entry(config, "security.privileged"))
                .then(|| "yes: its root is the host's".to_owned()),
        );
        Ok(Detail {
            disks: disks(&seen, &volumes),
            nics: nics(&seen),
            snapshots: snapshots::list(&seen),
            firmware: vm.then(|| {
                let bios = is_true(entry(config, "security.csm"));
                if bios { "bios" } else { "uefi" }.to_owned()
            }),
            facts,
            pending: Vec::new(),
            problems,
            native: Some(edit::native(&seen)),
            instance: seen.row,
        })
    }

    fn watch(self: Arc<Self>) -> Option<BoxStream<'static, Result<Change>>> {
        Some(watch::start(Arc::clone(&self.ctx)))
    }

    async fn doctor(&self, cx: &ReadCx) -> Vec<Check> {
        doctor::checks(&self.ctx, cx).await
    }

    fn families(&self) -> &dyn Families {
        self
    }
}

/// One accessor per family, and the part that carries it out.
macro_rules! families {
    ($($accessor:ident: $family:ty => $part:ident;)*) => {
        impl Families for Incus {
            $(fn $accessor(&self) -> Option<&$family> {
                Some(&self.$part)
            })*
        }
    };
}

families! {
    power: dyn Changes<PowerRequest> => power;
    pause: dyn Changes<PauseRequest> => power;
    hibernate: dyn Changes<HibernateRequest> => power;
    create: dyn Changes<CreateRequest> => create;
    remove: dyn Changes<RemoveRequest> => life;
    rename: dyn Changes<RenameRequest> => life;
    clone_instance: dyn Changes<CloneRequest> => life;
    template: dyn Changes<TemplateRequest> => marks;
    tags: dyn Changes<TagsRequest> => marks;
    notes: dyn Changes<NoteRequest> => marks;
    autostart: dyn Changes<AutostartRequest> => marks;
    snapshots: dyn Changes<SnapshotRequest> => snapshots;
    resize: dyn Changes<ResizeRequest> => resize;
    disks: dyn Changes<DiskRequest> => disks;
    disk_move: dyn Changes<DiskMoveRequest> => disks;
    nics: dyn Changes<NicRequest> => nics;
    media: dyn Changes<MediaRequest> => media;
    publish: dyn Changes<PublishRequest> => publish;
    export: dyn Changes<ExportRequest> => moves;
    import: dyn Changes<ImportRequest> => moves;
    backup: dyn Changes<BackupRequest> => backup;
    backups: dyn Backups => backup;
    edit: dyn EditNative => edit;
    files: dyn Changes<FilesRequest> => files;
    screenshot: dyn Screenshots => screen;
    routes: dyn Routes => routes;
    metrics: dyn Metrics => metrics;
    events: dyn Events => events;
    logs: dyn Logs => logs;
    hosts: dyn Hosts => hosts;
    storage: dyn Storage => storage;
    networks: dyn Networks => networks;
    images: dyn Images => images;
    image_pull: dyn Changes<ImageRequest> => images;
}
