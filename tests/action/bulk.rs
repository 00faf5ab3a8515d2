//! Many at once.

use corral::backend::demo::Knobs;
use corral::model::{ErrorKind, Gate, State, TargetState, TaskState};

use crate::bench::{Bench, error, typed, yes};

#[tokio::test]
async fn req_11_bulk_asks_for_verb_and_number_and_reports_each() {
    let bench = Bench::new();
    let line = "snapshot create --filter 'context:hv1' --name nightly";
    let plan = bench.plan(line).await.unwrap();
    let count = plan.runnable().count();
    assert!(count > 3);
    assert_eq!(plan.gate, Gate::Confirm);
    let task = bench.run(line, yes()).await.unwrap();
    assert_eq!(task.state, TaskState::Done, "{task:?}");
    assert_eq!(task.targets.len(), count);
    assert!(
        task.targets.iter().all(
            |t| matches!(&t.state, TargetState::Done(o) if o.changed && o.consistency.is_some())
        )
    );

    let wide = "stop --filter state:running --force";
    let plan = bench.plan(wide).await.unwrap();
    let number = plan.runnable().filter(|t| !t.unchanged).count();
    assert_eq!(
        plan.gate,
        Gate::Type {
            text: format!("stop {number}")
        }
    );
    assert!(
        plan.refused().count() > 0,
        "read-only contexts are among them"
    );
    let before = bench.native().len();
    assert_eq!(error(bench.run(wide, yes()).await).kind, ErrorKind::Refused);
    assert_eq!(bench.native().len(), before);
    let task = bench
        .run(wide, typed(&format!("stop {number}")))
        .await
        .unwrap();
    assert_eq!(task.state, TaskState::Partial, "the refused ones count");
}

#[tokio::test]
async fn bulk_is_refused_while_a_context_is_silent() {
    let bench = Bench::with(
        Knobs {
            refused: vec!["pve".to_owned()],
            ..Knobs::instant()
        },
        None,
        false,
    );
    let refused = error(bench.plan("stop web*").await);
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert!(
        refused.to_string().contains("pve") && refused.to_string().contains("--allow-partial"),
        "{refused}"
    );
    let plan = bench.plan("stop web* --allow-partial").await.unwrap();
    assert_eq!(plan.left_out[0].what, "pve");
    let refused = error(bench.plan("stop ci").await);
    assert_eq!(refused.kind, ErrorKind::Ambiguous, "{refused}");
}

#[tokio::test]
async fn one_failure_does_not_stop_the_others_unless_told_to() {
    let bench = Bench::new();
    for id in ["hv1/badboot", "hv1/web", "hv1/db"] {
        bench.demo(id).outside(&id.parse().unwrap(), State::Stopped);
    }
    let task = bench
        .run("start hv1/badboot hv1/web hv1/db", yes())
        .await
        .unwrap();
    assert_eq!(task.state, TaskState::Partial, "{task:?}");
    assert_eq!(bench.state("hv1/web").await, State::Running);
    for id in ["hv1/web", "hv1/db"] {
        bench.demo(id).outside(&id.parse().unwrap(), State::Stopped);
    }
    let task = bench
        .run(
            "start hv1/badboot hv1/web hv1/db -j 1 --on-error stop",
            yes(),
        )
        .await
        .unwrap();
    let skipped = task
        .targets
        .iter()
        .filter(|t| t.state == TargetState::Skipped)
        .count();
    assert_eq!(skipped, 2, "{task:?}");
}
