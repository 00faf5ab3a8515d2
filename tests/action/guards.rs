//! Read-only, protection and gates hold below every front.

use corral::action::{Run, rows};
use corral::backend::demo::Knobs;
use corral::model::{Consent, ErrorKind, Gate, GroupNoun, TaskState};

use crate::bench::{Bench, answer, error, typed, yes};

/// A line for every changing row, so that a new row cannot be forgotten.
fn line_for(name: &str) -> Option<&'static str> {
    Some(match name {
        "start" => "start hv1/badboot",
        "stop" => "stop hv1/stubborn",
        "restart" => "restart hv1/stubborn",
        "pause" => "pause hv1/stubborn",
        "resume" => "resume hv1/files",
        "hibernate" => "hibernate hv1/stubborn",
        "gc" => "gc",
        "create" => "create new --context hv1",
        "delete" => "delete hv1/badboot",
        "protect" => "protect hv1/badboot --on",
        "snapshot create" => "snapshot create hv1/badboot --name s",
        "snapshot restore" => "snapshot restore hv1/db@base --stop",
        "snapshot delete" => "snapshot delete hv1/db@base",
        "clone" => "clone hv1/badboot --name copy",
        "rename" => "rename hv1/badboot --to other",
        "template" => "template hv1/badboot --on",
        "tag" => "tag hv1/badboot --add x",
        "note" => "note hv1/badboot --text x",
        "autostart" => "autostart hv1/badboot --on",
        "resize" => "resize hv1/badboot --cpus 3",
        "disk add" => "disk add hv1/badboot --size 1G",
        "disk remove" => "disk remove hv1/badboot --disk vda",
        "disk grow" => "disk grow hv1/badboot --disk vda --by 1G",
        "disk move" => "disk move hv1/badboot --disk vda --to other",
        "nic add" => "nic add hv1/badboot",
        "nic remove" => "nic remove hv1/badboot --nic net0",
        "media insert" => "media insert hv1/badboot --image x.iso",
        "media eject" => "media eject hv1/badboot",
        "ports publish" => "ports publish lab/default/ci --port 8080:80",
        "ports unpublish" => "ports unpublish lab/default/ci --port 80",
        "migrate" => "migrate hv1/stubborn --to hv2",
        "edit" => "edit hv1/badboot --file Cargo.toml --base x",
        "unlock" => "unlock hv1/badboot",
        "cp" => "cp Cargo.toml hv1/stubborn:/tmp/x",
        "sendkey" => "sendkey hv1/stubborn esc",
        "export" => "export hv1/badboot --to /tmp/x",
        "import" => "import x.qcow2 --name new --context hv1",
        "image pull" => "image pull debian-13 --context hv1",
        "image delete" => "image delete hv1/alpine-3.22",
        "backup create" => "backup create hv1/badboot",
        "backup restore" => "backup restore hv1/badboot@2026-11-30T06-00-00Z",
        "backup delete" => "backup delete hv1/badboot@2026-11-30T06-00-00Z",
        _ => return None,
    })
}

#[tokio::test]
async fn req_12_read_only_refuses_every_change_of_every_row() {
    let bench = Bench::with(
        Knobs::instant(),
        Some("corral was started with --readonly"),
        false,
    );
    let mut tried = 0;
    for row in rows()
        .iter()
        .filter(|row| matches!(row.run, Run::Change(_)))
    {
        if !matches!(
            row.noun,
            GroupNoun::Instances
                | GroupNoun::NewInstance
                | GroupNoun::Source
                | GroupNoun::Images
                | GroupNoun::ImageSources
        ) {
            continue;
        }
        let line = line_for(row.name).unwrap_or_else(|| panic!("no line for {}", row.name));
        let plan = match bench.plan(line).await {
            Ok(plan) => plan,
            // What concerns another context too may be refused before there is a plan.
            Err(refused) => {
                assert_eq!(refused.kind, ErrorKind::Refused, "{line}");
                assert!(refused.message.contains("--readonly"), "{refused}");
                tried += 1;
                continue;
            }
        };
        assert_eq!(plan.runnable().count(), 0, "{line}");
        for consent in [Consent::default(), yes(), typed("badboot"), answer(&plan)] {
            let refused = error(bench.run(line, consent).await);
            assert_eq!(refused.kind, ErrorKind::Refused, "{line}");
            assert!(refused.message.contains("--readonly"), "{refused}");
        }
        tried += 1;
    }
    assert!(tried >= 10);
    assert!(bench.native().is_empty());
}

