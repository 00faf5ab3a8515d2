//! One thing corral can be asked to do, as data.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::bytes::Bytes;
use super::selector::Selector;

/// Which part of the fleet an action concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scope {
    /// Only these contexts; empty is all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<String>,
    /// Only these kinds; empty is all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<String>,
    /// A filter expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Go on without contexts that are silent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_partial: bool,
}

impl Scope {
    /// Whether a context of this name and kind is in it.
    pub fn covers(&self, context: &str, kind: &str) -> bool {
        (self.contexts.is_empty() || self.contexts.iter().any(|name| name == context))
            && (self.backends.is_empty() || self.backends.iter().any(|name| name == kind))
    }
}

/// Arguments by field name. Values are canonical: bytes, counts and seconds as numbers,
/// flags as booleans, everything else as strings; `many` fields as arrays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Args(pub Map<String, Value>);

impl Args {
    /// A flag's value; absent is false.
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// A whole number.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    /// A size.
    pub fn bytes(&self, name: &str) -> Option<Bytes> {
        self.count(name).map(Bytes)
    }

    /// A span of time.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        let seconds = self.0.get(name).and_then(Value::as_f64)?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// All values of a repeatable field.
    pub fn many(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            Some(Value::String(one)) => vec![one.clone()],
            _ => Vec::new(),
        }
    }

    /// `KEY=VALUE` pairs of a repeatable field.
    pub fn pairs(&self, name: &str) -> Vec<(String, String)> {
        self.many(name)
            .iter()
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    /// Sets a value.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Given at all.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// The CLI parses one, a key is bound to one, a peer sends one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Action {
    /// A row's name, words joined by a space: `snapshot create`.
    pub verb: String,
    /// Positionals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Selector>,
    /// Which part of the fleet.
    #[serde(default)]
    pub scope: Scope,
    /// The row's fields.
    #[serde(default)]
    pub args: Args,
}

impl Action {
    /// `verb` on nothing yet.
    pub fn new(verb: &str) -> Self {
        Self {
            verb: verb.to_owned(),
            ..Self::default()
        }
    }

    /// With one more target.
    #[must_use]
    pub fn on(mut self, target: Selector) -> Self {
        self.targets.push(target);
        self
    }

    /// With an argument.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.args.set(name, value);
        self
    }
}
