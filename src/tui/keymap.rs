//! Keys to command lines, from TOML.

use std::collections::BTreeMap;

use toml_edit::{Document, Item};

use super::app::Pane;
use super::command::{self, Under};
use super::input::Key;
use crate::action::grammar;
use crate::model::Error;

/// The keymap in the binary.
const DEFAULT: &str = include_str!("../../keymaps/default.toml");

/// What may be laid over it: names and texts.
pub const VARIANTS: [(&str, &str); 3] = [
    ("vim", include_str!("../../keymaps/vim.toml")),
    ("emacs", include_str!("../../keymaps/emacs.toml")),
    ("k9s", include_str!("../../keymaps/k9s.toml")),
];

/// Every section of a keymap.
fn sections() -> Vec<&'static str> {
    let panes = Pane::NAMES.iter().map(|(word, ..)| *word);
    ["everywhere", "list", "detail", "native"]
        .into_iter()
        .chain(panes)
        .collect()
}

/// Keys of both sections hold at the same time somewhere.
fn hold_together(a: &str, b: &str) -> bool {
    let one = |here: &str, other: &str| match here {
        "everywhere" => true,
        "list" => !matches!(other, "detail" | "native"),
        "detail" => matches!(other, "snapshots" | "native"),
        _ => here == other,
    };
    a == b || one(a, b) || one(b, a)
}

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

/// What is wrong with a line of a keymap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The byte of the text where it stands.
    pub at: Option<usize>,
    /// What is wrong, and what to write.
    pub message: String,
    /// It counts nevertheless.
    pub warning: bool,
}

impl Fault {
    fn new(at: Option<usize>, message: String) -> Self {
        Self {
            at,
            message,
            warning: false,
        }
    }
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
        let _ = map.layer(DEFAULT);
        map
    }

    /// The text of a variant in the binary.
    pub fn variant(name: &str) -> Option<&'static str> {
        let (_, text) = VARIANTS.iter().find(|(known, _)| *known == name)?;
        Some(text)
    }

    /// Lays a user's keymap over this one. Every fault is told; the rest counts.
    pub fn layer(&mut self, text: &str) -> Vec<Fault> {
        let mut faults = Vec::new();
        let document = match Document::parse(text.to_owned()) {
            Ok(document) => document,
            Err(error) => {
                let why = error.message().lines().collect::<Vec<_>>().join(", ");
                let at = error.span().map(|span| span.start);
                return vec![Fault::new(at, format!("this is not TOML: {why}"))];
            }
        };
        let mut own = Vec::new();
        for (section, item) in document.as_table() {
            let at = document
                .as_table()
                .key(section)
                .and_then(toml_edit::Key::span);
            let Some(table) = item.as_table_like() else {
                faults.push(Fault::new(
                    at.map(|span| span.start),
                    format!("{section} is no table: keys stand under [inventory], [everywhere] and their like"),
                ));
                continue;
            };
            let known = sections();
            if section != "titles" && !known.contains(&section) {
                let near = crate::model::nearest(section, known.iter().copied());
                let hint = near.map_or_else(String::new, |near| format!(" Did you mean [{near}]?"));
                faults.push(Fault::new(
                    at.map(|span| span.start),
                    format!(
                        "there is no [{section}].{hint} There are {}",
                        known.join(", ")
                    ),
                ));
                continue;
            }
            for (key, item) in table.iter() {
                if section == "titles" {
                    if let Some(title) = item.as_str() {
                        self.titles.insert(key.to_owned(), title.to_owned());
                    }
                    continue;
                }
                let at = table.key(key).and_then(toml_edit::Key::span);
                let at = at.map(|span| span.start);
                match read(section, key, item) {
                    Ok(binding) => {
                        own.push((at, binding.clone()));
                        self.bind(binding);
                    }
                    Err(why) => faults.push(Fault::new(at, format!("[{section}] {key:?}: {why}"))),
                }
            }
        }
        for (at, binding) in own.iter().filter(|(_, binding)| !binding.run.is_empty()) {
            faults.extend(self.clash(binding).map(|message| Fault {
                at: *at,
                message,
                warning: true,
            }));
        }
        faults
    }

    /// What a binding takes from others where both hold, or what keeps it from being reached.
    fn clash(&self, of: &Binding) -> Option<String> {
        let meets = |other: &&Binding| hold_together(&of.section, &other.section);
        let longer = |long: &Binding, short: &Binding| {
            long.keys.len() > short.keys.len() && long.keys.starts_with(&short.keys)
        };
        let place = format!("[{}] {:?}", of.section, of.keys_text());
        if let Some(first) = self
            .bindings
            .iter()
            .filter(meets)
            .find(|other| longer(of, other))
        {
            return Some(format!(
                "{place}: {:?} in [{}] wins ({}), so this one is never reached; unbind that: {:?} = {{ run = \"\" }}",
                first.keys_text(),
                first.section,
                first.run,
                first.keys_text(),
            ));
        }
        let mut hidden: Vec<String> = self
            .bindings
            .iter()
            .filter(meets)
            .filter(|other| longer(other, of))
            .map(|other| format!("{:?}", other.keys_text()))
            .collect();
        hidden.dedup();
        let first = hidden.first()?;
        let others = match hidden.len() {
            1 => first.clone(),
            n => format!("{first} and {} more that begin with it", n - 1),
        };
        Some(format!(
            "{place}: {} wins, so {others} cannot be reached; choose another key, or bind them elsewhere",
            of.run
        ))
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
        // A key that does something is no beginning of others: what stands behind it cannot be reached.
        let lone: Vec<&[Key]> = found.iter().map(|b| b.keys.as_slice()).collect();
        let reached = found.iter().filter(|binding| {
            let firsts = 1..binding.keys.len();
            firsts
                .into_iter()
                .all(|n| !lone.contains(&&binding.keys[..n]))
        });
        reached.copied().collect()
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
    let keys: Vec<Key> = key
        .split(' ')
        .map(|k| Key::parse(k).ok_or_else(|| format!("{k:?} is no key")))
        .collect::<Result<_, String>>()?;
    check(run)?;
    Ok(Binding {
        section: section.to_owned(),
        keys,
        run: run.to_owned(),
        help: help.to_owned(),
    })
}

