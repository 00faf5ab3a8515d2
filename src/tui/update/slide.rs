//! The cursor when its instance is gone: it stands on a neighbour then, and a key that was meant for the
//! one must not change the other.

use super::super::app::{App, Pane, Slid};
use super::super::command;
use crate::action::Row;
use crate::model::Instance;

/// So long a key may still have been meant for what was there before: one has to see that it is gone.
const UNSEEN_MS: u64 = 1000;

/// Notes what became of the row under the cursor, if it is gone.
pub(super) fn note(app: &mut App, before: &Instance) {
    if app.pane != Pane::Inventory || app.fleet.get(&before.id).is_some() {
        return;
    }
    // One that goes on under another ID has kept the cursor.
    let identity = before.identity();
    let now = app.inventory.selected();
    if now.is_some_and(|row| row.identity() == identity) {
        return;
    }
    let text = match now {
        Some(row) => format!("{} is gone; the cursor is on {}", before.id, row.id),
        None => format!("{} is gone", before.id),
    };
    // What one has deleted oneself is told by its task.
    let is_ours = app.tasks.iter().any(|task| {
        let mut targets = task.targets.iter();
        targets.any(|target| target.id == before.id)
    });
    // Of a context that is gone as a whole that is what is told.
    let is_alone = app.fleet.context(before.id.context()).is_some();
    if !is_ours && is_alone && app.overlays.is_empty() {
        app.say(text);
    }
    app.slid = Some(Slid {
        from: before.id.clone(),
        at: app.ms,
    });
}

/// Why the line of a key is held back: it would change what the cursor has only just slid to. Once is
/// enough, and whatever else is pressed shows that the screen was seen.
pub(super) fn holds(app: &mut App, run: &str) -> Option<String> {
    let slid = app.slid.take()?;
    if app.ms >= slid.at + UNSEEN_MS || app.pane != Pane::Inventory || !run.contains('{') {
        return None;
    }
    // Marks are not under the cursor.
    if run.contains("{ids}") && !app.inventory.marked.is_empty() {
        return None;
    }
    let words = run.strip_prefix("ui form ").unwrap_or(run);
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let changes = command::row_at(&words).is_some_and(Row::is_change);
    let now = app.inventory.selected()?;
    changes.then(|| {
        format!(
            "{} is gone; nothing was done: the cursor is on {} now",
            slid.from, now.id
        )
    })
}
