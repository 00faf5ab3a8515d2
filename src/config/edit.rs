//! Changing the file: comments and order stay, the write is atomic and under a lock.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use serde_json::Value;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

use super::contexts::is_context_name;
use super::file::position;
use crate::model::{Error, Result, shown};

/// Adds `[[context]]`. An existing one of that name is a `Conflict`.
pub fn add_context(
    path: &Path,
    name: &str,
    kind: &str,
    values: &IndexMap<String, Value>,
) -> Result<()> {
    check_name(name)?;
    change(path, |document| {
        if entries(document).any(|table| named(table, name)) {
            return Err(
                Error::conflict(format!("there is a context {name} already")).remedy(format!(
                    "Change it: corral context set {name} --set KEY=VALUE"
                )),
            );
        }
        push(document, name, kind, values)
    })
    .map(drop)
}

/// Sets and removes keys of an existing entry. False: it was so already.
pub fn set_context(
    path: &Path,
    name: &str,
    values: &IndexMap<String, Value>,
    unset: &[String],
) -> Result<bool> {
    change(path, |document| {
        let list = list(document)?;
        let all: Vec<usize> = (0..list.len())
            .filter(|index| list.get(*index).is_some_and(|table| named(table, name)))
            .collect();
        let last = *all.last().ok_or_else(|| missing(path, name))?;
        for (key, value) in values {
            // The later entry wins when read, so the last one that has the key is the one to change.
            let holder = all
                .iter()
                .rev()
                .copied()
                .find(|index| {
                    list.get(*index)
                        .is_some_and(|table| table.contains_key(key))
                })
                .unwrap_or(last);
            if let Some(table) = list.get_mut(holder) {
                assign(table, key, value)?;
            }
        }
        for key in unset {
            for index in &all {
                if let Some(table) = list.get_mut(*index) {
                    table.remove(key);
                }
            }
        }
        Ok(())
    })
}

/// Takes every entry of that name out, and the default where it pointed there. False: none was there.
pub fn remove_context(path: &Path, name: &str) -> Result<bool> {
    change(path, |document| {
        if !entries(document).any(|table| named(table, name)) {
            return Ok(());
        }
        let mut at = 0;
        while let Some(table) = list(document)?.get(at) {
            if named(table, name) {
                let above = above(table);
                let position = table.position();
                list(document)?.remove(at);
                keep_above(document, position, &above);
            } else {
                at += 1;
            }
        }
        if list(document)?.is_empty() {
            document.remove("context");
        }
        if document.get("default-context").and_then(Item::as_str) == Some(name) {
            clear_default(document);
        }
        Ok(())
    })
}

/// Switches a context on or off. One that is only discovered gets an entry of `kind`.
pub fn set_enabled(path: &Path, name: &str, kind: &str, enabled: bool) -> Result<bool> {
    check_name(name)?;
    change(path, |document| {
        let there = entries(document).any(|table| named(table, name));
        if !there {
            if enabled {
                return Ok(());
            }
            let off = IndexMap::from([("enabled".to_owned(), Value::Bool(false))]);
            return push(document, name, kind, &off);
        }
        for table in list(document)?
            .iter_mut()
            .filter(|table| named(table, name))
        {
            if enabled {
                table.remove("enabled");
            } else {
                assign(table, "enabled", &Value::Bool(false))?;
            }
        }
        Ok(())
    })
}

/// Sets or clears `default-context`.
pub fn set_default(path: &Path, name: Option<&str>) -> Result<bool> {
    change(path, |document| {
        match name {
            Some(name) => {
                check_name(name)?;
                assign(document.as_table_mut(), "default-context", &name.into())?;
            }
            None => clear_default(document),
        }
        Ok(())
    })
}

/// Stores a secret in a file of its own, 0600, below `folder`; gives its path.
pub fn store_secret(
    folder: &Path,
    name: &str,
    secret: &crate::model::SecretText,
) -> Result<PathBuf> {
    use secrecy::ExposeSecret as _;
    check_name(name)?;
    make_folder(folder)?;
    let path = folder.join(name);
    write(&path, secret.expose_secret().as_bytes())?;
    Ok(path)
}

