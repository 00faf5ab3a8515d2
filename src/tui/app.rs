//! Everything that is shown, as data.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::columns::Column;
use super::completion::Fault;
use super::dialog::{Dialog, Guard, QuitDialog};
use super::edit::Line;
use super::filter_line::FilterLine;
use super::form::Form;
use super::glyphs::Glyphs;
use super::groups::Grouping;
use super::input::Key;
use super::inventory::Inventory;
use super::keymap::Keymap;
use super::msg::At;
use super::own_columns::{self, ColumnPicker};
use super::places::Place;
use super::presence::{Manners, Presence};
use super::question::Question;
use super::reading::Readings;
use super::saved::ViewMenu;
use super::search::Search;
use super::since::Aim;
use super::split::Split;
use super::theme::{Role, Theme};
use crate::action::ui_state::{SavedView, UiState};
use crate::action::{Engine, Output, RunOptions, contexts};
use crate::model::{
    Action, Consent, Data, Detail, Error, FleetView, Instance, InstanceId, Operation, Sample,
    Support, Task,
};

/// A pane that fills the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pane {
    /// Instances.
    Inventory,
    /// What corral does now.
    Tasks,
    /// What corral changed.
    History,
    /// Checks.
    Doctor,
    /// Contexts.
    Contexts,
    /// What is wrong.
    Problems,
    /// What can be done where.
    Support,
    /// Hosts and their loads.
    Hosts,
    /// Where disks are kept, and networks.
    Places,
    /// Images to make instances from.
    Images,
    /// Snapshots of several instances.
    Snapshots,
    /// What was told.
    Notices,
    /// The answer to a question of the command line.
    Answer,
}

impl Pane {
    /// Word of `ui go`, and heading.
    pub const NAMES: [(&'static str, Self, &'static str); 13] = [
        ("inventory", Self::Inventory, "Inventory"),
        ("tasks", Self::Tasks, "Tasks"),
        ("history", Self::History, "History"),
        ("doctor", Self::Doctor, "Doctor"),
        ("contexts", Self::Contexts, "Contexts"),
        ("problems", Self::Problems, "Problems"),
        ("support", Self::Support, "Support"),
        ("hosts", Self::Hosts, "Hosts"),
        ("places", Self::Places, "Storage & Networks"),
        ("images", Self::Images, "Images"),
        ("snapshots", Self::Snapshots, "Snapshots"),
        ("notices", Self::Notices, "Notices"),
        ("answer", Self::Answer, "Answer"),
    ];

    /// The word, which is also its section in a keymap.
    pub fn word(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, pane, _)| *pane == self)
            .map_or("", |(word, _, _)| word)
    }

    /// The heading.
    pub fn title(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, pane, _)| *pane == self)
            .map_or("", |(_, _, title)| title)
    }
}

/// Where keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The list.
    List,
    /// The detail beside it.
    Detail,
}

/// A tab of the detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    /// What it is and how it is.
    Summary,
    /// Snapshots as a tree.
    Snapshots,
    /// Disks and network interfaces.
    Devices,
    /// What its backend reported.
    Events,
    /// Its load over the last minutes.
    Metrics,
    /// Its definition.
    Native,
}

impl Tab {
    /// In order.
    pub const ALL: [Self; 6] = [
        Self::Summary,
        Self::Snapshots,
        Self::Devices,
        Self::Events,
        Self::Metrics,
        Self::Native,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Summary => "Summary",
            Self::Snapshots => "Snapshots",
            Self::Devices => "Disks & NICs",
            Self::Events => "Events",
            Self::Metrics => "Metrics",
            Self::Native => "Native",
        }
    }
}

/// Something that is fetched.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The number it was last asked under, while that is open.
    pub asked: Option<u64>,
    /// What came, the last time something came.
    pub value: Option<T>,
    /// That is only what came first; the whole is still to come.
    pub part: bool,
    /// Why nothing came, the last time.
    pub error: Option<Error>,
}

impl<T> Default for Loaded<T> {
    fn default() -> Self {
        Self {
            asked: None,
            value: None,
            part: false,
            error: None,
        }
    }
}

