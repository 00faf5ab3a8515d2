//! Texts that were typed for a file: they may hold passwords, so that a file stays only as long as something needs it.

use super::app::{App, Overlay};
use super::msg::Effect;
use crate::model::Action;

fn names(action: &Action, file: &str) -> bool {
    action.args.0.values().any(|v| v.as_str() == Some(file))
}

/// A question about it is open or on its way.
fn is_wanted(app: &App, file: &str) -> bool {
    let submitted = app
        .submitting
        .iter()
        .any(|s| names(&s.planning.action, file));
    if app.leaving {
        return submitted;
    }
    let planned = app.planning.iter().any(|p| names(&p.action, file));
    let asked = app.overlays.iter().any(|overlay| match overlay {
        Overlay::Dialog(dialog) => names(&dialog.planning.action, file),
        // Another text of the same form is on its way.
        Overlay::Form(form) if form.keeping.is_some() => form.entries.iter().any(|entry| {
            let kept = entry.kept.as_ref();
            kept.is_some_and(|(_, kept)| kept == file)
        }),
        _ => false,
    });
    submitted || planned || asked
}

/// A task has it now: it goes when that succeeds, and stays for another try when it fails.
pub fn handed_over(app: &mut App, action: &Action) {
    app.typed.retain(|file| !names(action, file));
}

/// Files that nothing needs any more go. What was typed stays in its form.
pub fn given_up(app: &mut App) -> Vec<Effect> {
    let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut app.typed)
        .into_iter()
        .partition(|file| is_wanted(app, file));
    app.typed = kept;
    for overlay in &mut app.overlays {
        let Overlay::Form(form) = overlay else {
            continue;
        };
        for entry in &mut form.entries {
            let is_gone = |(_, file): &mut (String, String)| gone.contains(file);
            entry.kept.take_if(is_gone);
        }
    }
    gone.into_iter().map(Effect::ForgetText).collect()
}
