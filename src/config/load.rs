//! File, environment and flags into what corral works with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, TableLike};

use super::check::{Checker, cut, key_span, value};
use super::contexts::{self, ContextEntry};
use super::dropped::Dropped;
use super::file::{self, Content, position, problem};
use super::images::{self, ImageEntry};
use super::layers::{Layer, lay};
use super::schema::{KEYS, Key, Shape, quoted, setting};
use super::settings::Settings;
use crate::model::{ConfigProblem, Dirs, Field, FieldKind, SettingRow, nearest, shown};

/// What [`load`] looks at. It reads the one file and nothing else of the process.
pub struct LoadInput<'a> {
    /// Roots on disk.
    pub dirs: &'a Dirs,
    /// `--config`.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: &'a BTreeMap<String, String>,
    /// Settings from flags: dotted key and value.
    pub flags: Vec<(String, toml::Value)>,
    /// The kinds and what a context of each may say.
    pub kinds: &'a [(&'a str, &'a [Field])],
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Effective settings.
    pub settings: Settings,
    /// Contexts, in file order.
    pub contexts: Vec<ContextEntry>,
    /// Images that can be pulled by name, besides the built-in ones; in file order.
    pub images: Vec<ImageEntry>,
    /// What the file names as contexts besides these, and nobody can open.
    pub dropped: Vec<Dropped>,
    /// Where the file says the default context, line and column.
    pub default_at: Option<(usize, usize)>,
    /// Why nothing of a file that is there could be read, with its place.
    pub unusable: Option<String>,
    /// All faults.
    pub problems: Vec<ConfigProblem>,
    /// The file, there or not.
    pub path: PathBuf,
    /// It is there.
    pub present: bool,
    /// Each setting with its source.
    pub rows: Vec<SettingRow>,
}

impl Loaded {
    /// The default context is none of `names`. It stays, so that nothing goes to another one instead.
    pub fn no_such_default(&mut self, names: &[&str]) {
        let Some(default) = &self.settings.default_context else {
            return;
        };
        let hint = nearest(default, names.iter().copied())
            .map(|near| format!(" Did you mean {near:?}?"))
            .unwrap_or_default();
        let why = format!(
            "default-context: there is no context {:?}.{hint} Known: {}",
            cut(default),
            quoted(names.iter().copied())
        );
        let (place, at) = match self.default_source() {
            Some("environment") => (Path::new("CORRAL_DEFAULT_CONTEXT"), (0, 1)),
            _ => (self.path.as_path(), self.default_at.unwrap_or((0, 1))),
        };
        self.problems.push(problem(place, at, why));
        self.problems
            .sort_by_key(|fault| (fault.line, fault.column));
    }

    /// What is wrong with the value of a setting, at its place: in the file, or the variable that it came from.
    pub fn fault_of(&self, key: &str, why: String) -> ConfigProblem {
        let row = self.rows.iter().find(|row| row.key == key);
        if row.is_some_and(|row| row.source == "environment")
            && let Some(name) = KEYS.iter().find(|k| k.name == key).and_then(|k| k.env)
        {
            return problem(Path::new(name), (0, 1), why);
        }
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let at = Document::parse(text.as_str()).ok().and_then(|document| {
            let mut table: &dyn TableLike = document.as_table();
            let mut parts = key.split('.').peekable();
            loop {
                let part = parts.next()?;
                if parts.peek().is_none() {
                    return key_span(table, part).map(|span| span.start);
                }
                table = table.get(part)?.as_table_like()?;
            }
        });
        file::fault(&self.path, &text, at, why)
    }

    /// Where the default context is set, in words.
    pub fn default_place(&self) -> String {
        match (self.default_source(), self.default_at) {
            (Some("environment"), _) => "CORRAL_DEFAULT_CONTEXT".to_owned(),
            (_, Some((line, _))) => format!("{}:{line}", shown(&self.path.display().to_string())),
            _ => "the configuration".to_owned(),
        }
    }

    fn default_source(&self) -> Option<&str> {
        let row = self.rows.iter().find(|row| row.key == "default-context")?;
        Some(row.source.as_str())
    }
}

