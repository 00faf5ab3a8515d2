//! The command line: what it offers, what it remembers, and what is wrong before it is entered.

use corral::tui::app::{Overlay, Pane};
use corral::tui::input::{Code, Input, Key};
use corral::tui::msg::{Effect, Msg};

use super::fixture::{app, fleet, press, setup, type_text};
use super::harness::{Bench, screen};
use corral::backend::demo::Knobs;

fn typed(bench: &Bench) -> String {
    match bench.app.overlays.last() {
        Some(Overlay::Command(command)) => command.line.text().to_owned(),
        other => panic!("{other:?}"),
    }
}

fn palette(bench: &Bench) -> Vec<String> {
    let all = corral::tui::palette::candidates(&bench.app);
    all.into_iter().map(|c| c.title).collect()
}

async fn line(bench: &mut Bench, text: &str) {
    while !bench.app.overlays.is_empty() {
        bench.press("Esc").await;
    }
    bench.press(":").await;
    bench.type_text(text).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_completes_what_a_shell_completes() {
    let mut bench = Bench::new().await;
    for (text, wanted) in [
        ("snapshot cr", "create"),
        ("stop local/scr", "local/scratch"),
        ("stop --for", "--force"),
        ("stop local/scratch --on-error ", "continue"),
        ("list --context=h", "--context=hv1"),
        ("list --filter=sta", "--filter=state:"),
        ("image pull deb", "debian-13"),
        ("context add lab --backend q", "qemu"),
        ("create x --set b", "bus="),
        ("ui go ta", "tasks"),
        ("go host", "hosts"),
        ("ui sort mem", "mem"),
    ] {
        line(&mut bench, text).await;
        let found = palette(&bench);
        assert!(found.contains(&wanted.to_owned()), "{text}: {found:?}");
        assert_eq!(found[0], wanted, "{text}: first comes what begins so");
        assert!(bench.screen().contains(wanted), "{}", bench.screen());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_completes_images_networks_snapshots_and_tasks_that_are_known() {
    let mut bench = Bench::new().await;
    bench.press("g m g n g i").await;
    let images = bench.answers.iter().find_map(|(_, data)| match data {
        Ok(data) => match &data.body {
            corral::model::Body::Images(all) => all.first().map(|image| image.name.clone()),
            _ => None,
        },
        Err(_) => None,
    });
    line(&mut bench, "create x --image ").await;
    assert!(palette(&bench).contains(&images.unwrap()));
    line(&mut bench, "nic add local/scratch --network ").await;
    assert!(!palette(&bench).is_empty());
    bench.press("Esc").await;
    bench.command("snapshot create hv1/db --name before").await;
    bench.settle().await;
    bench.select("hv1/db").await;
    bench.press("d").await;
    bench.look().await;
    line(&mut bench, "snapshot restore hv1/db@").await;
    let found = palette(&bench);
    assert!(found.contains(&"hv1/db@before".to_owned()), "{found:?}");
    let id = bench.engine.board().all()[0].id.clone();
    line(&mut bench, "tasks show ").await;
    assert!(palette(&bench).contains(&id));
}

#[tokio::test(flavor = "multi_thread")]
async fn tab_goes_as_far_as_it_is_certain() {
    let mut bench = Bench::new().await;
    line(&mut bench, "snap").await;
    bench.press("Tab").await;
    line(&mut bench, "snapshot re").await;
    bench.press("Tab").await;
    assert_eq!(typed(&bench), "snapshot restore ");
    line(&mut bench, "stop local/scr").await;
    bench.press("Tab").await;
    assert_eq!(typed(&bench), "stop local/scratch ");
    bench.type_text("--for").await;
    bench.press("Tab").await;
    // `--for` and `--force` both begin so.
    assert_eq!(typed(&bench), "stop local/scratch --for");
    // In the middle of a line the rest stays.
    line(&mut bench, "stop local/scr --force").await;
    for _ in 0.." --force".len() {
        bench.press("Left").await;
    }
    bench.press("Tab").await;
    assert_eq!(typed(&bench), "stop local/scratch  --force");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_that_is_chosen_is_put_in_and_runs_nothing() {
    let mut bench = Bench::new().await;
    line(&mut bench, "start local/win11 --no-w").await;
    bench.press("Down Enter").await;
    assert_eq!(typed(&bench), "start local/win11 --no-wait");
    assert!(!bench.effects.iter().any(|e| matches!(e, Effect::Plan(..))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_stands_under_its_word_before_enter() {
    let mut bench = Bench::new().await;
    for (text, word, says) in [
        ("stop local/scratch --forc ", "--forc", "--force"),
        ("snapshot crate ", "crate", "mean create"),
        ("resize local/scratch --cpus four", "four", "whole number"),
        ("resize local/scratch --memory=4x ", "--memory", "4x"),
        ("stop local/scratch --on-error never ", "never", "continue"),
        ("ui goo x", "goo", "ui go"),
        ("kill x", "kill", "two things"),
    ] {
        line(&mut bench, text).await;
        let screen = bench.screen();
        let lines: Vec<&str> = screen.lines().collect();
        let at = lines[22].find(word).unwrap_or_else(|| panic!("{screen}"));
        assert!(lines[22].starts_with(':'), "{screen}");
        assert_eq!(lines[23].find('^'), Some(at), "{text}\n{screen}");
        let told: String = lines[23].chars().filter(|c| *c != '^').collect();
        assert!(
            told.contains(says) || told.ends_with('…'),
            "{text}\n{screen}"
        );
    }
    // What may still become something is no fault, and what is missing is none before Enter.
    for text in [
        "stop local/scratch --forc",
        "snapshot cre",
        "stop",
        "stop ",
        "clone local/scratch ",
        "resize local/scratch --cpus ",
        "power off",
        "list --context=h",
        "stop {ids} ",
    ] {
        line(&mut bench, text).await;
        let screen = bench.screen();
        assert!(!screen.contains('^'), "{text}\n{screen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn up_goes_back_among_lines_that_begin_so() {
    let mut bench = Bench::new().await;
    for text in ["list", "info local/scratch", "list --output wide", "matrix"] {
        bench.command(text).await;
    }
    line(&mut bench, "li").await;
    bench.press("Up").await;
    assert_eq!(typed(&bench), "list --output wide");
    bench.press("Up").await;
    assert_eq!(typed(&bench), "list");
    bench.press("Up").await;
    assert_eq!(typed(&bench), "list", "the first stays");
    bench.press("Down").await;
    assert_eq!(typed(&bench), "list --output wide");
    bench.press("Down").await;
    assert_eq!(typed(&bench), "li", "what was typed comes back");
    bench.press("Ctrl-U Up").await;
    assert_eq!(typed(&bench), "matrix");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_r_finds_a_line_by_any_of_its_words_and_only_takes_it() {
    let mut bench = Bench::new().await;
    for text in ["info local/scratch", "info hv1/db", "matrix"] {
        bench.command(text).await;
    }
    bench.press("g i").await;
    line(&mut bench, "x").await;
    bench.press("Ctrl-R Esc").await;
    assert_eq!(typed(&bench), "x", "Esc brings back what was typed");
    bench.press("Ctrl-U Ctrl-R").await;
    bench.type_text("info").await;
    assert_eq!(palette(&bench), ["info hv1/db", "info local/scratch"]);
    assert!(bench.screen().contains("Entered before"));
    let asked = bench.answers.len();
    bench.press("Ctrl-R Enter").await;
    assert_eq!(typed(&bench), "info local/scratch");
    assert_eq!(bench.answers.len(), asked, "taken, not run");
    bench.press("Enter").await;
    assert!(bench.answers.len() > asked);
    assert_eq!(bench.app.pane, Pane::Inventory);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_entered_is_there_in_the_next_view_and_no_secret_is() {
    let mut bench = Bench::with(80, 24, Knobs::instant(), Some("")).await;
    bench.command("info local/scratch").await;
    bench.command("sendkey local/scratch --text hunter2").await;
    let kept: Vec<String> = bench
        .held
        .iter()
        .filter_map(|effect| match effect {
            Effect::Entered(line) => Some(line.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(kept, ["info local/scratch"]);
    for line in kept {
        bench.engine.entered().keep(line);
    }
    // As a view does when it is left.
    bench.engine.shutdown(std::time::Duration::ZERO).await;
    let mut next = Bench::over(std::sync::Arc::clone(&bench.engine), 80, 24);
    line(&mut next, "").await;
    next.press("Up").await;
    assert_eq!(typed(&next), "info local/scratch");
    next.press("Up").await;
    assert_eq!(typed(&next), "info local/scratch");
}

#[test]
fn commands_of_a_simulated_fleet_say_so_wherever_they_are_shown_or_copied() {
    let mut own = setup(120, 40);
    own.beside.flag = "--demo=large".to_owned();
    let mut app = app(own, fleet());
    let effects = press(&mut app, "y c");
    let copied: Vec<&String> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Copy(text) => Some(text),
            _ => None,
        })
        .collect();
    assert!(
        copied[0].starts_with("corral --demo=large info "),
        "{copied:?}"
    );
    press(&mut app, "p");
    assert!(
        screen(&app).contains("corral --demo=large start"),
        "{}",
        screen(&app)
    );
    press(&mut app, "Esc e r");
    assert!(
        screen(&app).contains("= corral --demo=large resize"),
        "{}",
        screen(&app)
    );
}

#[test]
fn what_is_typed_is_whole_on_every_screen() {
    for (width, height) in [(20, 5), (40, 10), (80, 24), (500, 200)] {
        let mut app = app(setup(width, height), fleet());
        press(&mut app, ":");
        type_text(&mut app, "stop hv1/db --forc x");
        let text = screen(&app);
        let end = if width < 40 {
            "--forc x"
        } else {
            "stop hv1/db --forc x"
        };
        assert!(text.contains(end), "{width}x{height}\n{text}");
        let ms = app.ms + 1;
        let paste = Msg::Input(Input::Paste("a\nb\u{1b}[2J".repeat(200)));
        corral::tui::update::update(&mut app, super::fixture::at(ms), paste);
        let key = Msg::Input(Input::Key(Key::plain(Code::Tab)));
        corral::tui::update::update(&mut app, super::fixture::at(ms), key);
        screen(&app);
    }
}

fn copied(bench: &Bench) -> Option<String> {
    bench.held.iter().rev().find_map(|effect| match effect {
        Effect::Copy(text) => Some(text.clone()),
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_menu_and_form_gives_its_headless_command() {
    let mut bench = Bench::sized(100, 30, Knobs::instant()).await;
    bench.select("local/scratch").await;
    // A question: `y c` as in a list, and it stays open.
    bench.press("p t").await;
    bench.pass(1000).await;
    bench.press("y c").await;
    assert_eq!(copied(&bench).unwrap(), "corral stop local/scratch");
    assert!(bench.screen().contains("= corral stop local/scratch"));
    assert!(matches!(
        bench.app.overlays.last(),
        Some(Overlay::Dialog(_))
    ));
    bench.press("Esc").await;
    // One that wants a text takes every letter as text: its button is reached by Tab.
    bench.select("local/win11").await;
    bench.press("D").await;
    bench.pass(1000).await;
    bench.type_text("y").await;
    assert!(bench.screen().contains("go on: y"), "{}", bench.screen());
    bench.press("Tab Tab Enter").await;
    let text = copied(&bench).unwrap();
    assert!(text.starts_with("corral delete local/win11"), "{text}");
    bench.press("Esc").await;
    // All actions.
    bench.press("a").await;
    assert!(bench.screen().contains("= corral start local/win11"));
    bench.press("Down y c").await;
    assert_eq!(copied(&bench).unwrap(), "corral stop local/win11");
    bench.press("Esc").await;
    // A form, with the focus on a button: in a field y is a letter.
    bench.press("e r").await;
    bench.type_text("8").await;
    bench.press("Shift-Tab y").await;
    assert_eq!(
        copied(&bench).unwrap(),
        "corral resize local/win11 --cpus=8"
    );
    bench.press("Esc Esc").await;
    // Keys that may follow.
    bench.press("p").await;
    let screen = bench.screen();
    assert!(
        screen.contains("= corral restart local/win11 --force"),
        "{screen}"
    );
    bench.press("Esc g").await;
    assert!(!bench.screen().contains("= corral"), "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paste_that_is_too_long_is_left_out_whole_and_said() {
    let mut bench = Bench::new().await;
    for keys in [":", "/", "+"] {
        bench.press(keys).await;
        let long = "word ".repeat(60_000);
        bench.msg(Msg::Input(Input::Paste(long))).await;
        let screen = bench.screen();
        assert!(
            screen.contains("293 KiB are too many here"),
            "{keys} {screen}"
        );
        // As much as is taken is worked through in no time.
        for text in ["word ".repeat(800), "tag:a,".repeat(680), "(".repeat(4000)] {
            bench.press("Ctrl-U").await;
            bench.msg(Msg::Input(Input::Paste(text))).await;
            bench.screen();
        }
        bench.press("Ctrl-C").await;
        bench.press("Esc").await;
        bench.press("Esc").await;
    }
}

#[test]
fn rows_of_one_name_show_their_context_at_forty_columns() {
    let app = super::fixture::app(super::fixture::setup(40, 24), super::fixture::fleet());
    let text = super::harness::screen(&app);
    let mut rows = text.lines().filter(|line| line.contains(" db "));
    assert!(rows.any(|line| line.contains("hv1")), "{text}");
    assert!(
        text.lines()
            .any(|l| l.contains(" db ") && l.contains("pve")),
        "{text}"
    );
    // Without namesakes the names have the room.
    let mut fleet = super::fixture::fleet();
    fleet
        .instances
        .retain(|row| row.id.to_string() != "pve/101");
    let app = super::fixture::app(super::fixture::setup(40, 24), fleet);
    assert!(!super::harness::screen(&app).contains("CONTEXT"));
}
