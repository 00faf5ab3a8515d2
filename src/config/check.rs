//! Checking a parsed file: every fault at once, each at its place.

use std::ops::Range;
use std::path::Path;

use toml_edit::{Item, TableLike, Value};

use super::dropped::Dropped;
use super::file::{position, problem};
use crate::model::nearest;
use crate::model::{ConfigProblem, shown};

/// Collects the faults of one file.
pub(super) struct Checker<'a> {
    pub path: &'a Path,
    pub text: &'a str,
    pub problems: Vec<ConfigProblem>,
    pub dropped: Vec<Dropped>,
}

/// Faults beyond this are more of the same (a log file renamed to `config.toml`).
const MOST: usize = 100;

impl Checker<'_> {
    pub(super) fn at(&self, span: Option<Range<usize>>) -> (usize, usize) {
        span.map_or((0, 1), |span| position(self.text, span.start))
    }

    pub(super) fn say(&mut self, span: Option<Range<usize>>, message: impl Into<String>) {
        if self.problems.len() == MOST {
            self.problems.push(problem(
                self.path,
                self.at(span),
                "there are more faults from here on".to_owned(),
            ));
        } else if self.problems.len() < MOST {
            let at = self.at(span);
            self.problems.push(problem(self.path, at, message.into()));
        }
    }

    /// A context that is left out, told and kept in mind: its instances are missing from every answer.
    pub(super) fn leave_out(
        &mut self,
        name: Option<&str>,
        backend: Option<&str>,
        span: Option<Range<usize>>,
        message: impl std::fmt::Display,
    ) {
        let fault = problem(self.path, self.at(span.clone()), message.to_string());
        let dropped = Dropped::new(self.path, name, backend, &fault);
        if self.dropped.len() < MOST && self.dropped.iter().all(|d| d.name != dropped.name) {
            self.dropped.push(dropped);
        }
        let what = name.map_or_else(|| "it".to_owned(), |name| format!("context {name:?}"));
        self.say(span, format!("{message}; {what} is left out"));
    }

    pub(super) fn warn(&mut self, span: Option<Range<usize>>, message: impl Into<String>) {
        let before = self.problems.len();
        self.say(span, message);
        if let Some(last) = self.problems.get_mut(before) {
            last.warning = true;
        }
    }

    /// A key that does not exist.
    pub(super) fn unknown<'k>(
        &mut self,
        span: Option<Range<usize>>,
        key: &str,
        place: &str,
        allowed: impl Iterator<Item = &'k str> + Clone,
    ) {
        let hint = nearest(key, allowed.clone())
            .map(|near| format!(" Did you mean {near:?}?"))
            .unwrap_or_default();
        let list = allowed.collect::<Vec<_>>().join(", ");
        self.say(
            span,
            format!("unknown key {:?}{place}.{hint} Allowed: {list}", cut(key)),
        );
    }
}

/// A key as it may be printed: shown and not endless.
pub(super) fn cut(text: &str) -> String {
    let shown = shown(text);
    if shown.chars().count() <= 60 {
        return shown.into_owned();
    }
    shown.chars().take(60).chain(['…']).collect()
}

/// Where a key stands.
pub(super) fn key_span(table: &dyn TableLike, key: &str) -> Option<Range<usize>> {
    table.key(key).and_then(toml_edit::Key::span)
}

/// The value of an item, a table as an inline one.
pub(super) fn value(item: &Item) -> Option<Value> {
    item.clone().into_value().ok()
}
