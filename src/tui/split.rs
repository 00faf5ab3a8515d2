//! How a screen is shared between a list and what is shown of one of its rows.

use super::app::{App, Pane};
use super::layout;

/// The share of the detail, in percent; `None` was never changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Of the width, where it stands beside the list.
    pub beside: Option<u16>,
    /// Of the height, where it stands below.
    pub below: Option<u16>,
}

/// A step by key, in percent.
const STEP: u16 = 5;
/// Neither side goes away by it: `d` and `z` do that.
const LEAST: u16 = 10;
const MOST: u16 = 90;

/// Columns that a list needs, and a detail beside it.
const COLUMNS: (u16, u16) = (20, 24);
/// Rows of the same, one above the other.
const ROWS: (u16, u16) = (3, 4);

/// What the detail gets of `size`, where it has `usual` unless somebody chose a share.
fn part(size: u16, share: Option<u16>, usual: u16, least: (u16, u16)) -> u16 {
    let Some(share) = share else {
        return usual;
    };
    let part = (u32::from(size) * u32::from(share.clamp(LEAST, MOST)) / 100) as u16;
    let most = size.saturating_sub(least.0);
    if most < least.1 {
        return usual;
    }
    part.clamp(least.1, most)
}

impl Split {
    /// Columns of a detail beside the list.
    pub fn columns(self, width: u16) -> u16 {
        part(width, self.beside, width * 45 / 100, COLUMNS)
    }

    /// Rows of a detail below the list.
    pub fn rows(self, height: u16) -> u16 {
        part(height, self.below, height / 2 + 2, ROWS)
    }

    /// Rows of an entry that is opened in another list.
    pub fn opened(self, height: u16) -> u16 {
        part(height, self.below, height - height / 2, ROWS)
    }
}

/// How the screen is shared now: whether it stands beside, its columns or rows, and of how many.
fn now(app: &App) -> Option<(bool, u16, u16)> {
    if app.zoom {
        return None;
    }
    let all = layout::middle(app.setup.size);
    if app.pane != Pane::Inventory {
        let open = app.cursors.get(&app.pane).is_some_and(|c| c.open);
        let area = layout::opened(app, open);
        return (open && area.height > 0).then_some((false, area.height, all.height));
    }
    let body = layout::body(app);
    let (_, detail) = body.list.zip(body.detail)?;
    Some(if detail.x > 0 {
        (true, detail.width, all.width)
    } else {
        (false, detail.height, all.height)
    })
}

fn set(app: &mut App, beside: bool, share: u16) {
    let share = Some(share.clamp(LEAST, MOST));
    if beside {
        app.split.beside = share;
    } else {
        app.split.below = share;
    }
}

/// `larger`, `smaller`, or a share in percent.
pub fn change(app: &mut App, word: &str) {
    let Some((beside, part, all)) = now(app) else {
        app.say(match (app.zoom, app.pane) {
            (true, _) => "zoomed · z undoes it",
            (false, Pane::Inventory) => "there is one pane on the screen · d opens the detail",
            (false, _) => "Enter opens what is under the cursor",
        });
        return;
    };
    let share = (u32::from(part) * 100 / u32::from(all.max(1))) as u16;
    // In steps of its own, wherever the mouse has left it.
    let share = (share + STEP / 2) / STEP * STEP;
    let to = match word {
        "larger" => share + STEP,
        "smaller" => share.saturating_sub(STEP),
        other => match other.trim_end_matches('%').parse() {
            Ok(share) => share,
            Err(_) => {
                app.say("ui split larger, smaller, or a share in percent");
                return;
            }
        },
    };
    set(app, beside, to);
    let (_, part, all) = now(app).unwrap_or((beside, part, all));
    let share = u32::from(part) * 100 / u32::from(all.max(1));
    app.say(format!("{share} % for the detail"));
}

/// The mouse has pulled the line between them to this place.
pub fn pull(app: &mut App, x: u16, y: u16) {
    let Some((beside, ..)) = now(app) else {
        return;
    };
    let all = layout::middle(app.setup.size);
    let (left, of) = if beside {
        (all.right().saturating_sub(x), all.width)
    } else {
        (all.bottom().saturating_sub(y), all.height)
    };
    let share = u32::from(left) * 100 / u32::from(of.max(1));
    // Rounded up, so that the line stands under the pointer.
    set(app, beside, share as u16 + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_side_vanishes_and_nothing_changes_what_nobody_chose() {
        let chosen = |share| Split {
            beside: Some(share),
            below: Some(share),
        };
        assert_eq!(Split::default().columns(100), 45);
        assert_eq!(chosen(0).columns(100), 24);
        assert_eq!(chosen(99).columns(100), 80);
        assert_eq!(chosen(50).columns(500), 250);
        assert_eq!(chosen(99).rows(20), 17);
        assert_eq!(chosen(0).rows(20), 4);
        assert_eq!(chosen(50).opened(3), 2, "too low to be shared by choice");
        for height in 0..60 {
            for share in 0..100 {
                assert!(chosen(share).opened(height) <= height);
                assert!(chosen(share).opened(height) + u16::from(height > 1) <= height.max(1));
            }
        }
    }
}
