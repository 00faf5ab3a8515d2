//! What other corral processes of the same user do.

use std::time::Duration;

use corral::action::task::TaskBoard;
use corral::action::task_files::follow_others;
use corral::model::{Action, Task, TaskState, TaskTarget};
use corral::tui::msg::Msg;
use futures::StreamExt as _;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::harness::Bench;
use corral::backend::demo::Knobs;

pub fn task(id: &str) -> Task {
    Task {
        id: id.to_owned(),
        command: "corral stop local/web --timeout 8s".to_owned(),
        verb: "stop".to_owned(),
        action: Action::new("stop").on("local/web".parse().unwrap()),
        state: TaskState::Running,
        started_at: Timestamp::now(),
        ended_at: None,
        targets: vec![TaskTarget {
            id: "local/web".parse().unwrap(),
            uid: None,
            state: corral::model::TargetState::Running,
            step: None,
            progress: None,
            native_task: None,
        }],
        log: Vec::new(),
        pid: 4711,
        detachable: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_another_corral_is_seen_while_it_runs_and_as_it_ended() {
    let mut bench = Bench::with(100, 24, Knobs::instant(), Some("")).await;
    let other = TaskBoard::open(Some(bench.engine.env().dirs.state.clone()));
    let mut news = follow_others(bench.engine.clone());
    let mut next = async || {
        let next = tokio::time::timeout(Duration::from_secs(10), news.next());
        Msg::OtherTasks(next.await.unwrap().unwrap())
    };
    other.add(task("20261130-094008-0e64"), CancellationToken::new());
    bench.msg(next().await).await;
    let head = bench.screen().lines().next().unwrap().to_owned();
    assert!(head.contains("1 task"), "{head}");
    bench.command("tasks list").await;
    bench.press("Enter").await;
    let screen = bench.screen();
    assert!(screen.contains("running"), "{screen}");
    assert!(screen.contains("corral stop local/web"), "{screen}");
    assert!(
        screen.contains("of another corral, process 4711"),
        "{screen}"
    );
    other.update("20261130-094008-0e64", true, |task| {
        task.state = TaskState::Done;
    });
    bench.msg(next().await).await;
    let screen = bench.screen();
    assert!(
        screen.contains("done") && !screen.contains("1 task"),
        "{screen}"
    );
    // Its own tasks alone hold it when it is left.
    other.add(task("20261130-094009-0e65"), CancellationToken::new());
    bench.msg(next().await).await;
    assert!(bench.screen().contains("1 task"), "{}", bench.screen());
    bench.command("quit").await;
    assert!(bench.app.leaving, "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_process_was_killed_is_told_as_interrupted() {
    let bench = Bench::with(100, 24, Knobs::instant(), Some("")).await;
    let other = TaskBoard::open(Some(bench.engine.env().dirs.state.clone()));
    other.add(task("20261130-094008-0e64"), CancellationToken::new());
    let mut news = follow_others(bench.engine.clone());
    assert_eq!(news.next().await.unwrap()[0].state, TaskState::Running);
    // A lock goes with its process, and the file stays as it is.
    drop(other);
    let next = tokio::time::timeout(Duration::from_secs(10), news.next()).await;
    assert_eq!(next.unwrap().unwrap()[0].state, TaskState::Interrupted);
}
