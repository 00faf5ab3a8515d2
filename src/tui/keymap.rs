//! Keys to command lines, from TOML.

use std::collections::BTreeMap;

use toml_edit::{Document, Item};

use super::command::FRONT;
use super::input::Key;
use crate::action::grammar;
use crate::model::{Error, Result};

/// The keymap in the binary.
const DEFAULT: &str = include_str!("../../keymaps/default.toml");

/// What may be laid over it: names and texts.
pub const VARIANTS: [(&str, &str); 3] = [
    ("vim", include_str!("../../keymaps/vim.toml")),
    ("emacs", include_str!("../../keymaps/emacs.toml")),
    ("k9s", include_str!("../../keymaps/k9s.toml")),
];

/// One binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Where it holds.
    pub section: String,
    /// One key, or several after each other.
    pub keys: Vec<Key>,
    /// The command line.
    pub run: String,
    /// What help says; empty for a second key of the same thing.
    pub help: String,
}

impl Binding {
    /// The keys as printed.
    pub fn keys_text(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(Key::to_string).collect();
        keys.join(" ")
    }
}

/// All bindings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keymap {
    bindings: Vec<Binding>,
    titles: BTreeMap<String, String>,
}

/// What some keys lead to.
pub enum Found<'a> {
    /// A binding.
    Run(&'a Binding),
    /// The beginning of several.
    Prefix(Vec<&'a Binding>),
    /// Nothing.
    Nothing,
}

impl Keymap {
    /// The one in the binary.
    pub fn built_in() -> Self {
        let mut map = Self::default();
        // A test reads the same text, so that this cannot be empty.
        let _ = map.layer(DEFAULT, "default");
        map
    }

    /// The text of a variant in the binary.
    pub fn variant(name: &str) -> Option<&'static str> {
        let (_, text) = VARIANTS.iter().find(|(known, _)| *known == name)?;
        Some(text)
    }

    /// Lays a user's keymap over this one. Every fault is told; the rest counts.
    pub fn layer(&mut self, text: &str, name: &str) -> Vec<Error> {
        let mut faults = Vec::new();
        let document = match Document::parse(text.to_owned()) {
            Ok(document) => document,
            Err(error) => {
                let first = error.message().to_owned();
                return vec![Error::invalid(format!("keymap {name}: {first}"))];
            }
        };
        for (section, item) in document.as_table() {
            let Some(table) = item.as_table_like() else {
                faults.push(Error::invalid(format!(
                    "keymap {name}: {section} is no table"
                )));
                continue;
            };
            for (key, item) in table.iter() {
                if section == "titles" {
                    if let Some(title) = item.as_str() {
                        self.titles.insert(key.to_owned(), title.to_owned());
                    }
                    continue;
                }
                match read(section, key, item) {
                    Ok(binding) => self.bind(binding),
                    Err(why) => faults.push(Error::invalid(format!(
                        "keymap {name}, [{section}] {key:?}: {why}"
                    ))),
                }
            }
        }
        faults
    }

    fn bind(&mut self, binding: Binding) {
        let same = |old: &&mut Binding| old.section == binding.section && old.keys == binding.keys;
        if binding.run.is_empty() {
            self.bindings
                .retain(|old| old.section != binding.section || old.keys != binding.keys);
        } else if let Some(old) = self.bindings.iter_mut().find(same) {
            *old = binding;
        } else {
            self.bindings.push(binding);
        }
    }

    /// Bindings that hold in these sections, the nearest first; a farther one is hidden by a
    /// nearer one with the same keys.
    pub fn of(&self, sections: &[&str]) -> Vec<&Binding> {
        let mut found: Vec<&Binding> = Vec::new();
        for section in sections {
            for binding in self.bindings.iter().filter(|b| b.section == *section) {
                if found.iter().all(|f| f.keys != binding.keys) {
                    found.push(binding);
                }
            }
        }
        found
    }

    /// What `keys` lead to in these sections.
    pub fn find(&self, sections: &[&str], keys: &[Key]) -> Found<'_> {
        let all = self.of(sections);
        if let Some(exact) = all.iter().find(|b| b.keys == keys) {
            return Found::Run(exact);
        }
        let longer: Vec<&Binding> = all
            .into_iter()
            .filter(|b| b.keys.len() > keys.len() && b.keys.starts_with(keys))
            .collect();
        if longer.is_empty() {
            Found::Nothing
        } else {
            Found::Prefix(longer)
        }
    }

    /// The heading of a popup.
    pub fn title(&self, keys: &[Key]) -> &str {
        let text: Vec<String> = keys.iter().map(Key::to_string).collect();
        self.titles
            .get(&text.join(" "))
            .map_or("Next key", String::as_str)
    }

    /// Every binding.
    pub fn all(&self) -> &[Binding] {
        &self.bindings
    }

    /// The first key of a command in these sections, for hints.
    pub fn key_of(&self, sections: &[&str], run: &str) -> Option<String> {
        self.of(sections)
            .into_iter()
            .find(|b| b.run == run)
            .map(Binding::keys_text)
    }
}

