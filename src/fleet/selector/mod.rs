//! From what a user typed to the instances that are meant, and never to others.

mod faults;
mod named;
mod reach;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::filter::{Filter, FilterCx};
use super::glob::covers;
use crate::model::{
    ContextView, Error, FleetView, Instance, LeftOut, Result, Scope, Selector, shown,
};
pub use faults::check_scope;
use faults::{parse_filter, silence};
pub use reach::{contexts_in, contexts_of};

/// What the answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Listing: that nothing matches is an answer.
    List,
    /// Looking: a silent context only makes the answer incomplete.
    Read,
    /// Changing: a silent context may hide another machine of the same name.
    Change,
}

/// What was meant.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// Each once, in the order they were named; else in the fleet's.
    pub targets: Vec<Arc<Instance>>,
    /// In scope, but not among them, and why.
    pub left_out: Vec<LeftOut>,
    /// The contexts whose answers make this all there is.
    pub contexts: Vec<String>,
    /// Nothing was found although everybody was asked; what was asked for.
    pub nothing: Option<Error>,
}

impl Resolved {
    /// The part of the fleet that an answer about these is about.
    pub fn scope(&self) -> Scope {
        Scope {
            contexts: self.contexts.clone(),
            ..Scope::default()
        }
    }
}

/// Finds the instances that selectors and scope name.
///
/// # Errors
/// `NotFound` for a name, a glob or a filter that matches nothing, `Ambiguous` for a name that means
/// several or cannot be known to mean one, `Refused` for a bulk change while a context that may hold
/// more of them is silent, `Invalid` for a bad filter.
pub fn resolve(
    view: &FleetView,
    selectors: &[Selector],
    scope: &Scope,
    purpose: Purpose,
) -> Result<Resolved> {
    faults::check_scope(view, scope)?;
    let contexts: Vec<&ContextView> = view
        .contexts
        .iter()
        .filter(|c| in_scope(c, scope))
        .collect();
    let filter = scope.filter.as_deref().map(parse_filter).transpose()?;
    let rows = rows_of(view, &contexts);
    let search = Search {
        view,
        names: named::Names::of(&rows),
        rows,
        silent: contexts.iter().copied().filter(|c| is_silent(c)).collect(),
        scope,
        purpose,
    };
    let mut resolved = Resolved::default();
    // With a filter even a name stands for as many as match.
    let is_bulk = |selector: &Selector| filter.is_some() || selector.is_glob();
    let bulk: Vec<&Selector> = selectors.iter().filter(|s| is_bulk(s)).collect();
    let missing = if bulk.is_empty() && filter.is_none() {
        Vec::new()
    } else {
        let mut silent = reach::among(view, &bulk, &search.silent);
        silent.retain(|c| {
            let reaches = |f: &Filter| f.reaches(&c.name, c.kind.as_str());
            filter.as_ref().is_none_or(reaches)
        });
        silent
    };
    if purpose == Purpose::Change {
        resolved.left_out = left_out(&missing, scope)?;
    }
    // Every one that is asked for has to be there, unless somebody who could know does not answer.
    let strict = purpose == Purpose::Change || (purpose == Purpose::Read && missing.is_empty());
    let mut wanted: Vec<(&Arc<Instance>, bool)> = Vec::new();
    if selectors.is_empty() {
        wanted.extend(search.rows.iter().map(|row| (*row, filter.is_some())));
    }
    for selector in selectors {
        let found = if selector.is_glob() {
            glob(&search.rows, selector)
        } else {
            vec![named::one(&search, selector)?]
        };
        if found.is_empty() && strict {
            let quoted = shown(selector.as_str());
            return Err(Error::not_found(format!("nothing matches {quoted:?}"))
                .remedy("corral list shows what there is"));
        }
        wanted.extend(found.into_iter().map(|row| (row, is_bulk(selector))));
    }
    take(&mut resolved, &wanted, filter.as_ref(), purpose);
    if resolved.targets.is_empty() && (filter.is_some() || !bulk.is_empty()) {
        let mut nothing = nothing(purpose);
        if let Some(meant) = filter.as_ref().and_then(Filter::meant) {
            nothing.remedy = Some(meant.to_owned());
        }
        if strict {
            return Err(nothing);
        }
        resolved.nothing = missing.is_empty().then_some(nothing);
    }
    resolved.contexts = if filter.is_some() || !bulk.is_empty() || selectors.is_empty() {
        reach::among(view, &selectors.iter().collect::<Vec<_>>(), &contexts)
            .into_iter()
            .map(|context| context.name.clone())
            .collect()
    } else {
        let of = resolved.targets.iter().map(|row| row.context.clone());
        of.collect::<BTreeSet<_>>().into_iter().collect()
    };
    Ok(resolved)
}

