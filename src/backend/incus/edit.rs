//! The definition as YAML, as `incus config edit` has it: without what the server notes for itself.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};

use super::call::{MASK, is_secret, masked};
use super::ctx::Ctx;
use super::json::Look as _;
use super::seen::{Seen, digest};
use super::work::{self, Act, Edit as Writing, Todo, Work};
use crate::backend::contract::{Changes, EditNative, EditRequest, Prepared, ReadCx, TaskCx};
use crate::model::{
    Error, Instance, Native, NativeFormat, NativeText, Outcome, Refusal, Result, Step, shown,
};

/// More lines than this are counted, not listed.
const LINES: usize = 60;
/// What an editor may change.
const KEYS: [&str; 6] = [
    "architecture",
    "config",
    "description",
    "devices",
    "ephemeral",
    "profiles",
];

/// The native-definition family.
#[derive(Clone, Debug)]
pub struct Edit(pub Arc<Ctx>);

/// What is shown of a definition.
fn visible(value: &Value) -> Value {
    let mut shown = Map::new();
    for key in KEYS {
        let Some(value) = value.get(key).filter(|value| !value.is_null()) else {
            continue;
        };
        let value = match (key, value) {
            ("config", Value::Object(config)) => {
                let mut pairs: Vec<(&String, &Value)> = config
                    .iter()
                    .filter(|(key, _)| !key.starts_with("volatile."))
                    .collect();
                pairs.sort_by_key(|(key, _)| *key);
                Value::Object(
                    pairs
                        .into_iter()
                        .map(|(k, v)| (k.clone(), v.clone()))
                        .collect(),
                )
            }
            _ => value.clone(),
        };
        shown.insert(key.to_owned(), value);
    }
    Value::Object(shown)
}

/// YAML, texts always in quotes where they could be something else.
fn yaml(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

fn write(out: &mut String, value: &Value, depth: usize) {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                out.push_str(&format!("{pad}{}:", scalar(key)));
                nested(out, value, depth);
            }
        }
        Value::Array(list) => {
            for value in list {
                out.push_str(&format!("{pad}-"));
                nested(out, value, depth);
            }
        }
        other => out.push_str(&format!("{pad}{}\n", plain(other))),
    }
}

fn nested(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if map.is_empty() => out.push_str(" {}\n"),
        Value::Array(list) if list.is_empty() => out.push_str(" []\n"),
        Value::Object(_) | Value::Array(_) => {
            out.push('\n');
            write(out, value, depth + 1);
        }
        Value::String(text) if is_block(text) => {
            out.push_str(if text.ends_with('\n') {
                " |\n"
            } else {
                " |-\n"
            });
            let pad = "  ".repeat(depth + 1);
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                if line.is_empty() {
                    out.push('\n');
                } else {
                    out.push_str(&format!("{pad}{line}\n"));
                }
            }
        }
        other => out.push_str(&format!(" {}\n", plain(other))),
    }
}

/// Several lines that a block holds as they are.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.ends_with("\n\n")
        && text.chars().all(|c| c == '\n' || !c.is_control())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A text that reads as nothing but itself, else quoted.
fn scalar(text: &str) -> String {
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let taken = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    if word && !taken.contains(&text.to_ascii_lowercase().as_str()) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// The definition for looking at, secrets masked.
pub fn native(seen: &Seen) -> Native {
    Native {
        format: NativeFormat::Yaml,
        text: yaml(&masked(visible(&seen.value))),
    }
}

/// Reads an edited text.
fn read(text: &str, label: &str) -> Result<Value> {
    let bad = |why: String| {
        Error::invalid(format!("{}: {}", shown(label), shown(&why)))
            .remedy("Edit it again; nothing was changed")
    };
    let value: Value = serde_saphyr::from_str(text).map_err(|error| bad(error.to_string()))?;
    let Value::Object(map) = &value else {
        return Err(bad(
            "it is no definition: KEY: VALUE lines are wanted".to_owned()
        ));
    };
    if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(bad(format!("{key} is none of {}", KEYS.join(", "))));
    }
    let mut value = value.clone();
    if let Some(config) = value.get_mut("config").filter(|config| !config.is_null()) {
        let Value::Object(config) = config else {
            return Err(bad("config: KEY: VALUE lines are wanted".to_owned()));
        };
        for (key, value) in config.iter_mut() {
            if key.starts_with("volatile.") {
                return Err(bad(format!("{key} is the server's own")));
            }
            *value = json!(
                text_of(value).ok_or_else(|| bad(format!("config: {key}: a text is wanted")))?
            );
        }
    }
    if let Some(devices) = value
        .get_mut("devices")
        .filter(|devices| !devices.is_null())
    {
        let Value::Object(devices) = devices else {
            return Err(bad(
                "devices: each has a name and KEY: VALUE lines".to_owned()
            ));
        };
        for (name, device) in devices.iter_mut() {
            let Value::Object(device) = device else {
                return Err(bad(format!("devices: {name}: KEY: VALUE lines are wanted")));
            };
            for (key, value) in device.iter_mut() {
                *value = json!(
                    text_of(value)
                        .ok_or_else(|| bad(format!("devices: {name}: {key}: a text is wanted")))?
                );
            }
        }
    }
    for (key, empty) in [
        ("config", json!({})),
        ("devices", json!({})),
        ("profiles", json!([])),
        ("description", json!("")),
    ] {
        if value.get(key).is_none_or(Value::is_null) {
            value[key] = empty;
        }
    }
    Ok(value)
}

