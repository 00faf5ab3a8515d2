//! What was done before, and how far it came.

use corral::action::task::TaskBoard;
use corral::backend::demo::Knobs;
use corral::model::State;
use tokio_util::sync::CancellationToken;

use super::harness::Bench;
use super::others::task;

async fn opened(bench: &mut Bench) -> String {
    bench.press("g y").await;
    bench.press("Enter").await;
    bench.screen()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_failed_in_part_says_where_why_and_where_it_did_not() {
    let mut bench = Bench::with(100, 30, Knobs::instant(), Some("")).await;
    for id in ["hv1/badboot", "hv1/web"] {
        for demo in &bench.demos {
            demo.outside(&id.parse().unwrap(), State::Stopped);
        }
    }
    bench.command("refresh").await;
    bench.command("start hv1/badboot hv1/web").await;
    bench.pass(1000).await;
    if !bench.app.overlays.is_empty() {
        bench.press("S").await;
    }
    bench.settle().await;
    let screen = opened(&mut bench).await;
    assert!(screen.contains("partial after"), "{screen}");
    let left = screen.lines().find(|l| l.contains("left: hv1/badboot:"));
    assert!(left.unwrap().contains("no bootable device"), "{screen}");
    assert!(screen.contains("done: hv1/web"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_corral_was_killed_says_how_far_it_was() {
    let mut bench = Bench::with(100, 30, Knobs::instant(), Some("")).await;
    let other = TaskBoard::open(Some(bench.engine.env().dirs.state.clone()));
    let mut killed = task("20261130-094008-0e64");
    killed.targets[0].step = Some("Asks the guest to shut down".to_owned());
    bench.engine.journal().start(&killed).unwrap();
    other.add(killed, CancellationToken::new());
    drop(other);
    let screen = opened(&mut bench).await;
    assert!(screen.contains("interrupted"), "{screen}");
    assert!(
        screen.contains("left: local/web: not ended: Asks the guest to shut down"),
        "{screen}"
    );
    assert!(screen.contains("done: none"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_of_hundreds_has_room_in_a_line_of_the_journal() {
    let mut bench = Bench::with(100, 30, Knobs::instant(), Some("")).await;
    let mut large = task("20261130-094008-0e64");
    let target = large.targets[0].clone();
    large.targets = (0..500)
        .map(|n| {
            let mut target = target.clone();
            target.id = format!("local/{}{n}", "long".repeat(40)).parse().unwrap();
            target.step = Some("Asks the guest to shut down ".repeat(20));
            target
        })
        .collect();
    large.state = corral::model::TaskState::Interrupted;
    bench.engine.journal().start(&large).unwrap();
    bench.engine.journal().end(&large);
    let file = bench.engine.env().dirs.state.join("journal.jsonl");
    let journal = std::fs::read_to_string(file).unwrap();
    assert!(journal.lines().all(|line| line.len() < 4096));
    let screen = opened(&mut bench).await;
    let row = corral::tui::listing::of(&bench.app, bench.app.pane)
        .rows
        .remove(0);
    let left = |what: &str| row.more.iter().any(|(line, _)| line.starts_with(what));
    assert!(left("left: local/longlong"), "{screen}");
    assert!(left("left: and 4"), "{screen}");
}