/// Where a selector is looked for.
struct Search<'a> {
    view: &'a FleetView,
    /// Rows in scope.
    rows: Vec<&'a Arc<Instance>>,
    /// The same by what they can be named with.
    names: named::Names<'a>,
    /// Contexts in scope that somebody set up and that do not answer.
    silent: Vec<&'a ContextView>,
    scope: &'a Scope,
    purpose: Purpose,
}

fn in_scope(context: &ContextView, scope: &Scope) -> bool {
    scope.covers(&context.name, context.kind.as_str())
}

/// It may hold instances that nobody sees now. What was only found on this machine and never
/// answered stands in nobody's way.
fn is_silent(context: &ContextView) -> bool {
    !context.health.is_ok() && (context.configured || context.answered_at.is_some())
}

fn rows_of<'a>(view: &'a FleetView, contexts: &[&ContextView]) -> Vec<&'a Arc<Instance>> {
    let names: BTreeSet<&str> = contexts.iter().map(|c| c.name.as_str()).collect();
    view.instances
        .iter()
        .filter(|row| names.contains(row.context.as_str()))
        .collect()
}

/// A bulk change is refused while a context that it could reach is silent, or goes on without it.
fn left_out(silent: &[&ContextView], scope: &Scope) -> Result<Vec<LeftOut>> {
    if !silent.is_empty() && !scope.allow_partial {
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
    let out = silent.iter().map(|context| LeftOut {
        what: context.name.clone(),
        why: silence(context).message,
    });
    Ok(out.collect())
}

/// Puts what is wanted among the targets, each once.
fn take(
    resolved: &mut Resolved,
    wanted: &[(&Arc<Instance>, bool)],
    filter: Option<&Filter>,
    purpose: Purpose,
) {
    let cx = FilterCx {
        now: Timestamp::now(),
    };
    let mut seen = BTreeSet::new();
    for (row, bulk) in wanted {
        if !filter.is_none_or(|f| f.matches(row, cx)) || !seen.insert(&row.id) {
            continue;
        }
        // A bulk change never reaches rows that nobody answers for.
        let reachable = !(*bulk && purpose == Purpose::Change && row.stale);
        if reachable {
            resolved.targets.push(Arc::clone(row));
        } else if resolved.left_out.iter().all(|out| out.what != row.context) {
            resolved.left_out.push(LeftOut {
                what: row.id.to_string(),
                why: "its state is not known now".to_owned(),
            });
        }
    }
}

fn nothing(purpose: Purpose) -> Error {
    if purpose == Purpose::Change {
        Error::not_found("nothing matches. Nothing was done")
            .remedy("corral list with the same filter shows what does")
    } else {
        Error::not_found("nothing matches").remedy("corral list shows what there is")
    }
}

/// A glob with a `/` is one over IDs and `CONTEXT/NAME`, any other is one over names.
fn glob<'a>(rows: &[&'a Arc<Instance>], selector: &Selector) -> Vec<&'a Arc<Instance>> {
    let pattern = selector.as_str();
    let by_place = pattern.contains('/');
    rows.iter()
        .filter(|row| {
            if by_place {
                covers(pattern, &row.id.to_string())
                    || covers(pattern, &format!("{}/{}", row.context, row.name))
            } else {
                covers(pattern, &row.name)
            }
        })
        .copied()
        .collect()
}

#[cfg(test)]
mod tests;
