//! Marks hang on identity, and what is hidden is never acted on silently.

use corral::tui::app::Overlay;
use corral::tui::msg::Effect;

use super::fixture;
use super::harness::Bench;

#[tokio::test(flavor = "multi_thread")]
async fn marks_come_back_with_the_instances_they_are_of_and_with_no_others() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("Space").await;
    bench.press("t").await;
    bench.press("Left Left").await;
    bench.press("/").await;
    bench.type_text("context:local").await;
    bench.press("Enter").await;
    let mut cut = corral::tui::cut::of(&bench.app);
    assert_eq!(cut.marks.len(), 1);
    assert!(!cut.folded.is_empty());
    // One is made anew meanwhile, one is gone; a context that is silent may still have its own.
    cut.marks.push("local#another".to_owned());
    cut.marks.push("vc-old#away".to_owned());
    let before = corral::tui::cut::of(&bench.app);
    let knobs = corral::backend::demo::Knobs {
        up: vec!["hv2".to_owned()],
        ..corral::backend::demo::Knobs::instant()
    };
    let mut bench = Bench::sized(80, 24, knobs).await;
    bench.press("t").await;
    bench
        .msg(corral::tui::msg::Msg::Returned(Box::new(cut)))
        .await;
    let screen = bench.screen();
    assert!(screen.contains("1 marked"), "{screen}");
    assert!(screen.contains("/ context:local"), "{screen}");
    assert!(screen.contains("where the line was cut"), "{screen}");
    let mut now = corral::tui::cut::of(&bench.app);
    assert!(now.marks.contains(&"vc-old#away".to_owned()), "{now:?}");
    assert!(!now.marks.contains(&"local#another".to_owned()), "{now:?}");
    now.marks.retain(|mark| mark != "vc-old#away");
    assert_eq!(now, before);
    bench.press("u").await;
    assert!(corral::tui::cut::of(&bench.app).marks.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn req_11_hidden_marks_are_counted_and_left_out_until_included() {
    let mut bench = Bench::new().await;
    for id in ["local/scratch", "local/stubborn", "local/web"] {
        bench.select(id).await;
        bench.press("Space").await;
    }
    bench.command("ui filter name:scratch").await;
    assert!(
        bench.screen().contains("3 marked, 2 of them hidden"),
        "{}",
        bench.screen()
    );
    bench.press("p t").await;
    let text = bench.screen();
    assert!(
        text.contains("hidden by the filter: 2, not included"),
        "{text}"
    );
    assert!(text.contains("= corral stop local/scratch"), "{text}");
    bench.pass(1000).await;
    bench.press("h").await;
    let text = bench.screen();
    assert!(text.contains("hidden by the filter: 2, included"), "{text}");
    assert!(text.contains("3 instances"), "{text}");
    let submitted = bench
        .effects
        .iter()
        .any(|e| matches!(e, Effect::Submit(..)));
    assert!(!submitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_11_even_a_free_action_asks_when_marks_are_hidden() {
    let mut bench = Bench::new().await;
    for id in ["local/scratch", "local/win11"] {
        bench.select(id).await;
        bench.press("Space").await;
    }
    bench.command("ui filter win11").await;
    bench.press("p s").await;
    assert!(matches!(
        bench.app.overlays.last(),
        Some(Overlay::Dialog(_))
    ));
    assert!(bench.engine.board().all().is_empty());
}

#[test]
fn marks_and_cursor_follow_a_uid_that_becomes_known() {
    let mut fleet = fixture::fleet();
    let strip = |row: &mut std::sync::Arc<corral::model::Instance>| {
        let mut plain = row.as_ref().clone();
        plain.uid = None;
        *row = std::sync::Arc::new(plain);
    };
    fleet.instances.iter_mut().for_each(strip);
    let mut app = fixture::app(fixture::setup(80, 24), fleet);
    app.inventory.go_to(&"pve/101".parse().unwrap());
    fixture::press(&mut app, "Space");
    assert_eq!(app.inventory.marked.len(), 1);
    let mut known = fixture::fleet();
    known.generation = 2;
    fixture::show(&mut app, known);
    assert_eq!(app.inventory.marked.len(), 1);
    assert_eq!(app.inventory.marked[0].id.to_string(), "pve/101");
}

#[test]
fn another_machine_under_the_same_id_is_not_marked() {
    let mut app = fixture::app(fixture::setup(80, 24), fixture::fleet());
    app.inventory.go_to(&"local/web".parse().unwrap());
    fixture::press(&mut app, "Space");
    assert_eq!(app.inventory.marked.len(), 1);
    let mut fleet = fixture::fleet();
    fleet.generation = 2;
    for row in &mut fleet.instances {
        if row.id.to_string() == "local/web" {
            let mut other = row.as_ref().clone();
            other.uid = Some("another".to_owned());
            *row = std::sync::Arc::new(other);
        }
    }
    fixture::show(&mut app, fleet);
    assert_eq!(app.inventory.marked.len(), 0);
}

#[test]
fn a_range_and_all_and_none() {
    let mut app = fixture::app(fixture::setup(80, 24), fixture::fleet());
    fixture::press(&mut app, "Home V Down Down V");
    assert_eq!(app.inventory.marked.len(), 3);
    fixture::press(&mut app, "*");
    assert_eq!(app.inventory.marked.len(), 8);
    fixture::press(&mut app, "Esc Esc");
    assert_eq!(app.inventory.marked.len(), 8, "Esc never clears marks");
    fixture::press(&mut app, "u");
    assert_eq!(app.inventory.marked.len(), 0);
}
