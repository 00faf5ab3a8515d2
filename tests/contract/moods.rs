//! What the simulated fleet shows beside healthy guests: faults, silence, each kind's own words.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{
    Backend as _, PauseRequest, PowerRequest, ReadCx, SnapshotRequest, Way,
};
use corral::backend::demo::{Demo, DemoSize, Knobs, members};
use corral::model::{ErrorKind, Instance, Result, State};
use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bench::{Bench, Files};

const ASK: PowerRequest = PowerRequest::Stop {
    force: false,
    force_after: None,
};

fn cx() -> ReadCx {
    ReadCx::quiet(Duration::from_secs(30))
}

fn demo(context: &str, knobs: &Knobs) -> Arc<Demo> {
    members(DemoSize::Small, knobs)
        .into_iter()
        .find(|(spec, _)| spec.name == context)
        .map(|(_, demo)| demo)
        .unwrap()
}

async fn named(demo: &Demo, name: &str) -> Instance {
    let listed = demo.inventory(&cx()).await.unwrap();
    listed
        .instances
        .into_iter()
        .find(|row| row.name == name)
        .unwrap()
}

fn bench(demo: &Arc<Demo>, patience: Duration) -> Bench {
    Bench {
        backend: Arc::clone(demo) as _,
        context: "any".to_owned(),
        namespace: None,
        patience,
        source: corral::backend::contract::DiskSource::Blank,
        files: Files::named(Path::new("files")),
        elsewhere: String::new(),
        image: String::new(),
        calls: None,
    }
}

#[tokio::test]
async fn each_kind_is_spoken_to_in_its_own_words() {
    let knobs = Knobs::instant();
    for (context, name, words) in [
        ("local", "web", "QMP system_powerdown"),
        ("hv1", "db", "virDomainShutdown db"),
        (
            "lab",
            "ci",
            "PUT /1.0/instances/ci/state?project=default {\"action\":\"stop\"}",
        ),
        (
            "prod",
            "api",
            "PUT /apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachines/api/stop",
        ),
        ("pve", "db", "POST /nodes/pve1/qemu/101/status/shutdown"),
        ("pve", "proxy", "POST /nodes/pve1/lxc/106/status/shutdown"),
        ("vc", "web", "ShutdownGuest vm-47"),
        (
            "site2",
            "web",
            "POST /v1/actions {\"verb\":\"stop\",\"targets\":[\"lab/default/web\"]}",
        ),
    ] {
        let demo = demo(context, &knobs);
        let row = named(&demo, name).await;
        let power = demo.families().power().unwrap();
        let plan = power.prepare(&cx(), &row, ASK).await.unwrap();
        assert_eq!(plan.steps[0].native, words);
    }
}

#[tokio::test]
async fn who_does_not_react_is_waited_for_and_then_powered_off_if_told_so() {
    let demo = demo("hv1", &Knobs::instant());
    let bench = bench(&demo, Duration::from_millis(300));
    let row = named(&demo, "stubborn").await;
    let error = bench
        .change(demo.families().power(), &row, ASK)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::TimedOut);
    assert!(error.to_string().contains("corral stop --force"), "{error}");
    let row = named(&demo, "stubborn").await;
    assert_eq!(row.state, State::Running);
    let patient = PowerRequest::Stop {
        force: false,
        force_after: Some(Duration::from_millis(50)),
    };
    bench
        .change(demo.families().power(), &row, patient)
        .await
        .unwrap();
    assert_eq!(named(&demo, "stubborn").await.state, State::Stopped);
}

#[tokio::test]
async fn a_start_that_fails_says_why_and_leaves_it_stopped() {
    let demo = demo("hv1", &Knobs::instant());
    let bench = bench(&demo, Duration::from_secs(30));
    let row = named(&demo, "badboot").await;
    let error = bench
        .change(demo.families().power(), &row, PowerRequest::Start)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Backend);
    assert!(error.message.contains("no bootable device"), "{error}");
    assert_eq!(named(&demo, "badboot").await.state, State::Stopped);
    let events = demo.families().events().unwrap();
    let told = events.recorded(&cx(), Some(&row.id)).await.unwrap();
    assert!(told.iter().any(|e| e.kind == "failed"), "{told:?}");
}

