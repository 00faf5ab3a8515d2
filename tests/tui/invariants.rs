//! What holds at every size, for every message.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use corral::model::{
    Action, Body, Data, Error, FleetView, Gate, Health, Plan, Prompt, PromptKind, Selector, State,
    TargetPlan, shown_width,
};
use corral::tui::app::{App, Overlay, Pane};
use corral::tui::input::{Code, Input, Key};
use corral::tui::msg::{At, Effect, Msg, Reply};
use corral::tui::update;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::fixture::{app, fleet, instance, now, setup, silent};
use super::harness::draw;

/// For how many seconds `CORRAL_FUZZ_SECONDS` says that more messages are to be made up.
const SECONDS: &str = "CORRAL_FUZZ_SECONDS";

fn any_key() -> impl Strategy<Value = Key> {
    let codes = prop_oneof![
        8 => proptest::char::range(' ', '~').prop_map(Code::Char),
        // What opens something, and what answers.
        8 => proptest::sample::select(":/+apegoydSDRM*VuTSFCx ".chars().collect::<Vec<_>>()).prop_map(Code::Char),
        1 => any::<char>().prop_map(Code::Char),
        3 => Just(Code::Enter),
        2 => Just(Code::Esc),
        2 => Just(Code::Tab),
        1 => Just(Code::BackTab),
        1 => Just(Code::Backspace),
        1 => Just(Code::Delete),
        1 => Just(Code::Up),
        2 => Just(Code::Down),
        1 => Just(Code::Left),
        1 => Just(Code::Right),
        1 => Just(Code::PageUp),
        1 => Just(Code::PageDown),
        1 => Just(Code::Home),
        1 => Just(Code::End),
        1 => (0u8..13).prop_map(Code::F),
    ];
    (codes, proptest::bool::weighted(0.05)).prop_map(|(code, ctrl)| Key { code, ctrl })
}

/// A fleet with some of the usual rows, some of them as other machines, and contexts that flap.
fn any_fleet() -> impl Strategy<Value = FleetView> {
    let row = (any::<bool>(), 0usize..State::ALL.len(), 0u8..3);
    let rows = proptest::collection::vec(row, 0..12);
    (rows, any::<u8>(), any::<u64>()).prop_map(|(rows, flaps, generation)| {
        let mut fleet = fleet();
        fleet.generation = generation;
        for (n, context) in fleet.contexts.iter_mut().enumerate() {
            if flaps >> n & 1 == 1 {
                context.health = Health::Stale(silent());
            }
        }
        if flaps == 7 {
            fleet.contexts.truncate(1);
        }
        let known = std::mem::take(&mut fleet.instances);
        let known = known.into_iter().map(|row| row.as_ref().clone());
        let more = (0..4).map(|n| instance(&format!("local/x{n}"), "qemu", State::Running));
        let all = known.chain(more);
        for (mut row, (there, state, uid)) in all.zip(rows) {
            row.state = State::ALL[state];
            match uid {
                0 => {}
                1 => row.uid = None,
                _ => row.uid = Some("uid-of-another".to_owned()),
            }
            if there {
                fleet.instances.push(Arc::new(row));
            }
        }
        fleet
    })
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let verbs = [
        "stop",
        "start",
        "delete",
        "tasks cancel",
        "doctor",
        "create",
    ];
    let ids = ["local/web", "hv1/db", "local/nowhere", "lab/default/evil"];
    let targets = proptest::collection::vec((0usize..ids.len(), any::<bool>()), 0..5);
    (proptest::sample::select(verbs.to_vec()), targets, 0u8..3).prop_map(
        move |(verb, targets, gate)| Plan {
            action: Action::new(verb),
            command: format!("corral {verb} \u{1b}[2J 仮想"),
            question: format!("{verb}?"),
            gate: match gate {
                0 => Gate::Free,
                1 => Gate::Confirm,
                _ => Gate::Type {
                    text: "x".to_owned(),
                },
            },
            danger: gate == 2,
            targets: targets
                .into_iter()
                .map(|(n, refused)| target(ids[n], refused))
                .collect(),
            left_out: Vec::new(),
            concurrency: 4,
        },
    )
}

