//! How a user names instances.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::id::{InstanceId, decode_segment, split_at};

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
    ///
    /// # Errors
    /// `Invalid` where it could be split in more than one way, or a part is empty.
    pub fn split_snapshot(&self) -> Result<(Self, Option<String>)> {
        if self.text.starts_with("name:") {
            return Ok((self.clone(), None));
        }
        let Some((instance, snapshot)) = split_at(&self.text)? else {
            return Ok((self.clone(), None));
        };
        // A name as another tool gave it (`100%`) stays as typed where it is no encoded one.
        let snapshot = decode_segment(snapshot).unwrap_or_else(|| snapshot.to_owned());
        let text = instance.to_owned();
        Ok((Self { text }, Some(snapshot)))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<(String, Option<String>)> {
        let (instance, snapshot) = text.parse::<Selector>()?.split_snapshot()?;
        Ok((instance.to_string(), snapshot))
    }

    #[test]
    fn a_snapshot_is_split_off_whole() {
        for (text, instance, snapshot) in [
            ("web", "web", None),
            ("a/b/web@s1", "a/b/web", Some("s1")),
            ("web@a%2Fb", "web", Some("a/b")),
            ("web%40x@a%40b", "web%40x", Some("a@b")),
            ("web@100%", "web", Some("100%")),
            ("name:web@x", "name:web@x", None),
        ] {
            let wanted = (instance.to_owned(), snapshot.map(str::to_owned));
            assert_eq!(split(text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn what_could_be_split_in_two_ways_is_refused_with_what_to_write() {
        for (text, remedy) in [
            ("hz@a/b", "hz@a%2Fb"),
            ("hz@a/", "hz@a%2F"),
            ("lab/x@y/web", "lab/x@y%2Fweb"),
            ("web@x@y", "%40"),
            ("web@", "Write both"),
            ("@s1", "Write both"),
        ] {
            let error = split(text).unwrap_err();
            assert!(error.remedy.unwrap().contains(remedy), "{text}");
            assert!(
                format!("a/{text}")
                    .parse::<crate::model::SnapshotRef>()
                    .is_err()
                    || text == "@s1"
            );
        }
    }
}
