//! How the view looks and what its keys do, as the configuration has it: read at the start, and again when it changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::app::{App, Overlay};
use super::columns::{self, Chosen};
use super::glyphs::Glyphs;
use super::keymap::{self, Keymap};
use super::msg::Msg;
use super::presence::Manners;
use super::theme::{Depth, Theme};
use super::{Setup, TuiOptions};
use crate::action::Engine;
use crate::config::{self, Loaded};
use crate::model::{ConfigProblem, nearest, shown};

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
    pub columns: BTreeMap<u16, Vec<Chosen>>,
    /// What the terminal around the view is told.
    pub manners: Manners,
    same_settings: bool,
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
        let folder = engine.looks();
        told.extend(told_of(engine));
        let themes = themes(folder, depth);
        let found = themes.iter().find(|theme| theme.name == name).cloned();
        let theme = found
            .or_else(|| Theme::built_in(name, depth))
            .unwrap_or_else(|| Theme::built_in(standard, depth).unwrap_or_else(Theme::plain));
        Self {
            theme,
            usual: ui.theme.as_deref().or(kept).is_none(),
            themes,
            glyphs: Glyphs::choose(&ui.icons, options.locale(), options.var("TERM")),
            keymap: keymap(folder, ui.keymap.as_deref()),
            columns: columns::chosen(&ui.columns),
            manners: Manners::choose(ui.title, ui.progress, ui.notify.as_deref(), &options.vars),
            same_settings: false,
        }
    }

    /// Settings said the same before; only files that they name have changed.
    #[must_use]
    pub fn same_settings(self) -> Self {
        Self {
            same_settings: true,
            ..self
        }
    }

    /// Takes the place of what the view had.
    pub fn put_on(self, setup: &mut Setup) {
        // What was chosen in the view stays until the settings say something else.
        let chosen = self
            .themes
            .iter()
            .find(|theme| theme.name == setup.theme.name);
        if let Some(chosen) = chosen.filter(|_| self.same_settings) {
            setup.theme = chosen.clone();
        } else {
            setup.theme = self.theme;
            setup.usual = self.usual;
        }
        setup.themes = self.themes;
        setup.glyphs = self.glyphs;
        setup.keymap = self.keymap;
        setup.columns = self.columns;
        setup.manners = self.manners;
    }
}

/// Each fault as it is told, with its place.
fn told_of(engine: &Engine) -> Vec<Msg> {
    let Some(folder) = engine.looks() else {
        return Vec::new();
    };
    let faults = faults(folder, &engine.config()).into_iter();
    faults
        .map(|fault| Msg::Notice(told(&fault), true))
        .collect()
}

