//! Where things are on the screen, for drawing and for clicks alike.

use ratatui::layout::Rect;

use super::app::{App, Focus};

/// The body of the inventory.
pub struct Body {
    /// The list, headings included.
    pub list: Option<Rect>,
    /// The detail.
    pub detail: Option<Rect>,
    /// Rows of the list that fit.
    pub rows: usize,
}

/// Lines above the body: the header, and a title where there is room.
pub fn top(height: u16) -> u16 {
    match height {
        0..=2 => 0,
        3..=7 => 1,
        _ => 2,
    }
}

/// Lines below the body: a notice and the hints.
pub fn bottom(height: u16) -> u16 {
    match height {
        0..=1 => 0,
        2..=7 => 1,
        _ => 2,
    }
}

/// The area between.
pub fn middle(size: (u16, u16)) -> Rect {
    let (width, height) = size;
    let (top, bottom) = (top(height), bottom(height));
    Rect::new(0, top, width, height.saturating_sub(top + bottom))
}

/// Lines for column headings.
pub fn headings(height: u16) -> u16 {
    u16::from(height >= 4)
}

/// The inventory's body, with the detail beside or below the list.
pub fn body(app: &App) -> Body {
    let area = middle(app.setup.size);
    let (list, detail) = if !app.detail.open || app.inventory.rows.is_empty() {
        (Some(area), None)
    } else if app.zoom {
        match app.focus {
            Focus::List => (Some(area), None),
            Focus::Detail => (None, Some(area)),
        }
    } else if area.width >= 100 {
        let right = app.split.columns(area.width);
        let left = area.width - right;
        (
            Some(Rect {
                width: left,
                ..area
            }),
            Some(Rect {
                x: left,
                width: right,
                ..area
            }),
        )
    } else if area.height >= 14 {
        let below = app.split.rows(area.height);
        let above = area.height - below;
        (
            Some(Rect {
                height: above,
                ..area
            }),
            Some(Rect {
                y: area.y + above,
                height: below,
                ..area
            }),
        )
    } else {
        match app.focus {
            Focus::List => (Some(area), None),
            Focus::Detail => (None, Some(area)),
        }
    };
    let rows = list.map_or(0, |list| {
        list.height - headings(list.height).min(list.height)
    });
    Body {
        list,
        detail,
        rows: usize::from(rows).max(1),
    }
}

/// Columns for the text of the detail.
pub fn detail_width(app: &App) -> usize {
    let area = body(app).detail;
    area.map_or(40, |area| usize::from(area.width.saturating_sub(3)).max(10))
}

/// Rows for it, below its name and its tabs.
pub fn detail_rows(app: &App) -> usize {
    let area = body(app).detail;
    area.map_or(1, |area| usize::from(area.height.saturating_sub(2)).max(1))
}

/// Rows of another pane's list that fit above what is opened.
pub fn list_rows(app: &App, open: bool) -> usize {
    let area = middle(app.setup.size);
    let height = area.height - opened(app, open).height;
    usize::from(height.saturating_sub(headings(area.height))).max(1)
}

/// Where an entry of another pane's list is shown in full: the lower half, or, zoomed, all but its row.
pub fn opened(app: &App, open: bool) -> Rect {
    let area = middle(app.setup.size);
    let above = match (open, app.zoom) {
        (false, _) => area.height,
        (true, false) => area.height - app.split.opened(area.height),
        (true, true) => (headings(area.height) + 1).min(area.height),
    };
    Rect {
        y: area.y + above,
        height: area.height - above,
        ..area
    }
}