#[tokio::test]
async fn req_12_a_read_only_context_refuses_its_own_only() {
    let bench = Bench::new();
    let refused = error(bench.force("start xs --context xs").await);
    assert_eq!(refused.kind, ErrorKind::NotFound);
    let view = bench.engine.fleet().view();
    let row = view.instances.iter().find(|r| r.context == "xs").unwrap();
    let refused = error(bench.force(&format!("stop --force {}", row.id)).await);
    assert!(refused.message.contains("read-only"), "{refused}");
    assert!(bench.native().is_empty());
}

#[tokio::test]
async fn req_14_protected_contexts_and_instances_want_the_name() {
    let bench = Bench::new();
    let view = bench
        .engine
        .fleet()
        .settle(&corral::model::Scope::default())
        .await;
    let row = view
        .instances
        .iter()
        .find(|r| r.context == "prod" && r.state.is_active())
        .unwrap()
        .clone();
    let line = format!("stop {}", row.id);
    assert_eq!(
        bench.plan(&line).await.unwrap().gate,
        Gate::Type {
            text: row.name.clone()
        }
    );
    for consent in [Consent::default(), yes(), typed("something else")] {
        assert_eq!(
            error(bench.run(&line, consent).await).kind,
            ErrorKind::Refused
        );
    }
    assert!(bench.native().is_empty());
    assert_eq!(
        bench.run(&line, typed(&row.name)).await.unwrap().state,
        TaskState::Done
    );

    let task = bench
        .run("protect hv1/badboot --on", Consent::default())
        .await
        .unwrap();
    assert_eq!(task.state, TaskState::Done);
    let plan = bench.plan("snapshot delete hv1/badboot@x").await.unwrap();
    assert!(plan.targets[0].protected);
    let refused = error(bench.run("protect hv1/badboot --off", yes()).await);
    assert!(
        refused.to_string().contains("--confirm badboot"),
        "{refused}"
    );
    assert_eq!(
        bench
            .run("protect hv1/badboot --off", typed("badboot"))
            .await
            .unwrap()
            .state,
        TaskState::Done
    );
}

#[tokio::test]
async fn req_13_a_yes_never_deletes() {
    let bench = Bench::new();
    let refused = error(bench.run("delete hv1/badboot", yes()).await);
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert!(
        refused
            .to_string()
            .contains("corral delete hv1/badboot --confirm badboot"),
        "{refused}"
    );
    assert!(bench.native().is_empty());
}

#[tokio::test]
async fn what_a_backend_cannot_do_is_refused_with_its_reason() {
    let bench = Bench::new();
    let view = bench
        .engine
        .fleet()
        .settle(&corral::model::Scope::default())
        .await;
    let row = view
        .instances
        .iter()
        .find(|r| r.context == "nx" && r.state.is_active() && !r.protected)
        .unwrap();
    let refused = error(bench.force(&format!("pause {}", row.id)).await);
    assert!(refused.message.contains("AHV has no pause"), "{refused}");
}

/// What a menu offers in a read-only context is what a plan there does not refuse.
#[test]
fn req_12_no_change_needs_an_operation_that_only_looks() {
    for row in rows() {
        if matches!(row.run, Run::Change(_)) {
            let looks: Vec<_> = row.operations.iter().filter(|o| o.reads()).collect();
            assert!(looks.is_empty(), "{}: {looks:?}", row.name);
        }
    }
}
