//! Tags, the note, autostart and templates.

use corral::backend::contract::{
    AutostartRequest, NoteRequest, PowerRequest, TagsRequest, TemplateRequest,
};
use corral::model::{InstanceId, Operation};

use crate::bench::Bench;

pub async fn all(bench: &Bench, id: &InstanceId) {
    if bench.can(Operation::Tag) {
        tags(bench, id).await;
    }
    if bench.can(Operation::Note) {
        note(bench, id).await;
    }
    if bench.can(Operation::Autostart) {
        autostart(bench, id).await;
    }
    if bench.can(Operation::Template) {
        template(bench).await;
    }
}

async fn tags(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().tags();
    let change = |add: &[&str], remove: &[&str]| TagsRequest {
        add: add.iter().map(|tag| (*tag).to_owned()).collect(),
        remove: remove.iter().map(|tag| (*tag).to_owned()).collect(),
    };
    bench
        .once(family(), id, change(&["blue", "contract"], &["never"]))
        .await;
    let mut tags = bench.row(id).await.tags;
    tags.sort();
    assert_eq!(tags, ["blue", "contract"]);
    let list = bench.backend.inventory(&bench.cx()).await.unwrap();
    let listed = list.instances.iter().find(|row| row.id == *id).unwrap();
    assert!(listed.tags.contains(&"blue".to_owned()), "not in the list");
    bench
        .is_so(family(), id, change(&["blue"], &["never"]))
        .await;
    bench
        .refuses(family(), id, change(&["bad\u{1b}tag"], &[]))
        .await;
    bench.once(family(), id, change(&[], &["blue"])).await;
    assert_eq!(bench.row(id).await.tags, ["contract"]);
}

async fn note(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().notes();
    let note = |text: &str| NoteRequest {
        text: Some(text.to_owned()),
    };
    bench.once(family(), id, note("for the contract: ü")).await;
    let row = bench.row(id).await;
    assert_eq!(row.note.as_deref(), Some("for the contract: ü"));
    bench.is_so(family(), id, note("for the contract: ü")).await;
    bench.once(family(), id, NoteRequest { text: None }).await;
    assert_eq!(bench.row(id).await.note, None);
    bench.is_so(family(), id, NoteRequest { text: None }).await;
}

async fn autostart(bench: &Bench, id: &InstanceId) {
    let family = || bench.backend.families().autostart();
    for on in [true, false] {
        bench.once(family(), id, AutostartRequest { on }).await;
        assert_eq!(bench.row(id).await.autostart, Some(on));
        bench.is_so(family(), id, AutostartRequest { on }).await;
    }
}

/// On an instance of its own: for some the way is one-way.
async fn template(bench: &Bench) {
    let id = bench.small("contract-base").await;
    let family = || bench.backend.families().template();
    bench
        .is_so(family(), &id, TemplateRequest { on: false })
        .await;
    bench
        .once(family(), &id, TemplateRequest { on: true })
        .await;
    assert!(bench.row(&id).await.template);
    bench
        .is_so(family(), &id, TemplateRequest { on: true })
        .await;
    let why = bench
        .refuses(bench.backend.families().power(), &id, PowerRequest::Start)
        .await;
    assert!(why.contains("template"), "{why}");
    let row = bench.row(&id).await;
    let back = bench
        .change(family(), &row, TemplateRequest { on: false })
        .await;
    match back {
        Ok(_) => assert!(!bench.row(&id).await.template),
        Err(error) => assert!(error.remedy.is_some(), "{error}"),
    }
    bench.remove(&id).await;
}
