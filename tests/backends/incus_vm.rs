//! VMs of a real server, under software emulation and without an agent inside: what only VMs have.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "incus_lab.rs"]
mod incus_lab;
#[path = "lab.rs"]
mod lab;

use std::time::{Duration, Instant};

use corral::backend::contract::{
    Backend, Changes, CreateRequest, DiskRequest, DiskSource, FilesRequest, HibernateRequest,
    MediaRequest, PowerRequest, ReadCx, SnapshotRequest, TakeSnapshot,
};
use corral::backend::incus::INFO;
use corral::model::{
    Bytes, Consistency, Error, Instance, InstanceId, InstanceKind, Operation, Outcome, Result,
    State,
};
use incus_lab::Place;
use lab::task_within;

/// Emulated, a VM boots in half a minute.
const PATIENCE: Duration = Duration::from_secs(150);

struct Vm {
    backend: std::sync::Arc<dyn Backend>,
    id: InstanceId,
}

impl Vm {
    async fn row(&self) -> Instance {
        self.backend
            .detail(&ReadCx::quiet(PATIENCE), &self.id)
            .await
            .unwrap()
            .instance
    }

    async fn change<R: Send + Sync + 'static>(
        &self,
        family: Option<&dyn Changes<R>>,
        on: &Instance,
        request: R,
    ) -> Result<Outcome> {
        let family = family.unwrap();
        let plan = family
            .prepare(&ReadCx::quiet(PATIENCE), on, request)
            .await?;
        if let Some(refusal) = plan.refusals.first() {
            return Err(Error::refused(refusal.message.clone())
                .remedy(refusal.remedy.clone().unwrap_or_default()));
        }
        family.run(&task_within(&on.id, Some(PATIENCE)), plan).await
    }

    async fn address(&self) {
        let until = Instant::now() + PATIENCE;
        while self.row().await.addresses.is_none_or(|all| all.is_empty()) {
            assert!(Instant::now() < until, "it never got an address");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_keeps_its_memory_and_takes_media() {
    let Some(place) = Place::new("vm-live") else {
        return;
    };
    if !place.incus(&["query", "/1.0"]).contains("qemu") {
        eprintln!("skipped (platform): the lab runs no VMs: LAB_VM=1 tests/lab/incus-up.sh");
        return;
    }
    let vm = Vm {
        backend: place.backend(),
        id: InstanceId::new("lab", Some("vm-live"), "box"),
    };
    let families = vm.backend.families();
    let stub = Instance::new(
        vm.id.clone(),
        INFO.kind(),
        InstanceKind::Vm,
        State::Provisioning,
        jiff::Timestamp::now(),
    );
    let wanted = CreateRequest {
        name: "box".to_owned(),
        cpus: 1,
        memory: Bytes::mib(256),
        disk_size: None,
        source: DiskSource::Copy("corral-tiny-vm".to_owned()),
        cdroms: Vec::new(),
        firmware: None,
        os: None,
        tpm: false,
        secure_boot: false,
        cloud_init: None,
        publish: Vec::new(),
        tags: Vec::new(),
        note: None,
        start: false,
        set: vec![("profile".to_owned(), "vm".to_owned())],
    };
    vm.change(families.create(), &stub, wanted).await.unwrap();
    let row = vm.row().await;
    assert_eq!(
        (row.kind, row.state, row.cpus),
        (InstanceKind::Vm, State::Stopped, Some(1))
    );

    // A medium of this machine goes into a pool and into its drive, and out again.
    let iso = place.home.path().join("tools.iso");
    let mut bytes = vec![0; 64 << 10];
    bytes[32769..32774].copy_from_slice(b"CD001");
    std::fs::write(&iso, bytes).unwrap();
    let insert = MediaRequest::Insert {
        drive: None,
        image: iso.display().to_string(),
        force: false,
    };
    let again = insert.clone();
    vm.change(families.media(), &row, insert).await.unwrap();
    let disks = vm
        .backend
        .detail(&ReadCx::quiet(PATIENCE), &vm.id)
        .await
        .unwrap()
        .disks;
    assert!(
        disks
            .iter()
            .any(|d| d.device == "cdrom" && d.source.as_deref() == Some("default/tools.iso")),
        "{disks:?}"
    );
    let eject = MediaRequest::Eject {
        drive: None,
        force: false,
    };
    vm.change(families.media(), &vm.row().await, eject)
        .await
        .unwrap();
    let add = DiskRequest::Add {
        size: Some(Bytes::mib(16)),
        image: None,
        copy: false,
        bus: None,
        format: None,
        readonly: false,
        storage: None,
    };
    vm.change(families.disks(), &vm.row().await, add)
        .await
        .unwrap();
    let shown = place.incus(&["storage", "volume", "list", "default", "-f", "csv"]);
    assert!(shown.contains("block"), "{shown}");
    let remove = DiskRequest::Remove {
        disk: "disk1".to_owned(),
        delete_data: true,
    };
    vm.change(families.disks(), &vm.row().await, remove)
        .await
        .unwrap();

    // Whose RAM is kept takes no more disks of a pool that is on one host alone: told before anything is done.
    place.incus(&["config", "set", "box", "migration.stateful=true"]);
    let error = vm
        .change(families.media(), &vm.row().await, again)
        .await
        .unwrap_err();
    assert!(error.message.contains("migration.stateful"), "{error}");

    vm.change(families.power(), &vm.row().await, PowerRequest::Start)
        .await
        .unwrap();
    vm.address().await;
    let row = vm.row().await;
    // No agent inside: said, and nothing hangs.
    assert_eq!(row.agent, Some(false));
    let pull = FilesRequest::Pull {
        from: "/etc/hostname".to_owned(),
        to: place.home.path().join("out"),
        overwrite: false,
    };
    let error = vm.change(families.files(), &row, pull).await.unwrap_err();
    assert!(error.message.contains("agent"), "{error}");
    assert!(
        vm.backend
            .support(Operation::SnapshotMemory, Some(&row))
            .is_ready()
    );
    let take = SnapshotRequest::Create(TakeSnapshot {
        memory: true,
        ..TakeSnapshot::named("live")
    });
    let outcome = vm.change(families.snapshots(), &row, take).await.unwrap();
    assert_eq!(outcome.consistency, Some(Consistency::Memory));
    let before = vm.row().await;
    assert_eq!(before.state, State::Running);
    let back = |stop| SnapshotRequest::Restore {
        name: "live".to_owned(),
        stop,
        start: false,
        keep_present: None,
    };
    let error = vm
        .change(families.snapshots(), &before, back(false))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("top it first: corral stop"),
        "{error}"
    );

    vm.change(families.hibernate(), &before, HibernateRequest)
        .await
        .unwrap();
    assert_eq!(vm.row().await.state, State::Hibernated);
    vm.change(families.power(), &vm.row().await, PowerRequest::Start)
        .await
        .unwrap();
    let woken = vm.row().await;
    assert_eq!((woken.state, woken.uid), (State::Running, before.uid));
    let off = PowerRequest::Stop {
        force: true,
        force_after: None,
    };
    vm.change(families.power(), &vm.row().await, off)
        .await
        .unwrap();
    vm.change(families.snapshots(), &vm.row().await, back(false))
        .await
        .unwrap();
    assert_eq!(
        vm.row().await.state,
        State::Running,
        "with its RAM it runs at once"
    );
}
