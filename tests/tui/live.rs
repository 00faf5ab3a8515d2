//! The view of a corral whose configuration changes.

use std::sync::Arc;

use corral::action::reload;
use corral::tui::msg::Msg;
use futures::StreamExt as _;

use super::harness::Bench;
use super::running::{Running, context};

async fn start(config: &str) -> (Running, Bench) {
    let corral = Running::new(config);
    let bench = Bench::over(Arc::clone(&corral.engine), 80, 24);
    (corral, bench)
}

/// Takes the fleet in until the screen is so.
async fn until(bench: &mut Bench, what: impl Fn(&str) -> bool) -> String {
    for _ in 0..200 {
        bench.look().await;
        let screen = bench.screen();
        if what(&screen) {
            return screen;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("never:\n{}", bench.screen());
}

/// Enters a change and confirms it.
async fn change(bench: &mut Bench, line: &str, confirm: &str) {
    bench.command(line).await;
    bench.pass(1000).await;
    if confirm.chars().count() > 1 {
        bench.type_text(confirm).await;
        bench.press("Enter").await;
    } else {
        bench.press(confirm).await;
    }
    bench.settle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_added_is_a_tab_with_rows_and_goes_when_it_is_removed() {
    let (_corral, mut bench) = start(&context("one", "")).await;
    until(&mut bench, |screen| screen.contains("1 one")).await;
    change(&mut bench, "context add two --backend qemu", "A").await;
    let screen = until(&mut bench, |screen| screen.contains("2 two")).await;
    assert!(screen.contains("1 one"), "{screen}");
    until(&mut bench, |screen| screen.matches("web").count() == 2).await;
    bench.press("2").await;
    assert_eq!(bench_ids(&bench), ["two/web"]);
    change(&mut bench, "context remove two", "R").await;
    let screen = until(&mut bench, |screen| !screen.contains("2 two")).await;
    assert!(screen.contains("1 one"), "{screen}");
    assert_eq!(bench_ids(&bench), ["one/web"], "back to all contexts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_broke_is_told_and_changes_nothing_on_the_screen() {
    let (corral, mut bench) = start(&context("one", "")).await;
    until(&mut bench, |screen| screen.contains("web")).await;
    let mut news = reload::follow(Arc::clone(&corral.engine));
    corral.edit("[[context]\nname = \"one\"\n");
    let new = news.next().await.unwrap();
    bench.msg(Msg::Config(new.readonly, new.fault)).await;
    let screen = until(&mut bench, |_| true).await;
    assert!(screen.contains("config.toml:1:"), "{screen}");
    assert!(
        screen.contains("1 one") && screen.contains("web"),
        "{screen}"
    );
    corral.edit(&format!("{}{}", context("zero", ""), context("one", "")));
    let new = news.next().await.unwrap();
    bench.msg(Msg::Config(new.readonly, new.fault)).await;
    let screen = until(&mut bench, |screen| screen.contains("2 one")).await;
    assert!(screen.contains("1 zero"), "{screen}");
    assert!(
        !screen.contains("config.toml:1:"),
        "a mended fault is told: {screen}"
    );
    corral.edit(&format!("readonly = true\n{}", context("one", "")));
    let new = news.next().await.unwrap();
    bench.msg(Msg::Config(new.readonly, new.fault)).await;
    let screen = until(&mut bench, |screen| !screen.contains("zero")).await;
    assert!(screen.contains("READ-ONLY"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_disabled_stays_in_sight_and_is_connected_again() {
    let (_corral, mut bench) = start(&context("one", "")).await;
    until(&mut bench, |screen| screen.contains("web")).await;
    bench.press("g x").await;
    bench.press("X").await;
    bench.pass(1000).await;
    bench.press("D").await;
    bench.settle().await;
    let screen = until(&mut bench, |screen| screen.contains("disabled")).await;
    let row = screen.lines().find(|line| line.contains(" disabled "));
    assert!(row.unwrap().contains("one"), "{screen}");
    bench.press("g i").await;
    let screen = bench.screen();
    assert!(
        screen.contains("one (qemu)     disabled: g x, then E,"),
        "{screen}"
    );
    assert!(!screen.contains("I looked for"), "{screen}");
    bench.press("g x").await;
    bench.press("E").await;
    bench.pass(1000).await;
    if !bench.app.overlays.is_empty() {
        bench.press("E").await;
    }
    bench.settle().await;
    bench.press("g i").await;
    until(&mut bench, |screen| {
        screen.contains("1 one") && screen.contains("web")
    })
    .await;
}

fn bench_ids(bench: &Bench) -> Vec<String> {
    let rows = bench.app.inventory.rows.iter();
    rows.map(|row| row.id.to_string()).collect()
}
