//! A selector that names one instance.

use std::sync::Arc;

use super::faults::{ambiguous, missing, unsure};
use super::{Purpose, Search, reach};
use crate::model::{Instance, InstanceId, Result, Selector};

/// The instance that is meant.
pub(super) fn one<'a>(search: &Search<'a>, selector: &Selector) -> Result<&'a Arc<Instance>> {
    let text = selector.as_str();
    let mut found: Vec<&Arc<Instance>> = Vec::new();
    for row in levels(&search.rows, selector).into_iter().flatten() {
        if found.iter().all(|known| known.id != row.id) {
            found.push(row);
        }
    }
    // The context an ID or CONTEXT/NAME names: it alone decides.
    let own = reach::own(search.view, selector).filter(|c| super::in_scope(c, search.scope));
    match found.as_slice() {
        [] => Err(missing(search, own, text)),
        [row] => {
            let by_uid = is_uid(row, text);
            if search.purpose == Purpose::Change && own.is_none() && !by_uid {
                // A silent context that was never seen could hold the same name.
                let blind: Vec<&str> = search
                    .silent
                    .iter()
                    .filter(|c| c.answered_at.is_none())
                    .map(|c| c.name.as_str())
                    .collect();
                if !blind.is_empty() {
                    return Err(unsure(row, &blind, text));
                }
            }
            Ok(row)
        }
        many => Err(ambiguous(many, text)),
    }
}

fn is_uid(row: &Instance, text: &str) -> bool {
    row.uid
        .as_deref()
        .is_some_and(|uid| uid.eq_ignore_ascii_case(text))
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
    // `web%40x` is the machine `web@x`, with or without its context.
    let plain = format!("x/{text}").parse::<InstanceId>().ok();
    vec![
        pick(&|row| id.as_ref() == Some(&row.id)),
        pick(&|row| is_uid(row, text)),
        pick(&|row| {
            slash.is_some_and(|(context, name)| row.context == context && row.name == name)
                || id.as_ref().is_some_and(|id| {
                    id.namespace().is_none() && row.context == id.context() && row.name == id.key()
                })
        }),
        pick(&|row| {
            row.name == text
                || plain
                    .as_ref()
                    .is_some_and(|id| id.namespace().is_none() && row.name == id.key())
        }),
    ]
}
