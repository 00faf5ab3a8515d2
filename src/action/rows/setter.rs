//! `--on|--off`, as all setters of a flag have it.

use crate::model::{Action, Error, Field, Result};

/// Turns it on; without either flag that is meant.
pub(super) const fn on(doc: &'static str) -> Field {
    Field::flag("on", doc)
}

/// Turns it off.
pub(super) const fn off(doc: &'static str) -> Field {
    Field::flag("off", doc)
}

/// Which of the two is asked for.
pub(super) fn is_on(action: &Action) -> Result<bool> {
    let off = action.args.flag("off");
    if off && action.args.flag("on") {
        return Err(Error::invalid("--on and --off exclude each other"));
    }
    Ok(!off)
}
