//! Arguments asked field by field.

use corral::tui::app::Overlay;
use corral::tui::edit::Line;
use corral::tui::msg::Effect;

use super::harness::Bench;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_typed_into_a_field_is_a_value_whatever_it_looks_like() {
    let mut bench = Bench::new().await;
    bench.press("+").await;
    let Some(Overlay::Form(form)) = bench.app.overlays.last_mut() else {
        panic!()
    };
    form.focus = form.entries.iter().position(|e| e.positional).unwrap();
    bench.type_text("--force").await;
    let screen = bench.screen();
    assert!(screen.contains("= corral create -- --force"), "{screen}");
    let Some(Overlay::Form(form)) = bench.app.overlays.last_mut() else {
        panic!()
    };
    form.focus = form.entries.len() + 1;
    bench.press("Enter").await;
    // One clear message, whole, and no talk of options.
    let screen = bench.screen();
    assert!(screen.contains("\"--force\" cannot be a name"), "{screen}");
    assert!(screen.contains(" with - "), "{screen}");
    assert!(!screen.contains("argument"), "{screen}");
    for field in ["image", "note"] {
        let Some(Overlay::Form(form)) = bench.app.overlays.last_mut() else {
            panic!()
        };
        form.focus = form.entries.iter().position(|e| e.name == field).unwrap();
        bench.type_text("--force").await;
    }
    let Some(Overlay::Form(form)) = bench.app.overlays.last_mut() else {
        panic!()
    };
    form.focus = form.entries.iter().position(|e| e.positional).unwrap();
    form.entries[form.focus].line = Line::new("fine");
    form.focus = form.entries.len() + 1;
    bench.press("Enter").await;
    let asked = bench.effects.iter().rev().find_map(|effect| match effect {
        Effect::Plan(_, action) => Some(action.clone()),
        _ => None,
    });
    let asked = asked.unwrap_or_else(|| panic!("nothing is planned\n{}", bench.screen()));
    assert_eq!(asked.targets[0].as_str(), "fine");
    assert_eq!(asked.args.text("note"), Some("--force"));
    assert_eq!(asked.args.text("image"), Some("--force"));
}