/// Deletes the secret that [`store_secret`] keeps for a context beside the configuration.
pub fn forget_secret(config: &Path, name: &str) -> Result<()> {
    check_name(name)?;
    let folder = config.parent().unwrap_or(Path::new("."));
    let path = folder.join("secrets").join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&path, error)),
        _ => Ok(()),
    }
}

fn check_name(name: &str) -> Result<()> {
    if is_context_name(name) {
        return Ok(());
    }
    Err(
        Error::invalid(format!("{:?} is no name for a context", shown(name))).remedy(
            "Use letters, digits, '.', '_' and '-', at most 63, the first a letter or a digit.",
        ),
    )
}

fn missing(path: &Path, name: &str) -> Error {
    Error::not_found(format!(
        "{} has no context {name}",
        shown(&path.display().to_string())
    ))
}

fn named(table: &Table, name: &str) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name)
}

fn entries(document: &DocumentMut) -> impl Iterator<Item = &Table> {
    document
        .get("context")
        .and_then(Item::as_array_of_tables)
        .into_iter()
        .flat_map(ArrayOfTables::iter)
}

fn list(document: &mut DocumentMut) -> Result<&mut ArrayOfTables> {
    document
        .entry("context")
        .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()))
        .as_array_of_tables_mut()
        .ok_or_else(|| {
            Error::invalid("contexts are not written as [[context]] in this file")
                .remedy("Rewrite them by hand once; nothing was changed.")
        })
}

fn push(
    document: &mut DocumentMut,
    name: &str,
    kind: &str,
    values: &IndexMap<String, Value>,
) -> Result<()> {
    let mut table = Table::new();
    let first = document.as_table().is_empty();
    table.decor_mut().set_prefix(if first { "" } else { "\n" });
    assign(&mut table, "name", &name.into())?;
    assign(&mut table, "backend", &kind.into())?;
    for (key, value) in values {
        assign(&mut table, key, value)?;
    }
    list(document)?.push(table);
    Ok(())
}

/// Sets a key; what stood around the old value (a comment behind it) stays.
fn assign(table: &mut Table, key: &str, value: &Value) -> Result<()> {
    let mut new = toml_of(value)
        .ok_or_else(|| Error::invalid(format!("{} cannot hold that value", shown(key))))?;
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            if same(old, &new) {
                return Ok(());
            }
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        _ => {
            table.insert(key, Item::Value(new));
        }
    }
    Ok(())
}

fn same(old: &toml_edit::Value, new: &toml_edit::Value) -> bool {
    let mut old = old.clone();
    old.decor_mut().clear();
    old.to_string() == new.to_string()
}

/// A JSON value as TOML; `None` where TOML has no such thing.
pub(super) fn toml_of(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None if number.is_u64() => return None,
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items
            .iter()
            .map(toml_of)
            .collect::<Option<toml_edit::Array>>()?
            .into(),
        Value::Object(map) => {
            let mut table = toml_edit::InlineTable::new();
            for (key, value) in map {
                table.insert(key, toml_of(value)?);
            }
            table.into()
        }
    })
}

/// Comments above a table that a blank line sets apart from it: they are not about it.
fn above(table: &Table) -> String {
    let prefix = table
        .decor()
        .prefix()
        .and_then(|raw| raw.as_str())
        .unwrap_or("");
    let normal = prefix.replace("\r\n", "\n");
    match normal.rfind("\n\n") {
        Some(end) if normal[..end].contains('#') => format!("{}\n", &normal[..=end]),
        _ => String::new(),
    }
}

/// Puts `text` before the next table of the file, or at its end.
fn keep_above(document: &mut DocumentMut, position: Option<isize>, text: &str) {
    if text.is_empty() {
        return;
    }
    let mut next: Option<&mut Table> = None;
    for (_, item) in document.iter_mut() {
        let tables: Vec<&mut Table> = match item {
            Item::Table(table) => vec![table],
            Item::ArrayOfTables(list) => list.iter_mut().collect(),
            _ => Vec::new(),
        };
        for table in tables {
            let nearer = next
                .as_ref()
                .is_none_or(|next| table.position() < next.position());
            if table.position() > position && nearer {
                next = Some(table);
            }
        }
    }
    if let Some(table) = next {
        let old = table
            .decor()
            .prefix()
            .and_then(|raw| raw.as_str())
            .unwrap_or("")
            .to_owned();
        table
            .decor_mut()
            .set_prefix(format!("{text}{}", old.trim_start_matches('\n')));
    } else {
        let old = document.trailing().as_str().unwrap_or("").to_owned();
        document.set_trailing(format!("{text}{old}"));
    }
}

