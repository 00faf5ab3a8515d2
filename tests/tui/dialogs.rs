//! Questions: what they show, what counts as an answer, and what is done then.

use corral::model::State;
use corral::tui::app::Overlay;
use corral::tui::input::Input;
use corral::tui::msg::{Effect, Msg};

use super::harness::Bench;

fn is_open(bench: &Bench) -> bool {
    matches!(bench.app.overlays.last(), Some(Overlay::Dialog(_)))
}

fn submits(bench: &Bench) -> usize {
    let is = |e: &&Effect| matches!(e, Effect::Submit(..));
    bench.effects.iter().filter(is).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn req_13_enter_cancels_and_typed_ahead_keys_are_dropped() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    assert!(is_open(&bench));
    // Typed ahead: before it is drawn, and within the quiet after.
    bench.press("S Enter S").await;
    assert!(is_open(&bench));
    bench.pass(100).await;
    bench.press("S S").await;
    assert!(is_open(&bench));
    assert_eq!(submits(&bench), 0);
    // The focus is on Cancel.
    bench.pass(1000).await;
    bench.press("Enter").await;
    assert!(!is_open(&bench));
    assert_eq!(submits(&bench), 0);
    assert_eq!(bench.state("local/scratch").await, State::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_upper_case_letter_confirms() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    bench.pass(1000).await;
    bench.press("y s Space").await;
    assert!(is_open(&bench));
    assert_eq!(submits(&bench), 0);
    bench.press("S").await;
    assert_eq!(submits(&bench), 1);
    bench.settle().await;
    assert_eq!(bench.state("local/scratch").await, State::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_14_a_question_shows_backend_context_name_and_id() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    let text = bench.screen();
    for wanted in [
        "Stop scratch?",
        "local/scratch",
        "qemu",
        "context local",
        "name scratch",
        "host laptop",
        "seen",
        "= corral stop local/scratch",
        "[Cancel]",
        "[S]top",
        "[F]orce off…",
    ] {
        assert!(text.contains(wanted), "{wanted}:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn req_14_a_delete_waits_for_the_name() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    bench.press("D").await;
    bench.pass(1000).await;
    assert!(
        bench.screen().contains("Type win11 to go on"),
        "{}",
        bench.screen()
    );
    // Dead until it matches: Tab does not reach it, Enter cancels.
    bench.type_text("win1").await;
    bench.press("Tab Tab Tab").await;
    bench.press("Enter").await;
    assert_eq!(submits(&bench), 0);
    if is_open(&bench) {
        bench.press("Esc").await;
    }
    bench.press("D").await;
    bench.pass(1000).await;
    bench.type_text("win11").await;
    assert!(is_open(&bench));
    bench.press("Shift-Tab Enter").await;
    assert_eq!(submits(&bench), 1, "{}", bench.screen());
    let tasks = bench.settle().await;
    assert_eq!(tasks[0].state, corral::model::TaskState::Done);
    assert!(!bench.screen().contains(" win11 "), "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_the_remedy_and_offers_nothing_to_confirm() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("D").await;
    bench.pass(1000).await;
    let text = bench.screen();
    assert!(text.contains("Refused"), "{text}");
    assert!(text.contains("corral stop local/scratch"), "{text}");
    assert!(
        text.contains("[Close]") && !text.contains("[Delete]"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn force_off_is_asked_anew() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    bench.pass(1000).await;
    bench.press("F").await;
    assert_eq!(submits(&bench), 0);
    assert!(bench.screen().contains("--force"), "{}", bench.screen());
    // The new question has its own quiet.
    bench.press("P").await;
    assert_eq!(submits(&bench), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_37_what_was_asked_for_is_pending_at_once() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    bench.pass(1000).await;
    bench.hold = true;
    bench.press("S").await;
    let text = bench.screen();
    let row = text
        .lines()
        .find(|l| l.contains("local ") && l.contains("scratch"))
        .unwrap();
    assert!(row.contains("stop…"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_plan_is_asked_again() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    bench.pass(1000).await;
    // Someone else does it meanwhile.
    let stop = corral::model::Action::new("stop")
        .on("local/scratch".parse().unwrap())
        .with("force", true);
    let plan = bench.engine.plan(&stop).await.unwrap();
    let consent = corral::model::Consent {
        yes: true,
        typed: None,
    };
    bench
        .engine
        .submit(&plan, &consent, &corral::action::RunOptions::default())
        .await
        .unwrap();
    bench.engine.board().idle().await;
    bench.press("S").await;
    let text = bench.screen();
    assert!(is_open(&bench), "{text}");
    assert!(text.contains("Asked again"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_makes_an_instance() {
    let mut bench = Bench::new().await;
    bench.press("1 +").await;
    bench.type_text("newvm").await;
    bench.press("Tab").await;
    bench.press("Tab Tab").await;
    bench.type_text("four").await;
    bench
        .press("Shift-Tab Shift-Tab Shift-Tab Shift-Tab Enter")
        .await;
    assert!(
        bench.screen().contains("whole number"),
        "{}",
        bench.screen()
    );
    assert!(bench.screen().contains("= corral create newvm"));
    // The focus is on what is wrong.
    bench.press("Ctrl-C").await;
    bench.type_text("4").await;
    bench
        .press("Shift-Tab Shift-Tab Shift-Tab Shift-Tab Enter")
        .await;
    assert!(is_open(&bench), "{}", bench.screen());
    bench.pass(1000).await;
    bench.press("C").await;
    bench.settle().await;
    bench.press("0").await;
    bench.command("ui filter newvm").await;
    assert!(bench.screen().contains("newvm"), "{}", bench.screen());
    assert_eq!(bench.state("local/newvm").await, State::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_taken_restored_and_deleted_by_keys() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    bench.press("S").await;
    bench.type_text("s1").await;
    bench.press("Shift-Tab Enter").await;
    bench.settle().await;
    bench.press("g s").await;
    assert!(bench.screen().contains("s1"), "{}", bench.screen());
    bench.press("R").await;
    bench.press("Shift-Tab Enter").await;
    assert!(bench.screen().contains("Type win11"), "{}", bench.screen());
    bench.pass(1000).await;
    bench.type_text("win11").await;
    bench.press("Shift-Tab Enter").await;
    bench.settle().await;
    assert!(
        bench
            .screen()
            .contains("snapshot restore local/win11: done"),
        "{}",
        bench.screen()
    );
    bench.press("D").await;
    bench.pass(1000).await;
    bench.press("D").await;
    bench.settle().await;
    assert!(
        bench.screen().contains("No snapshots"),
        "{}",
        bench.screen()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_asks_only_while_work_is_under_way() {
    let mut bench = Bench::sized(
        80,
        24,
        corral::backend::demo::Knobs {
            pace: 100,
            ..corral::backend::demo::Knobs::instant()
        },
    )
    .await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    bench.pass(1000).await;
    bench.press("S").await;
    let tasks = bench.engine.tasks().borrow().clone();
    bench.msg(corral::tui::msg::Msg::Tasks(tasks)).await;
    bench.press("q").await;
    assert!(!bench.app.leaving);
    assert!(
        bench.screen().contains("Leave corral?"),
        "{}",
        bench.screen()
    );
    // What was sent nowhere is no work that goes on.
    let mut tasks = bench.engine.tasks().borrow().to_vec();
    let one = tasks[0].targets[0].clone();
    for n in 0..7 {
        let mut target = one.clone();
        target.state = match n {
            0 | 1 => corral::model::TargetState::Running,
            _ => corral::model::TargetState::Queued,
        };
        tasks[0].targets.push(target);
    }
    tasks[0].targets.remove(0);
    bench
        .msg(corral::tui::msg::Msg::Tasks(std::sync::Arc::new(tasks)))
        .await;
    let screen = bench.screen();
    assert!(screen.contains("dropped by Quit now: 5"), "{screen}");
    assert!(screen.contains(": 2 "), "{screen}");
    bench.press("Q").await;
    assert!(!bench.app.leaving, "typed ahead");
    bench.pass(1000).await;
    bench.press("Q").await;
    assert!(bench.app.leaving);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_what_has_just_ended_leaves() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    bench.pass(1000).await;
    bench.press("S").await;
    bench.settle().await;
    let under_way = |task: &mut corral::model::Task| task.state = corral::model::TaskState::Running;
    let ended = bench.engine.tasks().borrow().clone();
    let mut running: Vec<_> = ended.to_vec();
    running.iter_mut().for_each(under_way);
    bench
        .msg(corral::tui::msg::Msg::Tasks(std::sync::Arc::new(running)))
        .await;
    bench.press("q").await;
    bench.pass(1000).await;
    // It ends while the question is read: no other message will come.
    bench.msg(corral::tui::msg::Msg::Tasks(ended)).await;
    assert!(!bench.app.leaving, "nobody said so yet");
    bench.press("W").await;
    assert!(bench.app.leaving);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_cannot_be_typed_has_a_code() {
    let mut bench = Bench::new().await;
    bench.command("delete hv1/仮想マシン --force").await;
    bench.pass(1000).await;
    let screen = bench.screen();
    let code = screen
        .split("Type ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .unwrap();
    assert!(
        code.len() == 4 && code.chars().all(|c| c.is_ascii_digit()),
        "{screen}"
    );
    let code = code.to_owned();
    let before = bench.app.fleet.instances.len();
    bench.type_text("0").await;
    bench.press("Shift-Tab Enter").await;
    assert!(is_open(&bench), "a wrong code opens nothing");
    bench.press("Ctrl-C").await;
    bench.type_text(&code).await;
    // The button is alive now; the focus had stopped before it.
    bench.press("Tab Enter").await;
    assert_eq!(submits(&bench), 1, "{}", bench.screen());
    bench.settle().await;
    assert_eq!(bench.app.fleet.instances.len(), before - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_with_the_whole_command_and_one_without_a_change_asks_nothing() {
    let mut bench = Bench::new().await;
    bench.command("stop hv1/db --timeout 90s --no-wait").await;
    let screen = bench.screen();
    assert!(
        screen.contains("= corral stop hv1/db --no-wait --timeout 1m30s"),
        "{screen}"
    );
    bench.press("Esc").await;
    bench.command("stop hv1/badboot").await;
    let screen = bench.screen();
    assert!(screen.contains("nothing would change"), "{screen}");
    assert!(
        screen.contains("[Close]") && !screen.contains("[S]top"),
        "{screen}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_are_too_many_or_ambiguous_run_nothing() {
    let mut bench = Bench::new().await;
    for line in [
        "suspend web",
        "q now",
        "ui quit now",
        "wide x",
        "ui go tasks now",
    ] {
        bench.command(line).await;
        assert!(!bench.app.leaving, "{line}");
        let ran = |e: &Effect| matches!(e, Effect::Suspend | Effect::Quit);
        assert!(!bench.held.iter().any(ran), "{line}");
        let screen = bench.screen();
        assert!(
            screen.contains("is too much") || screen.contains("two things"),
            "{line}: {screen}"
        );
        bench.press("Ctrl-C Esc").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_seen_cannot_be_confirmed() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    bench.press("p f").await;
    bench.pass(1000).await;
    bench.msg(Msg::Input(Input::Resize(20, 5))).await;
    bench.pass(1000).await;
    bench.press("P S F Tab Enter").await;
    assert_eq!(submits(&bench), 0, "{}", bench.screen());
    bench.msg(Msg::Input(Input::Resize(30, 8))).await;
    bench.press("p f").await;
    bench.pass(1000).await;
    assert!(
        bench.screen().contains("local/scratch"),
        "{}",
        bench.screen()
    );
    bench.press("P").await;
    assert_eq!(submits(&bench), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_is_seen_before_it_can_be_confirmed() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    // Too small to ask: it says so, with what it is about, and scrolls.
    bench.msg(Msg::Input(Input::Resize(20, 5))).await;
    bench.press("D").await;
    bench.pass(1000).await;
    let text = bench.screen();
    assert!(text.contains("Too small: 30x8"), "{text}");
    bench.press("Down").await;
    let text = bench.screen();
    assert!(
        text.contains("delete") && text.contains("local/win11"),
        "{text}"
    );
    bench.press("PgDn PgDn").await;
    assert_ne!(bench.screen(), text, "PgDn scrolls");
    bench.type_text("win11").await;
    bench.press("Enter").await;
    bench.pass(1000).await;
    bench.press("Enter").await;
    assert_eq!(submits(&bench), 0, "{}", bench.screen());
    if is_open(&bench) {
        bench.press("Esc").await;
    }
    // Just large enough: the ID first, what is typed in sight, and the losses before the button.
    bench.msg(Msg::Input(Input::Resize(30, 8))).await;
    bench.press("D").await;
    bench.pass(1000).await;
    bench.type_text("win11").await;
    let text = bench.screen();
    assert!(text.contains("local/win11"), "{text}");
    assert!(text.contains("Type win11"), "{text}");
    assert!(text.contains(": win11"), "{text}");
    assert!(text.contains("See what is lost: PgDn"), "{text}");
    bench.press("Enter").await;
    bench.pass(1000).await;
    bench.press("Shift-Tab Enter").await;
    bench.pass(1000).await;
    assert_eq!(submits(&bench), 0, "{}", bench.screen());
    bench.press("Esc D").await;
    bench.pass(1000).await;
    bench.type_text("win11").await;
    bench.press("PgDn PgDn PgDn PgDn Enter").await;
    assert_eq!(submits(&bench), 0, "{}", bench.screen());
    assert!(
        bench.screen().contains("Enter again: Delete"),
        "{}",
        bench.screen()
    );
    bench.pass(1000).await;
    bench.press("Enter").await;
    assert_eq!(submits(&bench), 1, "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn enter_goes_on_by_what_was_typed() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    bench.press("D").await;
    bench.pass(1000).await;
    assert!(
        bench
            .screen()
            .contains("Once typed, Enter goes on; now it cancels")
    );
    // Not what is asked for: it stays, and says so.
    bench.type_text("win12").await;
    bench.press("Enter").await;
    assert!(is_open(&bench));
    let text = bench.screen();
    assert!(text.contains("That is not what is asked for"), "{text}");
    bench.press("Backspace").await;
    bench.type_text("1").await;
    let text = bench.screen();
    assert!(text.contains("Enter goes on to Delete"), "{text}");
    // The second Enter counts only after a quiet of its own.
    bench.press("Enter Enter Enter").await;
    assert!(is_open(&bench));
    assert_eq!(submits(&bench), 0);
    let text = bench.screen();
    assert!(text.contains("Enter again: Delete"), "{text}");
    bench.pass(1000).await;
    bench.press("Enter").await;
    assert_eq!(submits(&bench), 1);
    bench.settle().await;
    // With nothing typed it cancels.
    bench.select("local/badboot").await;
    bench.press("D").await;
    bench.pass(1000).await;
    bench.press("D").await;
    bench.pass(1000).await;
    bench.press("Ctrl-C Enter").await;
    assert!(!is_open(&bench));
    assert_eq!(submits(&bench), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tab_leads_from_what_was_typed_to_what_it_was_typed_for() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    bench.press("D").await;
    bench.pass(1000).await;
    bench.type_text("win11").await;
    bench.press("Tab").await;
    assert!(
        bench.screen().contains("Enter again: Delete"),
        "{}",
        bench.screen()
    );
    // Gone back to Cancel on purpose, Enter cancels.
    bench.press("Tab Enter").await;
    assert!(!is_open(&bench));
    assert_eq!(submits(&bench), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_command_shows_that_it_is_cut_and_the_list_goes_to_its_ends() {
    let mut bench = Bench::new().await;
    bench.press("0 *").await;
    bench.command("tag {ids} --add bulk").await;
    bench.pass(1000).await;
    let top = bench.screen();
    let cut = top
        .lines()
        .any(|line| line.trim_end_matches([' ', '│']).ends_with('…'));
    assert!(cut, "{top}");
    bench.press("End").await;
    let end = bench.screen();
    assert!(end.contains("above: Up"), "{end}");
    bench.press("Home").await;
    assert_eq!(bench.screen(), top);
    bench.press("PgDn").await;
    assert_ne!(bench.screen(), top);
}
