//! Tasks, their files, the journal, interruption.

use std::time::Duration;

use corral::backend::demo::Knobs;
use corral::fleet::{Fleet, FleetOptions};
use corral::model::{Body, Dirs, State, TaskState};

use crate::bench::{Bench, action, answer, engine, options, yes};

fn slow() -> Knobs {
    Knobs {
        pace: 100,
        ..Knobs::instant()
    }
}

#[tokio::test]
async fn history_tells_what_was_done_and_retry_does_the_rest() {
    let bench = Bench::with(Knobs::instant(), None, true);
    for id in ["hv1/badboot", "hv1/web"] {
        bench.demo(id).outside(&id.parse().unwrap(), State::Stopped);
    }
    let task = bench.run("start hv1/badboot hv1/web", yes()).await.unwrap();
    assert_eq!(task.state, TaskState::Partial);
    let Body::History(entries) = bench.read("history").await.unwrap().body else {
        panic!()
    };
    assert_eq!(entries[0].command, "corral start hv1/badboot hv1/web");
    assert_eq!(entries[0].state, "partial");
    assert!(
        entries[0]
            .error
            .as_ref()
            .unwrap()
            .contains("no bootable device")
    );
    let plan = bench
        .plan(&format!("tasks retry {}", task.id))
        .await
        .unwrap();
    assert_eq!(plan.targets.len(), 1);
    assert_eq!(plan.targets[0].id.to_string(), "hv1/badboot");

    // Another corral of the same user sees it; torn lines do not hide the rest.
    let journal = bench.dir.path().join("state/journal.jsonl");
    let mut text = std::fs::read_to_string(&journal).unwrap();
    text.push_str("{\"half\": ");
    std::fs::write(&journal, text).unwrap();
    let other = engine(
        Fleet::start(Vec::new(), FleetOptions::default()),
        &Dirs::under(bench.dir.path()),
        None,
        true,
    );
    let data = other.read(action("history")).await.unwrap();
    assert_eq!(data.warnings.len(), 1);
    let Body::Tasks(tasks) = other.read(action("tasks list")).await.unwrap().body else {
        panic!()
    };
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].state, TaskState::Partial);
}

#[tokio::test]
async fn a_task_can_be_cancelled_from_another_corral() {
    let bench = Bench::with(slow(), None, true);
    let id = "hv1/stubborn".parse().unwrap();
    bench.demo("hv1/stubborn").outside(&id, State::Running);
    let plan = bench.plan("stop hv1/stubborn").await.unwrap();
    let mut handle = bench
        .engine
        .submit(&plan, &yes(), &options("stop hv1/stubborn"))
        .await
        .unwrap();
    let other = engine(
        Fleet::start(Vec::new(), FleetOptions::default()),
        &Dirs::under(bench.dir.path()),
        None,
        true,
    );
    let line = format!("tasks cancel {}", handle.id);
    let cancel = other.plan(&action(&line)).await.unwrap();
    other
        .submit(&cancel, &answer(&cancel), &options(&line))
        .await
        .unwrap()
        .finished()
        .await;
    let task = handle.finished().await;
    assert_eq!(task.state, TaskState::Cancelled, "{task:?}");
    assert_eq!(bench.state("hv1/stubborn").await, State::Running);
}

#[tokio::test]
async fn leaving_stops_the_queue_and_journals_what_is_left() {
    let bench = Bench::with(slow(), None, true);
    for id in ["hv1/web", "hv1/stubborn"] {
        bench.demo(id).outside(&id.parse().unwrap(), State::Running);
    }
    let line = "stop hv1/stubborn hv1/web -j 1";
    let plan = bench.plan(line).await.unwrap();
    let handle = bench
        .engine
        .submit(&plan, &yes(), &options(line))
        .await
        .unwrap();
    let mut tasks = bench.engine.tasks();
    tasks
        .wait_for(|all| {
            all.iter()
                .any(|t| t.targets.iter().any(|t| t.step.is_some()))
        })
        .await
        .unwrap();
    bench.engine.shutdown(Duration::from_millis(300)).await;
    let task = handle.task.borrow().clone();
    assert_eq!(task.state, TaskState::Interrupted, "{task:?}");
    let Body::History(entries) = bench.read("history").await.unwrap().body else {
        panic!()
    };
    assert_eq!(entries[0].state, "interrupted");
}

#[tokio::test]
async fn secrets_and_paths_stay_out_of_what_is_written() {
    let bench = Bench::with(Knobs::instant(), None, true);
    let secret = bench.dir.path().join("pw");
    std::fs::write(&secret, "CANARY-7f3a\n").unwrap();
    let line = format!(
        "create x --context hv1 --user admin --password-file {}",
        secret.display()
    );
    let task = bench.force(&line).await.unwrap();
    assert_eq!(task.state, TaskState::Done, "{task:?}");
    for entry in [
        "state/journal.jsonl".to_owned(),
        format!("state/tasks/{}.json", task.id),
    ] {
        let text = std::fs::read_to_string(bench.dir.path().join(&entry)).unwrap();
        assert!(!text.contains("CANARY-7f3a"), "{entry}");
    }
}
