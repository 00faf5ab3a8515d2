//! Every kind that the simulated fleet impersonates.

use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{Backend, DiskSource, ReadCx};
use corral::backend::demo::{DemoSize, Knobs, members};

use crate::bench::{Bench, Files};
use crate::beside::View;
use crate::suite;

#[tokio::test]
async fn every_impersonated_kind_keeps_the_contract() {
    let mut kinds = 0;
    for (spec, demo) in members(DemoSize::Small, &Knobs::instant()) {
        let namespace = demo
            .inventory(&ReadCx::quiet(Duration::from_secs(30)))
            .await
            .unwrap()
            .instances[0]
            .namespace
            .clone();
        let seen = Arc::clone(&demo);
        let folder = tempfile::tempdir().unwrap();
        let pools = demo.families().storage().unwrap();
        let pools = pools.pools(&ReadCx::quiet(Duration::from_secs(30))).await;
        let elsewhere = pools.unwrap()[1].name.clone();
        let view = View::open(&spec, demo.clone());
        let bench = Bench {
            backend: demo,
            context: spec.name.clone(),
            namespace,
            patience: Duration::from_secs(30),
            source: DiskSource::Blank,
            files: Files::new(folder.path()),
            elsewhere,
            image: "fedora-42".to_owned(),
            calls: Some(Box::new(move || seen.calls().native)),
        };
        suite::run(&bench).await;
        view.agrees(&bench).await;
        kinds += 1;
    }
    assert_eq!(kinds, 12);
}
