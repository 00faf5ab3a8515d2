//! Files of this user: a text between an editor and its plan, and paths as they are typed.

use corral::action::by_hand;
use corral::model::{ErrorKind, TaskState};

use crate::bench::{Bench, action, yes};

#[tokio::test]
async fn nothing_is_opened_where_nothing_may_be_changed() {
    let bench = Bench::new();
    let view = bench
        .engine
        .fleet()
        .settle(&corral::model::Scope::default())
        .await;
    let row = view.instances.iter().find(|r| r.context == "xs").unwrap();
    let line = format!("edit {}", row.id);
    let refused = by_hand::open(&bench.engine, &action(&line)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert!(refused.message.contains("read-only"), "{refused}");
    assert!(!bench.engine.env().dirs.state.join("edits").exists());
}

#[tokio::test]
async fn a_text_stays_until_it_was_taken() {
    let bench = Bench::new();
    let opened = by_hand::open(&bench.engine, &action("edit local/win11"))
        .await
        .unwrap();
    let text = std::fs::read_to_string(&opened.file).unwrap();
    std::fs::write(&opened.file, format!("{text}\n# mine\n")).unwrap();
    assert!(!opened.is_as_before());
    let plan = bench.engine.plan(&opened.action).await.unwrap();
    assert!(opened.file.exists());
    let options = crate::bench::options("edit local/win11");
    let mut task = bench.engine.submit(&plan, &yes(), &options).await.unwrap();
    assert_eq!(task.finished().await.state, TaskState::Done);
    assert!(!opened.file.exists());
    // A file of the user's own is theirs.
    let own = bench.dir.path().join("own.toml");
    std::fs::write(&own, format!("{text}\n# another\n")).unwrap();
    let line = format!("edit local/win11 --file {}", own.display());
    let task = bench.force(&line).await.unwrap();
    assert_eq!(task.state, TaskState::Done);
    assert!(own.exists());
}

#[tokio::test]
async fn home_is_filled_in_for_copies_and_pictures() {
    let bench = Bench::new();
    let plan = bench.plan("cp local/web:/etc/hostname '~/x'").await;
    let steps = format!("{:?}", plan.unwrap().targets[0].steps);
    assert!(steps.contains("/nonexistent/x"), "{steps}");
    let plan = bench.plan("cp '~/x' local/web:/tmp/").await;
    let said = format!("{plan:?}");
    assert!(said.contains("/nonexistent/x"), "{said}");
    let refused = bench.read("screenshot local/web --to '~/x.png'").await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("no folder /nonexistent"), "{refused}");
}
