//! What is wrong, wherever it is told.

use corral::model::{Health, State};
use corral::tui::app::Pane;

use super::fixture::{app, context, fleet, instance, press, setup, silent};
use super::harness::screen;

#[test]
fn what_nobody_knows_of_a_context_that_answers_is_a_problem_everywhere() {
    let mut view = fleet();
    let mut missed = instance("hv1/missed", "qemu", State::Running);
    missed = missed.as_stale();
    view.contexts = vec![
        context("hv1", "qemu", Health::Ok, 3),
        context("hv2", "qemu", Health::Failed(silent()), 1),
    ];
    view.instances = vec![
        instance("hv1/fine", "qemu", State::Running).into(),
        instance("hv1/hangs", "qemu", State::Unknown).into(),
        missed.into(),
        instance("hv2/old", "qemu", State::Running)
            .as_stale()
            .into(),
    ];
    let mut app = app(setup(80, 24), view);
    // The two, and the context that is silent, which stands for its rows.
    let text = screen(&app);
    assert!(text.lines().next().unwrap().contains("!3"), "{text}");
    press(&mut app, "!");
    let shown: Vec<String> = app
        .inventory
        .rows
        .iter()
        .map(|r| r.id.to_string())
        .collect();
    assert_eq!(shown, ["hv1/hangs", "hv1/missed", "hv2/old"]);
    press(&mut app, "g p");
    assert_eq!(app.pane, Pane::Problems);
    let text = screen(&app);
    for what in ["hv1/hangs", "hv1/missed", "hv2 does not answer"] {
        assert!(text.contains(what), "{what}: {text}");
    }
    assert!(
        !text.contains("hv2/old") && !text.contains("hv1/fine"),
        "{text}"
    );
}

#[test]
fn the_list_says_how_a_machine_is_whose_state_nobody_knows() {
    let mut view = fleet();
    let mut hangs = instance("local/hangs", "qemu", State::Unknown);
    hangs.reason = Some("its monitor does not answer".to_owned());
    view.instances = vec![hangs.into()];
    view.contexts = vec![context("local", "qemu", Health::Ok, 1)];
    let mut app = app(setup(80, 24), view);
    press(&mut app, "g p");
    let text = screen(&app);
    assert!(text.contains("its monitor does not answer"), "{text}");
    assert!(!text.contains("No problem"), "{text}");
}
