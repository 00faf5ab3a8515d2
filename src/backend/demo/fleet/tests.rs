//! What people are meant to see is there, in every run the same.

use std::collections::BTreeSet;

use super::super::knobs::{Clock, DemoSize, Knobs};
use super::members;
use crate::model::{Instance, State};

fn rows(size: DemoSize, knobs: &Knobs) -> Vec<Instance> {
    members(size, knobs)
        .into_iter()
        .flat_map(|(_, demo)| demo.world.inventory().instances)
        .collect()
}

fn still() -> Knobs {
    Knobs {
        clock: Clock::Fixed("2026-03-01T09:00:00Z".parse().unwrap()),
        ..Knobs::instant()
    }
}

#[test]
fn the_same_seed_gives_the_same_fleet() {
    assert_eq!(
        rows(DemoSize::Small, &still()),
        rows(DemoSize::Small, &still())
    );
    let other = Knobs { seed: 2, ..still() };
    assert_ne!(
        rows(DemoSize::Small, &still()),
        rows(DemoSize::Small, &other)
    );
}

#[test]
fn the_small_fleet_shows_every_state_and_every_oddity() {
    let rows = rows(DemoSize::Small, &still());
    assert!((55..=75).contains(&rows.len()), "{}", rows.len());
    for state in State::ALL {
        let in_between = matches!(state, State::Starting | State::Stopping);
        assert!(
            in_between || rows.iter().any(|r| r.state == state),
            "{state}"
        );
    }
    let some = |test: &dyn Fn(&Instance) -> bool| assert!(rows.iter().any(test));
    some(&|r| r.template);
    some(&|r| r.locked.is_some());
    some(&|r| r.protected);
    some(&|r| r.note.is_some());
    some(&|r| r.ports.iter().flatten().count() > 0);
    some(&|r| r.name.chars().any(char::is_control));
    some(&|r| !r.name.is_ascii());
    some(&|r| r.name.contains(' '));
    let webs = rows.iter().filter(|r| r.name == "web").count();
    assert!(webs > 2, "the same name in several contexts");
    let kinds: BTreeSet<_> = rows.iter().map(|r| r.backend.as_str()).collect();
    assert_eq!(kinds.len(), 10);
}

#[test]
fn every_instance_is_listed_once() {
    for size in [DemoSize::Small, DemoSize::Large] {
        let rows = rows(size, &still());
        let ids: BTreeSet<_> = rows.iter().map(|r| r.id.to_string()).collect();
        assert_eq!(ids.len(), rows.len());
        for row in &rows {
            assert_eq!(row.id.to_string().parse(), Ok(row.id.clone()));
        }
    }
}

#[test]
fn the_large_fleet_has_ten_thousand() {
    assert_eq!(rows(DemoSize::Large, &still()).len(), 10_000);
    assert_eq!(members(DemoSize::Large, &still()).len(), 12);
}
