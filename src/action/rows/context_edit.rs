//! Changes of the configured contexts: planned, gated and journalled like every other change.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use indexmap::IndexMap;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::engine::Engine;
use super::super::grammar::tokenize;
use super::super::planner::{Job, LocalWork, Planned, Shape, Work, fill, finish, target_of};
use super::super::row::Risk;
use super::context::{Known, default_name, found_here, is_found_here, known};
use crate::backend::contract::{KindInfo, Prepared, TaskCx};
use crate::backend::registry::{self, KINDS};
use crate::config::{COMMON_CONTEXT_KEYS, edit, is_context_name, value_of};
use crate::link::trust::TrustStore;
use crate::model::{
    Action, ContextSpec, Error, Field, FieldKind, Instance, InstanceId, InstanceKind, Kind,
    Outcome, Prompt, PromptKind, Refusal, Result, SecretText, State, Step, Support, nearest, shown,
};

/// Stands where an instance's ID has its context: no context can have this name, so none of a
/// context's own rules (relaxed, read-only) bend a change of the configuration.
const PLACE: &str = ".context";

/// What one context's change does, once it is allowed.
pub(super) type Deed = Box<dyn Fn() -> Result<Outcome> + Send + Sync>;

struct Edit {
    deed: Arc<Deed>,
    secret: Option<NewSecret>,
}

/// A secret that is asked for when the change runs, and where it goes.
struct NewSecret {
    context: String,
    folder: PathBuf,
}

#[async_trait]
impl LocalWork for Edit {
    async fn run(&self, cx: &TaskCx, _: Prepared) -> Result<Outcome> {
        if let Some(new) = &self.secret {
            let text = ask(cx, &new.context).await?;
            edit::store_secret(&new.folder, &new.context, &text)?;
        }
        let deed = Arc::clone(&self.deed);
        // It may wait for another corral's lock.
        tokio::task::spawn_blocking(move || deed())
            .await
            .map_err(|error| Error::backend("the change ended inside").because(error))?
    }
}

/// From a pipe, else from whoever answers questions.
async fn ask(cx: &TaskCx, context: &str) -> Result<SecretText> {
    let piped = tokio::task::spawn_blocking(|| {
        let stdin = std::io::stdin();
        if stdin.is_terminal() {
            return Ok(None);
        }
        let mut line = String::new();
        std::io::Read::take(stdin.lock(), 64 << 10)
            .read_line(&mut line)
            .map(|_| Some(line))
    })
    .await
    .map_err(|error| Error::backend("standard input cannot be read").because(error))?
    .map_err(|error| Error::backend(format!("standard input cannot be read: {error}")))?;
    if let Some(line) = piped {
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            return Err(Error::invalid(
                "standard input has no secret in its first line",
            ));
        }
        return Ok(SecretText::from(line.to_owned()));
    }
    cx.asker
        .ask(Prompt {
            context: context.to_owned(),
            question: format!("Secret for {context}:"),
            facts: Vec::new(),
            answer: PromptKind::Secret,
            remedy: format!("corral context set {context} --secret-stdin <FILE"),
        })
        .await
}

/// One context in a plan.
pub(super) struct Target {
    pub name: String,
    pub kind: Kind,
    pub protected: bool,
    pub prepared: Prepared,
    pub work: Arc<dyn LocalWork>,
    /// Opened again even where the configuration has not changed: a secret or a pin behind it has.
    pub reopen: bool,
}

/// A change, and the running corral follows it.
struct Followed {
    engine: Arc<Engine>,
    work: Arc<dyn LocalWork>,
    reopen: Vec<String>,
}

#[async_trait]
impl LocalWork for Followed {
    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        let outcome = self.work.run(cx, prepared).await?;
        self.engine.reload(&self.reopen).await?;
        Ok(outcome)
    }
}

