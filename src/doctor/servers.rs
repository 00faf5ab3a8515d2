//! Contexts that lead to one server: everything there is listed twice.

use crate::model::{Check, ContextView};

/// What to say of `context`, if one that was set up before it leads to the same server.
pub(super) fn twin(context: &ContextView, all: &[ContextView]) -> Option<Check> {
    let server = |view: &ContextView| view.facts.as_ref()?.server.clone();
    let own = server(context)?;
    let first = all
        .iter()
        .take_while(|other| other.name != context.name)
        .find(|other| other.kind == context.kind && server(other).as_ref() == Some(&own))?;
    let message = format!(
        "is the same server as {}: its instances are listed twice, and a bulk change finds them twice",
        first.name
    );
    Some(Check::warn("context.server", message).remedy(format!(
        "corral context disable {}, or corral context remove {}",
        context.name, context.name
    )))
}
