//! Which contexts a selector can touch at all.

use std::collections::BTreeSet;

use crate::fleet::filter::Filter;
use crate::model::{ContextView, FleetView, Scope, Selector};

/// The one context that a selector names; none may be in any.
pub(super) fn own<'a>(view: &'a FleetView, selector: &Selector) -> Option<&'a ContextView> {
    let text = selector.as_str();
    if text.starts_with("name:") {
        return None;
    }
    let (context, _) = text.strip_prefix("id:").unwrap_or(text).split_once('/')?;
    // `*/web` is one of any context. A name never has a star, so this finds none.
    view.context(context)
}

/// The contexts that these can only be in; `None` if one of them may be anywhere.
pub fn contexts_of(view: &FleetView, selectors: &[Selector]) -> Option<Vec<String>> {
    let own: BTreeSet<String> = selectors
        .iter()
        .map(|selector| own(view, selector).map(|context| context.name.clone()))
        .collect::<Option<_>>()?;
    (!own.is_empty()).then(|| own.into_iter().collect())
}

/// The contexts that a filter leaves; `None` where it leaves all, or cannot be read.
pub fn contexts_in(view: &FleetView, scope: &Scope) -> Option<Vec<String>> {
    let filter = Filter::parse(scope.filter.as_deref()?).ok()?;
    let reached: Vec<String> = view
        .contexts
        .iter()
        .filter(|c| filter.reaches(&c.name, c.kind.as_str()))
        .map(|c| c.name.clone())
        .collect();
    // An empty scope would mean every context.
    (!reached.is_empty() && reached.len() < view.contexts.len()).then_some(reached)
}

/// Those of `contexts` in which any of these may be. No selector at all means everything.
pub(super) fn among<'a>(
    view: &FleetView,
    selectors: &[&Selector],
    contexts: &[&'a ContextView],
) -> Vec<&'a ContextView> {
    let may = |context: &ContextView| {
        let here =
            |selector: &&Selector| own(view, selector).is_none_or(|own| own.name == context.name);
        selectors.is_empty() || selectors.iter().any(here)
    };
    contexts.iter().copied().filter(|c| may(c)).collect()
}