/// The server's values are texts: `2` is `"2"`.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null => Some(String::new()),
        _ => None,
    }
}

#[async_trait]
impl EditNative for Edit {
    async fn native(&self, cx: &ReadCx, on: &Instance) -> Result<NativeText> {
        let seen = Seen::now(&self.0, cx, &on.id).await?;
        let definition = visible(&seen.value);
        Ok(NativeText {
            format: NativeFormat::Yaml,
            text: yaml(&definition),
            token: digest(&definition),
        })
    }
}

#[async_trait]
impl Changes<EditRequest> for Edit {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: EditRequest) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token_of_definition());
        let now = visible(&seen.value);
        let before = yaml(&now);
        if request.text == before {
            return Ok(Prepared::unchanged(
                token,
                format!("{id} is written so already"),
            ));
        }
        if request.base != digest(&now) {
            return Ok(Prepared::refused(
                token,
                format!("the definition of {id} was changed since it was opened"),
                Some(format!("Look at it and edit it again: corral edit {id}")),
            ));
        }
        let wanted = match read(&request.text, &request.label) {
            Ok(wanted) => wanted,
            Err(error) => return Ok(Prepared::failed(token, &error)),
        };
        if digest(&visible(&wanted)) == digest(&full(&now)) {
            return Ok(Prepared::unchanged(
                token,
                format!("{id} means the same already"),
            ));
        }
        let masks = wanted.object("config").into_iter().flatten();
        if let Some((key, _)) = masks
            .clone()
            .find(|(key, value)| is_secret(key) && value.as_str() == Some(MASK))
        {
            let mut prepared = Prepared::new(token, Vec::new());
            prepared.refusals.push(Refusal::new(
                format!(
                    "{} holds the mask of a secret, and not the secret",
                    shown(key)
                ),
                Some(format!("Edit it in place: corral edit {id}")),
            ));
            return Ok(prepared);
        }
        let edit = Writing {
            whole: Some(wanted),
            ..Writing::default()
        };
        let todo = Todo::new("Write the definition", Act::Edit(edit));
        let work = Work::on(&seen, vec![todo], format!("{id} is written anew"));
        let path = seen.path(&[]);
        let mut steps: Vec<Step> = vec![Step::new(
            "Write the definition",
            format!("PUT {path} If-Match, as follows"),
        )];
        steps.extend(difference(&before, &request.text));
        let mut prepared = Prepared::new(token, steps).with(work);
        if seen.state().is_active() {
            prepared.notes.push(format!(
                "{id} is {}: what the server cannot change in a running instance it refuses, and nothing is done",
                seen.state()
            ));
        }
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

/// With what an absent key means.
fn full(value: &Value) -> Value {
    let mut value = value.clone();
    for (key, empty) in [
        ("config", json!({})),
        ("devices", json!({})),
        ("profiles", json!([])),
        ("description", json!("")),
    ] {
        if value.get(key).is_none_or(Value::is_null) {
            value[key] = empty;
        }
    }
    visible(&value)
}

/// The lines that go and come.
fn difference(old: &str, new: &str) -> Vec<Step> {
    let diff = TextDiff::from_lines(old, new);
    let mut steps: Vec<Step> = diff
        .iter_all_changes()
        .filter_map(|change| {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => return None,
            };
            let line = change.value().trim_end_matches(['\n', '\r']);
            let line = match line.split_once(':') {
                Some((key, _)) if is_secret(key.trim()) => format!("{key}: {MASK}"),
                _ => line.to_owned(),
            };
            Some(Step::new(format!("{sign} {}", shown(&line)), ""))
        })
        .collect();
    if steps.len() > LINES {
        let more = steps.len() - LINES;
        steps.truncate(LINES);
        steps.push(Step::new(format!("… and {more} more lines"), ""));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let value = json!({
            "architecture": "x86_64",
            "config": {
                "limits.cpu": "1",
                "cloud-init.user-data": "#cloud-config\nusers:\n  - a\n\npackages: []\n",
                "user.a": "true", "user.b": " x", "user.c": "a: b # c", "user.d": "", "user.e": "x\ny",
                "user.f": "tab\there\nx", "user.g": "ü", "user.h": "~", "user.i": "0x1f", "user.j": "- a\n- b\n\n",
            },
            "description": "",
            "devices": {"root": {"path": "/", "type": "disk"}, "eth 0": {"type": "nic"}},
            "ephemeral": false,
            "profiles": ["default"],
        });
        let text = yaml(&value);
        assert!(text.contains("limits.cpu: \"1\""), "{text}");
        assert_eq!(read(&text, "x").unwrap(), value, "{text}");
        assert_eq!(visible(&value)["profiles"], json!(["default"]));
    }

    #[test]
    fn what_is_no_definition_is_refused() {
        for odd in [
            "neither [ nor < {",
            "7",
            "name: x",
            "config: 7",
            "config: {a: [1]}",
            "devices: {a: 1}",
            "config: {volatile.x: \"1\"}",
            "",
        ] {
            assert!(read(odd, "x").is_err(), "{odd}");
        }
        let read = read("config: {limits.cpu: 2}", "x").unwrap();
        assert_eq!(read["config"]["limits.cpu"], "2");
    }
}
