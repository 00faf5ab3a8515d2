//! From what a user typed to the instances that are meant, and never to others.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::filter::{Filter, FilterCx};
use super::glob::covers;
use crate::model::{
    ContextView, Error, ErrorKind, FleetView, Health, Instance, InstanceId, LeftOut, Result, Scope,
    Selector, shown,
};

/// What the answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Looking: a silent context only makes the answer incomplete.
    Read,
    /// Changing: a silent context may hide another machine of the same name.
    Change,
}

/// What was meant.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// Each once, in the fleet's order.
    pub targets: Vec<Arc<Instance>>,
    /// In scope, but not among them, and why.
    pub left_out: Vec<LeftOut>,
    /// Contexts in scope without a fresh answer.
    pub silent: Vec<Error>,
    /// A glob or a filter was used.
    pub bulk: bool,
}

/// Finds the instances that selectors and scope name.
///
/// # Errors
/// `NotFound` for a name that matches nothing (or a bulk selector that matches nothing, for a
/// change), `Ambiguous` for one that means several or cannot be known to mean one, `Refused` for a
/// bulk change while a context in scope is silent, `Invalid` for a bad filter.
pub fn resolve(
    view: &FleetView,
    selectors: &[Selector],
    scope: &Scope,
    purpose: Purpose,
) -> Result<Resolved> {
    check_scope(view, scope)?;
    let contexts: Vec<&ContextView> = view
        .contexts
        .iter()
        .filter(|c| in_scope(c, scope))
        .collect();
    let names: BTreeSet<&str> = contexts.iter().map(|c| c.name.as_str()).collect();
    let silent: Vec<&ContextView> = contexts
        .iter()
        .copied()
        // What was only found on this machine and never answered stands in nobody's way.
        .filter(|c| !c.health.is_ok() && (c.configured || c.answered_at.is_some()))
        .collect();
    let filter = scope.filter.as_deref().map(parse_filter).transpose()?;
    let bulk = filter.is_some() || selectors.iter().any(Selector::is_glob);
    let mut resolved = Resolved {
        bulk,
        ..Resolved::default()
    };
    resolved.silent = silent.iter().map(|c| silence(c)).collect();
    if bulk && purpose == Purpose::Change && !silent.is_empty() {
        if !scope.allow_partial {
            let list: Vec<&str> = silent.iter().map(|c| c.name.as_str()).collect();
            return Err(Error::refused(format!(
                "cannot know all that matches: {} not answering. Nothing was done",
                if list.len() == 1 {
                    format!("{} is", list[0])
                } else {
                    format!("{} are", list.join(", "))
                }
            ))
            .remedy("Add --allow-partial to go on without, or name the contexts: --context NAME"));
        }
        resolved.left_out.extend(silent.iter().map(|c| LeftOut {
            what: c.name.clone(),
            why: silence(c).message,
        }));
    }
    let rows: Vec<&Arc<Instance>> = view
        .instances
        .iter()
        .filter(|row| names.contains(row.context.as_str()))
        .collect();
    let mut wanted: Vec<&Arc<Instance>> = Vec::new();
    if selectors.is_empty() {
        wanted.extend(&rows);
    }
    for selector in selectors {
        let found = if selector.is_glob() {
            glob(&rows, selector)
        } else {
            one(view, &rows, &silent, scope, selector, purpose)?
                .into_iter()
                .collect()
        };
        if found.is_empty() && purpose == Purpose::Change {
            return Err(Error::not_found(format!(
                "nothing matches {:?}",
                shown(selector.as_str())
            )));
        }
        wanted.extend(found);
    }
    let cx = FilterCx {
        now: Timestamp::now(),
    };
    let mut seen = BTreeSet::new();
    for row in wanted {
        let kept = filter.as_ref().is_none_or(|f| f.matches(row, cx));
        // A bulk change never reaches rows that nobody answers for.
        let reachable = !(bulk && purpose == Purpose::Change && row.stale);
        if kept && reachable && seen.insert(row.id.clone()) {
            resolved.targets.push(Arc::clone(row));
        }
    }
    if resolved.targets.is_empty() && bulk && purpose == Purpose::Change {
        return Err(Error::not_found("nothing matches. Nothing was done")
            .remedy("corral list with the same filter shows what does"));
    }
    Ok(resolved)
}

