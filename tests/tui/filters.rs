//! The filter of the inventory: what it finds, what it says, what Tab makes of it.

use corral::tui::app::App;

use super::fixture::{app, fleet, press, setup, type_text};
use super::harness::screen;

fn typed(text: &str) -> App {
    let mut app = app(setup(100, 24), fleet());
    press(&mut app, "/");
    type_text(&mut app, text);
    app
}

fn names(app: &App) -> Vec<String> {
    app.inventory
        .rows
        .iter()
        .map(|row| row.id.to_string())
        .collect()
}

#[test]
fn more_and_less_and_not_are_understood_here() {
    for (text, wanted) in [
        ("tag:prod", vec!["local/web"]),
        (
            "!context:local !context:pve kind:vm !state:broken !stale:yes",
            vec!["hv1/db"],
        ),
        ("mem>4G", vec![]),
        ("cpu>=4 context:local", vec!["local/ci-10", "local/web"]),
        ("name:ci-*", vec!["local/ci-10"]),
        ("template:yes", vec!["pve/900"]),
        ("up>2d context:local", vec!["local/web"]),
        ("up<2d", vec![]),
        ("ip:10.0.0.0/16 !ip:10.0.3.41", vec![]),
    ] {
        let app = typed(text);
        assert_eq!(app.inventory.filter_error, None, "{text}");
        assert_eq!(names(&app), wanted, "{text}");
    }
}

#[test]
fn tab_completes_as_far_as_it_is_certain_and_names_the_rest() {
    let mut app = typed("sta");
    press(&mut app, "Tab");
    let text = screen(&app);
    assert!(text.contains("state:  stale:"), "{text}");
    type_text(&mut app, "te:sto");
    press(&mut app, "Tab");
    assert!(
        screen(&app).contains("state:stopped  state:stopping"),
        "{}",
        screen(&app)
    );
    assert!(screen(&app).contains("/state:stopp"), "{}", screen(&app));
    type_text(&mut app, "e");
    assert!(
        !screen(&app).contains("state:stopping"),
        "said until the next key"
    );
    press(&mut app, "Tab");
    assert_eq!(app.inventory.filter_text, "state:stopped ");
    assert_eq!(names(&app), ["local/ci-10", "pve/900"]);
    type_text(&mut app, "!context:p");
    press(&mut app, "Tab Enter");
    assert_eq!(app.inventory.filter_text, "state:stopped !context:pve ");
    assert!(app.overlays.is_empty());
    assert_eq!(names(&app), ["local/ci-10"]);
}

#[test]
fn tab_on_what_nothing_completes_says_so_and_keeps_the_text() {
    let mut app = typed("state:zzz");
    press(&mut app, "Tab");
    assert!(
        screen(&app).contains("nothing completes that"),
        "{}",
        screen(&app)
    );
    assert!(screen(&app).contains("/state:zzz"));
}

#[test]
fn a_wrong_word_is_told_with_the_nearest_one() {
    for (text, wanted) in [
        ("state:runing", "did you mean running?"),
        ("contxt:pve", "did you mean context?"),
        ("mem>much", "mem: "),
        ("name>4", "cannot be more or less"),
    ] {
        let text = typed(text);
        assert!(screen(&text).contains(wanted), "{}", screen(&text));
    }
}