#[tokio::test]
async fn locked_templates_and_unknown_are_refused_with_a_way_out() {
    let knobs = Knobs::instant();
    for (context, name, part) in [
        ("pve", "mail", "locked: backup"),
        ("pve", "dns2", "node pve3 is offline"),
        ("pve", "debian13-template", "template"),
        ("lab", "half-made", "cannot be read"),
        ("hv1", "files", "paused"),
    ] {
        let demo = demo(context, &knobs);
        let row = named(&demo, name).await;
        let start = demo.families().power().unwrap();
        let plan = start
            .prepare(&cx(), &row, PowerRequest::Start)
            .await
            .unwrap();
        let refusal = plan.refusals.first().expect(name);
        assert!(refusal.message.contains(part), "{}", refusal.message);
        assert!(refusal.remedy.is_some(), "{name}");
    }
}

#[tokio::test]
async fn silence_refusal_and_an_expired_login_are_told_apart() {
    let knobs = Knobs {
        down: vec!["pve".to_owned()],
        refused: vec!["lab".to_owned()],
        ..Knobs::default()
    };
    for (context, kind) in [
        ("pve", ErrorKind::TimedOut),
        ("hv2", ErrorKind::TimedOut),
        ("lab", ErrorKind::Unreachable),
        ("vc-old", ErrorKind::Unauthorized),
    ] {
        let patience = match kind {
            ErrorKind::TimedOut => Duration::from_millis(50),
            _ => Duration::from_secs(30),
        };
        let soon = ReadCx::quiet(patience);
        let error = demo(context, &knobs).inventory(&soon).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert_eq!(error.context.as_deref(), Some(context));
    }
    let mut changes = demo("lab", &knobs).watch().unwrap();
    let first: Result<_> = changes.next().await.unwrap();
    assert_eq!(first.unwrap_err().kind, ErrorKind::Unreachable);
    assert!(changes.next().await.is_none());
}

#[tokio::test]
async fn failure_rates_hit_reads_and_changes() {
    let knobs = Knobs {
        change_failures: 1.0,
        ..Knobs::instant()
    };
    let demo = demo("hv1", &knobs);
    let row = named(&demo, "web").await;
    let bench = bench(&demo, Duration::from_secs(30));
    let error = bench
        .change(demo.families().pause(), &row, PauseRequest::Pause)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Backend);
    assert!(demo.calls().native.is_empty(), "nothing was done");
}

#[tokio::test]
async fn a_route_leads_to_a_login_that_echoes() {
    let demo = demo("lab", &Knobs::instant());
    let row = named(&demo, "ci").await;
    let routes = demo
        .families()
        .routes()
        .unwrap()
        .routes(&cx(), &row, 22)
        .await
        .unwrap();
    let Way::Stream(opener) = &routes[0].way else {
        panic!("not a stream");
    };
    let mut duplex = opener.open().await.unwrap();
    duplex
        .write
        .write_all(b"ann\rwhoami\rexit\r")
        .await
        .unwrap();
    let mut text = String::new();
    duplex.read.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("SSH-2.0-"), "{text}");
    assert!(text.contains("ci login: ann\r\n"), "{text}");
    assert!(text.contains("whoami\r\nann\r\n"), "{text}");
    assert!(text.ends_with("logout\r\n"), "{text}");
}

#[tokio::test]
async fn deleting_a_snapshot_hangs_its_children_on_its_parent() {
    let demo = demo("hv1", &Knobs::instant());
    let bench = bench(&demo, Duration::from_secs(30));
    let row = named(&demo, "db").await;
    let delete = SnapshotRequest::Delete {
        names: vec!["pre-patch".to_owned()],
    };
    bench
        .change(demo.families().snapshots(), &row, delete)
        .await
        .unwrap();
    let detail = demo.detail(&cx(), &row.id).await.unwrap();
    let parents: Vec<_> = detail
        .snapshots
        .iter()
        .map(|s| (s.name.as_str(), s.parent.as_deref()))
        .collect();
    assert_eq!(parents, [("base", None), ("post-patch", Some("base"))]);
}