/// Never fails: a missing file is an empty one, a faulty key is dropped and told.
pub fn load(input: &LoadInput<'_>) -> Loaded {
    let path = path(input);
    let words: Vec<&str> = input.kinds.iter().map(|(word, _)| *word).collect();
    let mut problems = Vec::new();
    let mut from_file = Layer::new("file");
    let mut contexts = Vec::new();
    let mut images = Vec::new();
    let mut dropped = Vec::new();
    let mut default_at = None;
    let mut unusable = None;
    let named = input.file.is_some() || input.env.contains_key("CORRAL_CONFIG");
    let content = match file::read(&path) {
        // Whoever names a file means what it says, its guards too.
        Content::Missing if named => {
            let why = "there is no such file; an empty one will do".to_owned();
            Content::Unusable(problem(&path, (0, 1), why))
        }
        content => content,
    };
    let present = !matches!(content, Content::Missing);
    match content {
        Content::Missing => {}
        Content::Unusable(mut why) => {
            unusable = Some(format!("{}: {}", why.place(), why.message));
            why.message.push_str(
                ". What it guards is not known, so corral changes nothing until it is mended",
            );
            dropped.push(Dropped::new(&path, None, None, &why));
            problems.push(why);
            from_file.values.push(("readonly", true.into()));
        }
        Content::Text(text) => match Document::parse(text.as_str()) {
            Ok(document) => {
                let mut check = Checker {
                    path: &path,
                    text: &text,
                    problems: Vec::new(),
                    dropped: Vec::new(),
                };
                default_at = key_span(document.as_table(), "default-context")
                    .map(|span| check.at(Some(span)));
                (contexts, images) = walk(
                    &mut check,
                    document.as_table(),
                    input,
                    &words,
                    &mut from_file,
                );
                problems.append(&mut check.problems);
                dropped.append(&mut check.dropped);
            }
            Err(error) => {
                let (why, fault) = broken(&path, &text, &error, &mut from_file);
                unusable = Some(format!("{}: {why}", fault.place()));
                dropped.push(Dropped::new(&path, None, None, &fault));
                problems.push(fault);
            }
        },
    }
    problems.sort_by_key(|fault| (fault.line, fault.column));
    let environment = environment(input.env, &words, &mut problems);
    let flags = flags(&input.flags, &words, &mut problems);
    let layers = [built_in(&words), from_file, environment, flags];
    let (settings, rows) = match lay(&layers) {
        Ok(laid) => laid,
        Err(why) => {
            problems.push(problem(
                &path,
                (0, 1),
                format!(
                    "the settings do not fit together ({}); the built-in ones are used",
                    cut(&why)
                ),
            ));
            let readonly = layers.iter().any(|layer| {
                layer
                    .values
                    .iter()
                    .any(|(key, value)| *key == "readonly" && value.as_bool() == Some(true))
            });
            (
                Settings {
                    readonly,
                    ..Settings::default()
                },
                Vec::new(),
            )
        }
    };
    Loaded {
        settings,
        contexts,
        images,
        dropped,
        default_at,
        unusable,
        problems,
        path,
        present,
        rows,
    }
}

fn path(input: &LoadInput<'_>) -> PathBuf {
    let named = || {
        input
            .env
            .get("CORRAL_CONFIG")
            .filter(|path| !path.is_empty())
    };
    input
        .file
        .clone()
        .or_else(|| named().map(PathBuf::from))
        .unwrap_or_else(|| input.dirs.config.join("config.toml"))
}

/// What is wrong with a file that is no TOML, and that with what follows from it. A guard word in it keeps its
/// meaning.
fn broken(
    path: &Path,
    text: &str,
    error: &toml_edit::TomlError,
    layer: &mut Layer,
) -> (String, ConfigProblem) {
    let at = error
        .span()
        .map_or((0, 1), |span| position(text, span.start));
    let why = error.message().lines().collect::<Vec<_>>().join(", ");
    let why = format!("this is not TOML: {}", cut_long(&why));
    let mut message = format!("{why}; the file is not used, only built-in settings");
    if text.contains("readonly") || text.contains("protected") {
        layer.values.push(("readonly", true.into()));
        message.push_str(". It sets guards, so corral changes nothing until it is mended");
    }
    (why, problem(path, at, message))
}

fn cut_long(text: &str) -> String {
    crate::model::shown(text).chars().take(200).collect()
}

