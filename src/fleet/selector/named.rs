//! A selector that names one instance.

use std::collections::HashMap;
use std::sync::Arc;

use super::faults::{ambiguous, missing, unsure};
use super::{Purpose, Search, reach};
use crate::model::{Instance, InstanceId, Result, Selector};

/// The instance that is meant.
pub(super) fn one<'a>(search: &Search<'a>, selector: &Selector) -> Result<&'a Arc<Instance>> {
    let text = selector.as_str();
    let mut found: Vec<&Arc<Instance>> = Vec::new();
    for row in search.names.levels(selector).into_iter().flatten() {
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

/// All that can be named, by what it can be named with: a command may name thousands.
pub(super) struct Names<'a> {
    ids: HashMap<&'a InstanceId, Rows<'a>>,
    uids: HashMap<String, Rows<'a>>,
    words: HashMap<&'a str, Rows<'a>>,
}

type Rows<'a> = Vec<&'a Arc<Instance>>;

impl<'a> Names<'a> {
    /// Of these rows.
    pub(super) fn of(rows: &[&'a Arc<Instance>]) -> Self {
        let mut names = Self {
            ids: HashMap::with_capacity(rows.len()),
            uids: HashMap::with_capacity(rows.len()),
            words: HashMap::with_capacity(rows.len()),
        };
        for row in rows.iter().copied() {
            names.ids.entry(&row.id).or_default().push(row);
            names.words.entry(&row.name).or_default().push(row);
            if let Some(uid) = &row.uid {
                let uid = uid.to_ascii_lowercase();
                names.uids.entry(uid).or_default().push(row);
            }
        }
        names
    }

    fn id(&self, id: Option<&InstanceId>) -> Rows<'a> {
        id.and_then(|id| self.ids.get(id))
            .cloned()
            .unwrap_or_default()
    }

    fn name(&self, name: &str) -> Rows<'a> {
        self.words.get(name).cloned().unwrap_or_default()
    }

    /// Of this name in this context.
    fn within(&self, context: &str, name: &str) -> Rows<'a> {
        let mut rows = self.name(name);
        rows.retain(|row| row.context == context);
        rows
    }

    /// The levels at which one selector can match, most exact first.
    fn levels(&self, selector: &Selector) -> Vec<Rows<'a>> {
        let text = selector.as_str();
        if let Some(id) = text.strip_prefix("id:") {
            return vec![self.id(id.parse().ok().as_ref())];
        }
        if let Some(name) = text.strip_prefix("name:") {
            return vec![self.name(name)];
        }
        let id = text.parse::<InstanceId>().ok();
        // `web%40x` is the machine `web@x`, with or without its context.
        let plain = format!("x/{text}").parse::<InstanceId>().ok();
        let unspaced = |id: &Option<InstanceId>| id.clone().filter(|id| id.namespace().is_none());
        let mut in_context = Vec::new();
        if let Some((context, name)) = text.split_once('/') {
            in_context.extend(self.within(context, name));
        }
        if let Some(id) = unspaced(&id) {
            in_context.extend(self.within(id.context(), id.key()));
        }
        let mut bare = self.name(text);
        if let Some(plain) = unspaced(&plain) {
            bare.extend(self.name(plain.key()));
        }
        let uid = self.uids.get(&text.to_ascii_lowercase());
        vec![
            self.id(id.as_ref()),
            uid.cloned().unwrap_or_default(),
            in_context,
            bare,
        ]
    }
}
