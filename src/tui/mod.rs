//! The full-screen view.
//!
//! `update` takes a message and gives effects, `view` draws; both are pure. `run` owns the terminal
//! and the one loop. A key is bound to a command line ([`keymap`]), which is read by the same
//! grammar as argv ([`command`]) and becomes an action of the engine.

pub mod answer;
pub mod app;
pub mod background;
pub mod columns;
pub mod command;
pub mod completion;
pub mod cut;
pub mod dialog;
pub mod edit;
mod effects;
mod events;
pub mod filter_line;
pub mod fold;
pub mod form;
pub mod gaps;
pub mod glyphs;
pub mod groups;
pub mod input;
pub mod inventory;
pub mod keymap;
pub mod layout;
pub mod listing;
pub mod look;
pub mod msg;
pub mod names;
pub mod native;
pub mod own_columns;
pub mod palette;
pub mod places;
pub mod presence;
pub mod prose;
pub mod question;
pub mod reading;
pub mod remember;
mod run;
pub mod saved;
pub mod search;
pub mod secret;
pub mod since;
pub mod split;
pub mod terminal;
pub mod text;
pub mod theme;
pub mod tree;
pub mod typed;
pub mod update;
pub mod view;
pub mod zone;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Arc;

use jiff::Timestamp;

use app::{App, Setup};
use input::{Input, Key};
use look::Look;
use msg::{At, Msg};
use theme::Depth;

pub use run::Ended;

use crate::action::Engine;
use crate::action::render::has_colours;
use crate::model::{Error, Result, counted};

/// What the view is told besides the engine.
#[derive(Clone, Debug, Default)]
pub struct TuiOptions {
    /// The environment: `TERM`, `NO_COLOR`, `COLORTERM`, `LANG` and their like.
    pub vars: BTreeMap<String, String>,
    /// A simulated fleet.
    pub demo: bool,
    /// Every change is refused.
    pub readonly: bool,
    /// Words of `corral ui …`: carried out first.
    pub words: Vec<String>,
}

impl TuiOptions {
    /// With this process's environment.
    pub fn from_env() -> Self {
        Self {
            vars: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            ..Self::default()
        }
    }

    fn var(&self, name: &str) -> &str {
        self.vars.get(name).map_or("", String::as_str)
    }

    /// How many colours the terminal shows. An unknown `TERM` is taken for a plain one.
    pub fn depth(&self) -> Depth {
        let term = self.var("TERM");
        let known = has_colours(term);
        if !self.var("NO_COLOR").is_empty() || known == Some(false) {
            return Depth::None;
        }
        if matches!(self.var("COLORTERM"), "truecolor" | "24bit") || term.contains("direct") {
            return Depth::Full;
        }
        known.map_or(Depth::None, |_| Depth::Sixteen)
    }

    fn locale(&self) -> &str {
        ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .map(|name| self.var(name))
            .find(|value| !value.is_empty())
            .unwrap_or("")
    }

    /// Nobody has said what the background is, and the terminal may know.
    fn asks_background(&self) -> bool {
        self.depth() != Depth::None
            && self.var("COLORFGBG").is_empty()
            && self.var("TERM") != "linux"
    }

    /// `COLORFGBG` is what says that a terminal is light, where anything does.
    fn is_light(&self) -> bool {
        let background = self.var("COLORFGBG").rsplit(';').next().unwrap_or("");
        matches!(background, "7" | "15")
    }
}

/// Opens the full-screen view and stays until it is left. The terminal is given back as it was.
///
/// # Errors
/// `Invalid` when there is no terminal.
pub async fn run(engine: Arc<Engine>, options: TuiOptions) -> Result<Ended> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Error::invalid("the full-screen view needs a terminal")
            .remedy("corral list, or corral --headless"));
    }
    let mut first = Vec::new();
    let setup = setup(&engine, &options, terminal::Terminal::size(), &mut first);
    let at = At {
        ms: 0,
        wall: Timestamp::now(),
    };
    let app = App::new(setup, at);
    if !options.words.is_empty() {
        first.push(Msg::Input(Input::Key(Key::char(':'))));
        let line = options
            .words
            .iter()
            .map(|w| crate::action::grammar::quote(w));
        let line = format!("ui {}", line.collect::<Vec<_>>().join(" "));
        first.push(Msg::Input(Input::Paste(line)));
        first.push(Msg::Input(Input::Key(Key::plain(input::Code::Enter))));
    }
    run::run(engine, app, first, options).await
}

/// From configuration and environment; what is wrong there is told as a message and does no harm.
pub fn setup(
    engine: &Engine,
    options: &TuiOptions,
    size: (u16, u16),
    told: &mut Vec<Msg>,
) -> Setup {
    let config = engine.config();
    let ui = &config.settings.ui;
    let (kept, fault) = engine.ui().load();
    if let Some(fault) = fault {
        told.push(Msg::Notice(fault.message, true));
    }
    let look = Look::new(engine, options, kept.theme.as_deref(), told);
    let readonly = options.readonly || engine.readonly().is_some();
    let errors = config.problems.iter().filter(|p| !p.warning).count();
    if errors > 0 {
        let text = format!(
            "{} in the configuration: g d shows it",
            counted(errors, "fault")
        );
        told.push(Msg::Config(readonly, Some(text)));
    }
    Setup {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        size,
        theme: look.theme,
        usual: look.usual,
        light: None,
        themes: look.themes,
        glyphs: look.glyphs,
        keymap: look.keymap,
        absent: Vec::new(),
        beside: app::Beside::of(engine),
        readonly,
        columns: look.columns,
        sort: ui
            .sort_at(size.0)
            .or(kept.sort.as_deref().filter(|sort| columns::sorts(sort)))
            .map(str::to_owned),
        mouse: ui.mouse.or(kept.mouse).unwrap_or(false),
        manners: look.manners,
        kept,
        entered: engine.entered().load(),
        demo: options.demo,
    }
}
