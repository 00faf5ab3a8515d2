//! The mouse, and how the screen is shared.

use corral::tui::app::{Focus, Overlay, Pane, Tab};
use corral::tui::input::Input;
use corral::tui::layout;
use corral::tui::msg::{Effect, Msg};

use super::harness::Bench;

async fn wide() -> Bench {
    Bench::sized(140, 80, corral::backend::demo::Knobs::instant()).await
}

/// Where a text stands on the screen: column and row.
fn find(bench: &Bench, text: &str) -> (u16, u16) {
    let screen = bench.screen();
    let found = screen.lines().enumerate().find_map(|(y, line)| {
        let at = line.find(text)?;
        Some((corral::model::shown_width(&line[..at]) as u16, y as u16))
    });
    found.unwrap_or_else(|| panic!("{text:?} is not on it:\n{screen}"))
}

async fn click(bench: &mut Bench, text: &str) {
    let (x, y) = find(bench, text);
    bench.pass(1000).await;
    bench.msg(Msg::Input(Input::Click(x, y))).await;
    bench.msg(Msg::Input(Input::Release)).await;
}

async fn wheel(bench: &mut Bench, x: u16, y: u16) {
    bench.msg(Msg::Input(Input::Wheel(true, x, y))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_means_what_is_seen_there() {
    let mut bench = wide().await;
    click(&mut bench, "scratch").await;
    let selected = bench.app.inventory.selected().unwrap().id.to_string();
    assert_eq!(selected, "local/scratch");
    click(&mut bench, "STATE").await;
    assert_eq!(bench.app.inventory.sort, "state");
    click(&mut bench, "STATE").await;
    assert!(bench.app.inventory.reverse);
    click(&mut bench, " 3 lab").await;
    assert_eq!(bench.app.inventory.context.as_deref(), Some("lab"));
    click(&mut bench, " 0 all").await;
    assert_eq!(bench.app.inventory.context, None);
    // What a key does is done by its hint.
    bench.select("local/scratch").await;
    click(&mut bench, "p power").await;
    assert!(bench.screen().contains("Power: "), "{}", bench.screen());
    click(&mut bench, "h  hibernate").await;
    assert!(matches!(
        bench.app.overlays.last(),
        Some(Overlay::Dialog(_))
    ));
    click(&mut bench, "[Cancel]").await;
    assert!(bench.app.overlays.is_empty());
    click(&mut bench, "!10").await;
    assert_eq!(bench.app.pane, Pane::Problems);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clicks_open_and_tabs_are_turned_by_one() {
    let mut bench = wide().await;
    click(&mut bench, "scratch").await;
    let (x, y) = find(&bench, "scratch");
    bench.msg(Msg::Input(Input::Click(x, y))).await;
    assert!(bench.app.detail.open, "{}", bench.screen());
    assert_eq!(bench.app.focus, Focus::Detail);
    click(&mut bench, "Native").await;
    assert_eq!(bench.app.detail.tab, Tab::Native);
    let lines = bench.app.detail.line;
    let (x, y) = find(&bench, "[Native]");
    bench.msg(Msg::Input(Input::Click(x, y + 3))).await;
    assert_ne!(bench.app.detail.line, lines, "{}", bench.screen());
    // The wheel scrolls what it is over, and the focus stays where it is.
    let row = bench.app.inventory.cursor;
    wheel(&mut bench, 3, 8).await;
    assert_eq!(bench.app.inventory.cursor, row + 3);
    assert_eq!(bench.app.focus, Focus::Detail);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_click_confirms_what_wants_a_name_typed_and_none_counts_before_it_was_seen() {
    let mut bench = wide().await;
    bench.select("local/win11").await;
    bench.press("D").await;
    let (x, y) = find(&bench, "[Delete]");
    for _ in 0..3 {
        bench.pass(1000).await;
        bench.msg(Msg::Input(Input::Click(x, y))).await;
    }
    assert!(matches!(
        bench.app.overlays.last(),
        Some(Overlay::Dialog(_))
    ));
    bench.type_text("win11").await;
    bench.pass(1000).await;
    bench.msg(Msg::Input(Input::Click(x, y))).await;
    assert!(matches!(
        bench.app.overlays.last(),
        Some(Overlay::Dialog(_))
    ));
    assert!(bench.app.notice.as_ref().unwrap().text.contains("by keys"));
    click(&mut bench, "[Cancel]").await;
    // One that just asks is confirmed by it, but not before it can have been read.
    bench.select("local/scratch").await;
    bench.press("p h").await;
    let (x, y) = find(&bench, "[H]ibernate");
    bench.msg(Msg::Input(Input::Click(x, y))).await;
    assert!(matches!(
        bench.app.overlays.last(),
        Some(Overlay::Dialog(_))
    ));
    bench.pass(1000).await;
    bench.msg(Msg::Input(Input::Click(x, y))).await;
    assert_eq!(bench.settle().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_beside_a_menu_is_out_of_it_and_a_form_is_filled_by_it() {
    let mut bench = wide().await;
    for keys in ["?", "a", "T", ":"] {
        bench.select("local/scratch").await;
        bench.press(keys).await;
        assert!(!bench.app.overlays.is_empty());
        bench.msg(Msg::Input(Input::Click(0, 2))).await;
        assert!(bench.app.overlays.is_empty(), "{keys}: {}", bench.screen());
    }
    bench.press("g").await;
    bench.msg(Msg::Input(Input::Click(0, 5))).await;
    assert!(bench.app.keys.is_empty());
    bench.press("g").await;
    click(&mut bench, "h  Hosts").await;
    assert_eq!(bench.app.pane, Pane::Hosts, "{}", bench.screen());
    bench.press("g i S").await;
    click(&mut bench, "  note ").await;
    bench.type_text("by mouse").await;
    assert!(
        bench.screen().contains("--note=by mouse"),
        "{}",
        bench.screen()
    );
    click(&mut bench, "[Cancel]").await;
    assert!(bench.app.overlays.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_and_views_are_chosen_by_clicks() {
    let mut bench = wide().await;
    bench.press("o o").await;
    assert!(bench.screen().contains("[x] STATE"), "{}", bench.screen());
    click(&mut bench, "[x] STATE").await;
    assert!(bench.screen().contains("[x] STATE"), "{}", bench.screen());
    let (x, y) = find(&bench, "[x] STATE");
    for _ in 0..2 {
        bench.msg(Msg::Input(Input::Click(x, y))).await;
    }
    assert!(bench.screen().contains("[ ] STATE"), "{}", bench.screen());
    bench.press("Enter").await;
    assert!(!bench.screen().contains(" STATE "), "{}", bench.screen());
    for (filter, name) in [("context:local", "one"), ("context:hv1", "two")] {
        bench.press("/ Ctrl-U").await;
        bench.type_text(filter).await;
        bench.press("Enter b +").await;
        bench.type_text(name).await;
        bench.press("Enter").await;
    }
    if bench.app.overlays.is_empty() {
        bench.press("b").await;
    }
    click(&mut bench, "one ").await;
    assert!(!bench.app.overlays.is_empty());
    let (x, y) = find(&bench, "one ");
    for _ in 0..2 {
        bench.msg(Msg::Input(Input::Click(x, y))).await;
    }
    assert!(bench.app.overlays.is_empty(), "{}", bench.screen());
    assert_eq!(bench.app.inventory.filter_text.trim(), "context:local");
}

#[tokio::test(flavor = "multi_thread")]
async fn list_and_detail_share_the_screen_as_one_likes_and_it_is_remembered() {
    let mut bench = wide().await;
    bench.press("=").await;
    assert!(
        bench.screen().contains("d opens the detail"),
        "{}",
        bench.screen()
    );
    bench.select("local/scratch").await;
    bench.press("d").await;
    let width = |bench: &Bench| layout::body(&bench.app).detail.unwrap().width;
    let usual = width(&bench);
    bench.press("= =").await;
    assert!(
        width(&bench) > usual && bench.screen().contains("55 %"),
        "{}",
        bench.screen()
    );
    bench.press("- - - - - - - - - - - - - - - -").await;
    assert_eq!(width(&bench), 24, "it does not vanish");
    // By the line between them.
    let line = 140 - 24;
    bench.msg(Msg::Input(Input::Click(line, 10))).await;
    bench.msg(Msg::Input(Input::Drag(70, 11))).await;
    assert!((69..=72).contains(&width(&bench)), "{}", width(&bench));
    bench.msg(Msg::Input(Input::Release)).await;
    bench.msg(Msg::Input(Input::Drag(20, 11))).await;
    assert!((69..=72).contains(&width(&bench)), "it was let go");
    let kept = bench.held.iter().rev().find_map(|effect| match effect {
        Effect::Keep(state) => Some(state.clone()),
        _ => None,
    });
    assert_eq!(kept.unwrap().beside, bench.app.split.beside);
    bench.press("z").await;
    bench.press("=").await;
    assert!(bench.screen().contains("zoomed"), "{}", bench.screen());
    bench.press("z").await;
    // Below the list, and below an entry of another list, it is another share.
    bench.msg(Msg::Input(Input::Resize(80, 24))).await;
    let height = layout::body(&bench.app).detail.unwrap().height;
    bench.press("=").await;
    assert!(layout::body(&bench.app).detail.unwrap().height > height);
    bench.press("g x").await;
    bench.press("g d Enter - -").await;
    assert!(
        bench.screen().contains("% for the detail"),
        "{}",
        bench.screen()
    );
    for (w, h) in [(20, 5), (40, 12), (500, 200)] {
        bench.msg(Msg::Input(Input::Resize(w, h))).await;
        bench.press("= = = - -").await;
        assert_eq!(bench.screen().lines().count(), usize::from(h));
    }
}
