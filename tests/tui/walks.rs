//! Forms, walked as people do: field by field, with what is known and what is wrong.

use corral::tui::app::Overlay;
use corral::tui::form::{Form, offers};
use corral::tui::input::Input;
use corral::tui::msg::{Effect, Msg};

use super::harness::Bench;

fn form(bench: &Bench) -> &Form {
    match bench.app.overlays.last() {
        Some(Overlay::Form(form)) => form,
        other => panic!("{other:?}\n{}", bench.screen()),
    }
}

/// Moves the focus to a field by Tab.
async fn to(bench: &mut Bench, field: &str) {
    for _ in 0..60 {
        if form(bench).entry().is_some_and(|e| e.name == field) {
            return;
        }
        bench.press("Tab").await;
    }
    panic!("no field {field}\n{}", bench.screen());
}

/// Moves to the button that goes on, and presses it.
async fn go(bench: &mut Bench) {
    for _ in 0..60 {
        if form(bench).on_go() {
            break;
        }
        bench.press("Tab").await;
    }
    bench.press("Enter").await;
}

fn offered(bench: &Bench) -> Vec<String> {
    let all = offers(&bench.app, form(bench)).into_iter();
    all.map(|(word, _)| word).collect()
}

/// A plan is shown whose command is what the form had; confirms it.
async fn confirm(bench: &mut Bench, command: &str) {
    let screen = bench.screen();
    let is_plan = matches!(bench.app.overlays.last(), Some(Overlay::Dialog(_)));
    assert!(is_plan, "{screen}");
    assert!(screen.contains(&format!("= {command}")), "{screen}");
    let before = submits(bench);
    assert_eq!(before, 0, "nothing is done before it is confirmed");
    bench.pass(1000).await;
    bench.press("Shift-Tab Enter").await;
    assert_eq!(submits(bench), 1, "{}", bench.screen());
    let tasks = bench.settle().await;
    let state = tasks.last().unwrap().state;
    assert_eq!(state, corral::model::TaskState::Done, "{}", bench.screen());
}