fn in_scope(context: &ContextView, scope: &Scope) -> bool {
    (scope.contexts.is_empty() || scope.contexts.contains(&context.name))
        && (scope.backends.is_empty() || scope.backends.iter().any(|b| b == context.kind.as_str()))
}

fn check_scope(view: &FleetView, scope: &Scope) -> Result<()> {
    for name in &scope.contexts {
        if view.context(name).is_none() {
            return Err(
                Error::not_found(format!("there is no context {:?}", shown(name))).remedy(suggest(
                    name,
                    view.contexts.iter().map(|c| c.name.as_str()),
                    "corral context list",
                )),
            );
        }
    }
    Ok(())
}

fn parse_filter(text: &str) -> Result<Filter> {
    Filter::parse(text).map_err(|error| {
        Error::invalid(format!("--filter: {}", error.message)).remedy(format!(
            "It stands at {:?}",
            text.get(error.span).unwrap_or(text)
        ))
    })
}

fn silence(context: &ContextView) -> Error {
    match &context.health {
        Health::Stale(e) | Health::Failed(e) | Health::LoginNeeded(e) => {
            e.clone().in_context(&context.name)
        }
        _ => {
            Error::timed_out(format!("{} has not answered", context.name)).in_context(&context.name)
        }
    }
}

fn suggest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>, see: &str) -> String {
    candidates
        .map(|c| (strsim::jaro_winkler(word, c), c))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(
            || format!("See {see}"),
            |(_, c)| format!("Did you mean {c}? See {see}"),
        )
}

fn glob<'a>(rows: &[&'a Arc<Instance>], selector: &Selector) -> Vec<&'a Arc<Instance>> {
    let pattern = selector.as_str();
    rows.iter()
        .filter(|row| covers(pattern, &row.name) || covers(pattern, &row.id.to_string()))
        .copied()
        .collect()
}

/// The levels at which one selector can match, most exact first.
fn levels<'a>(rows: &[&'a Arc<Instance>], selector: &Selector) -> Vec<Vec<&'a Arc<Instance>>> {
    let text = selector.as_str();
    let pick = |test: &dyn Fn(&Instance) -> bool| -> Vec<&'a Arc<Instance>> {
        rows.iter().filter(|row| test(row)).copied().collect()
    };
    if let Some(id) = text.strip_prefix("id:") {
        let id = id.parse::<InstanceId>().ok();
        return vec![pick(&|row| id.as_ref() == Some(&row.id))];
    }
    if let Some(name) = text.strip_prefix("name:") {
        return vec![pick(&|row| row.name == name)];
    }
    let id = text.parse::<InstanceId>().ok();
    let slash = text.split_once('/');
    vec![
        pick(&|row| id.as_ref() == Some(&row.id)),
        pick(&|row| {
            row.uid
                .as_deref()
                .is_some_and(|uid| uid.eq_ignore_ascii_case(text))
        }),
        pick(&|row| {
            slash.is_some_and(|(context, name)| row.context == context && row.name == name)
        }),
        pick(&|row| row.name == text),
    ]
}

