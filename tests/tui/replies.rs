//! Late and stale answers change nothing, and nothing waits for one.

use corral::model::{Action, Selector};
use corral::tui::app::Pane;
use corral::tui::msg::{Effect, Msg, Reply};
use corral::tui::update;

use super::fixture::{app, at, fleet, press, setup, silent};
use super::harness::{Bench, screen};

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_was_replaced_opens_no_dialog() {
    let mut bench = Bench::new().await;
    bench.select("local/scratch").await;
    let stop = Action::new("stop").on(Selector::id(&"local/scratch".parse().unwrap()));
    let late = bench.engine.plan(&stop).await.unwrap();
    bench.hold = true;
    bench.press("p t").await;
    bench.press("p f").await;
    let numbers: Vec<u64> = bench
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::Plan(n, _) => Some(*n),
            _ => None,
        })
        .collect();
    assert_eq!(numbers.len(), 2);
    bench.hold = false;
    bench
        .msg(Msg::Reply(
            numbers[0],
            Reply::Planned(Ok(Box::new(late.clone()))),
        ))
        .await;
    assert!(bench.app.overlays.is_empty());
    bench
        .msg(Msg::Reply(numbers[1], Reply::Planned(Ok(Box::new(late)))))
        .await;
    assert_eq!(bench.app.overlays.len(), 1);
}

#[test]
fn req_02_keys_help_and_switching_work_while_nothing_answers() {
    // No effect is ever answered here: that is a fleet that hangs.
    let mut app = app(setup(80, 24), fleet());
    press(&mut app, "Enter . .");
    assert!(screen(&app).contains("reading"), "{}", screen(&app));
    press(&mut app, "g d");
    assert!(screen(&app).contains("asking"), "{}", screen(&app));
    press(&mut app, "g y 2 ?");
    assert!(screen(&app).contains("Keys valid here"));
    press(&mut app, "Esc");
    assert_eq!(app.pane, Pane::Inventory);
    press(&mut app, "q q");
    assert!(app.leaving);
}

#[test]
fn req_03_an_error_is_told_with_its_remedy_and_ends_nothing() {
    let mut app = app(setup(120, 24), fleet());
    let effects = press(&mut app, "p t");
    let number = effects.iter().find_map(|e| match e {
        Effect::Plan(n, _) => Some(*n),
        _ => None,
    });
    let reply = Reply::Planned(Err(silent()));
    update::update(&mut app, at(1000), Msg::Reply(number.unwrap(), reply));
    let text = screen(&app);
    assert!(text.contains("hv2 does not answer"), "{text}");
    assert!(text.contains("corral context test hv2"), "{text}");
    assert!(!app.leaving);
}

#[test]
fn req_13_keys_typed_ahead_of_a_question_open_nothing_else() {
    let mut app = app(setup(80, 24), fleet());
    press(&mut app, "p t S S");
    assert!(app.overlays.is_empty());
    assert!(app.planning.is_some());
    // But one can give it up, look around and leave meanwhile.
    press(&mut app, "j k Esc");
    assert!(app.planning.is_none());
    press(&mut app, "S");
    assert_eq!(app.overlays.len(), 1);
}

#[test]
fn one_detail_is_asked_for_at_a_time() {
    let mut app = app(setup(120, 24), fleet());
    let reads = |effects: &[Effect]| {
        let is = |e: &&Effect| matches!(e, Effect::Read(_, a) if a.verb == "info");
        effects.iter().filter(is).count()
    };
    assert_eq!(reads(&press(&mut app, "d")), 1);
    assert_eq!(
        reads(&press(&mut app, "j j j")),
        0,
        "the first is still open"
    );
    let number = app.detail.detail.asked.unwrap();
    let effects = update::update(
        &mut app,
        at(1000),
        Msg::Reply(number, Reply::Read(Err(silent()))),
    );
    assert_eq!(reads(&effects), 1, "then the one under the cursor now");
}

/// Why a target failed is read on the smallest usual screen: it stands first, and the rest scrolls.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_task_begins_with_what_failed_scrolls_and_takes_the_screen() {
    let mut bench = Bench::new().await;
    bench.press("7 * p t").await;
    bench.pass(1000).await;
    bench.press("S").await;
    let tasks = bench.settle().await;
    assert!(tasks[0].targets.len() > 4, "{tasks:?}");
    bench.press("g t Enter").await;
    let screen = bench.screen();
    let failed = screen.find("refused: ").expect("what failed");
    let done = screen.find(": is off").or(screen.find("done"));
    assert!(done.is_none_or(|done| failed < done), "{screen}");
    assert!(screen.contains("more below · J"), "{screen}");
    let log = tasks[0].log.last().cloned().unwrap_or_default();
    let end: String = log.chars().take(30).collect();
    assert!(!screen.contains(&end), "{screen}");
    bench.press("z").await;
    let zoomed = bench.screen();
    let whole = |screen: &str| screen.matches("is off").count();
    assert!(whole(&screen) < whole(&zoomed), "{zoomed}");
    bench.press("z").await;
    bench.press(&["J"; 30].join(" ")).await;
    assert!(bench.screen().contains("this is the end"));
    assert!(bench.screen().contains(&end), "{end}\n{}", bench.screen());
    assert!(bench.screen().contains("more above · K"));
    bench.press("Esc").await;
    bench.press("J").await;
    assert!(bench.screen().contains("Enter opens"), "{}", bench.screen());
}