fn submits(bench: &Bench) -> usize {
    let is = |e: &&Effect| matches!(e, Effect::Submit(..));
    bench.effects.iter().filter(is).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_added() {
    let mut bench = Bench::new().await;
    bench.command("ui form disk add local/win11").await;
    to(&mut bench, "size").await;
    bench.type_text("ten").await;
    let screen = bench.screen();
    let lines: Vec<&str> = screen.lines().collect();
    let at = lines.iter().position(|l| l.contains("> size")).unwrap();
    assert!(lines[at + 1].contains("ten"), "below its field:\n{screen}");
    // What is wrong is gone to.
    go(&mut bench).await;
    assert_eq!(form(&bench).entry().unwrap().name, "size");
    assert!(bench.screen().contains("size: "), "{}", bench.screen());
    bench.press("Ctrl-C").await;
    bench.type_text("5G").await;
    to(&mut bench, "bus").await;
    assert_eq!(offered(&bench), ["virtio", "scsi", "sata"]);
    bench.press("Right").await;
    assert!(
        bench.screen().contains("--bus=virtio"),
        "{}",
        bench.screen()
    );
    to(&mut bench, "storage").await;
    // Asked for when the form was opened.
    assert!(!offered(&bench).is_empty(), "{}", bench.screen());
    go(&mut bench).await;
    confirm(
        &mut bench,
        "corral disk add local/win11 --size 5G --bus virtio",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nic_is_added_on_a_network_of_the_list() {
    let mut bench = Bench::new().await;
    bench.command("ui form nic add local/win11").await;
    to(&mut bench, "network").await;
    let known = offered(&bench);
    assert!(!known.is_empty(), "{}", bench.screen());
    assert!(bench.screen().contains(&known[0]), "{}", bench.screen());
    bench.press("Right Down Up Enter").await;
    assert_eq!(form(&bench).entry().unwrap().line.text(), known[0]);
    // What begins like it is left of the list.
    bench.press("Ctrl-C").await;
    bench.type_text(&known[0][..1]).await;
    assert!(offered(&bench)[0].starts_with(&known[0][..1]));
    bench.press("Right Esc").await;
    assert!(matches!(bench.app.overlays.last(), Some(Overlay::Form(_))));
    bench.press("Right Enter").await;
    go(&mut bench).await;
    let command = format!(
        "corral nic add local/win11 --network {}",
        offered_network(&bench)
    );
    confirm(&mut bench, &command).await;
}

fn offered_network(bench: &Bench) -> String {
    match bench.app.overlays.last() {
        Some(Overlay::Dialog(dialog)) => {
            let network = dialog.plan.action.args.text("network");
            network.unwrap().to_owned()
        }
        other => panic!("{other:?}\n{}", bench.screen()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_is_made_and_wants_a_name() {
    let mut bench = Bench::new().await;
    bench.command("ui form clone local/win11").await;
    go(&mut bench).await;
    assert!(
        bench.screen().contains("name is missing"),
        "{}",
        bench.screen()
    );
    assert_eq!(form(&bench).entry().unwrap().name, "name");
    bench.type_text("twin").await;
    to(&mut bench, "linked").await;
    bench.press("Space Space").await;
    go(&mut bench).await;
    confirm(&mut bench, "corral clone local/win11 --name twin").await;
    assert!(
        bench
            .app
            .fleet
            .instances
            .iter()
            .any(|row| row.name == "twin")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_to_clone_from_is_in_a_list() {
    let mut bench = Bench::new().await;
    bench
        .command("snapshot create local/win11 --name clean")
        .await;
    bench.settle().await;
    bench.command("ui form clone local/win11").await;
    to(&mut bench, "snapshot").await;
    assert_eq!(offered(&bench), ["clean"]);
    bench.press("Right Enter").await;
    let screen = bench.screen();
    assert!(screen.contains("--snapshot=clean"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_resized() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    bench.press("e r").await;
    bench.type_text("8").await;
    to(&mut bench, "memory").await;
    bench.type_text("16").await;
    bench.type_text("Q").await;
    assert!(bench.screen().contains("16Q"), "{}", bench.screen());
    bench.press("Backspace").await;
    bench.type_text("G").await;
    assert!(
        bench
            .screen()
            .contains("= corral resize local/win11 --cpus=8 --memory=16G"),
        "{}",
        bench.screen()
    );
    go(&mut bench).await;
    confirm(
        &mut bench,
        "corral resize local/win11 --cpus 8 --memory 16G",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_is_created_from_an_image_of_the_list_with_a_note_of_several_lines() {
    let mut bench = Bench::new().await;
    bench.press("1 +").await;
    bench.type_text("shop").await;
    to(&mut bench, "image").await;
    let known = offered(&bench);
    assert!(!known.is_empty(), "{}", bench.screen());
    bench.press("Right Enter").await;
    to(&mut bench, "note").await;
    let pasted = "serves the shop\nask Ann first\n\nthird".to_owned();
    bench.msg(Msg::Input(Input::Paste(pasted))).await;
    bench.press("Enter").await;
    bench.type_text("last").await;
    let screen = bench.screen();
    for line in ["serves the shop", "ask Ann first", "third", "last"] {
        assert!(
            screen
                .lines()
                .any(|l| l.contains(line) && !l.contains("= corral")),
            "{line}: {screen}"
        );
    }
    // Up stays in the text until its first line, Tab leaves it anywhere.
    bench.press("Up").await;
    assert_eq!(form(&bench).entry().unwrap().name, "note");
    bench.press("Tab").await;
    assert_ne!(form(&bench).entry().unwrap().name, "note");
    assert!(
        bench.screen().contains("serves the shop (+4 lines)"),
        "{}",
        bench.screen()
    );
    bench.press("Shift-Tab").await;
    for _ in 0..20 {
        bench.press("Down").await;
    }
    go(&mut bench).await;
    let note = match bench.app.overlays.last() {
        Some(Overlay::Dialog(dialog)) => dialog.plan.action.args.text("note").unwrap().to_owned(),
        other => panic!("{other:?}\n{}", bench.screen()),
    };
    assert_eq!(note, "serves the shop\nask Ann first\n\nthird\nlast");
    confirm(&mut bench, "corral create shop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_added() {
    let knobs = corral::backend::demo::Knobs::instant();
    let mut bench = Bench::with(80, 24, knobs, Some("")).await;
    bench.press("g x +").await;
    bench.type_text("--lab").await;
    assert!(
        bench.screen().contains("cannot begin with -"),
        "{}",
        bench.screen()
    );
    bench.press("Ctrl-C").await;
    bench.type_text("lab9").await;
    go(&mut bench).await;
    assert!(
        bench.screen().contains("backend is missing"),
        "{}",
        bench.screen()
    );
    assert!(offered(&bench).contains(&"qemu".to_owned()));
    bench.type_text("qe").await;
    bench.press("Right Enter").await;
    to(&mut bench, "set").await;
    bench.type_text("reado").await;
    assert_eq!(offered(&bench)[0], "readonly=");
    bench.press("Right Enter").await;
    bench.type_text("true").await;
    assert!(
        bench
            .screen()
            .contains("= corral context add lab9 --backend=qemu --set=readonly=true"),
        "{}",
        bench.screen()
    );
    go(&mut bench).await;
    let command = "corral context add lab9 --backend qemu --set readonly=true";
    confirm(&mut bench, command).await;
}

#[test]
fn a_form_has_its_fields_and_buttons_on_every_screen() {
    use super::fixture::{app, fleet, press, setup};
    for (width, height) in [(20, 5), (40, 10), (80, 24), (200, 60), (500, 200)] {
        let mut app = app(setup(width, height), fleet());
        press(&mut app, "+");
        for _ in 0..30 {
            let text = super::harness::screen(&app);
            assert!(text.contains("[Cancel]"), "{width}x{height}\n{text}");
            let on_field =
                matches!(app.overlays.last(), Some(Overlay::Form(f)) if f.entry().is_some());
            assert!(!on_field || text.contains('>'), "{width}x{height}\n{text}");
            press(&mut app, "Tab");
        }
    }
}
