//! Every pane at 80×24, as it looks without colour; and what must be true of it at once.

use corral::model::{FleetView, Health, State};
use corral::tui::app::App;
use corral::tui::glyphs::Glyphs;
use corral::tui::theme::{Depth, Theme};

use super::fixture::{app, context, fleet, instance, press, setup, show, silent, type_text};
use super::harness::{Bench, screen};

/// Compares a screen with the one that is kept in `snapshots/`.
pub fn frame(name: &str, app: &App) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    // How long the simulated contexts took is not always the same.
    settings.add_filter(r"in \d+ ms", "in N ms");
    settings.bind(|| insta::assert_snapshot!(name, screen(app)));
}

#[test]
fn the_inventory() {
    frame("inventory", &app(setup(80, 24), fleet()));
}

#[test]
fn the_inventory_at_120_and_200() {
    frame("inventory_120", &app(setup(120, 14), fleet()));
    frame("inventory_200", &app(setup(200, 14), fleet()));
}

#[test]
fn the_smallest_screen() {
    frame("smallest", &app(setup(20, 5), fleet()));
}

#[test]
fn detail_filter_help_and_menus() {
    let mut app = app(setup(80, 24), fleet());
    press(&mut app, "/");
    type_text(&mut app, "web");
    frame("filter", &app);
    press(&mut app, "Esc Enter");
    frame("detail", &app);
    press(&mut app, "Esc Esc p");
    frame("power_menu", &app);
    press(&mut app, "Esc ?");
    frame("help", &app);
    press(&mut app, "Esc :");
    frame("palette", &app);
    press(&mut app, "Esc +");
    frame("create_form", &app);
}

