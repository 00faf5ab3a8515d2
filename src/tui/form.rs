//! Arguments of a command, asked field by field; the command line that comes of them is read by the
//! same grammar as argv.

use super::app::App;
use super::edit::Line;
use super::names::InView;
use crate::action::complete::{Candidates, FILES, Wanted, of_field, of_noun, offered, settings};
use crate::action::{Group, Row, grammar};
use crate::model::{Detail, Field, FieldKind, GroupNoun, Instance, Operation};

/// One field of a form.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it is called.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Its kind.
    pub kind: FieldKind,
    /// The argument, where it is one.
    pub field: Option<&'static Field>,
    /// The text.
    pub line: Line,
    /// A flag's state.
    pub on: bool,
    /// It is the positional.
    pub positional: bool,
    /// What holds when it stays empty.
    pub default: Option<String>,
    /// A text that was typed for a file, and the file that it is in.
    pub kept: Option<(String, String)>,
}

impl Entry {
    /// Text is typed into it.
    pub fn takes_text(&self) -> bool {
        self.kind != FieldKind::Flag
    }

    /// What is typed is the text of a file, not its name. (cloud-init's begins with such a line.)
    pub fn is_text_of_file(&self) -> bool {
        let text = self.line.text();
        let may = self.field.is_some_and(|field| field.typed);
        may && (text.starts_with('#') || text.trim().contains('\n'))
    }

    /// The text that has to be put into a file first.
    pub fn unkept(&self) -> Option<&str> {
        let text = self.line.text();
        let kept = self.kept.as_ref().is_some_and(|(kept, _)| kept == text);
        (self.is_text_of_file() && !kept).then_some(text)
    }

    /// As it stands in the command.
    fn value(&self) -> &str {
        match &self.kept {
            _ if !self.is_text_of_file() => self.line.text().trim(),
            Some((_, file)) if self.unkept().is_none() => file,
            _ => "FILE",
        }
    }

    /// Nothing stands where something must.
    pub fn is_missing(&self) -> bool {
        let needed = self.positional || self.field.is_some_and(|field| field.required);
        needed && self.line.text().trim().is_empty()
    }

    /// What is wrong with what is typed; `becomes`: it may still become one of some words.
    pub fn fault(&self, becomes: bool) -> Option<String> {
        let text = self.line.text().trim();
        if text.is_empty() || self.kind == FieldKind::Flag || self.is_text_of_file() {
            return None;
        }
        if self.positional && text.starts_with('-') {
            return Some("it cannot begin with -".to_owned());
        }
        let error = grammar::read_value(self.field?, text).err()?;
        let lead = format!("--{}: ", self.name);
        let message = error.message.strip_prefix(&lead).unwrap_or(&error.message);
        (!becomes).then(|| message.to_owned())
    }
}

/// A form.
#[derive(Clone)]
pub struct Form {
    /// The command.
    pub row: &'static Row,
    /// Positionals that are known already.
    pub targets: Vec<String>,
    /// Words that are added as they are: `--context lab`.
    pub extra: Vec<String>,
    /// Whom it concerns.
    pub title: String,
    /// The fields.
    pub entries: Vec<Entry>,
    /// Field with the focus; after the last come the two buttons.
    pub focus: usize,
    /// What is wrong.
    pub error: Option<String>,
    /// The command before anything was typed.
    pub fresh: Option<Vec<String>>,
    /// The same key again drops what was typed.
    pub dropping: bool,
    /// IDs that were marked but hidden.
    pub hidden: Vec<String>,
    /// Chosen of what the field with the focus may become.
    pub chosen: Option<usize>,
    /// The number under which a text is put into a file, and the field it is of.
    pub keeping: Option<(u64, usize)>,
    /// The number under which its instance was asked for, and what came.
    pub asked: Option<u64>,
    /// As said.
    pub detail: Option<Box<Detail>>,
}

impl std::fmt::Debug for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Form({} {:?})", self.row.name, self.targets)
    }
}

