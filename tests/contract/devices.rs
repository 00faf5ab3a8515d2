//! Sizes, disks, NICs, media and published ports of an instance that is off.

use corral::backend::contract::{
    DiskMoveRequest, DiskRequest, Growth, MediaRequest, NicRequest, PublishRequest, ResizeRequest,
};
use corral::model::{Bytes, Disk, InstanceId, Operation};

use crate::bench::Bench;
use crate::lab::free_port;

pub async fn all(bench: &Bench, id: &InstanceId) {
    if bench.can(Operation::Resize) {
        resize(bench, id).await;
    }
    if bench.can(Operation::DiskAdd) {
        disks(bench, id).await;
    }
    if bench.can(Operation::NicAdd) {
        nics(bench, id).await;
    }
    if bench.can(Operation::Media) {
        media(bench, id).await;
    }
    if bench.can(Operation::Publish) {
        publish(bench, id).await;
    }
}

async fn resize(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().resize();
    let to = |cpus, memory| ResizeRequest {
        cpus,
        memory,
        ..ResizeRequest::default()
    };
    let memory = Some(Bytes::mib(320));
    bench.once(family(), id, to(Some(2), memory)).await;
    let row = bench.row(id).await;
    assert_eq!((row.cpus, row.memory_bytes), (Some(2), memory));
    bench.is_so(family(), id, to(Some(2), memory)).await;
    bench.refuses(family(), id, to(Some(0), None)).await;
    bench.once(family(), id, to(Some(1), None)).await;
    let row = bench.row(id).await;
    assert_eq!((row.cpus, row.memory_bytes), (Some(1), memory));
}

async fn plain(bench: &Bench, id: &InstanceId) -> Vec<Disk> {
    let mut disks = bench.detail(id).await.disks;
    disks.retain(|disk| disk.device == "disk");
    disks
}

async fn disks(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().disks();
    let before = plain(bench, id).await;
    let add = DiskRequest::Add {
        size: Some(Bytes::mib(64)),
        image: None,
        copy: false,
        bus: None,
        format: None,
        readonly: false,
        storage: None,
    };
    bench.once(family(), id, add.clone()).await;
    let now = plain(bench, id).await;
    let new: Vec<&Disk> = now
        .iter()
        .filter(|disk| before.iter().all(|b| b.name != disk.name))
        .collect();
    assert_eq!(new.len(), 1);
    assert_eq!(new[0].size_bytes, Some(Bytes::mib(64)));
    assert!(new[0].owned);
    let slot = new[0].name.clone();
    let size = |disks: &[Disk]| {
        let disk = disks.iter().find(|disk| disk.name == slot).unwrap();
        (disk.size_bytes, disk.source.clone())
    };

    let grow = |mib| DiskRequest::Grow {
        disk: slot.clone(),
        size: Growth::To(Bytes::mib(mib)),
    };
    bench.once(family(), id, grow(128)).await;
    assert_eq!(size(&plain(bench, id).await).0, Some(Bytes::mib(128)));
    bench.is_so(family(), id, grow(128)).await;
    bench.refuses(family(), id, grow(64)).await;

    if bench.can(Operation::DiskMove) {
        let moves = || bench.backend.families().disk_move();
        let to = DiskMoveRequest {
            disk: slot.clone(),
            to: bench.elsewhere.clone(),
        };
        let from = size(&plain(bench, id).await).1;
        bench.once(moves(), id, to.clone()).await;
        let moved = size(&plain(bench, id).await);
        assert_ne!(moved.1, from);
        assert_eq!(moved.0, Some(Bytes::mib(128)));
        bench.is_so(moves(), id, to).await;
        let never = DiskMoveRequest {
            disk: "never".to_owned(),
            to: bench.elsewhere.clone(),
        };
        bench.refuses(moves(), id, never).await;
    }

    let remove = |disk: &str| DiskRequest::Remove {
        disk: disk.to_owned(),
        delete_data: true,
    };
    let row = bench.row(id).await;
    let plan = family()
        .unwrap()
        .prepare(&bench.cx(), &row, remove(&slot))
        .await
        .unwrap();
    assert!(!plan.losses.is_empty(), "data goes without a word");
    bench.once(family(), id, remove(&slot)).await;
    assert_eq!(plain(bench, id).await.len(), before.len());
    let gone = family()
        .unwrap()
        .prepare(&bench.cx(), &bench.row(id).await, remove(&slot))
        .await;
    match gone {
        Ok(gone) => assert!(gone.unchanged || !gone.refusals.is_empty()),
        Err(error) => assert_eq!(error.kind, corral::model::ErrorKind::NotFound),
    }
}