/// The detail pane.
#[derive(Clone, Debug)]
pub struct DetailPane {
    /// Shown beside the list.
    pub open: bool,
    /// Which tab.
    pub tab: Tab,
    /// Lines scrolled away.
    pub scroll: usize,
    /// The snapshot under the cursor.
    pub snapshot: usize,
    /// The line of the definition under the cursor.
    pub line: usize,
    /// Lines of the definition that are shown without what they hold.
    pub folded: BTreeSet<usize>,
    /// Secrets of the definition are shown.
    pub secrets: bool,
    /// What is shown, whose identity the first is.
    pub detail: Loaded<(String, Box<Detail>)>,
    /// Whose detail is being asked for, or was.
    pub of: Option<String>,
    /// Events of the same instance.
    pub events: Loaded<Box<Data>>,
    /// Recent readings of its load, and the number they were last asked under, while that is open.
    pub samples: Vec<Sample>,
    /// As said.
    pub sampled: Option<u64>,
    /// The row for which they were asked: it changes with each reading.
    pub sampled_for: Option<(InstanceId, Timestamp)>,
    /// The row as it was when the detail was asked for.
    pub row: Option<Arc<Instance>>,
}

/// A cursor in a list, which stays on the same thing when the list changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Key of the thing.
    pub key: Option<String>,
    /// Its row.
    pub row: usize,
    /// First row on screen.
    pub top: usize,
    /// The thing is shown in full.
    pub open: bool,
    /// First line of that on screen; `None` until it was scrolled.
    pub scroll: Option<usize>,
}

/// An answer to show.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The question.
    pub title: String,
    /// Lines.
    pub lines: Vec<String>,
    /// More may come, under this number.
    pub follows: Option<u64>,
    /// How it is wanted.
    pub output: Output,
}

/// Lines kept of an answer that goes on: what a person scrolls back through.
pub const ANSWER_LINES: usize = 2000;

/// A line at the bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The text.
    pub text: String,
    /// What it is.
    pub role: Role,
    /// When it came, milliseconds.
    pub at: u64,
}

/// A notice that can be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which it is since the start.
    pub number: u64,
    /// When.
    pub at: Timestamp,
    /// The text, whole.
    pub text: String,
    /// What it is.
    pub role: Role,
}

/// Notices that can be read again.
const TOLD: usize = 200;

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
    /// Chosen row.
    pub row: usize,
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

/// A plan that was asked for.
#[derive(Clone, Debug)]
pub struct Planning {
    /// Under which number.
    pub request: u64,
    /// The action.
    pub action: Action,
    /// How it would be run.
    pub run: RunOptions,
    /// What the user already said.
    pub consent: Consent,
    /// IDs that were marked but hidden.
    pub hidden: Vec<String>,
    /// The hidden ones are included.
    pub included: bool,
    /// Why it is asked again.
    pub note: Option<String>,
}

/// A change that was asked for and is not a task yet.
#[derive(Clone, Debug)]
pub struct Submitting {
    /// Under which number.
    pub request: u64,
    /// What it came from, to plan again after a conflict.
    pub planning: Planning,
    /// Its verb.
    pub verb: String,
    /// The instances it would change.
    pub ids: Vec<InstanceId>,
}

/// What the fleet does not tell of contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Those of the configuration that are disabled: names and kinds.
    pub disabled: Vec<(String, String)>,
    /// The one in which something new is made when none is named.
    pub default: Option<String>,
}

impl Beside {
    /// As it is now.
    pub fn of(engine: &Engine) -> Self {
        Self {
            disabled: contexts::disabled(engine),
            default: contexts::default_name(engine),
        }
    }
}

/// What the view is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// corral's version.
    pub version: String,
    /// Columns and rows.
    pub size: (u16, u16),
    /// Styles.
    pub theme: Theme,
    /// Nobody chose that one.
    pub usual: bool,
    /// The terminal's background is light, where it said so.
    pub light: Option<bool>,
    /// Every theme there is, the user's own last.
    pub themes: Vec<Theme>,
    /// Glyphs.
    pub glyphs: Glyphs,
    /// Keys.
    pub keymap: Keymap,
    /// What discovery did not find: what, why, how to get it.
    pub absent: Vec<(String, String, String)>,
    /// What the fleet does not tell of contexts.
    pub beside: Beside,
    /// Every change is refused, and why.
    pub readonly: bool,
    /// Columns by smallest width, where the user chose any.
    pub columns: BTreeMap<u16, Vec<Column>>,
    /// Sort column, a leading `-` turns it round.
    pub sort: Option<String>,
    /// Mouse reports are on.
    pub mouse: bool,
    /// What was changed in earlier views.
    pub kept: UiState,
    /// What was entered in earlier views, the newest last.
    pub entered: Vec<String>,
    /// A simulated fleet.
    pub demo: bool,
    /// What the terminal is told besides the screen.
    pub manners: Manners,
}

