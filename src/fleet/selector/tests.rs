use proptest::prelude::*;

use super::*;
use crate::model::{ContextSpec, ErrorKind, Health, InstanceId, InstanceKind, Kind, State};

fn context(name: &str, health: Health, seen: bool) -> ContextView {
    ContextView {
        health,
        answered_at: seen.then_some(Timestamp::UNIX_EPOCH),
        complete: true,
        configured: true,
        ..ContextView::of(&ContextSpec::new(name, Kind::read("k")))
    }
}

fn row(context: &str, key: &str, name: &str, uid: Option<&str>) -> Arc<Instance> {
    let id = InstanceId::new(context, None, key);
    let mut row = Instance::new(
        id,
        Kind::read("k"),
        InstanceKind::Vm,
        State::Running,
        Timestamp::UNIX_EPOCH,
    );
    name.clone_into(&mut row.name);
    row.uid = uid.map(str::to_owned);
    Arc::new(row)
}

fn view(contexts: Vec<ContextView>, instances: Vec<Arc<Instance>>) -> FleetView {
    FleetView {
        generation: 1,
        contexts,
        instances,
    }
}

fn down() -> Health {
    Health::Failed(Error::unreachable("pve does not answer"))
}

fn find(view: &FleetView, text: &str, scope: &Scope, purpose: Purpose) -> Result<Vec<String>> {
    resolve(view, &[text.parse().unwrap()], scope, purpose)
        .map(|r| r.targets.iter().map(|t| t.id.to_string()).collect())
}

#[test]
fn req_15_a_name_that_means_two_machines_is_refused_with_candidates() {
    let view = view(
        vec![
            context("a", Health::Ok, true),
            context("b", Health::Ok, true),
        ],
        vec![row("a", "web", "web", None), row("b", "205", "web", None)],
    );
    let error = find(&view, "web", &Scope::default(), Purpose::Change).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Ambiguous);
    assert!(
        error.message.contains("a/web (running)") && error.message.contains("b/205"),
        "{error}"
    );
    assert_eq!(
        find(&view, "b/web", &Scope::default(), Purpose::Change).unwrap(),
        ["b/205"]
    );
    assert_eq!(
        find(&view, "a/web", &Scope::default(), Purpose::Change).unwrap(),
        ["a/web"]
    );
    let scope = Scope {
        contexts: vec!["a".to_owned()],
        ..Scope::default()
    };
    assert_eq!(
        find(&view, "web", &scope, Purpose::Change).unwrap(),
        ["a/web"]
    );
}

#[test]
fn two_levels_with_different_targets_are_ambiguous() {
    let view = view(
        vec![context("a", Health::Ok, true)],
        vec![
            row("a", "1", "deadbeef", None),
            row("a", "2", "x", Some("deadbeef")),
        ],
    );
    assert_eq!(
        find(&view, "deadbeef", &Scope::default(), Purpose::Read)
            .unwrap_err()
            .kind,
        ErrorKind::Ambiguous
    );
}

#[test]
fn a_bare_name_is_not_changed_while_an_unseen_context_is_silent() {
    let view = view(
        vec![
            context("a", Health::Ok, true),
            context("pve", down(), false),
        ],
        vec![row("a", "web", "web", None)],
    );
    let error = find(&view, "web", &Scope::default(), Purpose::Change).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Ambiguous);
    assert!(error.to_string().contains("a/web"), "{error}");
    assert_eq!(
        find(&view, "web", &Scope::default(), Purpose::Read).unwrap(),
        ["a/web"]
    );
    assert_eq!(
        find(&view, "a/web", &Scope::default(), Purpose::Change).unwrap(),
        ["a/web"]
    );
}

#[test]
fn a_found_context_that_never_answered_blocks_no_change() {
    let mut found = context("found", down(), false);
    found.configured = false;
    let view = view(
        vec![context("a", Health::Ok, true), found],
        vec![row("a", "web", "web", None)],
    );
    for text in ["web", "we*"] {
        assert_eq!(
            find(&view, text, &Scope::default(), Purpose::Change).unwrap(),
            ["a/web"]
        );
    }
}

