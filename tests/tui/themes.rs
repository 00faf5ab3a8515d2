//! Themes are looked through on the real screen, and the user's own are among them.

use std::sync::Arc;

use corral::tui::TuiOptions;
use corral::tui::msg::Msg;
use corral::tui::presence::Notify;

use super::harness::Bench;
use super::running::{Running, context};

fn options() -> TuiOptions {
    TuiOptions {
        vars: [
            ("TERM", "xterm"),
            ("COLORTERM", "truecolor"),
            ("LANG", "C.UTF-8"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        ..TuiOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_the_cursor_is_shown_at_once_and_esc_brings_back_what_was() {
    let mut bench = Bench::new().await;
    let before = bench.app.setup.theme.clone();
    bench.press("T").await;
    assert!(bench.screen().contains("Theme: Enter keeps"));
    assert!(bench.screen().contains("> dark"));
    for _ in 0..3 {
        bench.press("Down").await;
    }
    assert_eq!(bench.app.setup.theme.name, "contrast-light");
    bench.press("Esc").await;
    assert_eq!(bench.app.setup.theme, before);
    bench.press("T").await;
    bench.press("End").await;
    bench.press("Enter").await;
    assert_eq!(bench.app.setup.theme.name, "solarized-light");
    assert!(!bench.screen().contains("Enter keeps"));
    bench.command("ui theme nord").await;
    assert_eq!(bench.app.setup.theme.name, "nord");
    bench.command("ui theme no-such").await;
    assert!(bench.screen().contains("no-such"));
    assert_eq!(bench.app.setup.theme.name, "nord");
}

#[tokio::test(flavor = "multi_thread")]
async fn own_themes_and_keys_take_part_and_follow_the_file_while_it_runs() {
    let corral = Running::new(&context("one", ""));
    let folder = corral.engine.env().dirs.config.join("themes");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("night.toml"),
        "name = 'x'\n[roles]\nok = { fg = '#00ff00' }\n",
    )
    .unwrap();
    std::fs::write(
        folder.join("bad.toml"),
        "name = 'bad'\n[roles]\nok = { fg = 'greeen' }\n",
    )
    .unwrap();
    let mut told = Vec::new();
    let setup = corral::tui::setup(&corral.engine, &options(), (80, 24), &mut told);
    assert!(setup.themes.iter().any(|t| t.name == "night"));
    assert!(!setup.themes.iter().any(|t| t.name == "bad"));
    assert!(
        matches!(told.as_slice(), [Msg::Notice(text, true)] if text.contains("bad") && text.contains("greeen"))
    );
    assert_eq!(setup.theme.name, "dark");

    let mut bench = Bench::over(Arc::clone(&corral.engine), 80, 24);
    bench.app.setup = setup;
    corral.edit(&format!(
        "[ui]\ntheme = \"night\"\nkeymap = \"k9s\"\nicons = \"ascii\"\nnotify = \"desktop\"\n{}",
        context("one", "")
    ));
    corral.engine.reload(&[]).await.unwrap();
    let mut told = Vec::new();
    let look = corral::tui::look::Look::new(&corral.engine, &options(), None, &mut told);
    bench.msg(Msg::Look(Box::new(look))).await;
    assert_eq!(bench.app.setup.theme.name, "night");
    assert_eq!(bench.app.setup.manners.notify, Notify::Desktop);
    assert!(bench.screen().is_ascii());
    bench.press("C").await;
    assert_eq!(bench.app.inventory.sort, "cpu");
}
