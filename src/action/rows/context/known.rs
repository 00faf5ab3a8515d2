//! Contexts by name, wherever they are known from.

use crate::action::contexts::{self, spec_of};
use crate::action::engine::Engine;
use crate::backend::registry;
use crate::config::ContextEntry;
use crate::model::{ContextSpec, Error, Result, nearest, shown};

/// A context by name, wherever it is known from.
pub(super) enum Known {
    /// It is in the fleet.
    Member(ContextSpec),
    /// It is configured and disabled.
    Off(ContextEntry),
}

impl Known {
    pub(super) fn spec(&self) -> ContextSpec {
        match self {
            Self::Member(spec) => spec.clone(),
            Self::Off(entry) => spec_of(entry),
        }
    }
}

/// Finds a context, or says which one may have been meant.
pub(super) fn known(engine: &Engine, name: &str) -> Result<Known> {
    if let Some(member) = engine.fleet().member(name) {
        return Ok(Known::Member(member.spec.clone()));
    }
    let config = engine.config();
    if let Some(entry) = config.contexts.iter().find(|entry| entry.name == name) {
        return Ok(Known::Off(entry.clone()));
    }
    let members = engine.fleet().members();
    let members = members.iter().map(|m| m.spec.name.as_str());
    let entries = config.contexts.iter().map(|entry| entry.name.as_str());
    let near = nearest(name, members.chain(entries)).map_or_else(
        || "See corral context list".to_owned(),
        |near| format!("Did you mean {near}?"),
    );
    Err(Error::not_found(format!("there is no context {:?}", shown(name))).remedy(near))
}

/// A context found here that would fit: same name, else the only one of its kind.
pub(super) fn found_here(engine: &Engine, name: &str, kind: &str) -> Option<ContextSpec> {
    if engine.is_in_memory() {
        return None;
    }
    let info = registry::find(&crate::model::Kind::read(kind))?;
    let found = (info.discover)(engine.env()).contexts;
    match found.iter().find(|spec| spec.name == name) {
        Some(spec) => Some(spec.clone()),
        None if found.len() == 1 => found.into_iter().next(),
        None => None,
    }
}

/// Whether discovery alone would give this context.
pub(super) fn is_found_here(engine: &Engine, name: &str) -> bool {
    contexts::discovered(&engine.config(), engine.env())
        .iter()
        .any(|spec| spec.name == name)
}