async fn nics(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().nics();
    let before = bench.detail(id).await.nics;
    let add = |mac: Option<String>| NicRequest::Add {
        network: None,
        model: None,
        mac,
    };
    bench.once(family(), id, add(None)).await;
    let now = bench.detail(id).await.nics;
    assert_eq!(now.len(), before.len() + 1);
    let new = now
        .iter()
        .find(|nic| before.iter().all(|b| b.mac != nic.mac))
        .unwrap();
    let mac = new.mac.clone().expect("a NIC without a MAC");
    if let Some(first) = &before[0].mac {
        bench.refuses(family(), id, add(Some(first.clone()))).await;
    }
    bench
        .refuses(family(), id, add(Some("nonsense".to_owned())))
        .await;
    let remove = NicRequest::Remove { nic: mac };
    bench.once(family(), id, remove).await;
    let macs = |nics: &[corral::model::Nic]| -> Vec<_> {
        nics.iter().map(|nic| nic.mac.clone()).collect()
    };
    assert_eq!(macs(&bench.detail(id).await.nics), macs(&before));
}

async fn media(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().media();
    let row = bench.row(id).await;
    if !bench
        .backend
        .support(Operation::Media, Some(&row))
        .is_ready()
    {
        let eject = MediaRequest::Eject {
            drive: None,
            force: false,
        };
        bench.refuses(family(), id, eject).await;
        return;
    }
    let image = bench.files.folder.join("contract.iso");
    if bench.files.folder.exists() {
        // The descriptor of an ISO 9660.
        let mut bytes = vec![0; 64 << 10];
        bytes[32769..32774].copy_from_slice(b"CD001");
        std::fs::write(&image, bytes).unwrap();
    }
    let image = image.to_str().unwrap().to_owned();
    let insert = MediaRequest::Insert {
        drive: None,
        image: image.clone(),
        force: false,
    };
    let eject = MediaRequest::Eject {
        drive: None,
        force: false,
    };
    let inside = async || {
        let detail = bench.detail(id).await;
        detail
            .disks
            .into_iter()
            .find(|disk| disk.device == "cdrom" && disk.source.as_ref() == Some(&image))
    };
    bench.once(family(), id, insert.clone()).await;
    assert!(inside().await.is_some(), "it is in no drive");
    bench.is_so(family(), id, insert).await;
    bench.once(family(), id, eject.clone()).await;
    assert!(inside().await.is_none());
    bench.is_so(family(), id, eject).await;
}

async fn publish(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().publish();
    let port = free_port();
    let publish = PublishRequest::Publish {
        address: "127.0.0.1".to_owned(),
        port,
        guest: 8080,
        protocol: "tcp".to_owned(),
    };
    let unpublish = PublishRequest::Unpublish {
        address: None,
        guest: 8080,
        port: Some(port),
        protocol: "tcp".to_owned(),
    };
    let host = format!("127.0.0.1:{port}");
    let there = async || {
        let ports = bench.row(id).await.ports.unwrap_or_default();
        ports.iter().any(|p| p.guest == 8080 && p.host == host)
    };
    bench.once(family(), id, publish.clone()).await;
    assert!(there().await);
    bench.is_so(family(), id, publish).await;
    bench.once(family(), id, unpublish.clone()).await;
    assert!(!there().await);
    bench.is_so(family(), id, unpublish).await;
}
