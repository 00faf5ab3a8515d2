//! Roles to styles, from TOML. Colour is never the only sign of anything.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;

use crate::model::{Error, Result};

/// A theme of the binary: its name and its file.
macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../themes/", $name, ".toml")))),*]
    };
}

const BUILT_IN: &[(&str, &str)] = built_in![
    "dark",
    "light",
    "contrast",
    "contrast-light",
    "terminal",
    "sixteen",
    "mono",
    "catppuccin-mocha",
    "catppuccin-latte",
    "dracula",
    "gruvbox",
    "nord",
    "solarized-dark",
    "solarized-light",
];

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Plain.
    Text,
    /// Less important.
    Muted,
    /// A heading.
    Title,
    /// Good.
    Ok,
    /// Look at it.
    Warn,
    /// Broken.
    Error,
    /// Under way.
    Busy,
    /// Keys and names of things.
    Accent,
    /// Lines.
    Rule,
    /// Under the cursor.
    Selected,
    /// Marked.
    Mark,
    /// Something is lost.
    Danger,
    /// A button without the focus.
    Button,
}

/// Every role.
pub const ROLES: [Role; 13] = [
    Role::Text,
    Role::Muted,
    Role::Title,
    Role::Ok,
    Role::Warn,
    Role::Error,
    Role::Busy,
    Role::Accent,
    Role::Rule,
    Role::Selected,
    Role::Mark,
    Role::Danger,
    Role::Button,
];

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Look {
    fg: Option<String>,
    bg: Option<String>,
    ansi: Option<String>,
    bold: bool,
    reverse: bool,
    underline: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    background: Option<String>,
    roles: BTreeMap<Role, Look>,
}

/// How many colours there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// None.
    None,
    /// The terminal's own sixteen.
    Sixteen,
    /// 24 bits.
    Full,
}

/// Styles by role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Theme {
    /// Its name.
    pub name: String,
    styles: BTreeMap<Role, Style>,
}

impl Theme {
    /// Names of the themes in the binary.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A theme of the binary; without colours it is always `mono`.
    pub fn built_in(name: &str, depth: Depth) -> Option<Self> {
        let wanted = if depth == Depth::None { "mono" } else { name };
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == wanted)?;
        Self::read(text, depth).ok()
    }

    /// Nothing but the terminal's own colours.
    pub fn plain() -> Self {
        Self::built_in("mono", Depth::None).unwrap_or(Self {
            name: "plain".to_owned(),
            styles: BTreeMap::new(),
        })
    }

    /// Reads a theme file.
    pub fn read(text: &str, depth: Depth) -> Result<Self> {
        let file: File =
            toml::from_str(text).map_err(|e| Error::invalid(format!("theme: {}", e.message())))?;
        let base = Style::new();
        let base = match (&file.background, depth) {
            (Some(background), Depth::Full) => base.bg(color(background)?),
            _ => base,
        };
        let mut styles = BTreeMap::new();
        for role in ROLES {
            let look = file.roles.get(&role).cloned().unwrap_or_default();
            styles.insert(role, style(base, &look, depth)?);
        }
        Ok(Self {
            name: file.name,
            styles,
        })
    }

    /// Everything that is wrong with a theme's text: where it is, and what.
    pub fn faults(text: &str) -> Vec<(Option<usize>, String)> {
        let file: File = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => {
                let why = error.message().lines().collect::<Vec<_>>().join(", ");
                return vec![(error.span().map(|span| span.start), why)];
            }
        };
        let looks = file.roles.values();
        let colours = looks.flat_map(|look| [&look.fg, &look.bg, &look.ansi]);
        let mut bad: Vec<&str> = colours
            .chain([&file.background])
            .flatten()
            .map(String::as_str)
            .filter(|colour| Color::from_str(colour).is_err())
            .collect();
        bad.sort_unstable();
        bad.dedup();
        bad.into_iter()
            .map(|colour| {
                let quoted = ['"', '\''].map(|quote| format!("{quote}{colour}{quote}"));
                let at = quoted.iter().find_map(|quoted| text.find(quoted));
                (at, format!("{colour:?} is no colour"))
            })
            .collect()
    }

    /// The same under another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The style of a role.
    pub fn style(&self, role: Role) -> Style {
        self.styles.get(&role).copied().unwrap_or_default()
    }
}

