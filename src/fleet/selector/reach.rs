//! Which contexts a selector can touch at all.

use std::collections::BTreeSet;

use crate::model::{ContextView, FleetView, Selector};

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
