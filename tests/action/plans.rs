//! A plan says what would be done, and what is done is that.

use corral::model::{ErrorKind, State, TargetState, TaskState};

use crate::bench::{Bench, answer, error, options, yes};

#[tokio::test]
async fn planning_changes_nothing_and_the_calls_are_the_steps() {
    let bench = Bench::new();
    for line in [
        "pause hv1/web",
        "resume hv1/web",
        "snapshot create hv1/web --name s1",
        "snapshot delete hv1/web@s1",
        "restart hv1/web",
        "stop hv1/web",
        "start hv1/web",
        "create extra --context hv1",
        "delete hv1/extra",
    ] {
        let before = bench.native().len();
        let plan = bench.plan(line).await.unwrap();
        assert_eq!(bench.native().len(), before, "{line}: planning called");
        if plan.targets[0].unchanged {
            continue;
        }
        let steps: Vec<String> = plan.targets[0]
            .steps
            .iter()
            .map(|s| s.native.clone())
            .collect();
        assert!(!steps.is_empty(), "{line}");
        let mut handle = bench
            .engine
            .submit(&plan, &answer(&plan), &options(line))
            .await
            .unwrap();
        let task = handle.finished().await;
        assert_eq!(task.state, TaskState::Done, "{line}: {task:?}");
        assert_eq!(bench.native()[before..], steps, "{line}");
    }
}

#[tokio::test]
async fn a_plan_that_no_longer_holds_is_a_conflict_and_nothing_is_done() {
    let bench = Bench::new();
    let id = "hv1/web".parse().unwrap();
    bench.demo("hv1/web").outside(&id, State::Running);
    let plan = bench.plan("stop hv1/web").await.unwrap();
    bench.demo("hv1/web").outside(&id, State::Paused);
    let refused = bench
        .engine
        .submit(&plan, &yes(), &options("stop hv1/web"))
        .await;
    assert_eq!(refused.err().unwrap().kind, ErrorKind::Conflict);
    assert!(bench.native().is_empty());
}

#[tokio::test]
async fn req_18_another_machine_under_the_same_id_is_a_conflict() {
    let bench = Bench::new();
    let plan = bench.plan("delete hv1/debian-13-template").await.unwrap();
    bench
        .demo("hv1/x")
        .reincarnate(&"hv1/debian-13-template".parse().unwrap(), "another");
    let refused = bench
        .engine
        .submit(
            &plan,
            &answer(&plan),
            &options("delete hv1/debian-13-template"),
        )
        .await;
    let refused = refused.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert!(refused.message.contains("another machine"), "{refused}");
    assert!(bench.native().is_empty());
}

#[tokio::test]
async fn already_as_wanted_is_success_without_a_call() {
    let bench = Bench::new();
    bench
        .demo("hv1/web")
        .outside(&"hv1/web".parse().unwrap(), State::Running);
    let task = bench.force("start hv1/web").await.unwrap();
    assert_eq!(task.state, TaskState::Done);
    match &task.targets[0].state {
        TargetState::Done(outcome) => assert!(!outcome.changed),
        other => panic!("{other:?}"),
    }
    assert!(bench.native().is_empty());
}

#[tokio::test]
async fn req_17_delete_of_what_is_gone_says_so() {
    let bench = Bench::new();
    let refused = error(bench.plan("delete hv1/never").await);
    assert_eq!(refused.kind, ErrorKind::NotFound);
    let refused = error(bench.force("delete hv1/files").await);
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert!(
        refused.to_string().contains("corral stop hv1/files"),
        "{refused}"
    );
}

#[tokio::test]
async fn restore_of_a_running_guest_names_the_way_round() {
    let bench = Bench::new();
    let id = "hv1/db".parse().unwrap();
    bench.demo("hv1/db").outside(&id, State::Running);
    let refused = error(bench.force("snapshot restore hv1/db@base").await);
    assert!(
        refused
            .to_string()
            .contains("stop it first: corral stop hv1/db"),
        "{refused}"
    );
    let task = bench
        .force("snapshot restore hv1/db@base --stop --start --keep-present")
        .await
        .unwrap();
    assert_eq!(task.state, TaskState::Done, "{task:?}");
    assert_eq!(bench.state("hv1/db").await, State::Running);
}

#[tokio::test]
async fn waiting_for_readiness_is_part_of_the_change() {
    let bench = Bench::new();
    bench
        .demo("hv1/web")
        .outside(&"hv1/web".parse().unwrap(), State::Stopped);
    let task = bench.force("start hv1/web --for running").await.unwrap();
    assert_eq!(task.state, TaskState::Done);
    bench
        .demo("hv1/stubborn")
        .outside(&"hv1/stubborn".parse().unwrap(), State::Running);
    let task = bench.force("stop hv1/stubborn --timeout 1s").await.unwrap();
    assert_eq!(task.state, TaskState::TimedOut, "{task:?}");
    assert_eq!(bench.state("hv1/stubborn").await, State::Running);
    let failed = error(
        bench
            .read("wait hv1/stubborn --for stopped --timeout 1s")
            .await,
    );
    assert_eq!(failed.kind, ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_backup_that_was_planned_a_second_ago_still_holds() {
    let bench = Bench::new();
    bench.force("stop hv1/web").await.unwrap();
    let line = "backup create hv1/web";
    let plan = bench.plan(line).await.unwrap();
    // Its name is made of the time, and that of the plan counts.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let submitted = bench
        .engine
        .submit(&plan, &answer(&plan), &options(line))
        .await;
    let task = submitted.unwrap().finished().await;
    assert_eq!(task.state, TaskState::Done, "{task:?}");
}