fn target(id: &str, refused: bool) -> TargetPlan {
    let row = instance(id, "qemu", State::Running);
    TargetPlan {
        uid: row.uid,
        name: "n\u{202e}ame".to_owned(),
        backend: row.backend,
        state: row.state,
        host: row.host,
        observed_at: row.observed_at,
        protected: refused,
        unchanged: false,
        steps: Vec::new(),
        losses: vec!["every\nthing".to_owned()],
        notes: Vec::new(),
        refusals: if refused {
            vec![corral::model::Refusal::from(&Error::invalid("no"))]
        } else {
            Vec::new()
        },
        token: String::new(),
        detachable: refused,
        id: row.id,
    }
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let detail = |fleet: FleetView| {
        Data::new(Body::Instances(
            fleet.instances.iter().map(|r| r.as_ref().clone()).collect(),
        ))
    };
    prop_oneof![
        4 => any_plan().prop_map(|plan| Reply::Planned(Ok(Box::new(plan)))),
        1 => Just(Reply::Planned(Err(silent()))),
        1 => Just(Reply::Submitted(Ok("20261130-1".to_owned()))),
        1 => Just(Reply::Submitted(Err(Error::conflict("it changed")))),
        1 => Just(Reply::Submitted(Err(silent()))),
        1 => any_fleet().prop_map(move |fleet| Reply::Read(Ok(Box::new(detail(fleet))))),
        1 => any_fleet().prop_map(move |fleet| Reply::Part(Box::new(detail(fleet)))),
        1 => Just(Reply::Read(Err(silent()))),
        1 => Just(Reply::Support(Vec::new())),
        1 => Just(Reply::Samples(Vec::new())),
        1 => Just(Reply::Ended),
    ]
}

/// A message; a reply's number is as many below the newest as it says, so that most are for somebody.
#[derive(Clone, Debug)]
enum Made {
    Msg(Msg),
    Reply(u64, Reply),
}

fn any_made() -> impl Strategy<Value = Made> {
    let msg = prop_oneof![
        40 => any_key().prop_map(|key| Msg::Input(Input::Key(key))),
        2 => any::<String>().prop_map(|text| Msg::Input(Input::Paste(text))),
        1 => Just(Msg::Input(Input::Paste("stop {ids}\n--force\r\n'open".to_owned()))),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(x, y)| Msg::Input(Input::Click(x, y))),
        1 => (any::<bool>(), 0u16..200, 0u16..70)
            .prop_map(|(down, x, y)| Msg::Input(Input::Wheel(down, x, y))),
        3 => (0u16..200, 0u16..70).prop_map(|(x, y)| Msg::Input(Input::Click(x, y))),
        2 => (0u16..200, 0u16..70).prop_map(|(x, y)| Msg::Input(Input::Drag(x, y))),
        1 => Just(Msg::Input(Input::Release)),
        2 => (1u16..300, 1u16..100).prop_map(|(w, h)| Msg::Input(Input::Resize(w, h))),
        4 => any_fleet().prop_map(|fleet| Msg::Fleet(Arc::new(fleet), Arc::new(HashMap::new()))),
        2 => Just(Msg::Tick),
        6 => Just(Msg::Drawn),
        1 => any::<String>().prop_map(|text| Msg::Notice(text, true)),
        1 => (0u64..4).prop_map(|n| Msg::Question(n, prompt(n))),
        1 => (0u64..4).prop_map(Msg::Withdrawn),
        1 => any::<bool>().prop_map(|on| Msg::Config(on, on.then(|| "bad".to_owned()))),
    ];
    prop_oneof![
        6 => msg.prop_map(Made::Msg),
        1 => (0u64..4, any_reply()).prop_map(|(n, reply)| Made::Reply(n, reply)),
    ]
}

fn prompt(n: u64) -> Prompt {
    Prompt {
        context: "lab".to_owned(),
        question: format!("A password\u{7}? {n}"),
        facts: vec!["fact\nfact".to_owned()],
        remedy: "corral context set lab --secret-stdin".to_owned(),
        answer: match n % 3 {
            0 => PromptKind::YesNo,
            1 => PromptKind::Secret,
            _ => PromptKind::Text,
        },
    }
}

/// Every line is exactly as wide as the screen, cluster by cluster.
fn check(app: &App) {
    let buffer = draw(app);
    let area = buffer.area;
    for y in area.top()..area.bottom() {
        let mut x = area.left();
        while x < area.right() {
            let symbol = buffer[(x, y)].symbol();
            assert!(!symbol.contains(char::is_control), "{symbol:?}");
            x += (shown_width(symbol) as u16).max(1);
        }
        assert_eq!(x, area.right(), "line {y} of {area:?}");
    }
}

/// The cursor is on a row, what is marked is of the fleet, what lies over the panes is whole.
fn hold(app: &App) {
    let inventory = &app.inventory;
    let rows = inventory.len();
    assert!(
        inventory.cursor < rows.max(1),
        "{} of {rows}",
        inventory.cursor
    );
    assert!(inventory.top <= inventory.cursor);
    for row in &inventory.marked {
        assert!(app.fleet.get(&row.id).is_some(), "{} is marked", row.id);
    }
    for target in inventory.targets() {
        assert!(app.fleet.get(&target.id).is_some(), "{}", target.id);
    }
    let list = corral::tui::listing::of(app, app.pane);
    if app.pane != Pane::Inventory {
        let cursor = app.cursors.get(&app.pane).cloned().unwrap_or_default();
        assert!(cursor.row < list.rows.len().max(1));
    }
    for overlay in &app.overlays {
        match overlay {
            Overlay::Form(form) => assert!(form.focus < form.entries.len() + 2),
            Overlay::Dialog(dialog) => {
                let buttons = dialog.buttons(app.setup.size);
                // A smaller screen has fewer: the next key finds its place again.
                assert!(!buttons.is_empty());
            }
            Overlay::Quit(quit) => assert!(quit.focus < 3),
            _ => {}
        }
    }
}