#[test]
fn cached_rows_of_silent_contexts_are_candidates() {
    let stale = Arc::new(row("pve", "9", "web", None).as_stale());
    let view = view(
        vec![context("a", Health::Ok, true), context("pve", down(), true)],
        vec![row("a", "web", "web", None), stale],
    );
    assert_eq!(
        find(&view, "web", &Scope::default(), Purpose::Change)
            .unwrap_err()
            .kind,
        ErrorKind::Ambiguous
    );
}

#[test]
fn bulk_changes_are_refused_while_a_context_is_silent() {
    let view = view(
        vec![context("a", Health::Ok, true), context("pve", down(), true)],
        vec![
            row("a", "web", "web", None),
            Arc::new(row("pve", "9", "web9", None).as_stale()),
        ],
    );
    let error = find(&view, "web*", &Scope::default(), Purpose::Change).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    let scope = Scope {
        allow_partial: true,
        ..Scope::default()
    };
    let resolved = resolve(&view, &["web*".parse().unwrap()], &scope, Purpose::Change).unwrap();
    assert_eq!(resolved.targets.len(), 1);
    assert_eq!(resolved.left_out[0].what, "pve");
    assert_eq!(
        find(&view, "nothing*", &scope, Purpose::Change)
            .unwrap_err()
            .kind,
        ErrorKind::NotFound
    );
}

#[test]
fn typing_errors_get_the_nearest_name() {
    let view = view(
        vec![context("prod", Health::Ok, true)],
        vec![row("prod", "web", "webserver", None)],
    );
    assert!(
        find(&view, "webservr", &Scope::default(), Purpose::Read)
            .unwrap_err()
            .to_string()
            .contains("webserver")
    );
    assert!(
        find(&view, "prud/x", &Scope::default(), Purpose::Read)
            .unwrap_err()
            .to_string()
            .contains("prod")
    );
}

/// Two that answer and one that does not, with or without a cache.
fn with_silent(seen: bool) -> FleetView {
    let mut rows = vec![
        row("a", "web", "web", Some("AAAA-1")),
        row("b", "205", "db", Some("bbbb-2")),
        row("b", "206", "web@x", None),
    ];
    if seen {
        rows.push(Arc::new(row("pve", "9", "mail", Some("cccc-3")).as_stale()));
    }
    view(
        vec![
            context("a", Health::Ok, true),
            context("b", Health::Ok, true),
            context("pve", down(), seen),
        ],
        rows,
    )
}

fn kind(view: &FleetView, text: &str, scope: &Scope, purpose: Purpose) -> ErrorKind {
    find(view, text, scope, purpose).unwrap_err().kind
}

fn only(context: &str) -> Scope {
    Scope {
        contexts: vec![context.to_owned()],
        ..Scope::default()
    }
}

fn filtered(filter: &str) -> Scope {
    Scope {
        filter: Some(filter.to_owned()),
        ..Scope::default()
    }
}

fn partial(mut scope: Scope) -> Scope {
    scope.allow_partial = true;
    scope
}

#[test]
fn every_way_of_naming_one_finds_it() {
    let view = with_silent(true);
    for (text, wanted) in [
        ("a/web", "a/web"),
        ("b/205", "b/205"),
        ("b/db", "b/205"),
        ("AAAA-1", "a/web"),
        ("aaaa-1", "a/web"),
        ("id:a/web", "a/web"),
        ("name:db", "b/205"),
        ("db", "b/205"),
        ("name:web@x", "b/206"),
        ("web%40x", "b/206"),
        ("b/web%40x", "b/206"),
        ("b/web@x", "b/206"),
        ("mail", "pve/9"),
        ("pve/mail", "pve/9"),
        ("cccc-3", "pve/9"),
    ] {
        for purpose in [Purpose::Read, Purpose::Change] {
            let found = find(&view, text, &Scope::default(), purpose);
            assert_eq!(
                found.unwrap_or_else(|e| panic!("{text}: {e}")),
                [wanted],
                "{text}"
            );
        }
    }
    // A prefix takes the other ways away.
    for text in [
        "id:web",
        "id:AAAA-1",
        "name:a/web",
        "name:AAAA-1",
        "id:a/we",
    ] {
        assert_eq!(
            kind(&view, text, &Scope::default(), Purpose::Read),
            ErrorKind::NotFound,
            "{text}"
        );
    }
}

