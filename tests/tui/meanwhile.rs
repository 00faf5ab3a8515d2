//! What the view does when things change while something is open over it.

use corral::model::{FleetView, Health, State};
use corral::tui::app::{App, Overlay};
use corral::tui::input::{Code, Input, Key};
use corral::tui::msg::{At, Effect, Msg};
use corral::tui::update;

use super::fixture::{app, at, fleet, instance, now, press, setup, show, silent};
use super::harness::{Bench, draw, screen};

fn select(app: &mut App, id: &str) {
    assert!(app.inventory.go_to(&id.parse().unwrap()), "{id}");
}

fn without(id: &str) -> FleetView {
    let mut fleet = fleet();
    fleet.instances.retain(|row| row.id.to_string() != id);
    fleet.generation += 1;
    fleet
}

fn another(id: &str) -> FleetView {
    let mut fleet = fleet();
    for row in &mut fleet.instances {
        if row.id.to_string() == id {
            std::sync::Arc::make_mut(row).uid = Some("uid-of-another".to_owned());
        }
    }
    fleet.generation += 1;
    fleet
}

fn asks(effects: &[Effect]) -> bool {
    effects.iter().any(|e| matches!(e, Effect::Plan(..)))
}

#[test]
fn a_menu_never_acts_on_what_came_under_the_cursor_since() {
    for (after, says) in [
        (
            without("local/ci-10"),
            "local/ci-10 is gone; nothing was done",
        ),
        (another("local/ci-10"), "local/ci-10 is another machine now"),
    ] {
        for (opens, then) in [("p", "s"), ("a", "Enter"), (":", "stop Enter"), ("e", "r")] {
            let mut app = app(setup(100, 30), fleet());
            select(&mut app, "local/ci-10");
            press(&mut app, opens);
            if let Some(rest) = then.strip_suffix(" Enter") {
                super::fixture::type_text(&mut app, &format!("{rest} {{ids}}"));
            }
            show(&mut app, after.clone());
            let effects = press(&mut app, then.rsplit(' ').next().unwrap());
            assert!(!asks(&effects), "{opens} {then}: {effects:?}");
            let is_form = matches!(app.overlays.last(), Some(Overlay::Form(_)));
            assert!(!is_form, "{opens} {then}");
            let text = screen(&app);
            assert!(text.contains(says), "{opens} {then}\n{text}");
        }
    }
    // What only looks goes on, and what did not change is acted on.
    let mut app = app(setup(100, 30), fleet());
    select(&mut app, "local/ci-10");
    press(&mut app, "p");
    show(&mut app, without("lab/default/half"));
    assert!(asks(&press(&mut app, "s")), "another one went");
    press(&mut app, "Esc g");
    show(&mut app, without("local/ci-10"));
    press(&mut app, "t");
    assert_eq!(app.pane, corral::tui::app::Pane::Tasks);
}

