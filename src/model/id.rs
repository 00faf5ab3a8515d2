//! Addresses of instances and snapshots, as users type them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};

/// `CONTEXT/[NAMESPACE/]KEY`. Prints without any character that a shell would treat specially,
/// so it needs no quoting and is no glob. `parse(print(id)) == id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId {
    segments: Vec<String>,
}

impl InstanceId {
    /// An ID in `context`. `namespace` and `key` may hold anything.
    pub fn new(context: &str, namespace: Option<&str>, key: &str) -> Self {
        let mut segments = vec![context.to_owned()];
        segments.extend(namespace.map(str::to_owned));
        segments.push(key.to_owned());
        Self { segments }
    }

    /// An ID of `context` for what another system calls `within`: a path of several segments.
    pub fn relayed(context: &str, within: &[&str]) -> Self {
        let segments = std::iter::once(context).chain(within.iter().copied());
        Self {
            segments: segments.map(str::to_owned).collect(),
        }
    }

    /// The context's name.
    pub fn context(&self) -> &str {
        self.segments.first().map_or("", String::as_str)
    }

    /// The namespace, project or remote path between context and key, decoded, joined by `/`.
    pub fn namespace(&self) -> Option<String> {
        match self.segments.len() {
            0..=2 => None,
            n => Some(self.segments[1..n - 1].join("/")),
        }
    }

    /// The backend's own key: a name, vmid, moref or UUID; decoded.
    pub fn key(&self) -> &str {
        self.segments.last().map_or("", String::as_str)
    }

    /// Something of corral's own, in the place of an instance: a context that is changed, a check that is mended.
    /// No context can have such a name.
    pub fn is_own(&self) -> bool {
        self.context().starts_with('.')
    }

    /// How a person is told of it: the ID, or, of corral's own things, what it is.
    pub fn spoken(&self) -> String {
        match self.context() {
            ".context" => format!("context {}", self.key()),
            ".task" => format!("task {}", self.key()),
            _ if self.is_own() => self.key().to_owned(),
            _ => self.to_string(),
        }
    }

    /// The ID without its context, printed: what a peer calls it.
    pub fn within(&self) -> String {
        self.segments[1..]
            .iter()
            .map(|s| encode_segment(s))
            .collect::<Vec<_>>()
            .join("/")
    }
}

/// One path segment of an ID: `A-Z a-z 0-9 . _ - + : ,` stay, all else becomes `%XX`;
/// a leading `-` is encoded too.
pub fn encode_segment(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    for (i, byte) in segment.bytes().enumerate() {
        let literal = byte.is_ascii_alphanumeric()
            || matches!(byte, b'.' | b'_' | b'+' | b':' | b',')
            || (byte == b'-' && i > 0);
        if literal {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A segment without its `%XX`; `None` for what is no encoded text.
pub fn decode_segment(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%' {
            let hex = tail.get(..2)?;
            if !hex.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            bytes.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(byte);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

/// The two sides of the one `@` of `INSTANCE@SNAPSHOT`, as typed; `None` without one. What could be
/// meant in two ways is refused: a piece that is lost or lands on the wrong side names another snapshot.
pub(super) fn split_at(text: &str) -> Result<Option<(&str, &str)>> {
    let Some((instance, snapshot)) = text.split_once('@') else {
        return Ok(None);
    };
    let bad = |why: &str, remedy: String| {
        Err(Error::invalid(format!("{:?}: {why}", super::shown(text))).remedy(remedy))
    };
    if instance.is_empty() || snapshot.is_empty() {
        return bad(
            "a snapshot is INSTANCE@SNAPSHOT, and one of the two is empty",
            "Write both; corral snapshot list INSTANCE shows the snapshots".to_owned(),
        );
    }
    if snapshot.contains('@') {
        return bad(
            "it is not clear which @ begins the snapshot's name",
            "Write an @ that belongs to a name as %40, or give the snapshot by --name".to_owned(),
        );
    }
    if snapshot.contains('/') {
        let name = encode_segment(&decode_segment(snapshot).unwrap_or_else(|| snapshot.to_owned()));
        return bad(
            "there is a / behind the @",
            format!("If it belongs to the snapshot's name: {instance}@{name}"),
        );
    }
    Ok(Some((instance, snapshot)))
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self
            .segments
            .iter()
            .map(|s| encode_segment(s))
            .collect::<Vec<_>>()
            .join("/");
        f.pad(&text)
    }
}

impl FromStr for InstanceId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::invalid(format!("{:?} is not an ID: {why}", super::shown(text))).remedy(
                "An ID is CONTEXT/KEY or CONTEXT/NAMESPACE/KEY; corral list -o name prints them.",
            )
        };
        let segments: Vec<String> = text
            .split('/')
            .map(decode_segment)
            .collect::<Option<_>>()
            .ok_or_else(|| bad("a % must be followed by two hex digits of UTF-8 text"))?;
        if segments.len() < 2 {
            return Err(bad("it has no context"));
        }
        if segments.iter().any(String::is_empty) {
            return Err(bad("a part is empty"));
        }
        Ok(Self { segments })
    }
}

impl Serialize for InstanceId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InstanceId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for InstanceId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "InstanceId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "CONTEXT/[NAMESPACE/]KEY, percent-encoded; needs no shell quoting.",
            "pattern": "^[A-Za-z0-9._+:,%-]+(/[A-Za-z0-9._+:,%-]+)+$"
        })
    }
}

/// `ID@NAME`: one snapshot of one instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotRef {
    /// The instance.
    pub instance: InstanceId,
    /// The snapshot's name, decoded.
    pub name: String,
}

impl fmt::Display for SnapshotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.instance, encode_segment(&self.name))
    }
}

impl FromStr for SnapshotRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("{:?} is not ID@SNAPSHOT", super::shown(text)));
        let (instance, name) = split_at(text)?.ok_or_else(bad)?;
        let name = decode_segment(name).ok_or_else(bad)?;
        Ok(Self {
            instance: instance.parse()?,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prints_without_shell_characters() {
        let id = InstanceId::new("pve", Some("a b"), "-x/ü*@");
        assert_eq!(id.to_string(), "pve/a%20b/%2Dx%2F%C3%BC%2A%40");
        assert_eq!(id.to_string().parse::<InstanceId>().unwrap(), id);
        assert_eq!(id.namespace().as_deref(), Some("a b"));
    }

    #[test]
    fn refuses_what_is_no_id() {
        for text in [
            "", "web", "a//b", "/a", "a/", "a/%2", "a/%zz", "a/%FF", "a/%+1",
        ] {
            assert!(text.parse::<InstanceId>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parse_print_is_identity(context in "[A-Za-z0-9][A-Za-z0-9._-]{0,20}", ns in proptest::option::of("\\PC{1,20}"), key in any::<String>().prop_filter("not empty", |k| !k.is_empty())) {
            let id = InstanceId::new(&context, ns.as_deref(), &key);
            let printed = id.to_string();
            prop_assert_eq!(printed.parse::<InstanceId>().unwrap(), id.clone());
            prop_assert!(printed.chars().all(|c| c.is_ascii_alphanumeric() || "._-+:,%/".contains(c)));
            prop_assert!(printed.split('/').all(|s| !s.starts_with('-')));
            let snap = SnapshotRef { instance: id, name: key };
            prop_assert_eq!(snap.to_string().parse::<SnapshotRef>().unwrap(), snap);
        }

        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = text.parse::<InstanceId>();
            let _ = text.parse::<SnapshotRef>();
        }
    }
}