/// Everything that is shown.
#[derive(Clone, Debug)]
pub struct App {
    /// As it was started.
    pub setup: Setup,
    /// The time of day, as far as it is shown.
    pub now: Timestamp,
    /// Milliseconds since the start.
    pub ms: u64,
    /// The fleet.
    pub fleet: Arc<FleetView>,
    /// What the engine has under way.
    pub pending: Arc<HashMap<InstanceId, String>>,
    /// What was asked for and is not a task yet.
    pub submitting: Vec<Submitting>,
    /// Tasks of this corral.
    pub tasks: Arc<Vec<Task>>,
    /// Those of other corral processes of this user.
    pub other_tasks: Arc<Vec<Task>>,
    /// The inventory.
    pub inventory: Inventory,
    /// The detail pane.
    pub detail: DetailPane,
    /// The pane in the body.
    pub pane: Pane,
    /// Places before it.
    pub back: Vec<Place>,
    /// Places after it.
    pub forward: Vec<Place>,
    /// Where keys go.
    pub focus: Focus,
    /// Only the pane with the focus.
    pub zoom: bool,
    /// What lies over the panes; the last is on top.
    pub overlays: Vec<Overlay>,
    /// Questions from below that wait.
    pub questions: VecDeque<Question>,
    /// Keys of a sequence so far.
    pub keys: Vec<Key>,
    /// What the sequence was begun for.
    pub aim: Aim,
    /// The line at the bottom.
    pub notice: Option<Notice>,
    /// What was told before: what ended, what failed, what came by itself.
    pub notices: VecDeque<Told>,
    /// What that line said of a fault in the configuration, while there is one.
    pub config_notice: Option<Notice>,
    /// Numbers given out.
    pub requests: u64,
    /// The plan that is being made.
    pub planning: Option<Planning>,
    /// Cursors by pane.
    pub cursors: BTreeMap<Pane, Cursor>,
    /// What panes were made of.
    pub readings: Readings,
    /// What the text on the screen was searched for.
    pub search: Option<Search>,
    /// The last question's answer.
    pub answer: Answer,
    /// Questions of the command line that are open: number, text, and how the answer is wanted.
    pub asked: Vec<(u64, String, Output)>,
    /// Lines entered before.
    pub entered: Vec<String>,
    /// Filters entered before.
    pub filters: Arc<Vec<String>>,
    /// Views under a name.
    pub views: Arc<Vec<SavedView>>,
    /// Ctrl-C was pressed at this moment.
    pub interrupt: Option<u64>,
    /// Mouse reports are on.
    pub mouse: bool,
    /// Where and when the last click was, for the second of two.
    pub clicked: Option<(u64, u16, u16)>,
    /// The line between list and detail is being pulled.
    pub dragging: bool,
    /// How list and detail share the screen.
    pub split: Split,
    /// Instances whose load was asked to be measured.
    pub watched: Vec<InstanceId>,
    /// What the terminal was last told besides the screen.
    pub presence: Presence,
    /// Leaving; nothing more is done.
    pub leaving: bool,
}