fn one<'a>(
    view: &'a FleetView,
    rows: &[&'a Arc<Instance>],
    silent: &[&ContextView],
    scope: &Scope,
    selector: &Selector,
    purpose: Purpose,
) -> Result<Option<&'a Arc<Instance>>> {
    let text = selector.as_str();
    let mut found: Vec<&Arc<Instance>> = Vec::new();
    for row in levels(rows, selector).into_iter().flatten() {
        if found.iter().all(|known| known.id != row.id) {
            found.push(row);
        }
    }
    // The context an ID or CONTEXT/NAME names: it alone decides.
    let own = text
        .strip_prefix("id:")
        .unwrap_or(text)
        .split_once('/')
        .map(|(context, _)| context);
    let own = own
        .and_then(|name| view.context(name))
        .filter(|c| in_scope(c, scope));
    match found.as_slice() {
        [] => Err(missing(view, rows, silent, own, text)),
        [row] => {
            if purpose == Purpose::Change && own.is_none() && row.uid.as_deref() != Some(text) {
                // A silent context that was never seen could hold the same name.
                let blind: Vec<&str> = silent
                    .iter()
                    .filter(|c| c.answered_at.is_none())
                    .map(|c| c.name.as_str())
                    .collect();
                if !blind.is_empty() {
                    return Err(Error::new(
                        ErrorKind::Ambiguous,
                        format!(
                            "cannot be sure {:?} is only one machine: {} not answered",
                            shown(text),
                            have(&blind)
                        ),
                    )
                    .remedy(format!("Use {}, or --context {}", row.id, row.context)));
                }
            }
            Ok(Some(row))
        }
        many => {
            let list: Vec<String> = many
                .iter()
                .take(8)
                .map(|row| format!("{} ({})", row.id, row.state))
                .collect();
            let more = if many.len() > 8 {
                format!(" and {} more", many.len() - 8)
            } else {
                String::new()
            };
            Err(Error::new(
                ErrorKind::Ambiguous,
                format!(
                    "{:?} is {} machines: {}{more}",
                    shown(text),
                    many.len(),
                    list.join(", ")
                ),
            )
            .remedy("Use the ID"))
        }
    }
}

fn have(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} has"),
        many => format!("{} have", many.join(", ")),
    }
}

fn missing(
    view: &FleetView,
    rows: &[&Arc<Instance>],
    silent: &[&ContextView],
    own: Option<&ContextView>,
    text: &str,
) -> Error {
    let quoted = shown(text);
    if let Some(context) = own {
        if !context.health.is_ok() {
            let error = silence(context);
            return Error {
                message: format!("{quoted:?} is not known, and {}", error.message),
                ..error
            };
        }
        let near = suggest(
            text,
            rows.iter()
                .filter(|r| r.context == context.name)
                .map(|r| r.name.as_str()),
            &format!("corral list --context {}", context.name),
        );
        return Error::not_found(format!("there is no {quoted:?} in {}", context.name))
            .remedy(near)
            .in_context(&context.name);
    }
    if let Some((context, _)) = text.split_once('/')
        && view.context(context).is_none()
    {
        return Error::not_found(format!("there is no context {:?}", shown(context))).remedy(
            suggest(
                context,
                view.contexts.iter().map(|c| c.name.as_str()),
                "corral context list",
            ),
        );
    }
    let blind: Vec<&str> = silent.iter().map(|c| c.name.as_str()).collect();
    let tail = if blind.is_empty() {
        String::new()
    } else {
        format!(" ({} not answered)", have(&blind))
    };
    Error::not_found(format!("there is no instance {quoted:?}{tail}")).remedy(suggest(
        text,
        rows.iter().map(|r| r.name.as_str()),
        "corral list",
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{InstanceKind, Kind, State};

    fn context(name: &str, health: Health, seen: bool) -> ContextView {
        ContextView {
            name: name.to_owned(),
            kind: Kind::read("k"),
            health,
            answered_at: seen.then_some(Timestamp::UNIX_EPOCH),
            complete: true,
            hidden: None,
            facts: None,
            hosts: Vec::new(),
            problems: Vec::new(),
            configured: true,
            origin: None,
            readonly: false,
            protected: false,
            relaxed: false,
            from_cache: false,
            count: 0,
            latency_ms: None,
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
}
