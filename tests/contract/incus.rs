//! A real server of Incus: containers, and VMs where it runs them.

use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::DiskSource;

use crate::bench::{Bench, Files};
use crate::beside::View;
use crate::incus_lab::Place;
use crate::suite;

#[tokio::test(flavor = "multi_thread")]
async fn incus_keeps_the_contract_with_containers() {
    let Some(place) = Place::new("contract-ct") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("backups")).unwrap();
    let backend = place.backend();
    let view = View::open(&place.spec(), Arc::clone(&backend));
    let bench = Bench {
        backend,
        context: "lab".to_owned(),
        namespace: Some(place.project.clone()),
        patience: Duration::from_secs(60),
        source: DiskSource::Copy("corral-tiny".to_owned()),
        files: Files::new(folder.path()),
        elsewhere: "second".to_owned(),
        image: format!("{}/corral-tiny.tar.gz", place.facts["LAB_DIR"]),
        calls: None,
    };
    suite::run(&bench).await;
    view.agrees(&bench).await;
}