#[test]
fn a_menu_for_marks_wants_the_same_marks() {
    let mut app = app(setup(100, 30), fleet());
    select(&mut app, "local/ci-10");
    press(&mut app, "Space");
    select(&mut app, "local/web");
    press(&mut app, "Space p");
    assert!(screen(&app).contains("2 marked"));
    show(&mut app, without("local/web"));
    let effects = press(&mut app, "s");
    assert!(!asks(&effects));
    assert!(
        screen(&app).contains("local/web is gone"),
        "{}",
        screen(&app)
    );
    // What was gone and comes back is marked by nobody.
    show(&mut app, fleet());
    press(&mut app, "p");
    let text = screen(&app);
    assert!(text.contains("Power: local/ci-10"), "{text}");
    let asked = press(&mut app, "s");
    let plan = asked.into_iter().find_map(|effect| match effect {
        Effect::Plan(_, action) => Some(action),
        _ => None,
    });
    assert_eq!(plan.unwrap().targets.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_says_what_has_become_of_its_machine() {
    let mut bench = Bench::sized(100, 30, corral::backend::demo::Knobs::instant()).await;
    bench.select("local/scratch").await;
    bench.press("p t").await;
    bench.pass(1000).await;
    assert!(!bench.screen().contains("by now"), "{}", bench.screen());
    let before = (*bench.app.fleet).clone();
    let pending = std::sync::Arc::clone(&bench.app.pending);
    let send = |fleet: FleetView| Msg::Fleet(std::sync::Arc::new(fleet), pending.clone());
    let of = |change: &dyn Fn(&mut FleetView)| {
        let mut fleet = before.clone();
        change(&mut fleet);
        fleet
    };
    let row = |fleet: &mut FleetView, change: &dyn Fn(&mut corral::model::Instance)| {
        for row in &mut fleet.instances {
            if row.id.to_string() == "local/scratch" {
                change(std::sync::Arc::make_mut(row));
            }
        }
    };
    let gone = of(&|f| f.instances.retain(|r| r.id.to_string() != "local/scratch"));
    let other = of(&|f| row(f, &|r| r.uid = Some("another".to_owned())));
    let stopped = of(&|f| row(f, &|r| r.state = State::Stopped));
    let silent = of(&|f| {
        let context = f.contexts.iter_mut().find(|c| c.name == "local").unwrap();
        context.health = Health::Stale(silent());
    });
    let removed = of(&|f| f.contexts.retain(|c| c.name != "local"));
    for (fleet, says) in [
        (gone, "local/scratch is gone by now"),
        (other, "local/scratch is another machine by now"),
        (stopped, "local/scratch is stopped by now, it was running"),
        (silent, "its context does not answer any more"),
        (removed, "its context is gone by now"),
    ] {
        bench.msg(send(fleet)).await;
        assert!(bench.screen().contains(says), "{says}\n{}", bench.screen());
    }
    // The context is back: nothing to say, and the answer counts.
    bench.msg(send(before.clone())).await;
    assert!(!bench.screen().contains("by now"), "{}", bench.screen());
    bench.press("S").await;
    bench.settle().await;
    assert_eq!(bench.state("local/scratch").await, State::Stopped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_for_a_machine_that_went_says_so_and_changes_nothing() {
    let mut bench = Bench::new().await;
    bench.select("local/win11").await;
    bench.press("e r").await;
    bench.type_text("8").await;
    let delete = corral::model::Action::new("delete").on("local/win11".parse().unwrap());
    let plan = bench.engine.plan(&delete).await.unwrap();
    let consent = corral::model::Consent {
        yes: true,
        typed: Some("win11".to_owned()),
    };
    let options = corral::action::RunOptions::default();
    bench
        .engine
        .submit(&plan, &consent, &options)
        .await
        .unwrap();
    bench.settle().await;
    bench.press("Shift-Tab Shift-Tab").await;
    for _ in 0..20 {
        if matches!(bench.app.overlays.last(), Some(Overlay::Form(f)) if f.on_go()) {
            break;
        }
        bench.press("Tab").await;
    }
    bench.press("Enter").await;
    let text = bench.screen();
    assert!(
        matches!(bench.app.overlays.last(), Some(Overlay::Form(_))),
        "{text}"
    );
    assert!(text.contains("win11"), "{text}");
    assert!(
        text.contains("no instance") || text.contains("not found") || text.contains("there is no"),
        "{text}"
    );
    let submitted = bench
        .effects
        .iter()
        .any(|e| matches!(e, Effect::Submit(..)));
    assert!(!submitted);
}

#[test]
fn a_context_that_flaps_keeps_marks_cursor_and_filter() {
    let mut app = app(setup(80, 24), fleet());
    select(&mut app, "hv1/db");
    press(&mut app, "Space");
    select(&mut app, "hv1/db");
    for n in 0..200u64 {
        let mut next = fleet();
        next.generation = n + 2;
        if n % 2 == 0 {
            next.contexts[1].health = Health::Stale(silent());
            for row in &mut next.instances {
                if row.context == "hv1" {
                    std::sync::Arc::make_mut(row).stale = true;
                }
            }
        }
        show(&mut app, next);
        draw(&app);
    }
    assert_eq!(app.inventory.marked.len(), 1);
    let text = screen(&app);
    assert!(text.contains("1 marked"), "{text}");
    assert!(app.inventory.selected().is_some());
}

#[test]
fn a_storm_of_sizes_leaves_the_question_and_what_was_typed() {
    let mut app = app(setup(80, 24), fleet());
    press(&mut app, "+");
    super::fixture::type_text(&mut app, "shop");
    for n in 0..600u16 {
        let size = Input::Resize(1 + n * 7 % 250, 1 + n * 5 % 70);
        let ms = app.ms + 1;
        update::update(&mut app, at(ms), Msg::Input(size));
        draw(&app);
    }
    let ms = app.ms + 1;
    update::update(&mut app, at(ms), Msg::Input(Input::Resize(80, 24)));
    let text = screen(&app);
    assert!(text.contains("= corral create shop"), "{text}");
}

#[test]
fn ten_thousand_changes_are_taken_in_while_keys_are_answered() {
    let mut app = app(setup(100, 30), fleet());
    press(&mut app, "d");
    let mut asked = 0;
    let mut moved = 0;
    let mut states = [State::Running, State::Stopped].into_iter().cycle();
    for n in 0..10_000u64 {
        let mut next = fleet();
        next.generation = n + 2;
        let state = states.next().unwrap();
        next.instances[1] = std::sync::Arc::new(instance("local/ci-10", "qemu", state));
        let effects = show(&mut app, next);
        // One question at a time about what is under the cursor: no answer came yet.
        asked += effects
            .iter()
            .filter(|e| matches!(e, Effect::Read(..)))
            .count();
        if n % 1000 == 999 {
            let row = app.inventory.cursor;
            press(&mut app, if row == 0 { "Down" } else { "Up" });
            moved += usize::from(app.inventory.cursor != row);
        }
    }
    assert_eq!(moved, 10, "each key moved the cursor");
    assert!(asked <= 2, "{asked} questions are open at once");
}

#[test]
fn a_clock_that_jumps_back_changes_no_guard_and_prints_no_negative_age() {
    let mut app = app(setup(120, 30), fleet());
    let back = |ms: u64| At {
        ms,
        wall: now() - jiff::SignedDuration::from_hours(5),
    };
    let ms = app.ms + 5000;
    update::update(&mut app, at(ms), Msg::Tick);
    press(&mut app, "d");
    update::update(&mut app, back(10), Msg::Tick);
    assert!(app.ms >= ms, "what was shown stays in order");
    for keys in ["g t", "g x", "g p", "g i"] {
        for key in keys.split(' ') {
            let key = Key::parse(key).unwrap();
            update::update(&mut app, back(10), Msg::Input(Input::Key(key)));
        }
        let text = screen(&app);
        for word in text.split_whitespace() {
            let negative = word.strip_prefix('-').is_some_and(|rest| {
                rest.ends_with(['s', 'm', 'h', 'd'])
                    && rest.starts_with(|c: char| c.is_ascii_digit())
            });
            assert!(!negative, "{word}\n{text}");
        }
    }
    let esc = Msg::Input(Input::Key(Key::plain(Code::Esc)));
    update::update(&mut app, back(0), esc);
}

#[test]
fn a_key_that_was_meant_for_what_is_gone_does_not_change_its_neighbour() {
    let mut app = app(setup(100, 30), fleet());
    select(&mut app, "local/ci-10");
    show(&mut app, without("local/ci-10"));
    let now = app.inventory.selected().unwrap().id.clone();
    let told = format!("local/ci-10 is gone; the cursor is on {now}");
    assert!(screen(&app).contains(&told), "{}", screen(&app));
    let effects = press(&mut app, "D");
    assert!(!asks(&effects), "{effects:?}");
    let text = screen(&app);
    assert!(
        text.contains("local/ci-10 is gone; nothing was done"),
        "{text}"
    );
    // Once is enough.
    assert!(asks(&press(&mut app, "D")));
}

#[test]
fn a_form_and_a_menu_are_held_back_as_well_and_only_for_a_while() {
    for keys in ["S", "p t", "e r"] {
        let mut app = app(setup(100, 30), fleet());
        select(&mut app, "local/ci-10");
        show(&mut app, without("local/ci-10"));
        let effects = press(&mut app, keys);
        assert!(!asks(&effects) && app.overlays.is_empty(), "{keys}");
        let text = screen(&app);
        assert!(text.contains("nothing was done"), "{keys}: {text}");
    }
    let mut app = app(setup(100, 30), fleet());
    select(&mut app, "local/ci-10");
    show(&mut app, without("local/ci-10"));
    let ms = app.ms + 2000;
    update::update(&mut app, at(ms), Msg::Tick);
    assert!(asks(&press(&mut app, "D")), "one has had time to see it");
}
