//! What a plan names to take a step back can be typed as it stands.

use corral::action::grammar::{self, ParseFailure};
use corral::model::Step;

/// Panics with an undo that begins with `corral` and is no whole command.
pub fn can_be_typed(steps: &[Step]) {
    let undos = steps.iter().filter_map(|step| step.undo.as_deref());
    for line in undos.filter_map(|undo| undo.strip_prefix("corral ")) {
        match grammar::parse(&grammar::tokenize(line).unwrap()) {
            Ok(parsed) => assert!(parsed.row.is_some(), "undo: corral {line}"),
            Err(ParseFailure::Bad(error)) => panic!("undo: corral {line}: {error}"),
            Err(ParseFailure::Show(_)) => panic!("undo: corral {line}: only help"),
        }
    }
}
