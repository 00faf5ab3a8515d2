//! The native definition.

use corral::backend::contract::EditRequest;
use corral::model::{InstanceId, Operation};

use crate::bench::Bench;

/// How one CPU is written, and two, in the form of each kind.
const CPUS: &[(&str, &str)] = &[
    ("cpus = 1", "cpus = 2"),
    ("<vcpu>1<", "<vcpu>2<"),
    ("'static'>1</vcpu>", "'static'>2</vcpu>"),
    ("limits.cpu: \"1\"", "limits.cpu: \"2\""),
    ("\"numCpu\": 1", "\"numCpu\": 2"),
    ("cores: 1", "cores: 2"),
];

pub async fn all(bench: &Bench, id: &InstanceId) {
    if !bench.can(Operation::Edit) {
        return;
    }
    let family = bench.backend.families().edit().unwrap();
    let row = bench.row(id).await;
    let now = family.native(&bench.cx(), &row).await.unwrap();
    let to = |text: &str| EditRequest {
        text: text.to_owned(),
        base: now.token.clone(),
        label: "a text".to_owned(),
    };
    let same = family
        .prepare(&bench.cx(), &row, to(&now.text))
        .await
        .unwrap();
    assert!(same.unchanged, "the same text changes something");
    let bad = family
        .prepare(&bench.cx(), &row, to("neither [ nor < {"))
        .await;
    assert!(bad.is_err() || !bad.unwrap().refusals.is_empty());
    let two = CPUS
        .iter()
        .find(|(one, _)| now.text.contains(one))
        .map(|(one, two)| now.text.replace(one, two));
    let two = two.unwrap_or_else(|| panic!("no CPUs in {}", now.text));
    let plan = family.prepare(&bench.cx(), &row, to(&two)).await.unwrap();
    let late = family.prepare(&bench.cx(), &row, to(&two)).await.unwrap();
    assert!(!plan.steps.is_empty(), "{plan:?}");
    family.run(&bench.task(id), plan).await.unwrap();
    assert_eq!(bench.row(id).await.cpus, Some(2));
    let error = family.run(&bench.task(id), late).await.unwrap_err();
    assert_eq!(error.kind, corral::model::ErrorKind::Conflict, "{error}");
    // Edited on top of a text that is no more.
    let stale = family
        .prepare(&bench.cx(), &bench.row(id).await, to(&now.text))
        .await;
    match stale {
        Err(error) => assert_eq!(error.kind, corral::model::ErrorKind::Conflict, "{error}"),
        Ok(stale) => assert!(!stale.refusals.is_empty()),
    }
    assert_eq!(bench.row(id).await.cpus, Some(2));
}
