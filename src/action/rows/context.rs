//! `context …`: the connections, how they are, and which is the default.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::super::contexts::{self, spec_of};
use super::super::engine::Engine;
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::{context_edit as edit, context_trust as trust};
use crate::backend::contract::ReadCx;
use crate::backend::registry::{self, KINDS};
use crate::config::ContextEntry;
use crate::fleet::Member;
use crate::model::{
    Action, Body, ContextRow, ContextSpec, Data, Error, Facts, Field, FieldKind, GroupNoun, Health,
    Result, Scope, nearest, shown,
};

/// How long a question may wait for its answer.
const PERSON: Duration = Duration::from_secs(120);

const LIST: Row = Row {
    aliases: &["context ls"],
    examples: &["context list", "context list -o json"],
    details: "Also the disabled ones, and what was looked for on this machine and not found. The star marks the default.",
    ..Row::new(
        "context list",
        Group::Setup,
        "Lists the contexts and how they are",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

const GET: Row = Row {
    examples: &["context get", "context get -o name"],
    ..Row::new(
        "context get",
        Group::Setup,
        "Shows the default context; asks nothing of it",
        Run::Read(|e, a| Box::pin(get(e, a))),
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
        Run::Read(|e, a| Box::pin(test(e, a))),
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
    shapes: &[("fields", Run::Read(|e, a| Box::pin(fields(e, a))))],
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

/// A context by name, wherever it is known from.
pub(super) enum Known {
    /// It is in the fleet.
    Member(ContextSpec),
    /// It is configured and disabled.
    Off(ContextEntry),
}

impl Known {
    pub(super) fn spec(&self) -> ContextSpec {
        match self {
            Self::Member(spec) => spec.clone(),
            Self::Off(entry) => spec_of(entry),
        }
    }
}

/// Finds a context, or says which one may have been meant.
pub(super) fn known(engine: &Engine, name: &str) -> Result<Known> {
    if let Some(member) = engine.fleet().member(name) {
        return Ok(Known::Member(member.spec.clone()));
    }
    let config = engine.config();
    if let Some(entry) = config.contexts.iter().find(|entry| entry.name == name) {
        return Ok(Known::Off(entry.clone()));
    }
    let members = engine.fleet().members();
    let members = members.iter().map(|m| m.spec.name.as_str());
    let entries = config.contexts.iter().map(|entry| entry.name.as_str());
    let near = nearest(name, members.chain(entries)).map_or_else(
        || "See corral context list".to_owned(),
        |near| format!("Did you mean {near}?"),
    );
    Err(Error::not_found(format!("there is no context {:?}", shown(name))).remedy(near))
}

/// The default's name, configured or not.
pub(super) fn default_name(engine: &Engine) -> Option<String> {
    super::create::home(engine, &Action::default()).ok()
}

fn blank(spec: &ContextSpec, default: Option<&str>) -> ContextRow {
    let endpoint = ["url", "uri", "socket", "remote", "host", "path"]
        .iter()
        .find_map(|key| spec.text(key))
        .or(spec.origin.as_deref());
    ContextRow {
        name: spec.name.clone(),
        backend: spec.kind.to_string(),
        health: "connecting".to_owned(),
        default: default == Some(spec.name.as_str()),
        configured: spec.configured,
        readonly: spec.readonly,
        protected: spec.protected,
        instances: None,
        version: None,
        endpoint: endpoint.map(str::to_owned),
        error: None,
        latency_ms: None,
    }
}

fn row(engine: &Engine, spec: &ContextSpec, default: Option<&str>) -> ContextRow {
    let mut row = blank(spec, default);
    let view = engine.fleet().view();
    let Some(context) = view.context(&spec.name) else {
        return row;
    };
    health(&context.health).clone_into(&mut row.health);
    row.error = context.health.error().cloned();
    row.instances = context
        .answered_at
        .is_some()
        .then_some(context.count as u64);
    row.version = context
        .facts
        .as_ref()
        .and_then(|facts| facts.version.clone());
    row.latency_ms = context.latency_ms;
    row
}

fn health(health: &Health) -> &'static str {
    match health {
        Health::Connecting => "connecting",
        Health::Ok => "ok",
        Health::Stale(_) => "stale",
        Health::Failed(_) => "failed",
        Health::LoginNeeded(_) => "login-needed",
    }
}

fn off(entry: &ContextEntry, default: Option<&str>) -> ContextRow {
    let mut row = blank(&spec_of(entry), default);
    "disabled".clone_into(&mut row.health);
    row
}

async fn list(engine: Arc<Engine>, _: Action) -> Result<Data> {
    engine.fleet().settle(&Scope::default()).await;
    let default = default_name(&engine);
    let default = default.as_deref();
    let mut rows: Vec<ContextRow> = engine
        .fleet()
        .members()
        .iter()
        .map(|member| row(&engine, &member.spec, default))
        .collect();
    let config = engine.config();
    let members = rows.len();
    for entry in &config.contexts {
        if rows[..members].iter().all(|row| row.name != entry.name) {
            rows.push(off(entry, default));
        }
    }
    if !engine.is_in_memory() {
        rows.extend(not_added(&engine, &rows));
    }
    let mut data = Data::new(Body::Contexts(Vec::new()));
    // A context that was merely found and never answered is no failure of the list.
    data.errors = rows
        .iter()
        .filter(|row| row.configured)
        .filter_map(|row| row.error.clone().map(|error| error.in_context(&row.name)))
        .collect();
    data.complete = data.errors.is_empty();
    data.body = Body::Contexts(rows);
    Ok(data)
}

/// What could be here and is not: found but not wanted, or missing with the way to get it.
fn not_added(engine: &Engine, rows: &[ContextRow]) -> Vec<ContextRow> {
    let mut more = Vec::new();
    for info in KINDS {
        let found = (info.discover)(engine.env());
        let mut add = |spec: &ContextSpec, endpoint: Option<String>| {
            let mut row = blank(spec, None);
            "not-added".clone_into(&mut row.health);
            row.endpoint = endpoint.or(row.endpoint);
            more.push(row);
        };
        for spec in &found.contexts {
            let there = |row: &ContextRow| row.name == spec.name || same_place(engine, row, spec);
            if !rows.iter().any(there) {
                add(spec, None);
            }
        }
        if let Some((what, why, how)) = &found.absent
            && rows.iter().all(|row| row.backend != info.id)
        {
            let spec = ContextSpec::new(info.id, info.kind());
            add(&spec, Some(format!("{what}: {why}; {how}")));
        }
    }
    more
}

fn same_place(engine: &Engine, row: &ContextRow, spec: &ContextSpec) -> bool {
    engine
        .fleet()
        .member(&row.name)
        .is_some_and(|m| m.spec.kind == spec.kind && m.spec.fields == spec.fields)
}

async fn get(engine: Arc<Engine>, _: Action) -> Result<Data> {
    let name = super::create::home(&engine, &Action::default())?;
    let row = match known(&engine, &name) {
        Ok(Known::Member(spec)) => row(&engine, &spec, Some(&name)),
        Ok(Known::Off(entry)) => off(&entry, Some(&name)),
        Err(error) => {
            let mut error = error;
            error.message = format!("the default context {:?} does not exist", shown(&name));
            return Err(error.remedy("corral context use NAME"));
        }
    };
    Ok(Data::new(Body::Contexts(vec![row])))
}

async fn test(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let default = default_name(&engine);
    let names: Vec<String> = if action.targets.is_empty() {
        engine
            .fleet()
            .members()
            .iter()
            .map(|m| m.spec.name.clone())
            .collect()
    } else {
        action
            .targets
            .iter()
            .map(|t| t.as_str().to_owned())
            .collect()
    };
    let mut members: Vec<Arc<Member>> = Vec::new();
    for name in &names {
        match known(&engine, name)? {
            Known::Member(_) => members.extend(engine.fleet().member(name)),
            Known::Off(entry) => {
                return Err(
                    Error::refused(format!("context {} is disabled", entry.name))
                        .remedy(format!("corral context enable {}", entry.name)),
                );
            }
        }
    }
    let tests = members.into_iter().map(|member| {
        let engine = &engine;
        let mut row = blank(&member.spec, default.as_deref());
        async move {
            let name = member.spec.name.clone();
            match reach(engine, &member).await {
                Ok((facts, took)) => {
                    "ok".clone_into(&mut row.health);
                    row.version = facts.version.or(facts.summary);
                    row.latency_ms = u64::try_from(took.as_millis()).ok();
                }
                Err(error) => {
                    "failed".clone_into(&mut row.health);
                    row.error = Some(error.in_context(&name));
                }
            }
            row
        }
    });
    let rows = join_all(tests).await;
    for row in &rows {
        // What was learnt is news for everyone, and a back-off is over.
        engine.fleet().refresh(Some(&row.name));
    }
    let mut data = Data::new(Body::Contexts(Vec::new()));
    data.errors = rows.iter().filter_map(|row| row.error.clone()).collect();
    data.complete = data.errors.is_empty();
    data.body = Body::Contexts(rows);
    Ok(data)
}

/// Who answers. Somebody waits for this: they can be asked, and a person takes longer than a server.
async fn reach(engine: &Engine, member: &Member) -> Result<(Facts, Duration)> {
    let name = &member.spec.name;
    let patient = engine.asking(ReadCx::quiet(PERSON));
    let ready = member.backend.ready(&patient);
    patient.within(name, ready).await?;
    let cx = engine.asking(engine.fleet().read_cx(name));
    let begun = Instant::now();
    let facts = cx.within(name, member.backend.probe(&cx)).await?;
    Ok((facts, begun.elapsed()))
}

async fn fields(_: Arc<Engine>, action: Action) -> Result<Data> {
    let info = edit::kind_named(action.args.text("backend").unwrap_or_default())?;
    let mut text = String::new();
    for field in edit::settable(info.context_fields) {
        let must = if field.required { " (required)" } else { "" };
        text.push_str(&format!("{}\t{}{must}\n", field.name, field.doc));
    }
    Ok(Data::new(Body::Text(text)))
}

/// A context found here that would fit: same name, else the only one of its kind.
pub(super) fn found_here(engine: &Engine, name: &str, kind: &str) -> Option<ContextSpec> {
    if engine.is_in_memory() {
        return None;
    }
    let info = registry::find(&crate::model::Kind::read(kind))?;
    let found = (info.discover)(engine.env()).contexts;
    match found.iter().find(|spec| spec.name == name) {
        Some(spec) => Some(spec.clone()),
        None if found.len() == 1 => found.into_iter().next(),
        None => None,
    }
}

/// Whether discovery alone would give this context.
pub(super) fn is_found_here(engine: &Engine, name: &str) -> bool {
    contexts::discovered(&engine.config(), engine.env())
        .iter()
        .any(|spec| spec.name == name)
}
