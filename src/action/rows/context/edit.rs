//! Changes of the configured contexts.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::change::{Deed, Target, asking, only, plan, simple, step, token};
use super::keys::{field_named, kind_named, lines, secret, settings};
use super::known::{Known, found_here, is_found_here, known};
use crate::action::engine::Engine;
use crate::action::planner::{Planned, Shape};
use crate::action::row::Risk;
use crate::action::rows::create::default_name;
use crate::backend::contract::Prepared;
use crate::config::{COMMON_CONTEXT_KEYS, edit, is_context_name};
use crate::link::trust::TrustStore;
use crate::model::{Action, ContextSpec, Error, Outcome, Refusal, Result, Step, shown};

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
        let undo = before.map(|b| format!("corral context use {b}"));
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
    let mut prepared = Prepared::new(
        token(&engine),
        vec![step(
            format!("Adds the context {name} ({})", info.title),
            native.trim_end_matches("; "),
            Some(format!("corral context remove {name}")),
        )],
    );
    let hidden = hidden_by(&engine, info.id, &values);
    if let Some(hidden) = &hidden {
        prepared.losses.push(format!(
            "the name {hidden}: it is the same place, its instances are {name}/… from then on"
        ));
        if engine.config().settings.default_context.as_ref() == Some(hidden) {
            let why = format!("{hidden} is the default context and would be hidden by {name}");
            let remedy = format!(
                "Make another one the default first: corral context use NAME. Or name this one {hidden}"
            );
            prepared.refusals.push(Refusal::new(why, Some(remedy)));
        }
    }
    let path = engine.config().path.clone();
    let mut shape = Shape::of(&action)?;
    "Add the context".clone_into(&mut shape.ask);
    let (kind, id, own) = (info.kind(), info.id, name.clone());
    let deed: Deed = Box::new(move || {
        edit::add_context(&path, &own, id, &shown_values)?;
        let instead = hidden
            .as_ref()
            .map_or_else(String::new, |hidden| format!(" in the stead of {hidden}"));
        Ok(Outcome::changed(format!(
            "added{instead}; look at it: corral context test {own}"
        )))
    });
    let target = Target {
        name,
        kind,
        protected: false,
        prepared,
        reopen: ask.is_some(),
        work: asking(deed, ask),
    };
    plan(&engine, action, shape, vec![target])
}

/// The found context that one with these values would hide: it is the same place.
fn hidden_by(engine: &Engine, kind: &str, values: &IndexMap<String, Value>) -> Option<String> {
    let own: IndexMap<String, Value> = values
        .iter()
        .filter(|(key, _)| COMMON_CONTEXT_KEYS.iter().all(|field| field.name != *key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let members = engine.fleet().members();
    let hidden = members.iter().find(|member| {
        !member.spec.configured && member.spec.kind.as_str() == kind && member.spec.fields == own
    })?;
    Some(hidden.spec.name.clone())
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
        work: asking(deed, ask),
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
                    Some(format!("corral context {other} {name}")),
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