#[test]
fn bare_names_over_silent_contexts_with_and_without_a_cache() {
    let all = Scope::default();
    // Seen before: what it had then are the candidates.
    let seen = with_silent(true);
    assert_eq!(
        find(&seen, "web", &all, Purpose::Change).unwrap(),
        ["a/web"]
    );
    // Never seen: it could have another of the same name.
    let unseen = with_silent(false);
    assert_eq!(
        kind(&unseen, "web", &all, Purpose::Change),
        ErrorKind::Ambiguous
    );
    assert_eq!(
        kind(&unseen, "name:web", &all, Purpose::Change),
        ErrorKind::Ambiguous
    );
    assert_eq!(
        find(&unseen, "web", &only("a"), Purpose::Change).unwrap(),
        ["a/web"]
    );
    assert_eq!(
        find(&unseen, "web", &all, Purpose::Read).unwrap(),
        ["a/web"]
    );
    // A uid is one machine wherever it is, and an ID concerns its own context only.
    for text in ["aaaa-1", "a/web", "id:a/web", "b/db"] {
        assert!(find(&unseen, text, &all, Purpose::Change).is_ok(), "{text}");
    }
    let error = find(&unseen, "pve/mail", &all, Purpose::Change).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(error.message.contains("pve/mail"), "{error}");
}

#[test]
fn a_glob_concerns_the_contexts_it_can_match() {
    let view = with_silent(true);
    let all = Scope::default();
    for text in ["a/*", "b/d?", "a/w*b"] {
        assert!(find(&view, text, &all, Purpose::Change).is_ok(), "{text}");
    }
    for text in ["pve/*", "*/web", "?/*", "w*", "*"] {
        let error = find(&view, text, &all, Purpose::Change).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{text}");
        assert!(error.message.contains("pve"), "{error}");
    }
    // Both count when both are named.
    let both = ["a/*".parse().unwrap(), "pve/*".parse().unwrap()];
    assert_eq!(
        resolve(&view, &both, &all, Purpose::Change)
            .unwrap_err()
            .kind,
        ErrorKind::Refused
    );
    let two = ["a/*".parse().unwrap(), "b/*".parse().unwrap()];
    assert_eq!(
        resolve(&view, &two, &all, Purpose::Change)
            .unwrap()
            .targets
            .len(),
        3
    );
    assert_eq!(
        contexts_of(&view, &two),
        Some(vec!["a".to_owned(), "b".to_owned()])
    );
    for text in ["*/web", "web", "name:a/b", "aaaa-1"] {
        assert_eq!(contexts_of(&view, &[text.parse().unwrap()]), None, "{text}");
    }
}

#[test]
fn a_glob_without_a_slash_is_one_over_names() {
    let view = view(
        vec![context("web", Health::Ok, true)],
        vec![row("web", "1", "db", None), row("web", "2", "webby", None)],
    );
    let all = Scope::default();
    assert_eq!(
        find(&view, "web*", &all, Purpose::Change).unwrap(),
        ["web/2"]
    );
    assert_eq!(
        find(&view, "web/*", &all, Purpose::Change).unwrap(),
        ["web/1", "web/2"]
    );
    assert_eq!(
        find(&view, "web/d*", &all, Purpose::Change).unwrap(),
        ["web/1"]
    );
}

#[test]
fn a_filter_concerns_everything_that_is_not_named() {
    let view = with_silent(true);
    let change = |text: &[&str], scope: &Scope| {
        let selectors: Vec<Selector> = text.iter().map(|t| t.parse().unwrap()).collect();
        resolve(&view, &selectors, scope, Purpose::Change)
    };
    let running = filtered("state:running");
    assert_eq!(change(&[], &running).unwrap_err().kind, ErrorKind::Refused);
    assert_eq!(
        change(&["db"], &running).unwrap_err().kind,
        ErrorKind::Refused
    );
    assert_eq!(change(&["b/db"], &running).unwrap().targets.len(), 1);
    let mut scoped = running.clone();
    scoped.contexts = vec!["b".to_owned()];
    assert_eq!(change(&[], &scoped).unwrap().targets.len(), 2);
    let resolved = change(&[], &partial(running)).unwrap();
    assert_eq!(resolved.targets.len(), 3);
    assert_eq!(resolved.left_out.len(), 1);
    assert_eq!(resolved.left_out[0].what, "pve");
    assert_eq!(
        change(&["b/db"], &filtered("state:stopped"))
            .unwrap_err()
            .kind,
        ErrorKind::NotFound
    );
    assert_eq!(
        change(&[], &filtered("stat:running")).unwrap_err().kind,
        ErrorKind::Invalid
    );
}