/// A command line of a keymap names a verb or a front command that exists, and says on what it is carried out.
fn check(run: &str) -> Result<(), String> {
    if run.is_empty() {
        return Ok(());
    }
    let told = |error: Error| match error.remedy {
        Some(remedy) => format!("{} {remedy}", error.message),
        None => error.message,
    };
    let written = grammar::tokenize(run).map_err(told)?;
    if let [ui, form, verb @ ..] = written.as_slice()
        && ui == "ui"
        && form == "form"
    {
        return match command::row_at(verb) {
            Some(_) => Ok(()),
            None => Err(format!("there is no verb in {run:?}")),
        };
    }
    let words = command::words(run, &Under::any()).map_err(told)?;
    match command::understand(words) {
        Ok(_) => Ok(()),
        // What is asked for is filled in.
        Err(error) if error.message.contains("required") => Ok(()),
        Err(error) => {
            let row = command::row_at(&written).filter(|_| !run.contains('{'));
            let with = format!("{run} {{ids}}");
            let helps = row.is_some()
                && command::words(&with, &Under::any())
                    .and_then(command::understand)
                    .is_ok();
            if helps {
                return Err(format!(
                    "it does not say which instance: write {with:?} for the marked ones or the one under the cursor"
                ));
            }
            Err(told(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_keymap_has_no_fault() {
        let mut map = Keymap::default();
        let faults = map.layer(DEFAULT);
        assert!(faults.is_empty(), "{faults:?}");
        assert!(map.all().len() > 80);
    }

    #[test]
    fn every_variant_is_sound_and_leaves_no_command_without_a_key() {
        let default = Keymap::built_in();
        for (name, text) in VARIANTS {
            let mut map = Keymap::built_in();
            assert_eq!(map.layer(text), [], "{name}");
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
        assert_eq!(map.layer("not toml = = ").len(), 1);
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