/// What people set first when they make an instance.
const FIRST: [&str; 6] = ["image", "disk", "cpus", "memory", "start", "name"];

impl Form {
    /// A form for a command.
    pub fn new(row: &'static Row, targets: Vec<String>, title: String) -> Self {
        let mut entries = Vec::new();
        let asked = match row.noun {
            GroupNoun::NewInstance => Some(("name", "Name of the new instance", FieldKind::Name)),
            GroupNoun::NewContext => Some(("name", "Name of the new context", FieldKind::Name)),
            GroupNoun::Source => Some(("from", "An image, a package or a folder", FieldKind::Path)),
            GroupNoun::Images => Some(("image", "Name of the image", FieldKind::Name)),
            GroupNoun::ImageSources => Some((
                "image",
                "A name of the catalogue, a URL or a file",
                FieldKind::Name,
            )),
            _ => None,
        };
        if let Some((name, doc, kind)) = asked.filter(|_| targets.is_empty()) {
            entries.push(Entry {
                name,
                doc,
                kind,
                field: None,
                line: Line::default(),
                on: false,
                positional: true,
                default: None,
                kept: None,
            });
        }
        let shape = |field: &&Field| !row.shapes.iter().any(|(flag, _)| *flag == field.name);
        let mut fields: Vec<&Field> = row.fields.iter().filter(shape).collect();
        if row.noun == GroupNoun::NewInstance {
            let rank = |f: &Field| FIRST.iter().position(|name| *name == f.name);
            fields.sort_by_key(|f| rank(f).unwrap_or(FIRST.len()));
        }
        for field in fields {
            // A snapshot or backup named with its instance is not asked for again.
            let which = match row.group {
                Group::Snapshots => "name",
                _ => "backup",
            };
            if field.name == which && targets.iter().any(|t| t.contains('@')) {
                continue;
            }
            entries.push(Entry {
                name: field.name,
                doc: field.doc,
                kind: field.kind,
                field: Some(field),
                line: if field.lines || field.typed {
                    Line::area()
                } else {
                    Line::default()
                },
                on: false,
                positional: false,
                default: field.default.map(str::to_owned),
                kept: None,
            });
        }
        Self {
            row,
            targets,
            extra: Vec::new(),
            title,
            entries,
            focus: 0,
            error: None,
            fresh: None,
            dropping: false,
            hidden: Vec::new(),
            chosen: None,
            keeping: None,
            asked: None,
            detail: None,
        }
    }

    /// Notes how it was opened, before the first key of it.
    pub fn note_fresh(&mut self) {
        if self.fresh.is_none() {
            self.fresh = Some(self.words());
        }
    }

    /// Leaving would drop what was typed and was not asked about yet.
    pub fn asks_to_drop(&mut self) -> bool {
        let is_typed = self
            .fresh
            .as_ref()
            .is_some_and(|fresh| *fresh != self.words());
        let asks = is_typed && !self.dropping;
        if asks {
            self.dropping = true;
            self.error = Some("Esc again drops what was typed".to_owned());
        }
        asks
    }

    /// Enter in the field with the focus leads to the button: nothing is needed any more. (The next field may be a text,
    /// in which a second Enter is a line.)
    pub fn enter_ends(&self) -> bool {
        let is_last = self.focus + 1 == self.entries.len();
        is_last || !self.entries.iter().any(Entry::is_missing)
    }

    /// What Enter does here, in words.
    pub fn hint(&self) -> String {
        let go = self.button();
        match self.entry() {
            None if self.on_go() => format!("Enter: {go}"),
            None => "Enter leaves".to_owned(),
            Some(entry) if entry.line.is_area() && entry.takes_text() => {
                format!("Tab goes on, to {go} at last")
            }
            Some(_) if self.enter_ends() => format!("Enter goes to {go}"),
            Some(_) if self.focus == 0 => format!("Enter goes on; Shift-Tab goes to {go}"),
            Some(_) => "Enter goes on".to_owned(),
        }
    }

