//! What a guest that runs is asked for.

use corral::backend::contract::{
    FilesRequest, HibernateRequest, PowerRequest, RenameRequest, ResizeRequest, SendKeyRequest,
    TemplateRequest,
};
use corral::model::{InstanceId, Operation, State};

use crate::bench::Bench;

/// From off to off.
pub async fn all(bench: &Bench, id: &InstanceId) {
    let power = || bench.backend.families().power();
    let off = bench.row(id).await;
    if off.state != State::Running {
        silent(bench, id).await;
        bench
            .change(power(), &off, PowerRequest::Start)
            .await
            .unwrap();
    }
    bench.ready(id).await;
    refusals(bench, id).await;
    screen(bench, id).await;
    logs(bench, id).await;
    if bench.can(Operation::Files) {
        files(bench, id).await;
    }
    if bench.can(Operation::Hibernate) {
        hibernate(bench, id).await;
    }
    let row = bench.row(id).await;
    let stop = PowerRequest::Stop {
        force: true,
        force_after: None,
    };
    bench.change(power(), &row, stop).await.unwrap();
}

/// Of one that is off there is no picture, and it gets no keys.
async fn silent(bench: &Bench, id: &InstanceId) {
    let row = bench.row(id).await;
    if bench.can(Operation::Screenshot) {
        let screens = bench.backend.families().screenshot().unwrap();
        assert!(screens.screenshot(&bench.cx(), &row).await.is_err());
    }
    if bench.can(Operation::SendKey) {
        let keys = bench.backend.families().sendkey();
        bench.refuses(keys, id, key("ret")).await;
    }
}

fn key(name: &str) -> SendKeyRequest {
    SendKeyRequest {
        chords: vec![vec![name.to_owned()]],
        typed: 0,
    }
}

/// What it cannot do while it runs says how to get there.
async fn refusals(bench: &Bench, id: &InstanceId) {
    let families = || bench.backend.families();
    if bench.can(Operation::Template) {
        let why = bench
            .refuses(families().template(), id, TemplateRequest { on: true })
            .await;
        assert!(why.contains("top it first"), "{why}");
    }
    let row = bench.row(id).await;
    let ready = |operation| bench.backend.support(operation, Some(&row)).is_ready();
    if bench.can(Operation::Rename) && !ready(Operation::Rename) {
        let to = RenameRequest {
            to: "contract-late".to_owned(),
        };
        let why = bench.refuses(families().rename(), id, to).await;
        assert!(why.contains("top it first"), "{why}");
    }
    if bench.can(Operation::Resize) {
        let more = ResizeRequest {
            cpus: row.cpus.map(|n| n + 7),
            ..ResizeRequest::default()
        };
        let resize = families().resize().unwrap();
        let plan = resize.prepare(&bench.cx(), &row, more).await.unwrap();
        for refusal in &plan.refusals {
            let remedy = refusal.remedy.as_deref().unwrap_or_default();
            assert!(remedy.contains("--restart"), "{refusal:?}");
        }
    }
}

async fn screen(bench: &Bench, id: &InstanceId) {
    let row = bench.row(id).await;
    let ready = |operation| bench.backend.support(operation, Some(&row)).is_ready();
    if bench.can(Operation::Screenshot) && !ready(Operation::Screenshot) {
        let screens = bench.backend.families().screenshot().unwrap();
        let error = screens.screenshot(&bench.cx(), &row).await.unwrap_err();
        assert!(error.remedy.is_some(), "{error}");
    } else if bench.can(Operation::Screenshot) {
        let screens = bench.backend.families().screenshot().unwrap();
        let picture = screens.screenshot(&bench.cx(), &row).await.unwrap();
        let magic: &[u8] = match picture.media_type.as_str() {
            "image/png" => b"\x89PNG\r\n\x1a\n",
            _ => b"P6",
        };
        assert!(picture.bytes.starts_with(magic), "{picture:?}");
    }
    if bench.can(Operation::SendKey) {
        let keys = || bench.backend.families().sendkey();
        let sent = bench.change(keys(), &row, key("shift")).await.unwrap();
        assert!(sent.changed);
        bench.refuses(keys(), id, key("no-such-key")).await;
    }
}

async fn logs(bench: &Bench, id: &InstanceId) {
    if !bench.can(Operation::Logs) {
        return;
    }
    let row = bench.row(id).await;
    let logs = bench.backend.families().logs().unwrap();
    let sources = logs.sources(&bench.cx(), &row).await.unwrap();
    assert!(!sources.is_empty());
    for source in &sources {
        let lines = logs.read(&bench.cx(), &row, &source.name, 3).await.unwrap();
        assert!(lines.len() <= 3, "{}: {lines:?}", source.name);
    }
    assert!(logs.read(&bench.cx(), &row, "never", 3).await.is_err());
}

async fn files(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().files();
    let inside = "/tmp/contract.txt";
    let push = |overwrite| FilesRequest::Push {
        from: bench.files.text.clone(),
        to: inside.to_owned(),
        overwrite,
    };
    let row = bench.row(id).await;
    bench.change(family(), &row, push(false)).await.unwrap();
    let back = bench.files.folder.join("back.txt");
    let pull = |from: &str| FilesRequest::Pull {
        from: from.to_owned(),
        to: back.clone(),
        overwrite: false,
    };
    let row = bench.row(id).await;
    bench.change(family(), &row, pull(inside)).await.unwrap();
    if bench.calls.is_none() {
        assert_eq!(std::fs::read(&back).unwrap(), b"contract\n");
    }
    let row = bench.row(id).await;
    let missing = bench.change(family(), &row, pull("/tmp/never")).await;
    assert!(missing.is_err());
}

async fn hibernate(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().hibernate();
    let row = bench.row(id).await;
    if !bench
        .backend
        .support(Operation::Hibernate, Some(&row))
        .is_ready()
    {
        bench.refuses(family(), id, HibernateRequest).await;
        return;
    }
    bench.once(family(), id, HibernateRequest).await;
    assert_eq!(bench.row(id).await.state, State::Hibernated);
    bench.is_so(family(), id, HibernateRequest).await;
    let row = bench.row(id).await;
    let power = bench.backend.families().power();
    bench
        .change(power, &row, PowerRequest::Start)
        .await
        .unwrap();
    assert_eq!(bench.row(id).await.state, State::Running);
}
