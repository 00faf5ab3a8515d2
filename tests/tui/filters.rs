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
fn or_between_words_is_told_how_it_is_written() {
    for (text, way) in [
        ("state:paused or state:running", "state:paused,running"),
        ("state:running && nosuch", "state:running tag:prod"),
    ] {
        let mut app = typed(text);
        press(&mut app, "Enter");
        assert!(names(&app).is_empty());
        assert!(screen(&app).contains(way), "{}", screen(&app));
    }
    // Where it is found it is a name.
    let app = typed("state:paused or");
    assert!(names(&app).is_empty() || !screen(&app).contains("state:paused,running"));
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

#[test]
fn what_may_follow_stands_in_a_list_that_can_be_chosen_from() {
    let mut app = typed("st");
    let text = screen(&app);
    for wanted in ["Fields", "state:  a state", "stale:  yes or no"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    press(&mut app, "Down Enter");
    assert_eq!(app.inventory.filter_text, "state:");
    let text = screen(&app);
    assert!(text.contains("Values of state"), "{text}");
    assert!(text.contains("state:paused        hv1/db"), "{text}");
    assert!(text.contains("state:starting      none now"), "{text}");
    press(&mut app, "Down Down Up Tab");
    assert_eq!(app.inventory.filter_text, "state:running ");
    // Fields again, and what was chosen is given up before the filter is.
    press(&mut app, "Down Down Esc");
    assert_eq!(app.inventory.filter_text, "state:running ");
    assert_eq!(app.overlays.len(), 1);
    press(&mut app, "Esc");
    assert!(app.overlays.is_empty() && app.inventory.filter_text.is_empty());
}

#[test]
fn a_fault_is_marked_where_it_is_and_the_rest_goes_on_holding() {
    let mut app = typed("context:local state:runing");
    let text = screen(&app);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[22], "/context:local state:runing");
    assert!(
        lines[23].starts_with(
            "               ^^^^^^^^^^^^ \"runing\" is no state; did you mean running?"
        ),
        "{text}"
    );
    assert_eq!(names(&app), ["local/ci-10", "local/web"]);
    press(&mut app, "Enter");
    assert_eq!(app.overlays.len(), 1, "it stays to be mended");
    // What has no room beside the mark stands above the line.
    app.setup.size = (40, 24);
    type_text(&mut app, " ");
    let text = screen(&app);
    assert!(text.contains("did you mean"), "{text}");
    assert!(
        text.lines()
            .nth(23)
            .unwrap()
            .trim()
            .chars()
            .all(|c| c == '^'),
        "{text}"
    );
}

#[test]
fn filters_of_before_come_back() {
    let mut app = typed("tag:prod");
    press(&mut app, "Enter / Ctrl-U");
    type_text(&mut app, "state:stopped");
    press(&mut app, "Enter / Ctrl-U");
    type_text(&mut app, "hal");
    press(&mut app, "Up");
    assert_eq!(app.inventory.filter_text, "state:stopped");
    press(&mut app, "Up");
    assert_eq!(app.inventory.filter_text, "tag:prod");
    assert_eq!(names(&app), ["local/web"]);
    press(&mut app, "Up");
    assert!(
        screen(&app).contains("no filter was typed before"),
        "{}",
        screen(&app)
    );
    press(&mut app, "Down Down");
    assert_eq!(
        app.inventory.filter_text, "hal",
        "what was typed is not lost"
    );
    assert_eq!(*app.filters, ["tag:prod", "state:stopped"]);
    assert_eq!(
        app.setup.kept.filters,
        ["tag:prod", "state:stopped"],
        "and kept"
    );
}

#[test]
fn an_address_that_is_not_found_may_be_one_that_is_not_known() {
    for (text, wanted) in [
        (
            "ip:10.9.9.9",
            "addresses of 3 instances in local, hv1, lab are not known; hv2 has not answered",
        ),
        (
            "10.9.9.9",
            "addresses of 3 instances in local, hv1, lab are not known; hv2 has not answered",
        ),
        (
            "mac:52-54",
            "MAC addresses of 8 instances in local, hv1, hv2 and 2 more are not known",
        ),
        ("52:54:00", "MAC addresses of 8 instances"),
    ] {
        let app = typed(text);
        let told = screen(&app);
        let told: Vec<&str> = told.split_whitespace().collect();
        let told = told.join(" ");
        assert!(
            told.contains(&format!("no match; {wanted}")),
            "{text}: {told}"
        );
    }
    // What was found is not all of it, either.
    let app = typed("ip:10.0.3.41");
    assert!(!app.inventory.rows.is_empty());
    assert!(
        screen(&app).contains("addresses of 3 instances in"),
        "{}",
        screen(&app)
    );
    // Where everybody has answered and all is known, nothing is missing.
    for text in [
        "ip:10.9.9.9 context:pve",
        "web",
        "-ip:10.0.3.41 context:local",
    ] {
        let mut app = typed(text);
        press(&mut app, "Enter 5");
        assert!(
            !screen(&app).contains("not known"),
            "{text}: {}",
            screen(&app)
        );
    }
}

#[test]
fn the_filter_can_be_typed_on_every_screen() {
    for (width, height) in [(20, 5), (40, 12), (80, 24), (200, 60)] {
        let mut app = app(setup(width, height), fleet());
        press(&mut app, "/");
        type_text(&mut app, "state:runing");
        let text = screen(&app);
        assert!(text.contains("/state:runing"), "{width}×{height}: {text}");
        press(&mut app, "Ctrl-U");
        type_text(&mut app, "sta");
        press(&mut app, "Down Down Enter");
        assert_eq!(app.inventory.filter_text, "stale:");
    }
}

#[test]
fn the_filter_stays_in_sight_while_a_context_is_silent() {
    for width in [40u16, 80] {
        let mut app =
            super::fixture::app(super::fixture::setup(width, 24), super::fixture::fleet());
        super::fixture::press(&mut app, "/");
        super::fixture::type_text(&mut app, "-template kind:vm");
        super::fixture::press(&mut app, "Enter");
        let text = super::harness::screen(&app);
        let title = text.lines().nth(1).unwrap();
        let filter = if width == 40 {
            "/ -tem"
        } else {
            "/ -template kind:vm"
        };
        assert!(title.contains(filter), "{width}: {title}");
        if width == 80 {
            assert!(
                title.contains("stale") || title.contains("1 silent"),
                "{title}"
            );
        }
    }
}
