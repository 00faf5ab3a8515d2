//! The inventory as a tree: groups, folding, marks and the cursor in it.

use corral::tui::app::App;
use corral::tui::groups::Grouping;
use corral::tui::inventory::Entry;

use super::fixture::{app, fleet, press, setup, show, type_text};
use super::harness::screen;

/// What stands in the lines: `name` of rows, `[title count]` of groups.
fn lines(app: &App) -> Vec<String> {
    (0..app.inventory.len())
        .filter_map(|n| app.inventory.entry(n))
        .map(|entry| match entry {
            Entry::Group(group) => format!("[{} {}]", group.title, group.count()),
            Entry::Row(row, _) => row.id.to_string(),
        })
        .collect()
}

fn under(app: &App) -> String {
    match app.inventory.entry(app.inventory.cursor) {
        Some(Entry::Group(group)) => format!("[{}]", group.title),
        Some(Entry::Row(row, _)) => row.id.to_string(),
        None => String::new(),
    }
}

fn two_hosts() -> corral::model::FleetView {
    let mut fleet = fleet();
    for row in &mut fleet.instances {
        if row.id.to_string() == "local/web" {
            let mut other = row.as_ref().clone();
            other.host = Some("host2".to_owned());
            *row = std::sync::Arc::new(other);
        }
        if row.context == "lab" {
            let mut other = row.as_ref().clone();
            other.host = None;
            *row = std::sync::Arc::new(other);
        }
    }
    fleet
}

#[test]
fn it_turns_from_table_to_hosts_to_tags_and_back() {
    let mut app = app(setup(80, 40), two_hosts());
    press(&mut app, "t");
    assert_eq!(
        lines(&app),
        [
            "[local 2]",
            "[host1 1]",
            "local/ci-10",
            "[host2 1]",
            "local/web",
            "[hv1 1]",
            "[host1 1]",
            "hv1/db",
            "[hv2 1]",
            "[host1 1]",
            "hv2/mail",
            "[lab 2]",
            "lab/default/evil",
            "lab/default/half",
            "[pve 2]",
            "[host1 2]",
            "pve/101",
            "pve/900",
        ]
    );
    let text = screen(&app);
    assert!(
        text.contains("‖ ▾ hv1  1, 1 problem"),
        "the worst state stands before it: {text}"
    );
    assert!(text.contains("● ▾ local  2, 1 running"), "{text}");
    assert!(text.contains("by context and host"), "{text}");
    press(&mut app, "t");
    assert_eq!(
        lines(&app)[..6],
        [
            "[prod 1]",
            "local/web",
            "[web 1]",
            "local/web",
            "[no tag 7]",
            "local/ci-10"
        ]
    );
    assert_eq!(
        app.setup.kept.group.as_deref(),
        Some("tag"),
        "and it is kept"
    );
    press(&mut app, "t");
    assert_eq!(app.inventory.grouping, Grouping::None);
    assert_eq!(lines(&app).len(), 8);
}

#[test]
fn groups_fold_and_the_cursor_stays_on_what_it_was_on() {
    let mut app = app(setup(80, 40), two_hosts());
    app.inventory.go_to(&"local/web".parse().unwrap());
    press(&mut app, "t");
    assert_eq!(under(&app), "local/web");
    press(&mut app, "Left");
    assert_eq!(under(&app), "[host2]");
    press(&mut app, "Left");
    assert!(!lines(&app).contains(&"local/web".to_owned()));
    assert_eq!(under(&app), "[host2]");
    press(&mut app, "Left");
    assert_eq!(under(&app), "[local]");
    press(&mut app, "Left");
    assert_eq!(lines(&app)[..2], ["[local 2]", "[hv1 1]"]);
    assert!(screen(&app).contains("▸ local"), "{}", screen(&app));
    // What happens to the fleet leaves it where it is.
    let mut changed = two_hosts();
    changed.generation = 2;
    show(&mut app, changed);
    assert_eq!(under(&app), "[local]");
    press(&mut app, "Enter Right Right");
    assert_eq!(under(&app), "local/ci-10", "{:?}", lines(&app));
    press(&mut app, "Left Home Left");
    assert_eq!(under(&app), "[local]");
    press(&mut app, "d");
    assert!(
        screen(&app).contains("local: 2 instances"),
        "{}",
        screen(&app)
    );
}

#[test]
fn marks_and_filters_hold_in_it() {
    let mut app = app(setup(80, 40), two_hosts());
    press(&mut app, "t Home Space");
    assert_eq!(app.inventory.marked.len(), 2, "all of the group");
    assert!(
        screen(&app).contains("2, 1 running, 2 marked"),
        "{}",
        screen(&app)
    );
    press(&mut app, "Home Space");
    assert_eq!(app.inventory.marked.len(), 0, "and none of it");
    press(&mut app, "V");
    assert_eq!(app.inventory.range, None, "{}", under(&app));
    app.inventory.go_to(&"local/ci-10".parse().unwrap());
    press(&mut app, "V Down Down V");
    let marked: Vec<String> = app
        .inventory
        .marked
        .iter()
        .map(|row| row.id.to_string())
        .collect();
    assert_eq!(marked, ["local/web", "local/ci-10"]);
    press(&mut app, "/");
    type_text(&mut app, "state:stopped");
    press(&mut app, "Enter");
    assert_eq!(
        lines(&app),
        [
            "[local 1]",
            "[host1 1]",
            "local/ci-10",
            "[pve 1]",
            "[host1 1]",
            "pve/900"
        ]
    );
    assert_eq!(app.inventory.hidden_marks().len(), 1);
    press(&mut app, "o n o r");
    assert_eq!(lines(&app)[2], "local/ci-10");
}

#[test]
fn by_tag_an_instance_is_in_several_places_and_the_cursor_in_one() {
    let mut app = app(setup(80, 40), fleet());
    press(&mut app, "t t Home Down Down Down");
    assert_eq!(
        (under(&app), app.inventory.cursor),
        ("local/web".to_owned(), 3)
    );
    let mut changed = fleet();
    changed.generation = 2;
    show(&mut app, changed);
    assert_eq!(app.inventory.cursor, 3, "not in the first of them");
}

#[test]
fn it_is_drawn_on_every_screen_and_in_ascii() {
    for (width, height) in [(20, 5), (40, 12), (80, 24), (200, 60), (500, 200)] {
        let mut setup = setup(width, height);
        setup.glyphs = corral::tui::glyphs::Glyphs::Ascii;
        let mut app = app(setup, two_hosts());
        press(&mut app, "Home t");
        let text = screen(&app);
        assert!(!text.contains('▾'), "{text}");
        press(&mut app, "d t t");
        screen(&app);
    }
}