/// The create form, with the focus on this field.
fn on_field(bench: &mut Bench, name: &str) {
    let Some(Overlay::Form(form)) = bench.app.overlays.last_mut() else {
        panic!("no form")
    };
    let found = form.entries.iter().position(|e| e.name == name);
    form.focus = found.unwrap_or(form.entries.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn user_data_is_typed_and_goes_out_as_a_file_that_is_gone_afterwards() {
    let mut bench = Bench::with(80, 24, corral::backend::demo::Knobs::instant(), Some("")).await;
    bench.press("+").await;
    on_field(&mut bench, "name");
    bench.type_text("typed").await;
    on_field(&mut bench, "user-data");
    // The name of a file is one line.
    bench.type_text("seed.yaml").await;
    bench.press("Enter").await;
    let Some(Overlay::Form(form)) = bench.app.overlays.last() else {
        panic!()
    };
    assert!(
        form.command().contains("--user-data=seed.yaml"),
        "{}",
        form.command()
    );
    on_field(&mut bench, "user-data");
    bench.press("Ctrl-U").await;
    bench.type_text("#cloud-config").await;
    bench.press("Enter").await;
    bench.type_text("password: hunter2").await;
    let screen = bench.screen();
    assert!(screen.contains("#cloud-config"), "{screen}");
    assert!(screen.contains("--user-data=FILE"), "{screen}");
    on_field(&mut bench, "");
    bench.press("Enter").await;
    let asked = bench.effects.iter().rev().find_map(|effect| match effect {
        Effect::Plan(_, action) => Some(action.clone()),
        _ => None,
    });
    let asked = asked.unwrap_or_else(|| panic!("nothing is planned\n{}", bench.screen()));
    let file = std::path::PathBuf::from(asked.args.text("user-data").unwrap());
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, "#cloud-config\npassword: hunter2\n");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let shown = format!("{:?}{}", bench.effects, bench.screen());
    assert!(!shown.contains("hunter2"), "{shown}");
    bench.pass(1000).await;
    bench.press("C").await;
    bench.settle().await;
    assert!(bench.screen().contains("typed"), "{}", bench.screen());
    assert!(!file.exists(), "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn user_data_that_was_typed_is_on_no_disk_once_its_question_is_given_up() {
    let mut bench = Bench::with(80, 24, corral::backend::demo::Knobs::instant(), Some("")).await;
    let edits = bench.engine.env().dirs.state.join("edits");
    let files = || std::fs::read_dir(&edits).into_iter().flatten().count();
    bench.press("+").await;
    on_field(&mut bench, "name");
    bench.type_text("typed").await;
    on_field(&mut bench, "user-data");
    bench.type_text("#cloud-config").await;
    bench.press("Enter").await;
    bench.type_text("password: hunter2").await;
    on_field(&mut bench, "");
    bench.press("Enter").await;
    assert_eq!(files(), 1, "{}", bench.screen());
    // The question is given up: the text is in the form still, and goes out again.
    bench.press("Esc").await;
    assert_eq!(files(), 0, "{}", bench.screen());
    bench.press("Enter").await;
    assert_eq!(files(), 1, "{}", bench.screen());
    // The dialog, then the form, which has something typed in it.
    bench.press("Esc Esc Esc").await;
    assert!(
        bench.app.overlays.is_empty() && files() == 0,
        "{}",
        bench.screen()
    );
    // What a corral that was killed left goes at the next start, once nobody can want it.
    std::fs::create_dir_all(&edits).unwrap();
    for (name, hours) in [
        ("user-data-1.txt", 25),
        ("user-data-2.txt", 2),
        ("web-3.toml", 25),
    ] {
        let file = std::fs::File::create(edits.join(name)).unwrap();
        let hours = std::time::Duration::from_secs(hours * 3600);
        file.set_modified(std::time::SystemTime::now() - hours)
            .unwrap();
    }
    corral::action::by_hand::tidy(&bench.engine);
    assert!(!edits.join("user-data-1.txt").exists());
    assert_eq!(files(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resize_says_what_there_is_now() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    bench.press("e r").await;
    let screen = bench.screen();
    assert!(screen.contains("Virtual CPUs (now 4)"), "{screen}");
    assert!(screen.contains("(now 8.0 GiB)"), "{screen}");
    // Nothing of it is typed: a field that stays empty changes nothing.
    assert!(screen.contains("= corral resize local/win11"), "{screen}");
    assert!(!screen.contains("--cpus"), "{screen}");
    assert!(!screen.contains("--memory"), "{screen}");
    bench.type_text("2").await;
    assert!(bench.screen().contains("--cpus=2"), "{}", bench.screen());
    assert!(!bench.screen().contains("now 4"), "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_asks_which_backup_unless_it_is_named() {
    let mut bench = Bench::new().await;
    bench.command("ui form backup delete local/win11").await;
    assert!(bench.screen().contains("> backup"), "{}", bench.screen());
    bench.type_text("b1").await;
    let screen = bench.screen();
    assert!(
        screen.contains("= corral backup delete local/win11 --backup=b1"),
        "{screen}"
    );
    bench.press("Esc Esc").await;
    bench.command("ui form backup restore local/win11@b1").await;
    let screen = bench.screen();
    assert!(!screen.contains("which one"), "{screen}");
    assert!(screen.contains("> name"), "{screen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_says_how_to_go_on_and_an_empty_one_is_quick() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    assert!(bench.screen().contains("S snapshot"), "{}", bench.screen());
    bench.press("S").await;
    let text = bench.screen();
    assert!(text.contains("Enter goes to Create"), "{text}");
    bench.press("Enter").await;
    assert!(
        bench.screen().contains("Enter: Create"),
        "{}",
        bench.screen()
    );
    bench.press("Enter").await;
    let planned = bench.planned.last().unwrap().as_ref().unwrap();
    assert_eq!(planned.action.verb, "snapshot create");
    // With a name it is as quick: the next field is a text, which would take each Enter for a line.
    bench.settle().await;
    bench.press("S").await;
    bench.type_text("s1").await;
    assert!(
        bench.screen().contains("Enter goes to Create"),
        "{}",
        bench.screen()
    );
    bench.press("Enter Enter").await;
    let planned = bench.planned.last().unwrap().as_ref().unwrap();
    assert_eq!(planned.action.args.text("name"), Some("s1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_typed_into_a_form_is_not_dropped_by_one_esc() {
    let mut bench = Bench::new().await;
    let is_open = |bench: &Bench| matches!(bench.app.overlays.last(), Some(Overlay::Form(_)));
    // Nothing was typed: nothing is asked.
    bench.press("+ Esc").await;
    assert!(!is_open(&bench));
    bench.press("+").await;
    bench.type_text("newvm").await;
    bench.press("Esc").await;
    assert!(is_open(&bench));
    let text = bench.screen();
    assert!(text.contains("Esc again drops what was typed"), "{text}");
    // Another key goes on with it.
    bench.press("Tab Esc").await;
    assert!(is_open(&bench));
    assert!(bench.screen().contains("newvm"));
    bench.press("Esc").await;
    assert!(!is_open(&bench));
}
