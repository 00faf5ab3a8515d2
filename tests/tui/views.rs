//! Columns that are chosen in the view, and views under a name.

use corral::tui::app::{App, Overlay};
use corral::tui::columns::Column;

use super::fixture::{app, fleet, press, setup, type_text};
use super::harness::screen;

fn headings(app: &App) -> String {
    let text = screen(app);
    let line = text.lines().nth(2).unwrap().to_owned();
    let words: Vec<&str> = line
        .split_whitespace()
        .take_while(|w| !w.starts_with('┌'))
        .collect();
    words.join(" ")
}

fn ids(app: &App) -> Vec<String> {
    app.inventory
        .rows
        .iter()
        .map(|row| row.id.to_string())
        .collect()
}

/// Puts the cursor of the open list on a column.
fn on(app: &mut App, column: Column) {
    press(app, "Home");
    for _ in 0..Column::ALL.len() {
        match app.overlays.last() {
            Some(Overlay::Columns(picker)) if picker.rows[picker.row].0 == column => return,
            _ => press(app, "Down"),
        };
    }
    panic!("no {}", column.title());
}

#[test]
fn columns_are_chosen_ordered_and_sized_in_sight() {
    let mut app = app(setup(80, 24), fleet());
    press(&mut app, "o o");
    let text = screen(&app);
    for wanted in ["Columns: Enter keeps", "[x] NAME", "[ ] TAGS"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    on(&mut app, Column::Context);
    press(&mut app, "Space");
    on(&mut app, Column::Tags);
    press(&mut app, "Space");
    assert!(
        screen(&app).contains("TAGS has no room at this width"),
        "{}",
        screen(&app)
    );
    press(&mut app, "K K K + + -");
    press(&mut app, "Enter");
    assert!(app.overlays.is_empty());
    let kept = app.setup.kept.columns.clone().unwrap();
    assert_eq!(kept.keys().collect::<Vec<_>>(), ["60"]);
    assert!(kept["60"].contains(&"tags:17".to_owned()), "{kept:?}");
    assert!(
        headings(&app).contains("TAGS") && !headings(&app).contains("CONTEXT"),
        "{}",
        screen(&app)
    );
    // Another width has its own.
    app.setup.size = (120, 24);
    assert!(headings(&app).contains("CONTEXT"), "{}", screen(&app));
    // The next view has them, too.
    let mut next = setup(80, 24);
    next.kept = app.setup.kept.clone();
    let next = super::fixture::app(next, fleet());
    assert!(headings(&next).contains("TAGS"), "{}", screen(&next));
    // And what the configuration says of a width is so.
    let mut other = setup(80, 24);
    other.kept = app.setup.kept.clone();
    other.columns = [(
        60,
        [Column::Name, Column::Os, Column::State]
            .map(|c| (c, None))
            .to_vec(),
    )]
    .into();
    let other = super::fixture::app(other, fleet());
    assert_eq!(headings(&other), "NAME OS STATE");
}

#[test]
fn columns_of_the_configuration_may_have_their_width() {
    let words = ["name:30", "state:14", "context"]
        .map(str::to_owned)
        .to_vec();
    let mut own = setup(120, 24);
    own.columns = corral::tui::columns::chosen(&[(0, words)].into());
    let app = app(own, fleet());
    let text = screen(&app);
    let head = text.lines().find(|line| line.contains("NAME")).unwrap();
    let at = |word: &str| head.find(word).unwrap();
    assert_eq!(at("STATE") - at("NAME"), 31, "{text}");
    assert_eq!(at("CONTEXT") - at("STATE"), 15, "{text}");
}

#[test]
fn what_is_given_up_is_as_it_was_and_nothing_of_it_is_kept() {
    let mut app = app(setup(80, 24), fleet());
    let before = (headings(&app), ids(&app));
    press(&mut app, "o o");
    on(&mut app, Column::Host);
    press(&mut app, "Space s");
    assert_eq!(app.inventory.sort, "host");
    assert_eq!(app.setup.kept.columns, None, "not before Enter");
    press(&mut app, "Esc");
    assert_eq!((headings(&app), ids(&app)), before);
    assert_eq!(
        (&app.setup.kept.columns, &app.setup.kept.sort),
        (&None, &None)
    );
    press(&mut app, "o o Space");
    assert!(
        screen(&app).contains("NAME stands first"),
        "{}",
        screen(&app)
    );
    on(&mut app, Column::Host);
    press(&mut app, "Space r Enter");
    assert_eq!(headings(&app), before.0, "r: the usual ones");
}

#[test]
fn every_column_can_be_sorted_by_and_what_is_not_known_stays_last() {
    let mut fleet = fleet();
    for (n, row) in fleet.instances.iter_mut().enumerate() {
        let mut other = row.as_ref().clone();
        other.namespace = (n % 2 == 0).then(|| format!("ns{}", 20 - n));
        other.autostart = (n % 3 == 0).then_some(n % 2 == 0);
        *row = std::sync::Arc::new(other);
    }
    let mut app = app(setup(80, 24), fleet);
    press(&mut app, "o o");
    for column in Column::ALL {
        on(&mut app, column);
        if app.inventory.sort != column.sort_word() {
            press(&mut app, "s");
        }
        assert_eq!(app.inventory.sort, column.sort_word());
        press(&mut app, "s");
        assert!(
            app.inventory.reverse || column == Column::Name,
            "{}",
            column.title()
        );
    }
    press(&mut app, "Enter");
    let namespaces = |app: &App| -> Vec<Option<String>> {
        app.inventory
            .rows
            .iter()
            .filter(|row| !row.template)
            .map(|row| row.namespace.clone())
            .collect()
    };
    for (line, first) in [("namespace", "ns14"), ("reverse", "ns20")] {
        press(&mut app, ":");
        type_text(&mut app, &format!("ui sort {line}"));
        press(&mut app, "Enter");
        let order = namespaces(&app);
        assert_eq!(order[0].as_deref(), Some(first), "{order:?}");
        assert_eq!(order.last().unwrap(), &None, "{order:?}");
    }
}

#[test]
fn a_view_is_saved_chosen_and_deleted() {
    let mut app = app(setup(80, 24), fleet());
    press(&mut app, "b");
    assert!(screen(&app).contains("none yet"), "{}", screen(&app));
    press(
        &mut app,
        "Esc / s t a t e : r u n n i n g Enter o m o r t b +",
    );
    type_text(&mut app, "busy ones");
    press(&mut app, "Enter");
    let saved = app.setup.kept.views.clone().unwrap();
    assert_eq!(saved.len(), 1);
    assert_eq!(
        (
            saved[0].filter.as_str(),
            saved[0].sort.as_str(),
            saved[0].group.as_str()
        ),
        ("state:running", "-mem", "host")
    );
    let busy = ids(&app);
    press(&mut app, "Esc t t o n");
    assert_ne!(ids(&app), busy);
    press(&mut app, "b");
    assert!(
        screen(&app).contains("busy ones   / state:running · by mem reversed · grouped by host"),
        "{}",
        screen(&app)
    );
    press(&mut app, "Enter");
    assert_eq!((ids(&app), app.inventory.is_tree()), (busy.clone(), true));
    // The next view finds it, and so does the command line.
    let mut next = setup(80, 24);
    next.kept = app.setup.kept.clone();
    let mut next = super::fixture::app(next, fleet());
    press(&mut next, "g t :");
    type_text(&mut next, "ui view busy ones");
    press(&mut next, "Enter");
    assert_eq!(
        (ids(&next), next.inventory.filter_text.as_str()),
        (busy, "state:running")
    );
    press(&mut next, ":");
    type_text(&mut next, "ui view bussy ones");
    press(&mut next, "Enter");
    assert!(
        screen(&next).contains("did you mean busy ones?"),
        "{}",
        screen(&next)
    );
    // One D asks, the second deletes.
    press(&mut app, "b D");
    assert!(
        screen(&app).contains("D again deletes the view busy ones"),
        "{}",
        screen(&app)
    );
    press(&mut app, "Down D");
    assert_eq!(app.views.len(), 1, "something else was pressed between");
    press(&mut app, "D");
    assert_eq!(app.setup.kept.views.as_deref(), Some(&[][..]));
}

#[test]
fn the_lists_are_drawn_on_every_screen() {
    for (width, height) in [(20, 5), (40, 12), (80, 24), (200, 60)] {
        let mut app = app(setup(width, height), fleet());
        press(&mut app, "o o End");
        assert!(
            screen(&app).contains("[ ]") || width > 190,
            "{}",
            screen(&app)
        );
        press(&mut app, "Esc b +");
        type_text(&mut app, "one");
        assert!(screen(&app).contains("one"), "{}", screen(&app));
        press(&mut app, "Enter b");
        assert!(screen(&app).contains("one"), "{}", screen(&app));
    }
}

#[test]
fn a_view_of_the_same_name_is_replaced_only_when_asked_twice() {
    let mut app = app(setup(80, 24), fleet());
    press(&mut app, "b +");
    type_text(&mut app, "mine");
    press(&mut app, "Enter ! b +");
    type_text(&mut app, "mine");
    press(&mut app, "Enter");
    let text = screen(&app);
    assert!(
        text.contains("there is a view mine: Enter again replaces it"),
        "{text}"
    );
    assert!(!app.views[0].problems);
    // Another name is another question.
    type_text(&mut app, "2");
    press(&mut app, "Backspace Enter");
    assert!(!app.views[0].problems);
    press(&mut app, "Enter");
    assert!(app.views[0].problems && app.views.len() == 1);
}
