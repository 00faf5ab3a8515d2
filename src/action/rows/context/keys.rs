//! Keys of a context and its secret, as they are given on the command line.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::change::NewSecret;
use crate::action::engine::Engine;
use crate::action::grammar::tokenize;
use crate::backend::contract::KindInfo;
use crate::backend::registry::{self, KINDS};
use crate::config::{COMMON_CONTEXT_KEYS, value_of};
use crate::model::{Action, Body, Data, Error, Field, FieldKind, Kind, Result, nearest, shown};

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
pub(in crate::action::rows) fn settable(
    fields: &'static [Field],
) -> impl Iterator<Item = &'static Field> + Clone {
    fields
        .iter()
        .chain(COMMON_CONTEXT_KEYS)
        .filter(|field| !field.secret && !matches!(field.name, "name" | "backend"))
}

/// Checks `--set` and gives what goes into the file.
pub(super) fn settings(
    fields: &'static [Field],
    action: &Action,
) -> Result<IndexMap<String, Value>> {
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

pub(super) fn field_named(fields: &'static [Field], key: &str) -> Result<&'static Field> {
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
pub(super) fn secret(
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
pub(super) fn lines(values: &IndexMap<String, Value>) -> String {
    values
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect::<Vec<_>>()
        .join("; ")
}

pub(super) async fn fields(_: Arc<Engine>, action: Action) -> Result<Data> {
    let info = kind_named(action.args.text("backend").unwrap_or_default())?;
    let mut text = String::new();
    for field in settable(info.context_fields) {
        let must = if field.required { " (required)" } else { "" };
        text.push_str(&format!("{}\t{}{must}\n", field.name, field.doc));
    }
    Ok(Data::new(Body::Text(text)))
}
