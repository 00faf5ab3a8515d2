//! What the configuration chooses, and what is remembered from one view to the next.

use std::sync::Arc;

use corral::tui::TuiOptions;
use corral::tui::app::App;
use corral::tui::msg::{At, Effect, Msg};
use jiff::Timestamp;

use super::harness::{Bench, screen};
use super::running::{Running, context};

/// A view as one is opened, and what it says at once.
fn open(corral: &Running, width: u16) -> (App, Vec<Msg>) {
    let options = TuiOptions {
        vars: [("TERM", "xterm-direct"), ("LANG", "C.UTF-8")]
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect(),
        ..TuiOptions::default()
    };
    let mut told = Vec::new();
    let setup = corral::tui::setup(&corral.engine, &options, (width, 24), &mut told);
    let at = At {
        ms: 0,
        wall: Timestamp::now(),
    };
    (App::new(setup, at), told)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_is_there_the_next_time_and_the_configuration_wins() {
    let corral = Running::new(&context("one", ""));
    let (app, told) = open(&corral, 80);
    assert!(told.is_empty() && !app.mouse && app.setup.theme.name == "dark");
    let mut bench = Bench::over(Arc::clone(&corral.engine), 80, 24);
    bench.app.setup = app.setup;
    bench.press("m").await;
    bench.command("ui theme light").await;
    bench.command("ui sort cpu").await;
    bench.command("ui sort reverse").await;
    for effect in bench.held.drain(..) {
        if let Effect::Keep(state) = effect {
            corral.engine.ui().keep(state, |error| panic!("{error}"));
        }
    }
    corral.engine.shutdown(std::time::Duration::ZERO).await;
    let (app, told) = open(&corral, 80);
    assert!(told.is_empty(), "{told:?}");
    assert!(app.mouse);
    assert_eq!(app.setup.theme.name, "light");
    assert_eq!(
        (app.inventory.sort.as_str(), app.inventory.reverse),
        ("cpu", true)
    );
    assert!(!app.detail.open, "it was not touched");
    corral.edit(&format!(
        "[ui]\ntheme = \"dark\"\nmouse = false\n{}",
        context("one", "")
    ));
    corral.engine.reload(&[]).await.unwrap();
    let (app, _) = open(&corral, 80);
    assert_eq!((app.setup.theme.name.as_str(), app.mouse), ("dark", false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_memory_is_one_notice_and_no_harm() {
    let corral = Running::new(&context("one", ""));
    let state = &corral.engine.env().dirs.state;
    std::fs::create_dir_all(state).unwrap();
    std::fs::write(state.join("ui.toml"), "mouse = = true").unwrap();
    let (app, told) = open(&corral, 80);
    assert!(
        matches!(told.as_slice(), [Msg::Notice(text, true)] if text.contains("ui.toml")),
        "{told:?}"
    );
    assert!(!app.mouse);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_simulated_fleet_remembers_nothing() {
    let mut bench = Bench::new().await;
    bench.press("m").await;
    for effect in bench.held.drain(..) {
        if let Effect::Keep(state) = effect {
            bench.engine.ui().keep(state, |error| panic!("{error}"));
        }
    }
    bench.engine.shutdown(std::time::Duration::ZERO).await;
    assert!(!bench.engine.env().dirs.state.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_those_of_the_configuration_for_the_width() {
    let columns = "[ui]\ncolumns = { 60 = [\"state\", \"tags\"], 100 = [\"name\", \"os\", \"context\", \"state\"] }\n";
    let corral = Running::new(&format!("{columns}{}", context("one", "")));
    for (width, heading) in [
        (50, "NAME STATE"),
        (80, "NAME STATE TAGS"),
        (120, "NAME OS CONTEXT STATE"),
    ] {
        let (mut app, _) = open(&corral, width);
        let mut bench = Bench::over(Arc::clone(&corral.engine), width, 24);
        std::mem::swap(&mut bench.app, &mut app);
        bench.look().await;
        let text = screen(&bench.app);
        let line = text.lines().nth(2).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.join(" "), heading, "{text}");
    }
    corral.edit("[ui]\ncolumns = [\"nmae\"]\nsort = \"colour\"\n");
    let fault = corral.engine.reload(&[]).await.unwrap().fault.unwrap();
    assert!(
        fault.contains("config.toml:2:") && fault.contains("did you mean \"name\"?"),
        "{fault}"
    );
    let problems = &corral.engine.config().problems;
    assert_eq!(problems.len(), 2);
    assert!(
        problems[1].message.contains("no column \"colour\""),
        "{problems:?}"
    );
}
