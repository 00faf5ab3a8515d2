//! What happens to the view, and what it asks for. Between them stands only [`super::update`].

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::app::Beside;
use super::input::Input;
use super::look::Look;
use super::presence::{Manners, Notify, Presence};
use super::question::Given;
use crate::action::RunOptions;
use crate::action::by_hand::Opened;
use crate::action::ui_state::{Cut, UiState};
use crate::model::{
    Action, Consent, Data, Error, FleetView, InstanceId, Operation, Plan, Prompt, Sample, Support,
    Task,
};

/// When something happened: milliseconds of a clock that only goes forward, and the time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Milliseconds since the view was opened.
    pub ms: u64,
    /// The time of day.
    pub wall: Timestamp,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Msg {
    /// A key, the mouse, a new size.
    Input(Input),
    /// The fleet as it is now.
    Fleet(Arc<FleetView>, Arc<HashMap<InstanceId, String>>),
    /// corral's tasks as they are now.
    Tasks(Arc<Vec<Task>>),
    /// Tasks of other corral processes as they are now.
    OtherTasks(Arc<Vec<Task>>),
    /// An effect's answer, with the number it was asked under.
    Reply(u64, Reply),
    /// Time has passed that something shown depends on.
    Tick,
    /// What was last decided is on the screen.
    Drawn,
    /// What discovery did not find: what, why, how to get it.
    Absent(Vec<(String, String, String)>),
    /// What the fleet does not tell of contexts.
    Contexts(Beside),
    /// The configuration was loaded again: whether every change is refused, and what is wrong with it now.
    Config(bool, Option<String>),
    /// `[ui]` of the configuration is another one.
    Look(Box<Look>),
    /// The terminal has said whether its background is light.
    Background(bool),
    /// A question from below came, under this number.
    Question(u64, Prompt),
    /// Nobody waits for its answer any more.
    Withdrawn(u64),
    /// A line for the user from outside the loop.
    Notice(String, bool),
    /// Where the view before this one was when its line was cut.
    Returned(Box<Cut>),
}

/// An effect's answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// What a change would do.
    Planned(Result<Box<Plan>, Error>),
    /// A definition is in a file, to be edited.
    Opened(Result<Box<Opened>, Error>),
    /// The editor has ended.
    Edited(Box<Opened>, Result<(), Error>),
    /// A text is in a file: the text, and the file's name.
    Kept(Result<(String, String), Error>),
    /// A change was accepted, as this task.
    Submitted(Result<String, Error>),
    /// What is known so far of a question's answer; the whole follows.
    Part(Box<Data>),
    /// A question's answer.
    Read(Result<Box<Data>, Error>),
    /// A stream ended.
    Ended,
    /// What can be done with an instance.
    Support(Vec<(Operation, Support)>),
    /// Recent readings of an instance's load.
    Samples(Vec<Sample>),
}

/// A text that was typed; what is in it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Typed(pub String);

impl std::fmt::Debug for Typed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Typed({} bytes)", self.0.len())
    }
}

/// Something to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask what a change would do.
    Plan(u64, Action),
    /// Put a definition into a file, to be edited.
    Open(u64, Action),
    /// Give the terminal to the editor until it ends.
    Edit(u64, Box<Opened>),
    /// Put a text that was typed for this argument into a file.
    KeepText(u64, &'static str, Typed),
    /// Nobody needs the file any more that a text was put into.
    ForgetText(String),
    /// Carry a plan out.
    Submit(u64, Box<Plan>, Consent, RunOptions),
    /// Ask a question.
    Read(u64, Action),
    /// Ask each context for itself: what is known comes in parts, then the whole.
    ReadInParts(u64, Action),
    /// Ask a question that goes on being answered.
    Follow(u64, Action),
    /// Stop that.
    Unfollow,
    /// What can be done with these.
    Support(u64, Vec<InstanceId>),
    /// Answer a question from below, or refuse it.
    Answer(u64, Option<Given>),
    /// Ask every context again, or one.
    Refresh(Option<String>),
    /// Recent readings of this instance's load.
    Samples(u64, InstanceId),
    /// Rows on screen: only these are measured.
    Watch(Vec<InstanceId>),
    /// Keep what was changed for the next time.
    Keep(UiState),
    /// Keep a line that was entered for the next time.
    Entered(String),
    /// To the terminal's clipboard.
    Copy(String),
    /// Title and progress, as far as they are wanted.
    Present(Presence, Manners),
    /// Something long has ended: what.
    Ring(String, Notify),
    /// Mouse reports on or off.
    Mouse(bool),
    /// Paint everything anew.
    Repaint,
    /// Give the terminal back and stop, until continued.
    Suspend,
    /// Leave.
    Quit,
}
