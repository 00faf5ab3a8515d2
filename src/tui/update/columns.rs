//! Choosing columns: the table behind the list follows at once, Esc brings back what was.

use std::sync::Arc;

use super::super::app::{App, Overlay};
use super::super::columns::{self, Column};
use super::super::input::{Code, Key};
use super::super::layout;
use super::super::msg::Effect;
use super::super::own_columns::{self, ColumnPicker, WIDTHS};
use super::front;

/// Opens the list.
pub(super) fn open(app: &mut App) {
    app.inventory.wide = false;
    app.inventory.skip = 0;
    let width = layout::body(app).list.map_or(80, |area| area.width);
    let picker = ColumnPicker::new(app, width);
    app.overlays.push(Overlay::Columns(Box::new(picker)));
}

/// Keys while the list is open.
pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    app.notice = None;
    let Some(Overlay::Columns(picker)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    let last = picker.rows.len().saturating_sub(1);
    let is_name = picker
        .rows
        .get(picker.row)
        .is_none_or(|(c, ..)| *c == Column::Name);
    match key.code {
        Code::Down | Code::Char('j') => picker.row = (picker.row + 1).min(last),
        Code::Up | Code::Char('k') => picker.row = picker.row.saturating_sub(1),
        Code::Home => picker.row = 0,
        Code::End => picker.row = last,
        Code::Char('s') => sort(app),
        Code::Char('r') => usual(app),
        Code::Enter => {
            app.overlays.pop();
            app.say("these columns are kept for this width");
        }
        Code::Esc | Code::Char('q') => cancel(app),
        _ if is_name => app.say("NAME stands first and takes what is left"),
        Code::Char(' ') => {
            picker.toggle();
            show(app);
            tell_of_room(app);
        }
        Code::Char(c @ ('J' | 'K')) => {
            if picker.move_by(if c == 'J' { 1 } else { -1 }) {
                show(app);
                tell_of_room(app);
            } else {
                app.say("this is the end: NAME stands first");
            }
        }
        Code::Char('+') | Code::Right => size(app, 1),
        Code::Char('-') | Code::Left => size(app, -1),
        _ => app.say("Space shows or hides, J K moves, + - sizes, s sorts, r resets, Enter keeps"),
    }
    Vec::new()
}

/// The table shows what is chosen.
fn show(app: &mut App) {
    let Some(Overlay::Columns(picker)) = app.overlays.last() else {
        return;
    };
    let mut own = (*app.inventory.columns).clone();
    own.insert(picker.class, picker.shown());
    app.inventory.columns = Arc::new(own);
}

/// A column that is shown and has no room is not a key that did nothing.
fn tell_of_room(app: &mut App) {
    let Some(Overlay::Columns(picker)) = app.overlays.last() else {
        return;
    };
    let Some((column, true, _)) = picker.rows.get(picker.row).copied() else {
        return;
    };
    let width = layout::body(app).list.map_or(80, |area| area.width);
    let laid = columns::laid_out(&picker.shown(), width, 0);
    if laid.iter().all(|(c, _)| *c != column) {
        let title = column.title();
        app.say(format!(
            "{title} has no room at this width: K moves it before others"
        ));
    }
}

fn size(app: &mut App, by: i16) {
    let Some(Overlay::Columns(picker)) = app.overlays.last_mut() else {
        return;
    };
    if let Some((_, _, width)) = picker.rows.get_mut(picker.row) {
        *width = width
            .saturating_add_signed(by)
            .clamp(*WIDTHS.start(), *WIDTHS.end());
    }
    show(app);
}

/// By the chosen column; the same again turns it round.
fn sort(app: &mut App) {
    let Some(Overlay::Columns(picker)) = app.overlays.last() else {
        return;
    };
    let Some((column, ..)) = picker.rows.get(picker.row) else {
        return;
    };
    let word = column.sort_word();
    let again = app.inventory.sort == word;
    front::sort_by(app, if again { "reverse" } else { word });
}

/// Those that corral would choose.
fn usual(app: &mut App) {
    let Some(Overlay::Columns(picker)) = app.overlays.last() else {
        return;
    };
    let class = picker.class;
    let mut own = (*app.inventory.columns).clone();
    own.remove(&class);
    app.inventory.columns = Arc::new(own);
    let rows = own_columns::rows(&columns::shown_at(app, class), class);
    if let Some(Overlay::Columns(picker)) = app.overlays.last_mut() {
        picker.rows = rows;
    }
    app.say("the usual columns");
}

/// Closes the list; all is again what it was.
pub(super) fn cancel(app: &mut App) {
    let Some(Overlay::Columns(picker)) = app.overlays.pop() else {
        return;
    };
    let (columns, sort, reverse) = picker.before;
    app.inventory.columns = columns;
    if (&app.inventory.sort, app.inventory.reverse) != (&sort, reverse) {
        app.inventory.sort = sort;
        app.inventory.reverse = reverse;
        front::derive(app);
    }
}