#[test]
fn the_other_panes() {
    let mut app = app(setup(80, 24), fleet());
    for (keys, name) in [("g x", "contexts"), ("g p", "problems"), ("g t", "tasks")] {
        press(&mut app, keys);
        frame(name, &app);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn panes_and_questions_of_the_simulated_fleet() {
    let mut bench = Bench::new().await;
    bench.press("g d").await;
    frame("doctor", &bench.app);
    bench.press("g u").await;
    frame("support", &bench.app);
    bench.press("g i").await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    bench.pass(1000).await;
    frame("stop_dialog", &bench.app);
    bench.press("Esc D").await;
    bench.pass(1000).await;
    frame("delete_refused_dialog", &bench.app);
    bench.press("Esc").await;
    bench.select("local/badboot").await;
    bench.press("D").await;
    bench.pass(1000).await;
    frame("delete_dialog", &bench.app);
    bench.press("Esc").await;
    bench.command("ui filter web").await;
    bench.press("* p t").await;
    bench.pass(1000).await;
    frame("bulk_dialog", &bench.app);
    bench.press("Esc a").await;
    frame("actions", &bench.app);
}

#[test]
fn a_wrong_filter_says_so_and_leaves_the_rows() {
    let mut app = app(setup(80, 24), fleet());
    let before = app.inventory.rows.len();
    press(&mut app, "/");
    type_text(&mut app, "state:flying");
    assert_eq!(app.inventory.rows.len(), before);
    assert!(app.inventory.filter_error.is_some());
    assert!(screen(&app).contains("flying"), "{}", screen(&app));
    press(&mut app, "Enter");
    assert_eq!(app.overlays.len(), 1, "a wrong filter is not accepted");
    press(&mut app, "Ctrl-C");
    type_text(&mut app, "state:paused");
    press(&mut app, "Enter");
    assert_eq!(app.inventory.rows.len(), 1);
}

#[test]
fn the_first_screen_of_an_empty_machine() {
    let mut setup = setup(80, 24);
    setup.absent = vec![
        (
            "libvirt".to_owned(),
            "no socket found".to_owned(),
            "apt install libvirt-daemon-system".to_owned(),
        ),
        (
            "Incus".to_owned(),
            "no socket found".to_owned(),
            "apt install incus".to_owned(),
        ),
    ];
    let fleet = FleetView {
        generation: 1,
        contexts: vec![context("local", "qemu", Health::Ok, 0)],
        instances: Vec::new(),
    };
    frame("first_screen", &app(setup, fleet));
}

#[test]
fn req_04_nothing_is_called_empty_before_a_complete_answer() {
    let only = |health| FleetView {
        generation: 1,
        contexts: vec![context("hv2", "libvirt", health, 0)],
        instances: Vec::new(),
    };
    let mut app = app(setup(80, 24), only(Health::Connecting));
    let text = screen(&app);
    assert!(!text.contains("No virtual machines"), "{text}");
    assert!(text.contains("Asking"), "{text}");
    show(&mut app, only(Health::Failed(silent())));
    let text = screen(&app);
    assert!(!text.contains("No virtual machines"), "{text}");
    assert!(text.contains("no connection in 5 s"), "{text}");
    assert!(text.contains("corral context test hv2"), "{text}");
    show(&mut app, only(Health::Ok));
    assert!(screen(&app).contains("No virtual machines yet"));
}

#[test]
fn a_stale_row_is_never_green() {
    let app = app(setup(120, 24), fleet());
    let text = screen(&app);
    let row = text.lines().find(|l| l.contains("mail")).unwrap();
    assert!(row.contains("? mail"), "{row}");
    assert!(row.contains("was running, 9m"), "{row}");
    assert!(row.contains("10.0.3.41?"), "{row}");
}

#[test]
fn req_20_control_characters_are_shown_never_sent() {
    let app = app(setup(200, 24), fleet());
    let buffer = super::harness::draw(&app);
    for cell in &buffer.content {
        assert!(!cell.symbol().contains(char::is_control), "{cell:?}");
    }
    let text = screen(&app);
    assert!(text.contains("e\\x1b]0;owned\\x07vi"), "{text}");
}

#[test]
fn req_27_req_28_the_same_frames_without_colour_and_without_unicode() {
    let mut plain = setup(80, 24);
    plain.theme = Theme::built_in("dark", Depth::None).unwrap();
    plain.glyphs = Glyphs::Ascii;
    let app = app(plain, fleet());
    let buffer = super::harness::draw(&app);
    for cell in &buffer.content {
        assert_eq!(cell.fg, ratatui::style::Color::Reset);
        assert_eq!(cell.bg, ratatui::style::Color::Reset);
    }
    // What is selected can be told without colour.
    let first = buffer
        .content
        .iter()
        .position(|c| c.modifier.contains(ratatui::style::Modifier::REVERSED));
    assert!(first.is_some());
    frame("without_colour", &app);
}

#[test]
fn req_36_cells_stand_under_their_headings() {
    for width in [60, 80, 120, 200, 300] {
        let app = app(setup(width, 24), fleet());
        let text = screen(&app);
        let lines: Vec<Vec<char>> = text.lines().map(|l| l.chars().collect()).collect();
        let heading: String = lines[2].iter().collect();
        let at = heading.find("STATE").unwrap();
        let row = lines
            .iter()
            .find(|l| l.iter().collect::<String>().contains("ci-10"));
        let state: String = row.unwrap()[at..at + 7].iter().collect();
        assert_eq!(state, "stopped", "{text}");
    }
}

#[test]
fn the_cursor_stays_on_its_instance_when_the_fleet_changes() {
    let mut app = app(setup(80, 24), fleet());
    assert!(app.inventory.go_to(&"local/web".parse().unwrap()));
    let mut changed = fleet();
    changed.generation = 2;
    for name in ["aaa", "aab", "zzz"] {
        let id = format!("local/{name}");
        changed
            .instances
            .push(std::sync::Arc::new(instance(&id, "qemu", State::Stopped)));
    }
    show(&mut app, changed);
    assert_eq!(
        app.inventory.selected().unwrap().id.to_string(),
        "local/web"
    );
    // Gone: the cursor stays where it was, and nothing panics.
    let mut gone = fleet();
    gone.generation = 3;
    gone.instances
        .retain(|row| row.id.to_string() != "local/web");
    show(&mut app, gone);
    assert!(app.inventory.selected().is_some());
}
