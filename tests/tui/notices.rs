//! What was told can be read again; what the terminal says of itself.

use corral::tui::app::Pane;
use corral::tui::glyphs::Glyphs;
use corral::tui::listing;
use corral::tui::msg::{Effect, Msg};

use super::harness::Bench;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_is_read_again_newest_first_and_whole() {
    let mut bench = Bench::new().await;
    bench.press("g l").await;
    assert!(
        bench.screen().contains("Nothing was told yet"),
        "{}",
        bench.screen()
    );
    bench.press("g i").await;
    bench.select("local/scratch").await;
    bench.press("p s z").await;
    bench.command("ui theme nosuch").await;
    let long = format!("first {} -> the remedy at its end", "word ".repeat(40));
    bench.msg(Msg::Notice(long, true)).await;
    bench.command("ui notices").await;
    assert_eq!(bench.app.pane, Pane::Notices);
    let rows = listing::of(&bench.app, Pane::Notices).rows;
    assert!(rows[0].cells[2].0.contains("first word"), "{rows:?}");
    assert!(rows[1].cells[2].0.contains("there is no theme"), "{rows:?}");
    assert!(
        rows.iter().all(|row| !row.cells[2].0.contains("zoomed")),
        "chatter"
    );
    bench.press("Enter").await;
    let text = bench.screen();
    assert!(text.contains("-> the remedy"), "{text}");
    for n in 0..300 {
        bench.msg(Msg::Notice(format!("number {n}"), false)).await;
    }
    let rows = listing::of(&bench.app, Pane::Notices).rows;
    assert_eq!(rows.len(), 200);
    assert_eq!(rows[0].cells[2].0, "number 299");
    for (width, height) in [(20, 5), (40, 12), (500, 200)] {
        bench
            .msg(Msg::Input(corral::tui::input::Input::Resize(width, height)))
            .await;
        assert_eq!(bench.screen().lines().count(), usize::from(height));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_light_terminal_gets_the_light_theme_unless_somebody_chose_one() {
    let mut bench = Bench::new().await;
    assert_eq!(bench.app.setup.theme.name, "dark");
    bench.msg(Msg::Background(true)).await;
    assert_eq!(bench.app.setup.theme.name, "light");
    let kept = |bench: &Bench| bench.held.iter().any(|e| matches!(e, Effect::Keep(_)));
    assert!(!kept(&bench), "it is found anew the next time");
    bench.command("ui theme nord").await;
    assert!(kept(&bench));
    bench.msg(Msg::Background(false)).await;
    assert_eq!(bench.app.setup.theme.name, "nord");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_27_icons_of_a_patched_font_stand_in_one_column() {
    let mut bench = Bench::new().await;
    let plain = bench.screen();
    bench.app.setup.glyphs = Glyphs::Nerd;
    let icons = bench.screen();
    assert!(
        icons.contains('\u{f04b}') && !icons.contains('●'),
        "{icons}"
    );
    let widths =
        |text: &str| -> Vec<usize> { text.lines().map(corral::model::shown_width).collect() };
    assert_eq!(widths(&icons), widths(&plain));
}