/// What to do stands at the end of a message: none of it is cut.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_told_whole_on_the_smallest_usual_screen() {
    let mut bench = Bench::new().await;
    for (line, end) in [
        ("kill web", "corral tasks cancel"),
        ("stop web --dry-run", "Use the ID"),
        ("ui filter state:bogus", "unknown"),
    ] {
        bench.command(line).await;
        let screen = bench.screen().replace(['\n', ' '], "");
        assert!(
            screen.contains(&end.replace(' ', "")),
            "{line}\n{}",
            bench.screen()
        );
        bench.press("Ctrl-C Esc").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_in_the_form_that_a_shell_prints() {
    let mut bench = Bench::new().await;
    bench.command("list --filter state:paused").await;
    let screen = bench.screen();
    assert!(
        screen.contains("NAME") && screen.contains("citrix"),
        "{screen}"
    );
    assert!(!screen.contains("\"schema\""), "{screen}");
    bench.command("list -o json --filter name:citrix-01").await;
    assert!(
        bench.screen().contains("\"schema\": \"corral/1\""),
        "{}",
        bench.screen()
    );
    bench.command("snapshot list hv1/db").await;
    assert!(bench.screen().contains("CONSISTENCY"), "{}", bench.screen());
    bench.command("info local/web").await;
    let screen = bench.screen();
    assert!(
        screen.contains("[Summary]") && !screen.contains("info local/web …"),
        "{screen}"
    );
    bench.command("info local/web -o json").await;
    assert!(bench.screen().contains("\"schema\""), "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_doctor_knows_is_shown_before_the_slowest_has_answered() {
    use corral::model::{Body, Check, Data};

    let checks = |words: &[&str], complete| {
        let checks = words.iter().map(|word| Check::ok("context.answers", *word));
        let mut data = Data::new(Body::Checks(checks.collect()));
        data.complete = complete;
        Box::new(data)
    };
    let mut bench = Bench::new().await;
    bench.hold = true;
    let ask = async |bench: &mut Bench, keys: &str| {
        bench.press(keys).await;
        let asked = bench.held.iter().rev().find_map(|effect| match effect {
            Effect::ReadInParts(number, _) => Some(*number),
            _ => None,
        });
        asked.unwrap()
    };
    let number = ask(&mut bench, "g d").await;
    let part = Reply::Part(checks(&["first"], false));
    bench.msg(Msg::Reply(number, part)).await;
    let screen = bench.screen();
    assert!(screen.contains("first"), "{screen}");
    assert!(screen.contains("asking the others"), "{screen}");
    let whole = Reply::Read(Ok(checks(&["first", "second"], true)));
    bench.msg(Msg::Reply(number, whole)).await;
    let screen = bench.screen();
    assert!(screen.contains("second"), "{screen}");
    assert!(!screen.contains("asking"), "{screen}");
    // Asked again, the old answer stays until the new one is whole.
    let number = ask(&mut bench, "r").await;
    let part = Reply::Part(checks(&["new"], false));
    bench.msg(Msg::Reply(number, part)).await;
    assert!(bench.screen().contains("second"), "{}", bench.screen());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_was_typed_is_named_until_it_was_taken_and_no_other_stays() {
    use corral::action::by_hand;
    use corral::model::Error;

    let mut bench = Bench::new().await;
    let edit = Action::new("edit").on(Selector::id(&"local/win11".parse().unwrap()));
    let begin = async |bench: &mut Bench| {
        bench.command("edit local/win11").await;
        let asked = bench.held.iter().rev().find_map(|effect| match effect {
            Effect::Open(number, _) => Some(*number),
            _ => None,
        });
        let opened = Box::new(by_hand::open(&bench.engine, &edit).await.unwrap());
        (asked.unwrap(), opened)
    };
    // There is no editor: nothing was typed, nothing is kept.
    let (number, opened) = begin(&mut bench).await;
    let failed = Err(Error::not_found("there is no editor"));
    let file = opened.file.clone();
    bench
        .msg(Msg::Reply(number, Reply::Edited(opened, failed)))
        .await;
    assert!(!file.exists());
    let said = bench.app.notice.as_ref().unwrap().text.clone();
    assert!(
        said.contains("no editor") && !said.contains("kept"),
        "{said}"
    );
    // The question is answered with no.
    let (number, opened) = begin(&mut bench).await;
    let file = opened.file.clone();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{text}\n# mine\n")).unwrap();
    bench
        .msg(Msg::Reply(number, Reply::Edited(opened, Ok(()))))
        .await;
    bench.press("Esc").await;
    let said = bench.app.notice.as_ref().unwrap().text.clone();
    assert!(said.contains(&*file.to_string_lossy()), "{said}");
    assert!(file.exists());
}
