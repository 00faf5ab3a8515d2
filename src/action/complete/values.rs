//! What a value may be: by the flag, or by the kind of thing a verb is done with.

use clap::Arg;

use super::names::{instances, snapshots};
use super::{Candidates, FILES, Names};
use crate::action::row::Row;
use crate::action::{render, rows};
use crate::backend::{catalogue, registry};
use crate::model::{Field, FieldKind, GroupNoun};

/// What is wanted in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing that could be known.
    Nothing,
    /// A file of this machine.
    File,
    /// An image, by name or as a file.
    Image,
    /// What an image is fetched from.
    Source,
    /// An instance.
    Instance,
    /// An instance with a snapshot of it.
    SnapshotOf,
    /// The name of a snapshot of the instance that is named before.
    Snapshot,
    /// A context.
    Context,
    /// A kind of system.
    Backend,
    /// A task.
    Task,
    /// A network.
    Network,
    /// A place for disks.
    Pool,
    /// A host.
    Host,
    /// A disk of the instance that is named before.
    Disk,
    /// A network interface of it.
    Nic,
    /// One of the shells.
    Shell,
    /// A filter.
    Filter,
    /// One of these words.
    Words(&'static [&'static str]),
}

/// What stands where a verb's objects do.
pub fn of_noun(noun: GroupNoun, typed: &str) -> Wanted {
    match noun {
        GroupNoun::Instances if typed.contains('@') => Wanted::SnapshotOf,
        GroupNoun::Instances => Wanted::Instance,
        GroupNoun::Contexts => Wanted::Context,
        GroupNoun::Tasks => Wanted::Task,
        GroupNoun::File | GroupNoun::Source => Wanted::File,
        GroupNoun::Shell => Wanted::Shell,
        GroupNoun::Images => Wanted::Image,
        GroupNoun::ImageSources => Wanted::Source,
        GroupNoun::Hosts => Wanted::Host,
        GroupNoun::Pools => Wanted::Pool,
        GroupNoun::Networks => Wanted::Network,
        GroupNoun::None | GroupNoun::NewInstance | GroupNoun::NewContext | GroupNoun::Words => {
            Wanted::Nothing
        }
    }
}

/// What a field takes, by its name where its kind says too little.
pub fn of_field(name: &str, kind: FieldKind) -> Wanted {
    match (name, kind) {
        (_, FieldKind::Choice(words)) => Wanted::Words(words),
        ("filter", _) => Wanted::Filter,
        ("image" | "backing" | "cdrom", FieldKind::Path) => Wanted::Image,
        ("config", _) | (_, FieldKind::Path) => Wanted::File,
        ("context", _) | (_, FieldKind::Context) => Wanted::Context,
        ("backend", _) => Wanted::Backend,
        ("network", _) => Wanted::Network,
        ("storage" | "to", FieldKind::Text) => Wanted::Pool,
        ("disk", FieldKind::Name) => Wanted::Disk,
        ("nic", _) => Wanted::Nic,
        (_, FieldKind::Selector) => Wanted::Instance,
        (_, FieldKind::Snapshot) => Wanted::Snapshot,
        (_, FieldKind::Task) => Wanted::Task,
        _ => Wanted::Nothing,
    }
}