impl App {
    /// A view of nothing yet.
    pub fn new(setup: Setup, at: At) -> Self {
        let mut inventory = Inventory::default();
        if let Some(sort) = &setup.sort {
            inventory.reverse = sort.starts_with('-');
            sort.trim_start_matches('-').clone_into(&mut inventory.sort);
        }
        let mut own = own_columns::read(setup.kept.columns.as_ref().unwrap_or(&BTreeMap::new()));
        // What the configuration says of a width is so.
        own.retain(|class, _| setup.columns.range(..=class).next().is_none());
        inventory.columns = Arc::new(own);
        inventory.grouping = Grouping::read(setup.kept.group.as_deref().unwrap_or_default());
        Self {
            mouse: setup.mouse,
            now: at.wall,
            ms: at.ms,
            fleet: Arc::default(),
            pending: Arc::default(),
            submitting: Vec::new(),
            tasks: Arc::default(),
            other_tasks: Arc::default(),
            inventory,
            detail: DetailPane {
                open: setup.kept.detail.unwrap_or(false),
                tab: Tab::Summary,
                scroll: 0,
                snapshot: 0,
                line: 0,
                folded: BTreeSet::new(),
                secrets: false,
                detail: Loaded::default(),
                of: None,
                events: Loaded::default(),
                samples: Vec::new(),
                sampled: None,
                sampled_for: None,
                row: None,
            },
            pane: Pane::Inventory,
            back: Vec::new(),
            forward: Vec::new(),
            focus: Focus::List,
            zoom: false,
            overlays: Vec::new(),
            questions: VecDeque::new(),
            keys: Vec::new(),
            aim: Aim::default(),
            notice: None,
            notices: VecDeque::new(),
            config_notice: None,
            requests: 0,
            planning: None,
            cursors: BTreeMap::new(),
            readings: Readings::default(),
            search: None,
            answer: Answer::default(),
            asked: Vec::new(),
            filters: Arc::new(setup.kept.filters.clone()),
            entered: setup.entered.clone(),
            views: Arc::new(setup.kept.views.clone().unwrap_or_default()),
            interrupt: None,
            watched: Vec::new(),
            clicked: None,
            dragging: false,
            split: Split {
                beside: setup.kept.beside,
                below: setup.kept.below,
            },
            presence: Presence::default(),
            leaving: false,
            setup,
        }
    }

    /// A number for a request.
    pub fn number(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Says something at the bottom.
    pub fn say(&mut self, text: impl Into<String>) {
        self.note(text.into(), Role::Text);
    }

    /// Says that something is wrong.
    pub fn complain(&mut self, error: &Error) {
        let text = match &error.remedy {
            Some(remedy) => format!("{}: {} · {remedy}", error.label(), error.message),
            None => format!("{}: {}", error.label(), error.message),
        };
        self.note(text, Role::Error);
    }

    /// Keeps the line at the bottom, to be read again.
    pub(super) fn keep_notice(&mut self) {
        let Some(notice) = &self.notice else {
            return;
        };
        let number = self.notices.back().map_or(0, |told| told.number) + 1;
        self.notices.push_back(Told {
            number,
            at: self.now,
            text: notice.text.clone(),
            role: notice.role,
        });
        while self.notices.len() > TOLD {
            self.notices.pop_front();
        }
    }

    fn note(&mut self, text: String, role: Role) {
        self.notice = Some(Notice {
            text,
            role,
            at: self.ms,
        });
    }

    /// The verb that is under way on an instance, if one is.
    pub fn pending_on(&self, id: &InstanceId) -> Option<&str> {
        self.pending.get(id).map(String::as_str).or_else(|| {
            self.submitting
                .iter()
                .find(|s| s.ids.contains(id))
                .map(|s| s.verb.as_str())
        })
    }

    /// Keymap sections that hold now, the nearest first.
    pub fn sections(&self) -> Vec<&'static str> {
        match (self.pane, self.focus) {
            (Pane::Inventory, Focus::Detail) if self.detail.tab == Tab::Snapshots => {
                vec!["snapshots", "detail", "everywhere"]
            }
            (Pane::Inventory, Focus::Detail) if self.detail.tab == Tab::Native => {
                vec!["native", "detail", "everywhere"]
            }
            (Pane::Inventory, Focus::Detail) => vec!["detail", "everywhere"],
            (pane, _) => vec![pane.word(), "list", "everywhere"],
        }
    }

    /// The detail of the instance under the cursor, once it is there.
    pub fn current_detail(&self) -> Option<&Detail> {
        let row = self.inventory.selected()?;
        let (of, detail) = self.detail.detail.value.as_ref()?;
        (*of == row.identity()).then_some(detail)
    }

    /// Tasks of every corral, the newest first.
    pub fn all_tasks(&self) -> Vec<&Task> {
        let mut all: Vec<&Task> = self.tasks.iter().chain(self.other_tasks.iter()).collect();
        all.sort_by(|a, b| b.id.cmp(&a.id));
        all
    }

    /// Tasks of this corral that have not ended: what leaving would have to wait for.
    pub fn running_tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| !task.state.is_final())
    }
}