fn color(text: &str) -> Result<Color> {
    Color::from_str(text).map_err(|_| Error::invalid(format!("theme: {text:?} is no colour")))
}

fn style(base: Style, look: &Look, depth: Depth) -> Result<Style> {
    let mut style = base;
    match depth {
        Depth::Full => {
            if let Some(fg) = &look.fg {
                style = style.fg(color(fg)?);
            }
            if let Some(bg) = &look.bg {
                style = style.bg(color(bg)?);
            }
        }
        Depth::Sixteen => {
            if let Some(ansi) = &look.ansi {
                style = style.fg(color(ansi)?);
            }
        }
        Depth::None => {}
    }
    // Where the background cannot be set, turning the pair round is what always shows.
    let painted = depth == Depth::Full && look.bg.is_some();
    let mut modifier = Modifier::empty();
    modifier.set(Modifier::BOLD, look.bold);
    modifier.set(Modifier::UNDERLINED, look.underline);
    modifier.set(Modifier::REVERSED, look.reverse && !painted);
    Ok(style.add_modifier(modifier))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that leave colours to the terminal.
    const PALETTE: [&str; 3] = ["terminal", "sixteen", "mono"];

    #[test]
    fn what_is_chosen_and_what_is_lost_stand_out_on_any_terminal() {
        for name in Theme::names() {
            for depth in [Depth::Full, Depth::Sixteen, Depth::None] {
                let theme = Theme::built_in(name, depth).unwrap();
                for role in [Role::Selected, Role::Danger] {
                    let style = theme.style(role);
                    let reversed = style.add_modifier.contains(Modifier::REVERSED);
                    let text = theme.style(Role::Text);
                    let painted = style.bg.is_some() && style.bg != text.bg;
                    assert!(reversed || painted, "{name} {depth:?} {role:?}");
                }
            }
        }
    }

    fn luminance(color: Color) -> f64 {
        let Color::Rgb(r, g, b) = color else {
            panic!("{color:?} is not 24-bit")
        };
        let part = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.03928 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b)
    }

    #[test]
    fn req_28_every_role_is_readable_on_its_background() {
        let painted = Theme::names().filter(|name| !PALETTE.contains(name));
        for name in painted {
            let theme = Theme::built_in(name, Depth::Full).unwrap();
            assert_eq!(theme.name, name);
            for role in ROLES {
                let style = theme.style(role);
                let text = theme.style(Role::Text);
                let (fg, bg) = (style.fg.or(text.fg).unwrap(), style.bg.unwrap());
                let (a, b) = (luminance(fg), luminance(bg));
                let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                assert!(contrast >= 4.5, "{name} {role:?}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn no_colour_means_no_colour() {
        for name in Theme::names() {
            let theme = Theme::built_in(name, Depth::None).unwrap();
            for role in ROLES {
                let style = theme.style(role);
                assert_eq!((style.fg, style.bg), (None, None), "{name} {role:?}");
            }
            let marks = theme.style(Role::Selected).add_modifier;
            assert!(marks.contains(Modifier::REVERSED));
        }
    }

    #[test]
    fn a_wrong_theme_is_told() {
        assert!(Theme::read("name = 1", Depth::Full).is_err());
        let bad = "name = 'x'\n[roles]\nok = { fg = 'greeen' }\n";
        let error = Theme::read(bad, Depth::Full).unwrap_err();
        assert!(error.message.contains("greeen"), "{error}");
    }
}
