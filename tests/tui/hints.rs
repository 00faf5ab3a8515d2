//! The line of keys: what is there does something, and the way out is among it.

use corral::backend::demo::Knobs;
use corral::model::FleetView;

use super::fixture::{app, fleet, press, setup, show};
use super::harness::{Bench, screen};

fn last(text: &str) -> String {
    text.lines().last().unwrap().to_owned()
}

#[test]
fn the_way_out_is_told_at_every_width() {
    for width in [30, 60, 80, 120] {
        let app = app(setup(width, 24), fleet());
        let text = screen(&app);
        assert!(last(&text).ends_with("q quit"), "{width}: {text}");
    }
    let app = app(setup(80, 24), fleet());
    let line = last(&screen(&app));
    for hint in ["? keys", "/ filter", "+ create", ": command"] {
        assert!(line.contains(hint), "{line}");
    }
}

#[test]
fn the_first_screen_names_only_keys_that_do_something() {
    let mut app = app(setup(80, 24), FleetView::default());
    let line = last(&screen(&app));
    for hint in ["Enter", "power", "actions", "filter"] {
        assert!(!line.contains(hint), "{line}");
    }
    for hint in ["+ create", "g x contexts", "g d doctor", "q quit"] {
        assert!(line.contains(hint), "{line}");
    }
    show(&mut app, fleet());
    assert!(last(&screen(&app)).contains("Enter open"));
}

#[test]
fn contexts_and_doctor_show_what_can_be_done_there() {
    let mut app = app(setup(80, 24), fleet());
    press(&mut app, "g x");
    let line = last(&screen(&app));
    for hint in ["t test", "+ add", "E enable", "X disable", "D remove"] {
        assert!(line.contains(hint), "{line}");
    }
    press(&mut app, "g d");
    let line = last(&screen(&app));
    assert!(line.contains("F repair"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_of_a_context_is_answered_in_words() {
    let mut bench = Bench::new().await;
    bench.press("g x").await;
    bench.press("t").await;
    let text = bench.screen();
    assert!(
        text.contains("HEALTH") && text.contains("local *"),
        "{text}"
    );
    assert!(!text.contains('{') && !text.contains("schema"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_counts_faults() {
    let mut bench = Bench::with(100, 24, Knobs::instant(), Some("")).await;
    let state = bench.engine.env().dirs.state.clone();
    std::fs::create_dir_all(state.join("tasks")).unwrap();
    std::fs::write(state.join("tasks/left.lock"), "").unwrap();
    bench.press("g d").await;
    bench.press("F").await;
    let text = bench.screen();
    assert!(text.contains("Repair 2 faults?"), "{text}");
    assert!(text.contains("[R]epair 2"), "{text}");
    assert!(text.contains("left by a corral that was killed"), "{text}");
    assert!(!text.contains(".corral"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_instance_names_the_context_it_will_be_in() {
    let mut bench = Bench::new().await;
    bench.press("+").await;
    let text = bench.screen();
    assert!(text.contains("Create in local (default)"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_dialog_is_counted_from_where_one_is() {
    let mut bench = Bench::new().await;
    bench.command("ui filter context:pve,hv1").await;
    bench.press("*").await;
    bench.press("p r").await;
    bench.pass(1000).await;
    let more = |text: &str| {
        let line = text.lines().find(|l| l.contains(" more: ")).unwrap();
        let number = line
            .split_whitespace()
            .find_map(|w| w.parse::<usize>().ok());
        number.unwrap()
    };
    let before = more(&bench.screen());
    bench.press("Down").await;
    assert_eq!(more(&bench.screen()), before - 1, "{}", bench.screen());
    for _ in 0..before + 10 {
        bench.press("Down").await;
    }
    let text = bench.screen();
    assert!(
        text.contains("above: Up") && !text.contains(" more: "),
        "{text}"
    );
    // What was pressed too often need not be taken back.
    bench.press("Up").await;
    assert_eq!(more(&bench.screen()), 1, "{}", bench.screen());
}
