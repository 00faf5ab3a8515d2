//! libvirt as a backend.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::change::Changing;
use super::ctx::{Ctx, KIND};
use super::host::{Machine, acceleration, version};
use super::metrics::Load;
use super::networks::Nets;
use super::reads::{Screen, Ways, Written};
use super::storage::Pools;
use super::wire::{Call, Server};
use super::{detail, doctor, inventory, support, watch};
use crate::backend::contract::{
    AutostartRequest, Backend, Change, Changes, CloneRequest, CreateRequest, Discovery,
    DiskMoveRequest, DiskRequest, EditNative, Env, Families, HibernateRequest, Hosts, KindInfo,
    Logs, MediaRequest, Metrics, MigrateRequest, Networks, NicRequest, NoteRequest, PauseRequest,
    PowerRequest, ReadCx, RemoveRequest, RenameRequest, ResizeRequest, Routes, Screenshots,
    SendKeyRequest, SnapshotRequest, Storage, TagsRequest, TemplateRequest,
};
use crate::model::{
    Check, ContextSpec, Detail, Error, Facts, Field, FieldKind, Instance, InstanceId, Inventory,
    Kind, Operation, Result, Support,
};

/// The kind.
pub const INFO: KindInfo = KindInfo {
    id: "libvirt",
    title: "libvirt",
    noun: "domain",
    context_fields: &[
        Field::new(
            "uri",
            FieldKind::Url,
            "libvirt's connection URI: qemu:///system, qemu+ssh://user@host/system, qemu+tls://host/system …",
        )
        .required(),
        Field::new(
            "logs",
            FieldKind::Path,
            "Folder with QEMU's logs, where the server is this machine [/var/log/libvirt/qemu]",
        ),
    ],
    create_fields: super::create::CREATE_FIELDS,
    discover,
    open,
    support: support::cell,
};

/// Sockets of the system's daemons, and those of one's own session.
const SYSTEM: [&str; 2] = ["/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"];
const SESSION: [&str; 2] = ["libvirt/libvirt-sock", "libvirt/virtqemud-sock"];

/// The system's daemon where its socket is there, else the session's.
fn discover(env: &Env) -> Discovery {
    let session = env.vars.get("XDG_RUNTIME_DIR").map(Path::new);
    let is_socket = |path: &Path| {
        use std::os::unix::fs::FileTypeExt as _;
        std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
    };
    let found = if SYSTEM.iter().any(|path| is_socket(Path::new(path))) {
        Some("qemu:///system")
    } else if session.is_some_and(|dir| SESSION.iter().any(|path| is_socket(&dir.join(path)))) {
        Some("qemu:///session")
    } else {
        None
    };
    let Some(uri) = found else {
        return Discovery {
            contexts: Vec::new(),
            absent: Some((
                KIND.to_string(),
                "no socket found".to_owned(),
                "apt install libvirt-daemon-system".to_owned(),
            )),
        };
    };
    let mut spec = ContextSpec::new(KIND.as_str(), KIND);
    spec.fields.insert("uri".to_owned(), uri.into());
    Discovery {
        contexts: vec![spec],
        absent: None,
    }
}

fn open(spec: ContextSpec, env: Arc<Env>) -> Result<Arc<dyn Backend>> {
    if spec.kind != KIND {
        return Err(Error::invalid(format!(
            "context {} is of kind {}, not {KIND}",
            spec.name, spec.kind
        )));
    }
    Ok(Arc::new(Libvirt::new(spec, env)?))
}

/// The URI as it is connected to: SSH must never ask on a terminal, which is corral's.
pub(super) fn quiet(uri: &str) -> Result<String> {
    let bad = |why: &str| {
        Err(
            Error::invalid(format!("uri: {:?} {why}", crate::model::shown(uri)))
                .remedy("Write it like qemu:///system or qemu+ssh://user@host/system"),
        )
    };
    let Some((scheme, rest)) = uri.split_once("://") else {
        return bad("is no URI");
    };
    if uri.chars().any(|c| c.is_control() || c.is_whitespace()) || scheme.is_empty() {
        return bad("holds characters that no URI has");
    }
    let ssh = scheme
        .split_once('+')
        .is_some_and(|(_, transport)| transport == "ssh");
    if !ssh || rest.contains("no_tty=") {
        return Ok(uri.to_owned());
    }
    let sign = if rest.contains('?') { '&' } else { '?' };
    Ok(format!("{uri}{sign}no_tty=1"))
}

/// One context of this kind.
pub struct Libvirt {
    ctx: Arc<Ctx>,
    changing: Changing,
    load: Load,
    screen: Screen,
    ways: Ways,
    written: Written,
    machine: Machine,
    pools: Pools,
    nets: Nets,
}

