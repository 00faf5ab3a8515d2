//! Every key of the keymap does something real, or says why not.

use corral::tui::app::{App, Focus, Pane, Tab};
use corral::tui::input::Key;

use super::harness::Bench;

fn summary(app: &App) -> String {
    format!(
        "{:?} {:?} {:?} {} {} {:?} {} {:?} {} {:?} {:?} {:?}",
        app.pane,
        app.focus,
        app.overlays,
        app.zoom,
        app.mouse,
        (
            app.inventory.cursor,
            app.inventory.top,
            app.inventory.skip,
            app.inventory.wide
        ),
        app.inventory.filter_text,
        (
            &app.inventory.context,
            app.inventory.problems,
            &app.inventory.sort,
            app.inventory.reverse
        ),
        app.inventory.marked.len(),
        (
            app.detail.open,
            app.detail.tab,
            app.detail.scroll,
            app.detail.snapshot,
            app.detail.line,
            &app.inventory.range
        ),
        app.cursors,
        (
            &app.setup.theme.name,
            app.leaving,
            &app.notice,
            app.planning.is_some()
        ),
    )
}

/// Brings a view to where a section of the keymap holds.
async fn at_section(section: &str) -> Bench {
    let mut bench = Bench::new().await;
    match section {
        "detail" | "snapshots" | "native" => {
            bench.select("local/scratch").await;
            bench.press("Enter").await;
            if section == "snapshots" {
                bench.app.detail.tab = Tab::Snapshots;
            }
            if section == "native" {
                bench.app.detail.tab = Tab::Native;
            }
            assert_eq!(bench.app.focus, Focus::Detail);
            assert!(bench.app.current_detail().is_some());
        }
        "tasks" => {
            bench
                .command("snapshot create local/scratch --name t")
                .await;
            bench.settle().await;
            bench.press("g t").await;
        }
        "history" => {
            bench
                .command("snapshot create local/scratch --name h")
                .await;
            bench.settle().await;
            bench.press("g y").await;
        }
        "snapshots of all" => {
            bench.command("ui filter local").await;
            bench.press("* g s Down").await;
        }
        "doctor" => bench.press("g d").await,
        "contexts" => bench.press("g x").await,
        "hosts" => bench.press("g h").await,
        "places" => bench.press("g n").await,
        "images" => bench.press("g m").await,
        "problems" => bench.press("g p").await,
        _ => {
            bench.press("Down").await;
        }
    }
    bench.app.notice = None;
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn req_32_every_key_changes_something_or_says_why_not() {
    let all = Bench::new().await.app.setup.keymap.all().to_vec();
    let mut sections: Vec<&str> = all.iter().map(|b| b.section.as_str()).collect();
    sections.dedup();
    for section in sections {
        for binding in all.iter().filter(|b| b.section == section) {
            let mut bench = at_section(section).await;
            let before = summary(&bench.app);
            let effects = bench.effects.len();
            for key in &binding.keys {
                bench.key(*key).await;
            }
            let changed = summary(&bench.app) != before;
            let asked = bench.effects.len() > effects;
            assert!(changed || asked, "[{section}] {}", binding.keys_text());
            let said = bench.app.notice.as_ref().map_or("", |n| n.text.as_str());
            assert!(
                !said.contains("does nothing here"),
                "{}: {said}",
                binding.keys_text()
            );
            assert!(
                !said.contains("there is no command"),
                "{}: {said}",
                binding.keys_text()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn req_13_no_single_key_changes_the_fleet() {
    for n in 32u8..127 {
        let mut bench = Bench::new().await;
        bench.select("local/scratch").await;
        bench.key(Key::char(char::from(n))).await;
        bench.pass(1000).await;
        assert!(bench.engine.board().all().is_empty(), "{}", char::from(n));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_menu_starts_stops_and_says_so() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    bench.press("p").await;
    assert!(bench.screen().contains("Power: local/win11"));
    bench.press("s").await;
    let tasks = bench.settle().await;
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].command, "corral start local/win11");
    assert_eq!(
        bench.state("local/win11").await,
        corral::model::State::Running
    );
    assert!(
        bench.screen().contains("start local/win11: done"),
        "{}",
        bench.screen()
    );
    // And the task has its pane, with its log.
    bench.press("g t Enter").await;
    assert!(
        bench.screen().contains("= corral start local/win11"),
        "{}",
        bench.screen()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_the_command_line_and_argv_give_the_same_plan() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    let by_key = bench.screen();
    bench.press("Esc").await;
    bench.command("stop local/scratch").await;
    assert_eq!(bench.screen(), by_key);
    assert!(by_key.contains("= corral stop local/scratch"), "{by_key}");
    let plans: Vec<_> = bench
        .effects
        .iter()
        .filter_map(|e| match e {
            corral::tui::msg::Effect::Plan(_, action) => Some(action.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(plans[0], plans[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_24_ctrl_c_clears_and_only_twice_leaves() {
    let mut bench = Bench::new().await;
    bench.press(": a b Ctrl-C").await;
    assert_eq!(bench.app.overlays.len(), 1, "the first clears");
    bench.press("Ctrl-C").await;
    assert!(bench.app.overlays.is_empty());
    bench.press("Ctrl-C").await;
    assert!(!bench.app.leaving);
    assert!(bench.screen().contains("again"));
    bench.pass(1500).await;
    bench.press("Ctrl-C").await;
    assert!(!bench.app.leaving, "too late is a first one");
    bench.press("Ctrl-C").await;
    assert!(bench.app.leaving);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_lines_stay_to_be_mended() {
    let mut bench = Bench::new().await;
    bench.command("kill local/scratch").await;
    assert!(bench.screen().contains("two things"), "{}", bench.screen());
    assert_eq!(bench.app.overlays.len(), 1);
    bench.press("Ctrl-C").await;
    bench.type_text("q").await;
    bench.press("Enter").await;
    assert!(bench.app.leaving);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_palette_finds_and_runs() {
    let mut bench = Bench::new().await;
    bench.press(":").await;
    bench.type_text("histo").await;
    assert!(
        bench.screen().contains("ui go history"),
        "{}",
        bench.screen()
    );
    bench.press("Down Enter").await;
    assert_eq!(bench.app.pane, Pane::History, "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn back_and_forward_and_contexts() {
    let mut bench = Bench::new().await;
    bench.press("g t g x").await;
    bench.press("<").await;
    assert_eq!(bench.app.pane, Pane::Tasks);
    bench.press(">").await;
    assert_eq!(bench.app.pane, Pane::Contexts);
    bench.press("1").await;
    assert_eq!(bench.app.inventory.context.as_deref(), Some("local"));
    bench.press("1").await;
    assert_eq!(bench.app.inventory.context, None, "again is all");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_25_copying_says_what_was_sent() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("y i").await;
    let sent = bench
        .held
        .iter()
        .any(|e| matches!(e, corral::tui::msg::Effect::Copy(text) if text == "local/scratch"));
    assert!(sent);
    assert!(bench.screen().contains("sent to the terminal's clipboard"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_of_problems_is_that_of_their_list() {
    let bench = Bench::new().await;
    let listed = corral::tui::listing::of(&bench.app, Pane::Problems)
        .rows
        .len();
    assert!(listed > 0);
    assert_eq!(corral::tui::listing::problem_count(&bench.app), listed);
}
