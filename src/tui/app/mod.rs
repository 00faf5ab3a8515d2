//! Everything that is shown, as data.

mod overlay;
mod pane;

pub use overlay::{Actions, CommandLine, Overlay, ThemePicker};
pub use pane::{ANSWER_LINES, Answer, Cursor, DetailPane, Focus, Loaded, Pane, Tab};

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::columns::Chosen;
use super::glyphs::Glyphs;
use super::groups::Grouping;
use super::input::Key;
use super::inventory::Inventory;
use super::keymap::Keymap;
use super::msg::At;
use super::own_columns::{self};
use super::places::Place;
use super::presence::{Manners, Presence};
use super::question::Question;
use super::reading::Readings;
use super::search::Search;
use super::since::Aim;
use super::split::Split;
use super::theme::{Role, Theme};
use crate::action::grammar::reaching;
use crate::action::ui_state::{SavedView, UiState};
use crate::action::{Engine, Output, RunOptions, contexts};
use crate::model::{Action, Consent, Detail, Error, FleetView, InstanceId, Task};

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

/// The instance under the cursor is gone; the cursor stands on its neighbour since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slid {
    /// What the cursor was on.
    pub from: InstanceId,
    /// Since when.
    pub at: u64,
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
    /// The task it became, until that is among the tasks.
    pub task: Option<String>,
}

/// What the fleet does not tell of contexts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Those of the configuration that are disabled: names and kinds.
    pub disabled: Vec<(String, String)>,
    /// The one in which something new is made when none is named.
    pub default: Option<String>,
    /// The flag that a command in a shell needs to reach this fleet.
    pub flag: String,
}

impl Beside {
    /// As it is now.
    pub fn of(engine: &Engine) -> Self {
        Self {
            disabled: contexts::disabled(engine),
            default: contexts::default_name(engine),
            flag: engine.flag().to_owned(),
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
    pub columns: BTreeMap<u16, Vec<Chosen>>,
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
    /// The cursor has slid from an instance that is gone.
    pub slid: Option<Slid>,
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
    /// Files with a text that was typed here, which no task has yet.
    pub typed: Vec<String>,
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
            slid: None,
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
            typed: Vec::new(),
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
        let text = self.in_shell(&text);
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

    /// Commands in a text, as a shell has to be given them.
    pub fn in_shell(&self, text: &str) -> String {
        reaching(&self.setup.beside.flag, text)
    }

    /// Whether leaving would have to wait for something.
    pub fn busy(&self) -> bool {
        !self.submitting.is_empty() || self.running_tasks().next().is_some()
    }

    /// Tasks of this corral that have not ended.
    pub fn running_tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| !task.state.is_final())
    }
}