#[test]
fn what_is_named_is_never_dropped_in_silence() {
    let silent = with_silent(true);
    let named = ["a/*".parse().unwrap(), "pve/9".parse().unwrap()];
    let resolved = resolve(&silent, &named, &Scope::default(), Purpose::Change).unwrap();
    let ids: Vec<String> = resolved.targets.iter().map(|t| t.id.to_string()).collect();
    assert_eq!(
        ids,
        ["a/web", "pve/9"],
        "its own plan says that pve does not answer"
    );
    // A row that is not fresh although its context is: named as left out.
    let other = view(
        vec![context("a", Health::Ok, true)],
        vec![
            row("a", "1", "x1", None),
            Arc::new(row("a", "2", "x2", None).as_stale()),
        ],
    );
    let resolved = resolve(
        &other,
        &["x*".parse().unwrap()],
        &Scope::default(),
        Purpose::Change,
    )
    .unwrap();
    assert_eq!(resolved.targets.len(), 1);
    assert_eq!(resolved.left_out[0].what, "a/2");
}

#[test]
fn looking_for_what_is_not_there_is_not_found_once_everybody_has_answered() {
    let all = Scope::default();
    let healthy = view(
        vec![context("a", Health::Ok, true)],
        vec![row("a", "web", "web", None)],
    );
    for purpose in [Purpose::Read, Purpose::Change] {
        assert_eq!(kind(&healthy, "zzz*", &all, purpose), ErrorKind::NotFound);
        let none = resolve(&healthy, &[], &filtered("tag:none"), purpose).unwrap_err();
        assert_eq!(none.kind, ErrorKind::NotFound);
    }
    let listed = resolve(&healthy, &["zzz*".parse().unwrap()], &all, Purpose::List).unwrap();
    assert_eq!(listed.nothing.unwrap().kind, ErrorKind::NotFound);
    // No instances at all is no failure of whoever asked for all.
    let listed = resolve(
        &view(vec![context("a", Health::Ok, true)], vec![]),
        &[],
        &all,
        Purpose::List,
    );
    assert!(listed.unwrap().nothing.is_none());
    // While somebody is silent nothing is known to be missing; the answer is about them, too.
    let silent = with_silent(true);
    for purpose in [Purpose::Read, Purpose::List] {
        let resolved = resolve(&silent, &["zzz*".parse().unwrap()], &all, purpose).unwrap();
        assert!(resolved.targets.is_empty() && resolved.nothing.is_none());
        assert_eq!(resolved.contexts, ["a", "b", "pve"]);
    }
    let resolved = resolve(&silent, &["a/zzz*".parse().unwrap()], &all, Purpose::List).unwrap();
    assert!(resolved.nothing.is_some());
    assert_eq!(resolved.contexts, ["a"]);
}

#[test]
fn a_scope_that_holds_nothing_says_so() {
    let view = with_silent(true);
    let kinds = Scope {
        backends: vec!["nothing".to_owned()],
        ..Scope::default()
    };
    let error = resolve(&view, &[], &kinds, Purpose::List).unwrap_err();
    assert!(
        error.message.contains("there is no context of nothing"),
        "{error}"
    );
    let error = resolve(&view, &[], &only("pvee"), Purpose::List).unwrap_err();
    assert!(error.to_string().contains("Did you mean pve?"), "{error}");
}

#[test]
fn a_snapshot_where_none_is_meant_is_told() {
    let view = with_silent(true);
    for text in ["db@s1", "b/205@s1"] {
        let error = find(&view, text, &Scope::default(), Purpose::Read).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert!(error.remedy.unwrap().contains("leave @s1 out"), "{text}");
    }
}

proptest! {
    #[test]
    fn an_id_always_resolves_to_itself(keys in proptest::collection::hash_set("[a-z*@?%/ -]{1,6}", 1..6)) {
        let rows: Vec<_> = keys.iter().map(|k| row("a", k, "same", None)).collect();
        let view = view(vec![context("a", Health::Ok, true)], rows.clone());
        for row in rows {
            let text = row.id.to_string();
            prop_assert_eq!(find(&view, &text, &Scope::default(), Purpose::Change).unwrap(), vec![text]);
        }
    }
}