impl Libvirt {
    /// No I/O.
    ///
    /// # Errors
    /// `Invalid` for a URI that is none.
    pub fn new(spec: ContextSpec, env: Arc<Env>) -> Result<Self> {
        let uri = spec.text("uri").ok_or_else(|| {
            Error::invalid(format!("context {} has no uri", spec.name)).remedy(format!(
                "corral context set {} --set uri=qemu:///system",
                spec.name
            ))
        })?;
        let uri = quiet(uri).map_err(|e| e.in_context(&spec.name))?;
        let ctx = Arc::new(Ctx::new(spec, env, uri));
        Ok(Self {
            changing: Changing(Arc::clone(&ctx)),
            load: Load::new(Arc::clone(&ctx)),
            screen: Screen(Arc::clone(&ctx)),
            ways: Ways(Arc::clone(&ctx)),
            written: Written(Arc::clone(&ctx)),
            machine: Machine(Arc::clone(&ctx)),
            pools: Pools(Arc::clone(&ctx)),
            nets: Nets(Arc::clone(&ctx)),
            ctx,
        })
    }

    /// The changing calls so far, as plans name them; of a build for development only.
    pub fn calls(&self) -> Vec<String> {
        self.ctx.client.calls()
    }
}

#[async_trait]
impl Backend for Libvirt {
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
        let server: Server = self.ctx.client.ask(cx, Call::Server {}).await?;
        let mut features = BTreeMap::new();
        let run = server.capabilities.as_deref().and_then(acceleration);
        if let Some(run) = &run {
            features.insert("acceleration".to_owned(), run.clone());
        }
        if let Some(number) = server.hypervisor {
            features.insert("hypervisor".to_owned(), version(number));
        }
        let own = version(server.version);
        let host = server.hostname.clone().unwrap_or_default();
        Ok(Facts {
            // Two URIs of one daemon have one host UUID.
            server: server
                .capabilities
                .as_deref()
                .and_then(host_uuid)
                .map(|uuid| format!("{KIND}:{uuid}:{}", server.driver)),
            summary: Some(format!(
                "{KIND} {own} on {host}, {}",
                run.as_deref().unwrap_or("acceleration unknown")
            )),
            version: Some(own),
            features,
        })
    }

    async fn inventory(&self, cx: &ReadCx) -> Result<Inventory> {
        inventory::all(&self.ctx, cx).await
    }

    async fn detail(&self, cx: &ReadCx, id: &InstanceId) -> Result<Detail> {
        detail::of(&self.ctx, cx, id).await
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

fn host_uuid(capabilities: &str) -> Option<String> {
    let document = super::xml::parse(capabilities).ok()?;
    super::xml::text_at(document.root_element(), &["host", "uuid"])
}

macro_rules! changing {
    ($($name:ident: $request:ty;)*) => {
        $(fn $name(&self) -> Option<&dyn Changes<$request>> {
            Some(&self.changing)
        })*
    };
}

impl Families for Libvirt {
    changing! {
        power: PowerRequest;
        pause: PauseRequest;
        hibernate: HibernateRequest;
        create: CreateRequest;
        remove: RemoveRequest;
        rename: RenameRequest;
        clone_instance: CloneRequest;
        template: TemplateRequest;
        tags: TagsRequest;
        notes: NoteRequest;
        autostart: AutostartRequest;
        snapshots: SnapshotRequest;
        resize: ResizeRequest;
        disks: DiskRequest;
        disk_move: DiskMoveRequest;
        nics: NicRequest;
        media: MediaRequest;
        migrate: MigrateRequest;
        sendkey: SendKeyRequest;
    }

    fn edit(&self) -> Option<&dyn EditNative> {
        Some(&self.changing)
    }

    fn screenshot(&self) -> Option<&dyn Screenshots> {
        Some(&self.screen)
    }

    fn routes(&self) -> Option<&dyn Routes> {
        Some(&self.ways)
    }

    fn metrics(&self) -> Option<&dyn Metrics> {
        Some(&self.load)
    }

    fn logs(&self) -> Option<&dyn Logs> {
        Some(&self.written)
    }

    fn hosts(&self) -> Option<&dyn Hosts> {
        Some(&self.machine)
    }

    fn storage(&self) -> Option<&dyn Storage> {
        Some(&self.pools)
    }

    fn networks(&self) -> Option<&dyn Networks> {
        Some(&self.nets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_asks_on_no_terminal() {
        assert_eq!(
            quiet("qemu+ssh://h/system").unwrap(),
            "qemu+ssh://h/system?no_tty=1"
        );
        let keyed = "qemu+ssh://h/system?keyfile=/k";
        assert_eq!(quiet(keyed).unwrap(), format!("{keyed}&no_tty=1"));
        assert_eq!(quiet("qemu:///system").unwrap(), "qemu:///system");
        assert!(quiet("nonsense").is_err() && quiet("a://\u{1b}[2J").is_err());
    }
}
