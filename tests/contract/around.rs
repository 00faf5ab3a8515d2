//! What stands around instances.

use corral::backend::contract::ImageRequest;
use corral::model::{ErrorKind, Operation};

use crate::bench::Bench;

pub async fn all(bench: &Bench) {
    let families = bench.backend.families();
    let cx = bench.cx();
    if bench.can(Operation::Hosts) {
        let hosts = families.hosts().unwrap().hosts(&cx).await.unwrap();
        assert!(!hosts.is_empty());
        assert!(hosts.iter().all(|host| host.context == bench.context));
    }
    if bench.can(Operation::Storage) {
        let storage = families.storage().unwrap();
        let pools = storage.pools(&cx).await.unwrap();
        assert!(!pools.is_empty());
        for pool in &pools {
            assert_eq!(pool.context, bench.context);
            if let (Some(size), Some(used)) = (pool.size_bytes, pool.used_bytes) {
                assert!(used <= size, "{pool:?}");
            }
            let volumes = storage.volumes(&cx, &pool.name).await.unwrap();
            assert!(volumes.iter().all(|volume| volume.pool == pool.name));
        }
        let error = storage.volumes(&cx, "never").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    }
    if bench.can(Operation::Networks) {
        let networks = families.networks().unwrap().networks(&cx).await.unwrap();
        assert!(!networks.is_empty());
        assert!(networks.iter().all(|net| net.context == bench.context));
    }
    if bench.can(Operation::Images) {
        let images = families.images().unwrap();
        images.images(&cx).await.unwrap();
        let all = images.search(&cx, &[]).await.unwrap();
        let none = images.search(&cx, &["no-such-image".to_owned()]).await;
        assert!(none.unwrap().is_empty());
        if let Some(first) = all.first() {
            let named = images.search(&cx, std::slice::from_ref(&first.name)).await;
            assert!(named.unwrap().iter().any(|i| i.name == first.name));
        }
    }
    if bench.can(Operation::ImagePull) {
        pull(bench).await;
    }
}

async fn pull(bench: &Bench) {
    let family = || bench.backend.families().image_pull();
    let stub = bench.stub("contract-image");
    let pull = ImageRequest::Pull {
        source: bench.image.clone(),
        checksum: None,
        name: Some("contract-image".to_owned()),
    };
    let here = async || {
        let images = bench.backend.families().images().unwrap();
        let images = images.images(&bench.cx()).await.unwrap();
        images.into_iter().find(|i| i.name == "contract-image")
    };
    let late = family()
        .unwrap()
        .prepare(&bench.cx(), &stub, pull.clone())
        .await
        .unwrap();
    assert!(!late.steps.is_empty());
    bench.change(family(), &stub, pull.clone()).await.unwrap();
    let image = here().await.expect("it is not here");
    assert!(
        image.path.is_some() && image.checksum.is_some(),
        "{image:?}"
    );
    let error = family().unwrap().run(&bench.task(&stub.id), late).await;
    assert_eq!(error.unwrap_err().kind, ErrorKind::Conflict);
    let again = bench.change(family(), &stub, pull).await.unwrap();
    assert!(!again.changed);
    let delete = ImageRequest::Delete {
        image: "contract-image".to_owned(),
    };
    bench.change(family(), &stub, delete.clone()).await.unwrap();
    assert!(here().await.is_none());
    let again = bench.change(family(), &stub, delete).await;
    assert!(again.is_err() || !again.unwrap().changed);
}
