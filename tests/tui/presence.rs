//! What the terminal is told besides the screen.

use std::sync::Arc;

use corral::model::{Task, TaskState};
use corral::tui::msg::{Effect, Msg};
use corral::tui::presence::{Manners, Notify, Progress};
use jiff::ToSpan as _;

use super::harness::Bench;

const ALL: Manners = Manners {
    title: true,
    progress: true,
    notify: Notify::Desktop,
};

fn presented(bench: &mut Bench) -> Vec<(String, Progress)> {
    let effects = std::mem::take(&mut bench.effects);
    let told = effects.into_iter().filter_map(|effect| match effect {
        Effect::Present(presence, _) => Some((presence.title, presence.progress)),
        _ => None,
    });
    told.collect()
}

async fn a_task(bench: &mut Bench) -> Task {
    bench.command("snapshot create local/scratch").await;
    bench.settle().await.last().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn title_and_progress_follow_the_tasks_and_are_told_once() {
    let mut bench = Bench::new().await;
    let done = a_task(&mut bench).await;
    bench.app.setup.manners = ALL;
    bench.effects.clear();
    let mut running = done.clone();
    running.state = TaskState::Running;
    running.ended_at = None;
    running.targets[0].state = corral::model::TargetState::Running;
    running.targets[0].progress = Some((1, 4));
    running.id = "20261130-000000-aaaa".to_owned();
    for _ in 0..2 {
        bench.msg(Msg::Tasks(Arc::new(vec![running.clone()]))).await;
    }
    let title = "corral: snapshot create local/scratch".to_owned();
    assert_eq!(presented(&mut bench), [(title, Progress::Percent(25))]);
    let mut long = running.clone();
    long.state = TaskState::Done;
    long.targets = done.targets.clone();
    long.ended_at = Some(long.started_at + 40.seconds());
    bench.msg(Msg::Tasks(Arc::new(vec![long]))).await;
    let rings = bench.effects.iter().filter(
        |e| matches!(e, Effect::Ring(text, Notify::Desktop) if text.contains("snapshot create")),
    );
    assert_eq!(rings.count(), 1);
    assert_eq!(
        presented(&mut bench),
        [("corral".to_owned(), Progress::None)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_task_is_silent_and_what_is_not_wanted_is_not_said() {
    let mut bench = Bench::new().await;
    bench.app.setup.manners = Manners {
        notify: Notify::Bell,
        ..Manners::default()
    };
    bench.effects.clear();
    a_task(&mut bench).await;
    let loud = |e: &Effect| matches!(e, Effect::Ring(..) | Effect::Present(..));
    assert!(!bench.effects.iter().any(loud));
}