/// A fault as it is told.
pub fn told(fault: &ConfigProblem) -> String {
    format!("{}: {}", fault.place(), fault.message)
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

/// The keymap of this name, as far as it can be read.
fn keymap(folder: Option<&Path>, name: Option<&str>) -> Keymap {
    let mut map = Keymap::built_in();
    let Some(name) = name.filter(|name| *name != "default") else {
        return map;
    };
    match own_file(folder, KEYMAPS, name) {
        Some((_, Ok(text))) => {
            map.layer(&text);
        }
        Some(_) => {}
        None => {
            if let Some(text) = Keymap::variant(name) {
                map.layer(text);
            }
        }
    }
    map
}

/// Every theme: those of the binary, and the user's own, which take the place of one of the same name.
fn themes(folder: Option<&Path>, depth: Depth) -> Vec<Theme> {
    if depth == Depth::None {
        return vec![Theme::plain()];
    }
    let mut all: Vec<Theme> = Theme::names()
        .filter_map(|name| Theme::built_in(name, depth))
        .collect();
    for name in own_names(folder, THEMES) {
        let Some((_, Ok(text))) = own_file(folder, THEMES, &name) else {
            continue;
        };
        // The file's name is what `ui.theme` says.
        if Theme::faults(&text).is_empty()
            && let Ok(theme) = Theme::read(&text, depth)
        {
            let theme = theme.named(&name);
            match all.iter_mut().find(|known| known.name == name) {
                Some(known) => *known = theme,
                None => all.push(theme),
            }
        }
    }
    all
}

/// Everything that is wrong with how the view looks and with its keys: the names that settings give, every theme and
/// every keymap of the user's, chosen or not.
pub fn faults(folder: &Path, loaded: &Loaded) -> Vec<ConfigProblem> {
    let ui = &loaded.settings.ui;
    let here = Some(folder);
    let mut found = Vec::new();
    let own = own_names(here, KEYMAPS);
    let names: Vec<&str> = std::iter::once("default")
        .chain(keymap::VARIANTS.map(|(name, _)| name))
        .chain(own.iter().map(String::as_str))
        .collect();
    found.extend(nameless(loaded, "keymap", ui.keymap.as_deref(), &names));
    for name in &own {
        let check = |text: &str| {
            let faults = Keymap::built_in().layer(text).into_iter();
            faults.map(|f| (f.at, f.message, f.warning)).collect()
        };
        found.extend(of_file(folder, KEYMAPS, name, &check));
    }
    let own = own_names(here, THEMES);
    let mut names: Vec<&str> = Theme::names().collect();
    names.extend(own.iter().map(String::as_str));
    found.extend(nameless(loaded, "theme", ui.theme.as_deref(), &names));
    for name in &own {
        let check = |text: &str| {
            let faults = Theme::faults(text).into_iter();
            faults.map(|(at, why)| (at, why, false)).collect()
        };
        found.extend(of_file(folder, THEMES, name, &check));
    }
    found
}

/// A setting that names what there is not.
fn nameless(
    loaded: &Loaded,
    what: &str,
    name: Option<&str>,
    known: &[&str],
) -> Option<ConfigProblem> {
    let name = name.filter(|name| !known.contains(name))?;
    let hint = nearest(name, known.iter().copied())
        .map(|near| format!(" Did you mean {near:?}?"))
        .unwrap_or_default();
    let mut known = known.to_vec();
    known.dedup();
    let why = format!(
        "there is no {what} {:?}.{hint} There are {}; your own stand in {what}s/NAME.toml",
        shown(name),
        known.join(", ")
    );
    Some(loaded.fault_of(&format!("ui.{what}"), why))
}

/// Faults in one of the user's files: byte, text, and whether the thing counts nevertheless.
type Found = Vec<(Option<usize>, String, bool)>;

fn of_file(
    folder: &Path,
    kind: &str,
    name: &str,
    check: &dyn Fn(&str) -> Found,
) -> Vec<ConfigProblem> {
    match own_file(Some(folder), kind, name) {
        Some((path, Ok(text))) => check(&text)
            .into_iter()
            .map(|(at, message, warning)| ConfigProblem {
                warning,
                ..config::fault(&path, &text, at, message)
            })
            .collect(),
        Some((path, Err(error))) => vec![config::fault(&path, "", None, error.to_string())],
        None => Vec::new(),
    }
}

const KEYMAPS: &str = "keymaps";
const THEMES: &str = "themes";

/// Names of the files of a folder beside the configuration, in order.
fn own_names(folder: Option<&Path>, kind: &str) -> Vec<String> {
    let entries = folder.and_then(|folder| std::fs::read_dir(folder.join(kind)).ok());
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let name = name.strip_suffix(".toml")?;
            // What an editor leaves beside is nobody's.
            (!name.starts_with('.')).then(|| name.to_owned())
        })
        .collect();
    names.sort();
    names
}

/// A file of the user's configuration folder; a name with a slash in it is none.
fn own_file(
    folder: Option<&Path>,
    kind: &str,
    name: &str,
) -> Option<(PathBuf, std::io::Result<String>)> {
    if name.contains('/') {
        return None;
    }
    let path = folder?.join(kind).join(format!("{name}.toml"));
    let text = path.exists().then(|| std::fs::read_to_string(&path))?;
    Some((path, text))
}
