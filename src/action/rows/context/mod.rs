//! `context …`: the connections, how they are, and which is the default.

mod change;
mod edit;
mod keys;
mod known;
mod look;
mod trust;

#[cfg(test)]
mod tests;

pub(super) use keys::settable;

use crate::action::row::{Group, Risk, Row, Run, Targets};
use crate::model::{Field, FieldKind, GroupNoun};

const LIST: Row = Row {
    aliases: &["context ls"],
    examples: &["context list", "context list -o json"],
    details: "Also the disabled ones, and what was looked for on this machine and not found. The star marks the default.",
    ..Row::new(
        "context list",
        Group::Setup,
        "Lists the contexts and how they are",
        Run::Read(|e, a| Box::pin(look::list(e, a))),
    )
};

const GET: Row = Row {
    examples: &["context get", "context get -o name"],
    ..Row::new(
        "context get",
        Group::Setup,
        "Shows the default context; asks nothing of it",
        Run::Read(|e, a| Box::pin(look::get(e, a))),
    )
};

const TEST: Row = Row {
    examples: &["context test", "context test local"],
    noun: GroupNoun::Contexts,
    targets: Targets::Any,
    ..Row::new(
        "context test",
        Group::Setup,
        "Connects and says who answers, or why nobody does",
        Run::Read(|e, a| Box::pin(look::test(e, a))),
    )
};

const USE: Row = Row {
    aliases: &["context switch"],
    examples: &["context use local"],
    details: "The default context routes commands without a target, such as create. It never hides the fleet.",
    noun: GroupNoun::Contexts,
    targets: Targets::One,
    ..Row::new(
        "context use",
        Group::Setup,
        "Makes a context the default",
        Run::Change(|e, a| Box::pin(edit::make_default(e, a))),
    )
};

const SECRET_FIELDS: [Field; 4] = [
    Field::flag(
        "secret-stdin",
        "Reads the secret from standard input, or asks for it",
    ),
    Field::new(
        "secret-env",
        FieldKind::Name,
        "The variable the secret is in",
    ),
    Field::new(
        "secret-file",
        FieldKind::Path,
        "The file the secret is in, mode 0600",
    ),
    Field::new(
        "secret-command",
        FieldKind::Text,
        "The command that prints the secret; no shell reads it",
    ),
];

const ADD: Row = Row {
    examples: &[
        "context add lab --backend qemu --set readonly=true",
        "context add lab --backend qemu --fields",
    ],
    details: "--fields lists what --set takes for a kind. A secret is never an argument: --secret-stdin, --secret-env, \
--secret-file or --secret-command say where it comes from.",
    noun: GroupNoun::NewContext,
    targets: Targets::One,
    fields: &[
        Field::new("backend", FieldKind::Name, "The kind of system")
            .short('b')
            .required(),
        Field::new("set", FieldKind::KeyValue, "A key of the context").many(),
        SECRET_FIELDS[0],
        SECRET_FIELDS[1],
        SECRET_FIELDS[2],
        SECRET_FIELDS[3],
        Field::flag("fields", "Lists what --set takes; changes nothing"),
    ],
    risk: Risk::Confirm,
    shapes: &[("fields", Run::Read(|e, a| Box::pin(keys::fields(e, a))))],
    ..Row::new(
        "context add",
        Group::Setup,
        "Adds a context to the configuration",
        Run::Change(|e, a| Box::pin(edit::add(e, a))),
    )
};

const SET: Row = Row {
    examples: &[
        "context set local --set protected=true",
        "context set local --unset protected",
        "context set pve --secret-stdin",
    ],
    noun: GroupNoun::Contexts,
    targets: Targets::One,
    fields: &[
        Field::new("set", FieldKind::KeyValue, "A key of the context").many(),
        Field::new("unset", FieldKind::Name, "A key to take out").many(),
        SECRET_FIELDS[0],
        SECRET_FIELDS[1],
        SECRET_FIELDS[2],
        SECRET_FIELDS[3],
    ],
    risk: Risk::Confirm,
    ..Row::new(
        "context set",
        Group::Setup,
        "Changes keys of a context",
        Run::Change(|e, a| Box::pin(edit::set(e, a))),
    )
};

const REMOVE: Row = Row {
    aliases: &["context rm"],
    examples: &["context remove pve"],
    details: "Takes it out of the configuration, with its pinned certificates. Nothing happens to its instances.",
    noun: GroupNoun::Contexts,
    targets: Targets::One,
    risk: Risk::Confirm,
    ..Row::new(
        "context remove",
        Group::Setup,
        "Takes a context out of the configuration",
        Run::Change(|e, a| Box::pin(edit::remove(e, a))),
    )
};

const ENABLE: Row = Row {
    examples: &["context enable local"],
    noun: GroupNoun::Contexts,
    targets: Targets::Some,
    ..Row::new(
        "context enable",
        Group::Setup,
        "Connects to a context again",
        Run::Change(|e, a| Box::pin(edit::switch(e, a, true))),
    )
};

const DISABLE: Row = Row {
    examples: &["context disable local"],
    details: "It stays listed and is not connected to. A context that was found on this machine is disabled by an entry.",
    noun: GroupNoun::Contexts,
    targets: Targets::Some,
    risk: Risk::Confirm,
    ..Row::new(
        "context disable",
        Group::Setup,
        "Stops connecting to a context",
        Run::Change(|e, a| Box::pin(edit::switch(e, a, false))),
    )
};

const TRUST: Row = Row {
    examples: &["context trust pve --confirm pve", "context trust --list"],
    details: "Looks at the certificate that the server presents and pins the issuing CA where the chain has one, else the \
certificate itself. --fingerprint accepts exactly that one and nothing else. -y never accepts a key.",
    noun: GroupNoun::Contexts,
    targets: Targets::Any,
    fields: &[
        Field::new(
            "fingerprint",
            FieldKind::Text,
            "SHA-256 that was compared on the host",
        ),
        Field::flag("list", "Lists what is pinned"),
    ],
    risk: Risk::TypeName,
    shapes: &[("list", Run::Read(|e, a| Box::pin(trust::list(e, a))))],
    ..Row::new(
        "context trust",
        Group::Setup,
        "Pins the certificate of a context",
        Run::Change(|e, a| Box::pin(trust::pin(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[
    &LIST, &GET, &USE, &ADD, &SET, &REMOVE, &ENABLE, &DISABLE, &TEST, &TRUST,
];
