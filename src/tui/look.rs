//! How the view looks and what its keys do, as the configuration has it: read at the start, and again when it changes.

use std::collections::BTreeMap;

use super::app::{App, Overlay};
use super::columns::{self, Column};
use super::glyphs::Glyphs;
use super::keymap::{self, Keymap};
use super::msg::Msg;
use super::presence::Manners;
use super::theme::{Depth, Theme};
use super::{Setup, TuiOptions};
use crate::action::Engine;

/// What `[ui]` decides.
#[derive(Clone, Debug)]
pub struct Look {
    /// Styles.
    pub theme: Theme,
    /// Nobody chose that one.
    pub usual: bool,
    /// Every theme there is, the user's own last.
    pub themes: Vec<Theme>,
    /// Glyphs.
    pub glyphs: Glyphs,
    /// Keys.
    pub keymap: Keymap,
    /// Columns by smallest width, where the user chose any.
    pub columns: BTreeMap<u16, Vec<Column>>,
    /// What the terminal around the view is told.
    pub manners: Manners,
}

impl Look {
    /// From configuration and environment; what is wrong there is told and does no harm.
    pub fn new(
        engine: &Engine,
        options: &TuiOptions,
        kept: Option<&str>,
        told: &mut Vec<Msg>,
    ) -> Self {
        let config = engine.config();
        let ui = &config.settings.ui;
        let depth = options.depth();
        let standard = if options.is_light() { "light" } else { "dark" };
        let name = ui.theme.as_deref().or(kept).unwrap_or(standard);
        let themes = themes(engine, depth, told);
        let found = themes.iter().find(|theme| theme.name == name).cloned();
        let theme = found
            .or_else(|| Theme::built_in(name, depth))
            .unwrap_or_else(|| {
                told.push(Msg::Notice(format!("there is no theme {name:?}"), true));
                Theme::built_in(standard, depth).unwrap_or_else(Theme::plain)
            });
        Self {
            theme,
            usual: ui.theme.as_deref().or(kept).is_none(),
            themes,
            glyphs: Glyphs::choose(&ui.icons, options.locale(), options.var("TERM")),
            keymap: keymap(engine, ui.keymap.as_deref(), told),
            columns: columns::chosen(&ui.columns),
            manners: Manners::choose(ui.title, ui.progress, ui.notify.as_deref(), &options.vars),
        }
    }

    /// Takes the place of what the view had.
    pub fn put_on(self, setup: &mut Setup) {
        setup.theme = self.theme;
        setup.usual = self.usual;
        setup.themes = self.themes;
        setup.glyphs = self.glyphs;
        setup.keymap = self.keymap;
        setup.columns = self.columns;
        setup.manners = self.manners;
    }
}

/// Where nobody chose a theme the terminal's background does.
pub fn follow_background(app: &mut App) {
    let setup = &mut app.setup;
    let Some(light) = setup
        .light
        .filter(|_| setup.usual && setup.kept.theme.is_none())
    else {
        return;
    };
    let looked_through = |overlay: &Overlay| matches!(overlay, Overlay::Themes(_));
    if app.overlays.iter().any(looked_through) {
        return;
    }
    let name = if light { "light" } else { "dark" };
    if let Some(theme) = setup.themes.iter().find(|theme| theme.name == name) {
        setup.theme = theme.clone();
    }
}

/// The keymap of this name. Every fault in the user's own is told; the rest counts.
fn keymap(engine: &Engine, name: Option<&str>, told: &mut Vec<Msg>) -> Keymap {
    let mut map = Keymap::built_in();
    let Some(name) = name.filter(|name| *name != "default") else {
        return map;
    };
    let own = own_file(engine, "keymaps", name);
    if let (None, Some(text)) = (&own, Keymap::variant(name)) {
        map.layer(text, name);
        return map;
    }
    match own {
        Some(Ok(text)) => {
            let faults = map.layer(&text, name);
            if let Some(first) = faults.first() {
                let more = match faults.len() {
                    1 => String::new(),
                    n => format!(" (and {} more)", n - 1),
                };
                told.push(Msg::Notice(format!("{}{more}", first.message), true));
            }
        }
        Some(Err(error)) => told.push(Msg::Notice(format!("keymap {name}: {error}"), true)),
        None => {
            let text = format!(
                "there is no keymap {name:?}; there are default, {}",
                keymap::VARIANTS.map(|(name, _)| name).join(", ")
            );
            told.push(Msg::Notice(text, true));
        }
    }
    map
}

/// Every theme: those of the binary, and the user's own, which take the place of one of the same name.
fn themes(engine: &Engine, depth: Depth, told: &mut Vec<Msg>) -> Vec<Theme> {
    if depth == Depth::None {
        return vec![Theme::plain()];
    }
    let mut all: Vec<Theme> = Theme::names()
        .filter_map(|name| Theme::built_in(name, depth))
        .collect();
    for name in own_names(engine, "themes") {
        let read = match own_file(engine, "themes", &name) {
            Some(Ok(text)) => Theme::read(&text, depth).map_err(|e| e.message),
            Some(Err(error)) => Err(error.to_string()),
            None => continue,
        };
        match read {
            // The file's name is what `ui.theme` says.
            Ok(theme) => {
                let theme = theme.named(&name);
                match all.iter_mut().find(|known| known.name == name) {
                    Some(known) => *known = theme,
                    None => all.push(theme),
                }
            }
            Err(why) => told.push(Msg::Notice(format!("theme {name}: {why}"), true)),
        }
    }
    all
}

/// Names of the files of a folder beside the configuration, in order.
fn own_names(engine: &Engine, folder: &str) -> Vec<String> {
    if engine.is_in_memory() {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir(engine.env().dirs.config.join(folder)) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_suffix(".toml")?.to_owned())
        })
        .collect();
    names.sort();
    names
}

/// A file of the user's configuration folder; a name with a slash in it is none.
fn own_file(engine: &Engine, folder: &str, name: &str) -> Option<std::io::Result<String>> {
    if engine.is_in_memory() || name.contains('/') {
        return None;
    }
    let path = engine
        .env()
        .dirs
        .config
        .join(folder)
        .join(format!("{name}.toml"));
    path.exists().then(|| std::fs::read_to_string(path))
}