    /// The field with the focus.
    pub fn entry(&self) -> Option<&Entry> {
        self.entries.get(self.focus)
    }

    /// The same, to be changed.
    pub fn entry_mut(&mut self) -> Option<&mut Entry> {
        self.entries.get_mut(self.focus)
    }

    /// What is wanted in a field.
    pub fn wants(&self, entry: &Entry) -> Wanted {
        if entry.positional {
            of_noun(self.row.noun, "")
        } else {
            of_field(entry.name, entry.kind)
        }
    }

    /// Fields that stay empty leave what the instance has: that is shown in them.
    pub fn of(&mut self, on: &Instance) {
        if self.row.operations != [Operation::Resize] {
            return;
        }
        for entry in &mut self.entries {
            let now = match entry.name {
                "cpus" => on.cpus.map(|n| n.to_string()),
                "memory" => on.memory_bytes.map(|n| n.to_string()),
                _ => None,
            };
            entry.default = now.map(|now| format!("now {now}"));
        }
    }

    /// The button that leaves is focused.
    pub fn on_cancel(&self) -> bool {
        self.focus == self.entries.len()
    }

    /// The button that goes on is focused.
    pub fn on_go(&self) -> bool {
        self.focus > self.entries.len()
    }

    /// The command line, word by word. What is typed into a field is a value, whatever it looks like.
    pub fn words(&self) -> Vec<String> {
        let mut names = self.targets.clone();
        let mut options = Vec::new();
        for entry in &self.entries {
            let text = entry.value();
            if entry.kind == FieldKind::Flag {
                if entry.on {
                    options.push(format!("--{}", entry.name));
                }
            } else if entry.positional && !text.is_empty() {
                names.push(text.to_owned());
            } else if !text.is_empty() {
                options.push(format!("--{}={text}", entry.name));
            }
        }
        options.extend(self.extra.iter().cloned());
        let verb = self.row.name.split(' ').map(str::to_owned);
        if names.iter().any(|name| name.starts_with('-')) {
            options.push("--".to_owned());
            verb.chain(options).chain(names).collect()
        } else {
            verb.chain(names).chain(options).collect()
        }
    }

    /// The headless command that asks for the same.
    pub fn command(&self) -> String {
        let words: Vec<String> = self.words().iter().map(|w| grammar::quote(w)).collect();
        format!("corral {}", words.join(" "))
    }

    /// The heading: the whole command, so that a snapshot's `create` is no instance's.
    pub fn heading(&self) -> String {
        let mut text = self.row.name.to_owned();
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        text
    }

    /// The word on the button.
    pub fn button(&self) -> String {
        let mut word = self.row.verb_word().to_owned();
        if let Some(first) = word.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        word
    }
}

/// What the field with the focus may become: what begins like it first, then what has it in it.
pub fn offers(app: &App, form: &Form) -> Candidates {
    let Some(entry) = form.entry() else {
        return Vec::new();
    };
    let typed = entry.line.text();
    let targets: Vec<&str> = form.targets.iter().map(String::as_str).collect();
    let names = InView::with(app, form.detail.as_deref());
    let mut found = match (entry.name, form.wants(entry)) {
        ("set", _) => settings(form.row.name),
        (_, Wanted::Nothing) => Vec::new(),
        _ if entry.is_text_of_file() => Vec::new(),
        (_, wanted) => offered(wanted, typed, &targets, &names),
    };
    // A choice is turned with the arrows: all of it stays in sight.
    let all = matches!(entry.kind, FieldKind::Choice(_));
    let lower = typed.to_lowercase();
    found.retain(|(word, about)| {
        let has = |text: &str| text.to_lowercase().contains(&lower);
        word != FILES && (all || word != typed && (has(word) || has(about)))
    });
    if !all {
        found.sort_by_key(|(word, _)| !word.to_lowercase().starts_with(&lower));
    }
    found
}