/// A plan over contexts.
pub(super) fn plan(
    engine: &Arc<Engine>,
    action: Action,
    shape: Shape,
    targets: Vec<Target>,
) -> Result<Planned> {
    let readonly = engine.readonly_reason(PLACE);
    let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
    let ask = shape.ask.clone();
    let jobs = targets
        .into_iter()
        .map(|target| {
            let id = InstanceId::new(PLACE, None, &target.name);
            let now = Timestamp::now();
            let mut stub = Instance::new(id, target.kind, InstanceKind::Vm, State::Unknown, now);
            stub.protected = target.protected;
            let mut planned = target_of(&stub);
            let refusal = if engine.is_in_memory() {
                Some("the simulated fleet has no configuration to change".to_owned())
            } else {
                readonly.clone()
            };
            planned
                .refusals
                .extend(refusal.map(|why| Refusal::new(why, None)));
            fill(&mut planned, &target.prepared);
            let prepared = planned.refusals.is_empty().then_some(target.prepared);
            let work = Followed {
                engine: Arc::clone(engine),
                work: target.work,
                reopen: target.reopen.then_some(target.name).into_iter().collect(),
            };
            let job = Job {
                instance: Arc::new(stub),
                work: Work::Local(Arc::new(work)),
                prepared,
                support: Support::Native,
                readonly: readonly.clone(),
            };
            (planned, job)
        })
        .collect();
    let mut planned = finish(engine, action, shape, jobs, Vec::new())?;
    planned.plan.question = format!("{ask} {}?", names.join(", "));
    Ok(planned)
}

/// What must still hold when the change runs: the file as it was read.
fn token(engine: &Engine) -> String {
    match std::fs::read(&engine.config().path) {
        Ok(bytes) => Sha256::digest(bytes)
            .iter()
            .fold(String::new(), |mut hex, byte| {
                hex.push_str(&format!("{byte:02x}"));
                hex
            }),
        Err(_) => "none".to_owned(),
    }
}

/// A change without questions.
pub(super) fn simple(deed: Deed) -> Arc<dyn LocalWork> {
    Arc::new(Edit {
        deed: Arc::new(deed),
        secret: None,
    })
}

fn only(action: &Action) -> String {
    action
        .targets
        .first()
        .map_or_else(String::new, |target| target.as_str().to_owned())
}

fn step(title: String, native: &str, undo: String) -> Step {
    Step::new(title, format!("config.toml: {native}")).undo(undo)
}

/// The kind of this word, or which one may have been meant.
pub(super) fn kind_named(word: &str) -> Result<&'static KindInfo> {
    registry::find(&Kind::read(word)).ok_or_else(|| {
        let all = || KINDS.iter().map(|info| info.id);
        let near = nearest(word, all())
            .map(|near| format!("Did you mean {near}? "))
            .unwrap_or_default();
        let list = all().collect::<Vec<_>>().join(", ");
        Error::invalid(format!("there is no backend {:?}", shown(word)))
            .remedy(format!("{near}There are: {list}"))
    })
}

/// What `--set` takes for a kind with these fields.
pub(super) fn settable(fields: &'static [Field]) -> impl Iterator<Item = &'static Field> + Clone {
    fields
        .iter()
        .chain(COMMON_CONTEXT_KEYS)
        .filter(|field| !field.secret && !matches!(field.name, "name" | "backend"))
}

/// Checks `--set` and gives what goes into the file.
fn settings(fields: &'static [Field], action: &Action) -> Result<IndexMap<String, Value>> {
    let mut values: IndexMap<String, Value> = IndexMap::new();
    for (key, text) in action.args.pairs("set") {
        let field = field_named(fields, &key)?;
        let written: toml_edit::Value = match field.kind {
            FieldKind::Flag => match text.as_str() {
                "true" | "yes" | "on" => true.into(),
                "false" | "no" | "off" => false.into(),
                other => other.into(),
            },
            FieldKind::Count => text
                .parse::<i64>()
                .map_or_else(|_| text.as_str().into(), Into::into),
            _ => text.as_str().into(),
        };
        value_of(field, &written).map_err(|why| Error::invalid(format!("{key} {why}")))?;
        let value = match (written.as_bool(), written.as_integer()) {
            (Some(flag), _) => json!(flag),
            (_, Some(number)) => json!(number),
            _ => json!(text),
        };
        if field.many {
            let list = values.entry(key).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(value);
            }
        } else {
            values.insert(key, value);
        }
    }
    Ok(values)
}