/// What is known of that. `targets` are the objects that are named already.
pub fn offered(wanted: Wanted, typed: &str, targets: &[&str], names: &dyn Names) -> Candidates {
    let of_targets = |find: &dyn Fn(&str) -> Candidates| -> Candidates {
        let mut found: Candidates = Vec::new();
        for target in targets {
            let id = target.split('@').next().unwrap_or(target);
            for (word, about) in find(id) {
                if found.iter().all(|(known, _)| *known != word) {
                    found.push((word, about));
                }
            }
        }
        found
    };
    match wanted {
        Wanted::Nothing => Vec::new(),
        Wanted::File => plain(&[FILES]),
        Wanted::Image => {
            let mut found = names.images();
            found.extend(plain(&[FILES]));
            found
        }
        Wanted::Source => {
            let all = catalogue::all().iter();
            let mut found: Candidates = all
                .map(|image| (image.name.clone(), image.title.clone()))
                .collect();
            found.extend(plain(&[FILES]));
            found
        }
        Wanted::Instance => instances(names, typed),
        Wanted::SnapshotOf => snapshots(names, typed),
        Wanted::Snapshot => of_targets(&|id| plain(&names.snapshots(id))),
        Wanted::Context => {
            let all = names.contexts().into_iter();
            all.map(|name| (name, "context".to_owned())).collect()
        }
        Wanted::Backend => {
            let kinds = registry::KINDS.iter();
            kinds
                .map(|kind| (kind.id.to_owned(), kind.title.to_owned()))
                .collect()
        }
        Wanted::Task => names.tasks(),
        Wanted::Network => names.networks(),
        Wanted::Pool => names.pools(),
        Wanted::Host => names.hosts(),
        Wanted::Disk => of_targets(&|id| names.disks(id)),
        Wanted::Nic => of_targets(&|id| names.nics(id)),
        Wanted::Shell => plain(&["bash", "zsh", "fish"]),
        Wanted::Filter => names.filter(typed),
        Wanted::Words(words) => plain(words),
    }
}

/// Values of a flag, each with `lead` before it.
pub(super) fn of_arg(
    row: Option<&'static Row>,
    arg: &Arg,
    lead: &str,
    typed: &str,
    targets: &[&str],
    names: &dyn Names,
) -> Candidates {
    let name = arg.get_id().as_str();
    let found = match name {
        "output" => plain(&["table", "wide", "name", "json", "yaml", "jsonpath="]),
        "columns" => columns(row, typed),
        "sort" => row.map_or_else(Vec::new, |row| plain(&render::columns(row.name))),
        "set" => row.map_or_else(Vec::new, |row| settings(row.name)),
        _ => match field(row, name) {
            Some(field) => offered(of_field(name, field.kind), typed, targets, names),
            None if name == "config" => plain(&[FILES]),
            None => {
                let words = arg.get_possible_values();
                let words = words.iter().map(clap::builder::PossibleValue::get_name);
                plain(&words.collect::<Vec<_>>())
            }
        },
    };
    found
        .into_iter()
        .map(|(word, about)| {
            if word == FILES {
                (word, about)
            } else {
                (format!("{lead}{word}"), about)
            }
        })
        .collect()
}

/// `KEY=` of what `--set` of a command takes.
pub fn settings(verb: &str) -> Candidates {
    let keys = rows::settable(verb).into_iter();
    keys.map(|field| (format!("{}=", field.name), field.doc.to_owned()))
        .collect()
}

fn plain(words: &[impl AsRef<str>]) -> Candidates {
    words
        .iter()
        .map(|word| (word.as_ref().to_owned(), String::new()))
        .collect()
}

/// The last of the columns that are being typed; those before it are not offered again.
fn columns(row: Option<&'static Row>, typed: &str) -> Candidates {
    let before = typed.rfind(',').map_or("", |at| &typed[..=at]);
    let chosen: Vec<&str> = before.split(',').collect();
    let all = row.map(|row| render::columns(row.name)).unwrap_or_default();
    all.into_iter()
        .filter(|column| !chosen.contains(&column.as_str()))
        .map(|column| (format!("{before}{column}"), String::new()))
        .collect()
}

/// The field of this name, of the row or of those that many take.
pub(super) fn field(row: Option<&'static Row>, name: &str) -> Option<&'static Field> {
    let all = Row::SCOPE_FLAGS.iter().chain(Row::CHANGE_FLAGS);
    let own = row.and_then(|row| row.field(name));
    own.or_else(|| all.into_iter().find(|f| f.name == name))
}
