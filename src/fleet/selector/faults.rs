//! What to say when it cannot be known who is meant.

use std::sync::Arc;

use super::Search;
use crate::fleet::filter::Filter;
use crate::model::{
    ContextView, Error, ErrorKind, FleetView, Health, Instance, Result, Scope, nearest, shown,
};

/// Every context that a scope names is there.
pub fn check_scope(view: &FleetView, scope: &Scope) -> Result<()> {
    match scope
        .contexts
        .iter()
        .find(|name| view.context(name).is_none())
    {
        Some(name) => return Err(no_context(view, name)),
        None if view.contexts.is_empty() => return Ok(()),
        None if view.contexts.iter().any(|c| super::in_scope(c, scope)) => return Ok(()),
        None => {}
    }
    let kinds: Vec<String> = scope
        .backends
        .iter()
        .map(|b| shown(b).into_owned())
        .collect();
    let kinds = kinds.join(", ");
    Err(Error::not_found(if scope.contexts.is_empty() {
        format!("there is no context of {kinds}")
    } else {
        format!("{} is no context of {kinds}", scope.contexts.join(", "))
    })
    .remedy("See corral context list"))
}

fn no_context(view: &FleetView, name: &str) -> Error {
    if let Some(now) = view
        .contexts
        .iter()
        .find(|c| c.origin.as_deref() == Some(name))
    {
        return Error::not_found(format!(
            "there is no context {:?}: the configured {} is the same place and hides it",
            shown(name),
            now.name
        ))
        .remedy(format!("Write {} in its stead", now.name));
    }
    let near = suggest(
        name,
        view.contexts.iter().map(|c| c.name.as_str()),
        "corral context list",
    );
    Error::not_found(format!("there is no context {:?}", shown(name))).remedy(near)
}

/// Reads `--filter`.
pub(super) fn parse_filter(text: &str) -> Result<Filter> {
    Filter::parse(text).map_err(|error| {
        Error::invalid(format!("--filter: {}", error.message)).remedy(format!(
            "It stands at {:?}",
            text.get(error.span).unwrap_or(text)
        ))
    })
}

/// Why a context has no fresh answer.
pub(super) fn silence(context: &ContextView) -> Error {
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
    nearest(word, candidates).map_or_else(
        || format!("See {see}"),
        |near| format!("Did you mean {near}? See {see}"),
    )
}

/// One is known, and another may be where nobody looks.
pub(super) fn unsure(row: &Instance, blind: &[&str], text: &str) -> Error {
    Error::new(
        ErrorKind::Ambiguous,
        format!(
            "cannot be sure {:?} is only one machine: {} not answered",
            shown(text),
            have(blind)
        ),
    )
    .remedy(format!("Use {}, or --context {}", row.id, row.context))
}

/// Several are known.
pub(super) fn ambiguous(many: &[&Arc<Instance>], text: &str) -> Error {
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
    Error::new(
        ErrorKind::Ambiguous,
        format!(
            "{:?} is {} machines: {}{more}",
            shown(text),
            many.len(),
            list.join(", ")
        ),
    )
    .remedy("Use the ID")
}

fn have(names: &[&str]) -> String {
    match names {
        [one] => format!("{one} has"),
        many => format!("{} have", many.join(", ")),
    }
}

/// None is known.
pub(super) fn missing(search: &Search<'_>, own: Option<&ContextView>, text: &str) -> Error {
    let (view, rows) = (search.view, &search.rows);
    let quoted = shown(text);
    if let Some((name, snapshot)) = text.rsplit_once('@')
        && let Some(row) = rows
            .iter()
            .find(|row| row.name == name || row.id.to_string() == name)
    {
        return Error::not_found(format!("there is no instance {quoted:?}")).remedy(format!(
            "{} is one, but no snapshot is meant here: leave @{} out",
            row.id,
            shown(snapshot)
        ));
    }
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
        && !text.starts_with("name:")
        && view.context(context).is_none()
    {
        return no_context(view, context);
    }
    let blind: Vec<&str> = search.silent.iter().map(|c| c.name.as_str()).collect();
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
