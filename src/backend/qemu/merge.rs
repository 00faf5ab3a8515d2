//! Puts a new definition into a file that a person edited: comments and unknown keys stay.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TomlError};

/// Keys of ours that are absent when they have no value; any other absent key is someone else's.
const OPTIONAL: [&str; 13] = [
    "os",
    "note",
    "created_at",
    "code",
    "code_format",
    "vars",
    "backing",
    "path",
    "readonly",
    "slot",
    "max_cpus",
    "max_memory",
    "dimms",
];

/// Lists of ours that are absent or an empty array when they have no element.
const LISTS: [&str; 4] = ["disks", "cdroms", "nics", "forwards"];

/// `old` with every value of `fresh`.
pub(super) fn merged(old: &str, fresh: &str) -> Result<String, TomlError> {
    let mut document: DocumentMut = old.parse()?;
    let fresh: DocumentMut = fresh.parse()?;
    put(document.as_table_mut(), fresh.as_table());
    Ok(document.to_string())
}

fn put(old: &mut Table, fresh: &Table) {
    let gone: Vec<String> = old
        .iter()
        .map(|(key, _)| key.to_owned())
        .filter(|key| !fresh.contains_key(key))
        .filter(|key| OPTIONAL.contains(&key.as_str()) || LISTS.contains(&key.as_str()))
        .collect();
    for key in gone {
        old.remove(&key);
    }
    for (key, item) in fresh {
        match (old.get_mut(key), item) {
            (Some(Item::Table(old)), Item::Table(fresh)) => put(old, fresh),
            (Some(Item::ArrayOfTables(old)), Item::ArrayOfTables(fresh)) => put_all(old, fresh),
            (Some(Item::Value(old)), Item::Value(fresh)) => {
                if old.to_string().trim() != fresh.to_string().trim() {
                    let decor = old.decor().clone();
                    *old = fresh.clone();
                    *old.decor_mut() = decor;
                }
            }
            _ => {
                // A list of tables after another value of the same name would be invalid TOML.
                old.remove(key);
                old.insert(key, item.clone());
            }
        }
    }
}

/// Elements are the same when they have the same name.
fn put_all(old: &mut ArrayOfTables, fresh: &ArrayOfTables) {
    let before = std::mem::take(old);
    for table in fresh {
        let name = table.get("name").and_then(Item::as_str);
        let known = name.and_then(|name| {
            before
                .iter()
                .find(|table| table.get("name").and_then(Item::as_str) == Some(name))
        });
        match known {
            Some(known) => {
                let mut kept = known.clone();
                put(&mut kept, table);
                old.push(kept);
            }
            None => old.push(table.clone()),
        }
    }
}
