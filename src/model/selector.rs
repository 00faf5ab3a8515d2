//! How a user names instances.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::id::InstanceId;

/// A positional that names one or more instances, as typed. Resolved by the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(transparent)]
pub struct Selector {
    text: String,
}

impl Selector {
    /// Exactly this instance.
    pub fn id(id: &InstanceId) -> Self {
        Self {
            text: id.to_string(),
        }
    }

    /// As typed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Several instances may match.
    pub fn is_glob(&self) -> bool {
        !self.text.starts_with("id:")
            && !self.text.starts_with("name:")
            && self.text.contains(['*', '?'])
    }

    /// Splits `SELECTOR@SNAPSHOT`. `name:web@x` never splits.
    pub fn split_snapshot(&self) -> (Self, Option<String>) {
        if self.text.starts_with("name:") {
            return (self.clone(), None);
        }
        match self.text.rsplit_once('@') {
            Some((instance, snapshot)) if !instance.is_empty() && !snapshot.is_empty() => (
                Self {
                    text: instance.to_owned(),
                },
                Some(decode(snapshot)),
            ),
            _ => (self.clone(), None),
        }
    }
}

fn decode(snapshot: &str) -> String {
    // An encoded name (`%XX`) is decoded the way an ID's segment is; anything else stays as typed.
    format!("x/{snapshot}")
        .parse::<InstanceId>()
        .map_or_else(|_| snapshot.to_owned(), |id| id.key().to_owned())
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() || (text.starts_with('-') && text != "-") {
            return Err(Error::invalid(format!(
                "{:?} names no instance",
                super::shown(text)
            )));
        }
        Ok(Self {
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Selector {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}