/// Takes the default out; what stands above it (often the file's heading) stays.
fn clear_default(document: &mut DocumentMut) {
    let order: Vec<String> = document
        .iter()
        .filter(|(_, item)| item.is_value())
        .map(|(key, _)| key.to_owned())
        .collect();
    let Some((key, _)) = document.remove_entry("default-context") else {
        return;
    };
    let above = key
        .leaf_decor()
        .prefix()
        .and_then(|raw| raw.as_str())
        .unwrap_or("")
        .to_owned();
    if !above.contains('#') {
        return;
    }
    let next = order
        .iter()
        .skip_while(|key| *key != "default-context")
        .nth(1);
    match next.and_then(|next| document.key_mut(next)) {
        Some(mut key) => {
            let decor = key.leaf_decor_mut();
            let old = decor
                .prefix()
                .and_then(|raw| raw.as_str())
                .unwrap_or("")
                .to_owned();
            decor.set_prefix(format!("{above}{old}"));
        }
        None => keep_above(document, None, &format!("{above}\n")),
    }
}

/// Reads, edits and writes under the lock. False: the edit changed nothing.
fn change(path: &Path, edit: impl FnOnce(&mut DocumentMut) -> Result<()>) -> Result<bool> {
    // A link (dotfiles are often links) stays one: the file behind it is replaced.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().unwrap_or(Path::new("."));
    make_folder(folder)?;
    let _lock = Lock::take(&target.with_added_extension("lock"), Duration::from_secs(5))?;
    let old = match std::fs::read(&target) {
        Ok(bytes) => {
            String::from_utf8(bytes).map_err(|_| unreadable(path, "it is not UTF-8 text"))?
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unreadable(path, &error.to_string())),
    };
    let (mark, text) = match old.strip_prefix('\u{feff}') {
        Some(text) => ("\u{feff}", text),
        None => ("", old.as_str()),
    };
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        unreadable(
            path,
            &format!("line {line}, column {column}: {}", shown(error.message())),
        )
    })?;
    let before = document.to_string();
    edit(&mut document)?;
    let after = document.to_string();
    if after == before {
        return Ok(false);
    }
    let ended = if text.contains("\r\n") {
        after.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        after
    };
    if ended.parse::<DocumentMut>().is_err() {
        return Err(Error::backend(
            "internal: the edited configuration could not be read back; nothing was changed",
        ));
    }
    write(&target, format!("{mark}{ended}").as_bytes())?;
    Ok(true)
}

fn unreadable(path: &Path, why: &str) -> Error {
    Error::invalid(format!(
        "{} cannot be changed: {why}",
        shown(&path.display().to_string())
    ))
    .remedy("Mend it first: corral config check. Nothing was changed.")
}

fn make_folder(folder: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| failed(folder, error))
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::backend(format!(
        "{} cannot be written: {error}",
        shown(&path.display().to_string())
    ))
    .because(error)
}

/// All or nothing, 0600.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let go = || -> std::io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".corral-")
            .permissions(std::fs::Permissions::from_mode(0o600))
            .tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    };
    go().map_err(|error| failed(path, error))
}

/// A lock beside the file. It says who holds it.
struct Lock(File);

impl Lock {
    fn take(path: &Path, wait: Duration) -> Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| failed(path, error))?;
        let until = Instant::now() + wait;
        while file.try_lock().is_err() {
            if Instant::now() >= until {
                let mut holder = String::new();
                let _ = (&mut file).take(64).read_to_string(&mut holder);
                let holder = match shown(holder.trim()).into_owned() {
                    empty if empty.is_empty() => "another process".to_owned(),
                    pid => format!("corral process {pid}"),
                };
                return Err(Error::conflict(format!(
                    "the configuration is being changed by {holder}; nothing was changed"
                ))
                .remedy("Try again."));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = file.set_len(0);
        let _ = file.rewind();
        let _ = write!(file, "{}", std::process::id());
        Ok(Self(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.set_len(0);
        let _ = self.0.unlock();
    }
}
