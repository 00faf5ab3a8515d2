//! What stands where on the screen: noted while it is drawn, so that a click means what is seen.

use ratatui::layout::{Position, Rect};

use super::app::{App, Tab};
use super::view;

/// A part of the screen that means something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Zone {
    /// A command line.
    Run(String),
    /// Keys, as a keymap prints them.
    Press(String),
    /// The list.
    List,
    /// A row of it.
    Row(usize),
    /// The detail.
    Detail,
    /// One of its tabs.
    Tab(Tab),
    /// A line of it that can be under a cursor: of the definition, or a snapshot.
    Line(usize),
    /// An entry that is opened.
    Opened,
    /// Where list and detail, or list and opened entry, meet.
    Divider,
    /// Something that lies over the panes: what is below is not meant.
    Over,
    /// A button of a dialog.
    Button(usize),
    /// A stop of a form.
    Field(usize),
    /// A row of a menu.
    Pick(usize),
}

/// Zones, in the order they were drawn.
pub type Zones = Vec<(Rect, Zone)>;

/// What is seen at a place.
pub fn at(app: &App, x: u16, y: u16) -> Option<Zone> {
    let zones = view::zones(app).into_iter().rev();
    let place = Position::new(x, y);
    zones
        .into_iter()
        .find(|(area, _)| area.contains(place))
        .map(|(_, zone)| zone)
}
