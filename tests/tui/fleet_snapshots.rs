//! Snapshots of several instances, and lists whose contexts answer each for itself.

use std::time::Duration;

use corral::action::{SoFar, in_parts};
use corral::backend::demo::{Clock, Knobs};
use corral::model::{Action, Body};
use corral::tui::app::{Pane, Tab};
use corral::tui::input::Input;
use corral::tui::msg::{Effect, Msg, Reply};
use futures::StreamExt as _;

use super::frames::frame;
use super::harness::Bench;

fn fixed() -> Knobs {
    Knobs {
        clock: Clock::Fixed("2026-11-30T06:00:00Z".parse().unwrap()),
        ..Knobs::instant()
    }
}

/// The action that the last question in parts asked.
fn asked(bench: &Bench) -> (u64, Action) {
    let found = bench.effects.iter().rev().find_map(|effect| match effect {
        Effect::ReadInParts(number, action) => Some((*number, action.clone())),
        _ => None,
    });
    found.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_of_the_marked_stand_as_trees_and_the_one_under_the_cursor_is_acted_on() {
    let mut bench = Bench::sized(110, 24, fixed()).await;
    for id in ["local/web", "local/scratch", "hv1/db"] {
        bench.select(id).await;
        bench.press("Space").await;
    }
    bench.press("g s").await;
    assert_eq!(bench.app.pane, Pane::Snapshots);
    let (_, action) = asked(&bench);
    assert_eq!(
        (action.verb.as_str(), action.targets.len()),
        ("snapshot list", 3)
    );
    // Ages as they are at the fleet's own moment, whenever this is run.
    let mut then = bench.app.clone();
    then.now = "2026-11-30T06:00:00Z".parse().unwrap();
    frame("snapshots_of_marked", &then);
    let text = bench.screen();
    assert!(
        text.contains("local/scratch") && text.contains("no snapshots"),
        "{text}"
    );
    bench.press("Enter").await;
    assert!(bench.screen().contains("hv1/db: "), "{}", bench.screen());
    bench.press("Esc").await;
    let find = |bench: &Bench, key: &str| {
        let rows = corral::tui::listing::of(&bench.app, Pane::Snapshots).rows;
        rows.iter().position(|row| row.key == key).unwrap()
    };
    let at = find(&bench, "local/web@base");
    bench.press("Home").await;
    for _ in 0..at {
        bench.press("Down").await;
    }
    bench.press("D").await;
    bench.pass(1000).await;
    let text = bench.screen();
    assert!(
        text.contains("= corral snapshot delete local/web --name base"),
        "{text}"
    );
    assert!(!text.contains("hidden by the filter"), "{text}");
    bench.press("D").await;
    bench.settle().await;
    // What has ended is read anew by itself.
    let rows = corral::tui::listing::of(&bench.app, Pane::Snapshots).rows;
    assert!(
        rows.iter().all(|row| row.key != "local/web@base"),
        "{}",
        bench.screen()
    );
    bench.press("Home R").await;
    let said = bench.app.notice.as_ref().map(|n| n.text.clone());
    assert!(
        said.unwrap_or_default()
            .contains("no snapshot is under the cursor")
    );
    bench.press("S").await;
    assert!(bench.screen().contains("hv1/db"), "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_instance_has_them_in_its_detail_and_said_again_all_have_them_here() {
    let mut bench = Bench::sized(110, 24, fixed()).await;
    bench.select("local/web").await;
    bench.press("g s").await;
    assert_eq!(
        (bench.app.pane, bench.app.detail.tab),
        (Pane::Inventory, Tab::Snapshots)
    );
    bench.press("g s").await;
    assert_eq!(bench.app.pane, Pane::Snapshots);
    let (_, action) = asked(&bench);
    assert_eq!(action.targets.len(), bench.app.inventory.rows.len());
    let text = bench.screen();
    assert!(text.contains("without"), "{text}");
    for (width, height) in [(20, 5), (40, 12), (80, 24), (200, 60), (500, 200)] {
        bench.msg(Msg::Input(Input::Resize(width, height))).await;
        assert_eq!(bench.screen().lines().count(), usize::from(height));
    }
    bench.press("g i").await;
    bench.command("ui filter name:nothing-has-this").await;
    bench.press("g s").await;
    assert_eq!(bench.app.pane, Pane::Snapshots);
    assert!(
        bench.screen().contains("No instance is marked"),
        "{}",
        bench.screen()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_of_thousands_is_asked_for_the_first_two_hundred() {
    use std::sync::Arc;

    use super::fixture::{app, context, instance, press, setup};
    use corral::model::{FleetView, Health, State};

    let instances =
        (0..300).map(|n| Arc::new(instance(&format!("local/i{n:03}"), "qemu", State::Stopped)));
    let fleet = FleetView {
        generation: 1,
        contexts: vec![context("local", "qemu", Health::Ok, 300)],
        instances: instances.collect(),
    };
    let mut app = app(setup(100, 24), fleet);
    let effects = press(&mut app, "* g s");
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::ReadInParts(_, action) => Some(action.targets.len()),
        _ => None,
    });
    assert_eq!(asked, Some(200));
    let note = corral::tui::listing::of(&app, Pane::Snapshots).note;
    assert!(
        note.is_none_or(|(text, _)| !text.contains("without")),
        "nobody has answered"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_appear_as_contexts_answer_and_not_after_the_slowest() {
    let knobs = Knobs {
        slow: vec![("pve".to_owned(), Duration::from_millis(700))],
        ..Knobs::instant()
    };
    let mut bench = Bench::sized(120, 40, knobs).await;
    for (keys, pane) in [
        ("g h", Pane::Hosts),
        ("g n", Pane::Places),
        ("g m", Pane::Images),
        ("* g s", Pane::Snapshots),
    ] {
        bench.press("g i").await;
        bench.hold = true;
        bench.press(keys).await;
        assert_eq!(bench.app.pane, pane);
        bench.hold = false;
        let (number, action) = asked(&bench);
        let mut parts = in_parts(std::sync::Arc::clone(&bench.engine), action);
        let mut seen = 0;
        while let Some(told) = parts.next().await {
            match told {
                SoFar::Part(part) => {
                    assert!(!part.complete);
                    bench.msg(Msg::Reply(number, Reply::Part(part))).await;
                    let text = bench.screen();
                    assert!(text.contains("asking the others"), "{text}");
                    assert!(!text.contains("pve/"), "{text}");
                    seen += 1;
                }
                SoFar::Whole(whole) => {
                    let whole = whole.unwrap();
                    assert!(!matches!(whole.body, Body::Text(_)));
                    bench.msg(Msg::Reply(number, Reply::Read(Ok(whole)))).await;
                }
            }
        }
        assert!(seen > 0, "{keys}: somebody was there before pve");
        assert!(!bench.screen().contains("asking"), "{}", bench.screen());
    }
}