fn walk(
    check: &mut Checker<'_>,
    root: &dyn TableLike,
    input: &LoadInput<'_>,
    words: &[&str],
    layer: &mut Layer,
) -> (Vec<ContextEntry>, Vec<ImageEntry>) {
    let mut found = Vec::new();
    let mut images_found = Vec::new();
    for (key, item) in root.iter() {
        if key == "context" {
            found = contexts::read(check, item, input.kinds);
        } else if key == "image" {
            images_found = images::read(check, item);
        } else if let Some(known) = KEYS.iter().find(|known| known.name == key) {
            take(check, root, known, item, words, layer);
        } else if group(key).next().is_some() {
            let Some(table) = item.as_table_like() else {
                check.say(
                    item.span().or(key_span(root, key)),
                    format!("{key} must be a table: write [{key}]"),
                );
                continue;
            };
            for (inner, item) in table.iter() {
                match group(key).find(|known| known.name[key.len() + 1..] == *inner) {
                    Some(known) => take(check, table, known, item, words, layer),
                    None => check.unknown(
                        key_span(table, inner),
                        inner,
                        &format!(" in [{key}]"),
                        group(key).map(|known| &known.name[key.len() + 1..]),
                    ),
                }
            }
        } else {
            let mut allowed: Vec<&str> = KEYS
                .iter()
                .map(|known| known.name.split('.').next().unwrap_or(known.name))
                .chain(["context", "image"])
                .collect();
            allowed.dedup();
            check.unknown(key_span(root, key), key, "", allowed.into_iter());
        }
    }
    (found, images_found)
}

/// The settings of a table.
fn group(table: &str) -> impl Iterator<Item = &'static Key> + Clone + use<'_> {
    KEYS.iter().filter(move |key| {
        key.name
            .strip_prefix(table)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}

fn take(
    check: &mut Checker<'_>,
    table: &dyn TableLike,
    key: &'static Key,
    item: &Item,
    words: &[&str],
    layer: &mut Layer,
) {
    let found = value(item)
        .ok_or_else(|| "must be a plain value".to_owned())
        .and_then(|written| setting(key.shape, &written, words));
    match found {
        Ok(found) => layer.values.push((key.name, found)),
        Err(why) => {
            let mut message = format!("{} {why}", key.name);
            if key.name == "readonly" {
                layer.values.push((key.name, true.into()));
                message.push_str("; until it is mended it counts as true");
            }
            let last = key.name.rsplit('.').next().unwrap_or(key.name);
            check.say(item.span().or(key_span(table, last)), message);
        }
    }
}

fn built_in(words: &[&str]) -> Layer {
    let mut layer = Layer::new("built-in");
    for key in KEYS {
        if let Some(value) = key.default.and_then(|text| text.parse().ok())
            && let Ok(value) = setting(key.shape, &value, words)
        {
            layer.values.push((key.name, value));
        }
    }
    layer
}

fn environment(
    env: &BTreeMap<String, String>,
    words: &[&str],
    problems: &mut Vec<ConfigProblem>,
) -> Layer {
    let mut layer = Layer::new("environment");
    for key in KEYS {
        let Some((name, text)) = key.env.and_then(|name| Some((name, env.get(name)?))) else {
            continue;
        };
        // An empty variable is an unset one, as shells make it hard to tell them apart.
        if text.is_empty() {
            continue;
        }
        match setting(key.shape, &typed(key.shape, text), words) {
            Ok(value) => layer.values.push((key.name, value)),
            Err(why) => {
                let guard = if key.name == "readonly" {
                    layer.values.push((key.name, true.into()));
                    "; it counts as true"
                } else {
                    ""
                };
                problems.push(problem(
                    Path::new(name),
                    (0, 1),
                    format!("{name}={:?}: {} {why}{guard}", cut(text), key.name),
                ));
            }
        }
    }
    layer
}

/// A variable's text as the value its key wants.
fn typed(shape: Shape, text: &str) -> toml_edit::Value {
    let flag = match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    };
    match shape {
        Shape::Plain(FieldKind::Flag) | Shape::Discover if flag.is_some() => {
            flag.unwrap_or_default().into()
        }
        Shape::Discover => text.split(',').map(str::trim).collect(),
        Shape::UpTo(_) | Shape::Plain(FieldKind::Count) => text
            .trim()
            .parse::<i64>()
            .map_or_else(|_| text.into(), Into::into),
        _ => text.into(),
    }
}

fn flags(
    flags: &[(String, toml::Value)],
    words: &[&str],
    problems: &mut Vec<ConfigProblem>,
) -> Layer {
    let mut layer = Layer::new("flag");
    for (name, given) in flags {
        let found = KEYS
            .iter()
            .find(|key| key.name == name)
            .ok_or_else(|| "is no setting".to_owned())
            .and_then(|key| {
                let value = given
                    .to_string()
                    .parse()
                    .map_err(|_| "cannot be read".to_owned())?;
                Ok((key.name, setting(key.shape, &value, words)?))
            });
        match found {
            Ok(value) => {
                layer.values.retain(|(key, _)| *key != value.0);
                layer.values.push(value);
            }
            Err(why) => problems.push(problem(
                Path::new("command line"),
                (0, 1),
                format!("{} {why}", cut(name)),
            )),
        }
    }
    layer
}
