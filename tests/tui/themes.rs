//! Themes are looked through on the real screen, and the user's own are among them.

use std::sync::Arc;

use futures::StreamExt as _;

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
    let mut bench = Bench::over(Arc::clone(&corral.engine), 80, 24);
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

fn look(corral: &Running) -> (Box<corral::tui::look::Look>, Vec<Msg>) {
    let mut told = Vec::new();
    let look = corral::tui::look::Look::new(&corral.engine, &options(), None, &mut told);
    (Box::new(look), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_keymap_is_told_and_what_a_key_hides_is_offered_no_longer() {
    let corral = Running::new(&context("one", ""));
    let mut bench = Bench::over(Arc::clone(&corral.engine), 120, 40);
    corral.edit(&format!("[ui]\nkeymap = \"mine\"\n{}", context("one", "")));
    corral.engine.reload(&[]).await.unwrap();
    let folder = corral.engine.env().dirs.config.join("keymaps");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("mine.toml"),
        "name = 1\n[inventory]\n\"p\" = \"start {ids}\"\n\"e\" = \"start\"\nY = \"fly\"\n",
    )
    .unwrap();
    bench.settle().await;
    bench.look().await;
    for _ in 0..100 {
        bench.look().await;
        if bench.screen().contains("web") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let before = bench.screen();
    assert!(before.contains("p power"), "{before}");
    let (new, told) = look(&corral);
    bench.msg(Msg::Look(new)).await;
    assert_eq!(told.len(), 4, "{told:?}");
    for msg in told {
        bench.msg(msg).await;
    }
    bench.press("Esc").await;
    let screen = bench.screen();
    assert!(!screen.contains("p power"), "{screen}");
    assert!(screen.contains("p start"), "{screen}");
    bench.press("g l").await;
    let screen = bench.screen();
    for text in [
        "mine.toml:1:1",
        "mine.toml:3:1",
        "mine.toml:4:1",
        "mine.toml:5:1",
    ] {
        assert!(screen.contains(text), "{text}: {screen}");
    }
    bench.press("g i").await;
    bench.press("?").await;
    let help = bench.screen();
    assert!(!help.contains("p t"), "{help}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keymap_and_a_theme_are_followed_however_their_files_come_and_change() {
    let corral = Running::new(&context("one", ""));
    let mut bench = Bench::over(Arc::clone(&corral.engine), 80, 24);
    corral.edit(&format!(
        "[ui]\nkeymap = \"mine\"\ntheme = \"night\"\n{}",
        context("one", "")
    ));
    corral.engine.reload(&[]).await.unwrap();
    let config = corral.engine.env().dirs.config.clone();
    let mut news = corral::action::reload::follow(Arc::clone(&corral.engine));
    // Folder and file come later.
    std::fs::create_dir_all(config.join("keymaps")).unwrap();
    let keys = config.join("keymaps/mine.toml");
    std::fs::write(&keys, "[inventory]\nX = \"stop {ids}\"\n").unwrap();
    news.next().await.unwrap();
    bench.msg(Msg::Look(look(&corral).0)).await;
    let runs = |bench: &Bench, run: &str| {
        bench
            .app
            .setup
            .keymap
            .all()
            .iter()
            .any(|b| b.run == run && b.keys_text() == "X")
    };
    assert!(runs(&bench, "stop {ids}"));
    // Replaced by another, as editors do, and written in place.
    std::fs::write(config.join("new"), "[inventory]\nX = \"pause {ids}\"\n").unwrap();
    std::fs::rename(config.join("new"), &keys).unwrap();
    news.next().await.unwrap();
    bench.msg(Msg::Look(look(&corral).0)).await;
    assert!(runs(&bench, "pause {ids}"));
    std::fs::write(&keys, "[inventory]\nX = \"resume {ids}\"\n").unwrap();
    news.next().await.unwrap();
    bench.msg(Msg::Look(look(&corral).0)).await;
    assert!(runs(&bench, "resume {ids}"));
    // A theme of that name; what was chosen in the view stays when only files change.
    std::fs::create_dir_all(config.join("themes")).unwrap();
    std::fs::write(config.join("themes/night.toml"), "name = 'x'\n[roles]\n").unwrap();
    news.next().await.unwrap();
    bench.msg(Msg::Look(look(&corral).0)).await;
    assert_eq!(bench.app.setup.theme.name, "night");
    bench.command("ui theme nord").await;
    bench
        .msg(Msg::Look(Box::new(look(&corral).0.same_settings())))
        .await;
    assert_eq!(bench.app.setup.theme.name, "nord");
}

#[test]
fn a_terminal_that_is_not_known_to_have_colours_gets_none() {
    use corral::tui::theme::Depth;
    let depth = |term: &str, colours: &str| {
        let vars = [("TERM", term), ("COLORTERM", colours)];
        let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = TuiOptions {
            vars: vars.into(),
            ..TuiOptions::default()
        };
        options.depth()
    };
    for term in ["vt100", "vt220", "xterm-mono", "dumb", ""] {
        assert_eq!(depth(term, "truecolor"), Depth::None, "{term}");
    }
    assert_eq!(depth("no-such", ""), Depth::None);
    assert_eq!(depth("no-such", "truecolor"), Depth::Full);
    assert_eq!(depth("xterm-256color", ""), Depth::Sixteen);
}
