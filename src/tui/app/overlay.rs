//! What lies over the panes.

use crate::model::{Operation, Support};
use crate::tui::completion::Fault;
use crate::tui::dialog::{Dialog, Guard, QuitDialog};
use crate::tui::edit::Line;
use crate::tui::filter_line::FilterLine;
use crate::tui::form::Form;
use crate::tui::own_columns::ColumnPicker;
use crate::tui::question::Question;
use crate::tui::saved::ViewMenu;
use crate::tui::search::Search;
use crate::tui::since::Aim;
use crate::tui::theme::Theme;

/// The command line.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    /// What is typed.
    pub line: Line,
    /// Chosen row of the palette.
    pub chosen: Option<usize>,
    /// What is wrong with what was entered.
    pub error: Option<String>,
    /// What is wrong with what is typed, before it is entered.
    pub fault: Option<Fault>,
    /// What it was opened for.
    pub aim: Aim,
    /// What was typed before going through earlier lines, and the place among them.
    pub recalled: Option<(String, usize)>,
    /// Earlier lines are offered that have what is typed in them; what was typed before that.
    pub search: Option<String>,
}

/// All actions for some instances.
#[derive(Clone, Debug)]
pub struct Actions {
    /// For whom.
    pub title: String,
    /// The number under which support was asked.
    pub asked: u64,
    /// Operation by operation, once known.
    pub support: Option<Vec<(Operation, Support)>>,
    /// Chosen row, of those that are shown.
    pub row: usize,
    /// Only those that have this in them.
    pub search: Option<Line>,
    /// What they were opened for.
    pub aim: Aim,
}

/// The list of themes.
#[derive(Clone, Debug)]
pub struct ThemePicker {
    /// Chosen row.
    pub row: usize,
    /// What it was, for Esc.
    pub before: Theme,
}

/// What lies over the panes.
#[derive(Clone, Debug)]
pub enum Overlay {
    /// A confirmation.
    Dialog(Box<Dialog>),
    /// Leave?
    Quit(QuitDialog),
    /// Arguments of a command.
    Form(Box<Form>),
    /// The command line.
    Command(CommandLine),
    /// The filter while it is typed.
    Filter(Box<FilterLine>),
    /// What a text is searched for, and what was before.
    Search(Line, Option<Search>),
    /// Keys valid here; lines scrolled away.
    Help(usize),
    /// All actions.
    Actions(Actions),
    /// A question from below.
    Question(Box<Question>),
    /// All themes.
    Themes(ThemePicker),
    /// All columns.
    Columns(Box<ColumnPicker>),
    /// Views under a name.
    Views(ViewMenu),
}

impl Overlay {
    /// When its keys begin to count, where that matters.
    pub fn guard(&self) -> Option<&Guard> {
        match self {
            Self::Dialog(dialog) => Some(&dialog.guard),
            Self::Quit(quit) => Some(&quit.guard),
            Self::Question(question) => Some(&question.guard),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn guard_mut(&mut self) -> Option<&mut Guard> {
        match self {
            Self::Dialog(dialog) => Some(&mut dialog.guard),
            Self::Quit(quit) => Some(&mut quit.guard),
            Self::Question(question) => Some(&mut question.guard),
            _ => None,
        }
    }
}