fn read(section: &str, key: &str, item: &Item) -> Result<Binding, String> {
    let (run, help) = match (item.as_str(), item.as_table_like()) {
        (Some(run), _) => (run, ""),
        (None, Some(table)) => {
            let text = |name: &str| table.get(name).and_then(Item::as_str);
            if let Some((unknown, _)) = table.iter().find(|(k, _)| *k != "run" && *k != "help") {
                return Err(format!("{unknown} is not known; it takes run and help"));
            }
            (
                text("run").ok_or("run is missing")?,
                text("help").unwrap_or(""),
            )
        }
        _ => return Err("it takes a command line, or { run, help }".to_owned()),
    };
    let keys = key
        .split(' ')
        .map(|k| Key::parse(k).ok_or_else(|| format!("{k:?} is no key")))
        .collect::<Result<Vec<_>, _>>()?;
    check(run)?;
    Ok(Binding {
        section: section.to_owned(),
        keys,
        run: run.to_owned(),
        help: help.to_owned(),
    })
}

/// A command line of a keymap names a verb or a front command that exists.
fn check(run: &str) -> Result<(), String> {
    if run.is_empty() {
        return Ok(());
    }
    let words = grammar::tokenize(run).map_err(|error| error.message)?;
    let verbs: &[String] = match words.first().map(String::as_str) {
        Some("ui") => {
            let word = words.get(1).map_or("", String::as_str);
            if !FRONT.iter().any(|(name, _)| *name == word) {
                return Err(format!("there is no command \"ui {word}\""));
            }
            if word != "form" {
                return Ok(());
            }
            words.get(2..).unwrap_or_default()
        }
        _ => &words,
    };
    let known = super::command::row_at(verbs).is_some();
    if known {
        Ok(())
    } else {
        Err(format!("there is no verb in {run:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_keymap_has_no_fault() {
        let mut map = Keymap::default();
        let faults = map.layer(DEFAULT, "default");
        assert!(faults.is_empty(), "{faults:?}");
        assert!(map.all().len() > 80);
    }

    #[test]
    fn every_variant_is_sound_and_leaves_no_command_without_a_key() {
        let default = Keymap::built_in();
        for (name, text) in VARIANTS {
            let mut map = Keymap::built_in();
            assert_eq!(map.layer(text, name), []);
            for binding in default.all() {
                let still = map
                    .all()
                    .iter()
                    .any(|b| b.run == binding.run && b.section == binding.section);
                assert!(still, "{name}: {:?} in {}", binding.run, binding.section);
            }
            for (n, a) in map.all().iter().enumerate() {
                for b in &map.all()[n + 1..] {
                    let clash = a.section == b.section
                        && a.keys != b.keys
                        && (a.keys.starts_with(&b.keys) || b.keys.starts_with(&a.keys));
                    assert!(!clash, "{name}: {} and {}", a.keys_text(), b.keys_text());
                }
            }
        }
    }

    #[test]
    fn a_user_rebinds_and_unbinds_and_every_fault_is_told() {
        let mut map = Keymap::built_in();
        let faults = map.layer(
            "[inventory]\nD = { run = \"\" }\nX = \"delete {ids}\"\nY = \"fly {ids}\"\nLong = \"stop {ids}\"\nZ = { run = \"stop {ids}\", hlep = \"\" }\n[everywhere]\n\"?\" = \"ui nothing\"\n",
            "mine",
        );
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert!(matches!(
            map.find(&["inventory"], &[Key::char('D')]),
            Found::Nothing
        ));
        assert!(matches!(
            map.find(&["inventory"], &[Key::char('X')]),
            Found::Run(b) if b.run == "delete {ids}"
        ));
        assert_eq!(map.layer("not toml = = ", "bad").len(), 1);
    }

    #[test]
    fn nothing_is_bound_to_what_some_keyboards_lack() {
        for binding in Keymap::built_in().all() {
            for key in &binding.keys {
                if let crate::tui::input::Code::Char(c) = key.code {
                    assert!(!"[]{}\\|@#^~`".contains(c), "{}", binding.keys_text());
                    assert!(!key.ctrl || "clz".contains(c), "{}", binding.keys_text());
                }
            }
        }
    }
}
