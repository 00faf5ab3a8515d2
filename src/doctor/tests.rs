use super::*;
use crate::model::{CheckStatus, ContextSpec, Error, Facts, Kind};

fn context(name: &str, health: Health, days_ago: i64, server: Option<&str>) -> ContextView {
    let at = now() - jiff::SignedDuration::from_hours(24 * days_ago);
    ContextView {
        health,
        answered_at: Some(at),
        complete: true,
        facts: Some(Facts {
            server: server.map(str::to_owned),
            ..Facts::default()
        }),
        configured: true,
        ..ContextView::of(&ContextSpec::new(name, Kind::read("k")))
    }
}

fn now() -> Timestamp {
    "2026-11-30T06:00:00Z".parse().unwrap()
}

#[test]
fn an_old_list_of_a_silent_context_is_told() {
    let down = || Health::Stale(Error::unreachable("x does not answer"));
    assert!(old_list(&context("x", Health::Ok, 9, None), now()).is_none());
    assert!(old_list(&context("x", down(), 0, None), now()).is_none());
    let check = old_list(&context("x", down(), 9, None), now()).unwrap();
    assert_eq!(check.status, CheckStatus::Warn);
    assert!(check.message.contains("9d old"), "{check:?}");
    assert!(check.remedy.unwrap().contains("corral context test x"));
}

#[test]
fn the_second_of_two_contexts_to_one_server_is_told() {
    let all = [
        context("a", Health::Ok, 0, Some("s1")),
        context("b", Health::Ok, 0, Some("s2")),
        context("c", Health::Ok, 0, Some("s1")),
        context("d", Health::Ok, 0, None),
        context("e", Health::Ok, 0, None),
    ];
    let told: Vec<bool> = all
        .iter()
        .map(|c| servers::twin(c, &all).is_some())
        .collect();
    assert_eq!(
        told,
        [false, false, true, false, false],
        "what is not known is no twin"
    );
    assert!(
        servers::twin(&all[2], &all)
            .unwrap()
            .message
            .contains("same server as a")
    );
}