fn field_named(fields: &'static [Field], key: &str) -> Result<&'static Field> {
    if key == "secret" || fields.iter().any(|field| field.secret && field.name == key) {
        return Err(Error::invalid("a secret is never an argument").remedy(
            "Use --secret-stdin, --secret-env NAME, --secret-file PATH or --secret-command 'pass NAME'",
        ));
    }
    settable(fields)
        .find(|field| field.name == key)
        .ok_or_else(|| {
            let near = nearest(key, settable(fields).map(|field| field.name))
                .map(|near| format!("Did you mean {near}? "))
                .unwrap_or_default();
            let list = settable(fields).map(|field| field.name).collect::<Vec<_>>();
            Error::invalid(format!("there is no key {:?}", shown(key)))
                .remedy(format!("{near}There are: {}", list.join(", ")))
        })
}

/// The reference that the `--secret-…` flags make, and whether its text is still to be asked for.
fn secret(
    engine: &Engine,
    action: &Action,
    name: &str,
) -> Result<Option<(Value, Option<NewSecret>)>> {
    let given = [
        "secret-stdin",
        "secret-env",
        "secret-file",
        "secret-command",
    ];
    let given: Vec<&str> = given
        .into_iter()
        .filter(|flag| action.args.has(flag))
        .collect();
    let [one] = given.as_slice() else {
        return match given.as_slice() {
            [] => Ok(None),
            many => Err(Error::invalid(format!(
                "--{} exclude each other",
                many.join(" and --")
            ))),
        };
    };
    let text = action.args.text(one).unwrap_or_default();
    Ok(Some(match *one {
        "secret-stdin" => {
            let config = engine.config();
            let folder = config
                .path
                .parent()
                .unwrap_or(&engine.env().dirs.config)
                .join("secrets");
            let file = folder.join(name);
            let new = NewSecret {
                context: name.to_owned(),
                folder,
            };
            (json!({ "file": file.to_string_lossy() }), Some(new))
        }
        "secret-env" => (json!({ "env": text }), None),
        "secret-file" => (json!({ "file": text }), None),
        _ => {
            let argv = tokenize(text)?;
            if argv.is_empty() {
                return Err(Error::invalid("--secret-command is empty"));
            }
            (json!({ "command": argv }), None)
        }
    }))
}

/// The lines that would be written, for the plan.
fn lines(values: &IndexMap<String, Value>) -> String {
    values
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect::<Vec<_>>()
        .join("; ")
}

pub(super) async fn make_default(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let name = only(&action);
    let spec = match known(&engine, &name)? {
        Known::Member(spec) => spec,
        Known::Off(entry) => {
            return Err(
                Error::refused(format!("context {} is disabled", entry.name))
                    .remedy(format!("corral context enable {}", entry.name)),
            );
        }
    };
    let config = engine.config();
    let before = default_name(&engine);
    let prepared = if config.settings.default_context.as_deref() == Some(name.as_str()) {
        Prepared::unchanged(token(&engine), format!("{name} is the default already"))
    } else {
        let undo = before.map_or_else(String::new, |b| format!("corral context use {b}"));
        let native = format!("default-context = {name:?}");
        Prepared::new(
            token(&engine),
            vec![step(format!("Makes {name} the default"), &native, undo)],
        )
    };
    let mut shape = Shape::of(&action)?;
    "Make the default:".clone_into(&mut shape.ask);
    let target = Target {
        name: name.clone(),
        kind: spec.kind,
        protected: false,
        prepared,
        reopen: false,
        work: simple(Box::new(move || {
            edit::set_default(&config.path, Some(&name))?;
            Ok(Outcome::changed(format!("{name} is the default now")))
        })),
    };
    plan(&engine, action, shape, vec![target])
}

pub(super) async fn add(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let name = only(&action);
    if !is_context_name(&name) {
        return Err(
            Error::invalid(format!("{:?} is no name for a context", shown(&name))).remedy(
                "Use letters, digits, '.', '_' and '-', at most 63, the first a letter or a digit",
            ),
        );
    }
    let info = kind_named(action.args.text("backend").unwrap_or_default())?;
    if known(&engine, &name).is_ok() {
        return Err(
            Error::conflict(format!("there is a context {name} already")).remedy(format!(
                "Change it: corral context set {name} --set KEY=VALUE"
            )),
        );
    }
    let mut values = settings(info.context_fields, &action)?;
    let found = found_here(&engine, &name, info.id);
    for (key, value) in found.iter().flat_map(|spec| &spec.fields) {
        values.entry(key.clone()).or_insert_with(|| value.clone());
    }
    let missing: Vec<String> = info
        .context_fields
        .iter()
        .filter(|field| field.required && !values.contains_key(field.name))
        .map(|field| format!("--set {}=… ({})", field.name, field.doc))
        .collect();
    if !missing.is_empty() {
        return Err(Error::invalid(format!(
            "a context of {} also needs {}",
            info.title,
            missing.join(", ")
        )));
    }
    let new = secret(&engine, &action, &name)?;
    let mut shown_values = values.clone();
    let mut ask = None;
    if let Some((reference, asked)) = new {
        shown_values.insert("secret".to_owned(), reference);
        ask = asked;
    }
    let native = format!(
        "[[context]] name = {name:?}; backend = {:?}; {}",
        info.id,
        lines(&shown_values)
    );
    let prepared = Prepared::new(
        token(&engine),
        vec![step(
            format!("Adds the context {name} ({})", info.title),
            native.trim_end_matches("; "),
            format!("corral context remove {name}"),
        )],
    );
    let path = engine.config().path.clone();
    let mut shape = Shape::of(&action)?;
    "Add the context".clone_into(&mut shape.ask);
    let (kind, id, own) = (info.kind(), info.id, name.clone());
    let deed: Deed = Box::new(move || {
        edit::add_context(&path, &own, id, &shown_values)?;
        Ok(Outcome::changed(format!(
            "added; look at it: corral context test {own}"
        )))
    });
    let target = Target {
        name,
        kind,
        protected: false,
        prepared,
        reopen: ask.is_some(),
        work: Arc::new(Edit {
            deed: Arc::new(deed),
            secret: ask,
        }),
    };
    plan(&engine, action, shape, vec![target])
}

pub(super) async fn set(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let name = only(&action);
    let spec = known(&engine, &name)?.spec();
    let info = kind_named(spec.kind.as_str())?;
    let mut values = settings(info.context_fields, &action)?;
    let mut ask = None;
    if let Some((reference, asked)) = secret(&engine, &action, &name)? {
        values.insert("secret".to_owned(), reference);
        ask = asked;
    }
    let unset = action.args.many("unset");
    for key in unset.iter().filter(|key| *key != "secret") {
        let field = field_named(info.context_fields, key)?;
        if field.required {
            return Err(Error::invalid(format!(
                "{key} cannot be taken out: {} needs it",
                info.title
            )));
        }
    }
    if values.is_empty() && unset.is_empty() {
        return Err(Error::invalid("nothing to set").remedy("Add --set KEY=VALUE or --unset KEY"));
    }
    let mut native = lines(&values);
    for key in &unset {
        native = format!("{native}; without {key}");
    }
    let mut shape = Shape::of(&action)?;
    "Change the context".clone_into(&mut shape.ask);
    if loosens(&spec, &values, &unset) {
        shape.risk = Risk::TypeName;
    }
    let prepared = Prepared::new(
        token(&engine),
        vec![Step::new(
            format!("Changes the context {name}"),
            format!("config.toml: {}", native.trim_start_matches("; ")),
        )],
    );
    let config = engine.config();
    let written = config.contexts.iter().any(|entry| entry.name == name);
    let (kind, own) = (spec.kind.clone(), name.clone());
    let deed: Deed = Box::new(move || {
        let changed = if written {
            edit::set_context(&config.path, &own, &values, &unset)?
        } else {
            edit::add_context(&config.path, &own, kind.as_str(), &values)?;
            true
        };
        Ok(if changed {
            Outcome::changed("changed")
        } else {
            Outcome::unchanged("it was so already")
        })
    });
    let target = Target {
        name,
        kind: spec.kind,
        protected: spec.protected,
        prepared,
        reopen: ask.is_some(),
        work: Arc::new(Edit {
            deed: Arc::new(deed),
            secret: ask,
        }),
    };
    plan(&engine, action, shape, vec![target])
}

/// Taking a guard away needs the name, as any change under it would.
fn loosens(spec: &ContextSpec, values: &IndexMap<String, Value>, unset: &[String]) -> bool {
    let off = |key: &str| {
        values.get(key).is_some_and(|v| *v == json!(false)) || unset.iter().any(|k| k == key)
    };
    (spec.readonly && off("readonly"))
        || (spec.protected && off("protected"))
        || (!spec.relaxed
            && values
                .get("confirm")
                .is_some_and(|v| *v == json!("relaxed")))
}

pub(super) async fn remove(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let name = only(&action);
    let spec = known(&engine, &name)?.spec();
    let config = engine.config();
    let written = config.contexts.iter().any(|entry| entry.name == name);
    let found = !engine.is_in_memory() && is_found_here(&engine, &name);
    let state = token(&engine);
    let mut prepared = if written {
        Prepared::new(
            state,
            vec![Step::new(
                format!("Takes the context {name} out"),
                format!("config.toml: without [[context]] {name:?}"),
            )],
        )
    } else {
        Prepared::refused(
            state,
            format!("{name} was found on this machine; the configuration does not have it"),
            Some(format!(
                "Leave it alone from now on: corral context disable {name}"
            )),
        )
    };
    prepared
        .notes
        .push("Its instances stay as they are.".to_owned());
    if found && written {
        prepared.notes.push(format!(
            "{name} is found on this machine: it stays listed, without these settings."
        ));
    }
    if config.settings.default_context.as_deref() == Some(name.as_str()) {
        prepared
            .notes
            .push("It is the default; there is none afterwards.".to_owned());
    }
    let mut shape = Shape::of(&action)?;
    "Remove the context".clone_into(&mut shape.ask);
    if spec.readonly {
        shape.risk = Risk::TypeName;
    }
    let store = TrustStore::new(&engine.env().dirs);
    let own = name.clone();
    let target = Target {
        name,
        kind: spec.kind,
        protected: spec.protected,
        prepared,
        reopen: false,
        work: simple(Box::new(move || {
            edit::remove_context(&config.path, &own)?;
            edit::forget_secret(&config.path, &own)?;
            let pins = store.forget(&own)?;
            let tail = if pins {
                ", with its pinned certificates"
            } else {
                ""
            };
            Ok(Outcome::changed(format!("removed{tail}")))
        })),
    };
    plan(&engine, action, shape, vec![target])
}

pub(super) async fn switch(engine: Arc<Engine>, action: Action, on: bool) -> Result<Planned> {
    let mut targets = Vec::new();
    for selector in &action.targets {
        let name = selector.as_str().to_owned();
        if targets.iter().any(|target: &Target| target.name == name) {
            continue;
        }
        let found = known(&engine, &name)?;
        let is_on = matches!(found, Known::Member(_));
        let spec = found.spec();
        let (word, other) = if on {
            ("enable", "disable")
        } else {
            ("disable", "enable")
        };
        let prepared = if is_on == on {
            Prepared::unchanged(token(&engine), format!("{name} is {word}d already"))
        } else {
            let native = if on {
                "without enabled = false"
            } else {
                "enabled = false"
            };
            let title = format!(
                "{}s the context {name}",
                if on { "Enable" } else { "Disable" }
            );
            let mut prepared = Prepared::new(
                token(&engine),
                vec![step(
                    title,
                    native,
                    format!("corral context {other} {name}"),
                )],
            );
            if !on && default_name(&engine).as_deref() == Some(name.as_str()) {
                prepared.notes.push(
                    "It is the default: commands without a target need another one.".to_owned(),
                );
            }
            prepared
        };
        let path = engine.config().path.clone();
        let (kind, own) = (spec.kind.clone(), name.clone());
        targets.push(Target {
            name,
            kind: spec.kind,
            protected: spec.protected,
            prepared,
            reopen: false,
            work: simple(Box::new(move || {
                edit::set_enabled(&path, &own, kind.as_str(), on)?;
                Ok(Outcome::changed(format!("{word}d")))
            })),
        });
    }
    let mut shape = Shape::of(&action)?;
    (if on { "Enable" } else { "Disable" }).clone_into(&mut shape.ask);
    plan(&engine, action, shape, targets)
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