/// What may be handed over now: a question that a key may confirm, or a plan that needs none.
fn may_submit(app: &App, msg: &Msg) -> bool {
    match (msg, app.overlays.last()) {
        (Msg::Input(Input::Key(key)), Some(Overlay::Dialog(dialog))) => {
            let letter = matches!(key.code, Code::Char(c) if c.is_uppercase());
            let typed = dialog
                .to_type()
                .is_none_or(|text| text == dialog.typed.text());
            let pressed = key.code == Code::Enter && dialog.focus > 0 || letter;
            dialog.guard.is_open(app.ms) && typed && pressed && !app.setup.size.0.lt(&30)
        }
        (Msg::Reply(_, Reply::Planned(Ok(plan))), _) => {
            let said = app.planning.as_ref().is_some_and(|p| {
                let typed = p.consent.typed.as_deref();
                match &plan.gate {
                    Gate::Free => true,
                    Gate::Confirm => p.consent.yes,
                    Gate::Type { text } => typed == Some(text),
                }
            });
            said && plan.runnable().next().is_some()
        }
        _ => false,
    }
}

/// Drives a view with messages, draws after each, and looks whether everything holds.
fn drive(width: u16, height: u16, made: Vec<Made>) {
    let mut app = app(setup(width, height), fleet());
    check(&app);
    for (n, made) in made.into_iter().enumerate() {
        let msg = match made {
            Made::Msg(msg) => msg,
            Made::Reply(back, reply) => Msg::Reply(app.requests.saturating_sub(back), reply),
        };
        let n = n as u64;
        // Most of the time goes on; now and then a clock jumps, the time of day by hours.
        let ms = if n % 13 == 12 { n } else { n * 90 };
        let hours = if n % 17 == 16 { -7 } else { 0 };
        let wall = now() + jiff::SignedDuration::from_hours(hours);
        let mut before = app.clone();
        before.ms = before.ms.max(ms);
        let effects = update::update(&mut app, At { ms, wall }, msg.clone());
        let submits = effects
            .iter()
            .filter(|e| matches!(e, Effect::Submit(..)))
            .count();
        assert!(submits <= 1, "{msg:?}");
        assert!(submits == 0 || may_submit(&before, &msg), "{msg:?}");
        for effect in &effects {
            if let Effect::Plan(_, action) = effect {
                let named = |s: &Selector| !s.as_str().starts_with('-');
                assert!(action.targets.iter().all(named), "{action:?}");
            }
        }
        hold(&app);
        check(&app);
        if app.leaving {
            break;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn req_26_req_27_no_message_at_no_size_breaks_a_line(
        width in 1u16..260,
        height in 1u16..70,
        made in proptest::collection::vec(any_made(), 0..60),
    ) {
        drive(width, height, made);
    }

    #[test]
    fn on_a_usual_screen_much_is_opened_and_nothing_is_done_unasked(
        made in proptest::collection::vec(any_made(), 60..160),
    ) {
        drive(80, 24, made);
    }
}

/// The same for as long as one likes: `CORRAL_FUZZ_SECONDS=600 cargo test --test tui as_long`.
#[test]
fn as_long_as_one_likes() {
    let seconds = std::env::var(SECONDS)
        .ok()
        .and_then(|text| text.parse().ok());
    let Some(seconds) = seconds else {
        println!("skipped (daemon): {SECONDS} says how long");
        return;
    };
    let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let mut runner = TestRunner::default();
    let all = (
        1u16..260,
        1u16..70,
        proptest::collection::vec(any_made(), 0..400),
    );
    let mut rounds = 0;
    while std::time::Instant::now() < until {
        let (width, height, made) = all.new_tree(&mut runner).unwrap().current();
        let said = format!("{width}x{height} {made:?}");
        let held = std::panic::catch_unwind(AssertUnwindSafe(|| drive(width, height, made)));
        assert!(held.is_ok(), "round {rounds}: {said}");
        rounds += 1;
    }
    println!("{rounds} rounds");
}

#[test]
fn req_26_it_draws_from_20_by_5_to_500_by_200() {
    for (width, height) in [(20, 5), (40, 10), (80, 24), (200, 60), (500, 200)] {
        check(&app(setup(width, height), fleet()));
    }
}
