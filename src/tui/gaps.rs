//! What a filter for an address could not see: instances whose address nobody knows, contexts that are silent.

use super::app::App;
use crate::model::counted;

/// Contexts that are named; more are counted.
const NAMED: usize = 3;

/// What is missing from the result of the filter; nothing where it is the whole truth.
pub fn text(app: &App) -> Option<String> {
    let inventory = &app.inventory;
    let asked = inventory.asks()?;
    let mut parts = Vec::new();
    let count: usize = inventory.gaps.iter().map(|(_, count)| count).sum();
    if count > 0 {
        let names: Vec<&str> = inventory.gaps.iter().map(|(n, _)| n.as_str()).collect();
        let (what, of) = (asked.word(), counted(count, "instance"));
        parts.push(format!("{what} of {of} in {} are not known", named(&names)));
    }
    let silent: Vec<&str> = app
        .fleet
        .contexts
        .iter()
        .filter(|c| {
            inventory
                .context
                .as_ref()
                .is_none_or(|name| *name == c.name)
        })
        .filter(|c| !c.complete || !c.health.is_ok())
        .map(|c| c.name.as_str())
        .collect();
    if !silent.is_empty() {
        let has = if silent.len() == 1 { "has" } else { "have" };
        parts.push(format!("{} {has} not answered", named(&silent)));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn named(names: &[&str]) -> String {
    let first = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
