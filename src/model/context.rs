//! A connection, as a backend is opened with it.

use indexmap::IndexMap;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::kind::Kind;

/// A secret text that never prints.
pub type SecretText = SecretString;

/// Where a secret comes from, as config has it. `action` resolves it.
#[derive(Clone)]
pub enum Secret {
    /// An environment variable.
    Env(String),
    /// A command's first line of output.
    Command(Vec<String>),
    /// A file, mode 0600.
    File(std::path::PathBuf),
    /// Written into the config: works, and doctor warns.
    Literal(SecretText),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env {name}"),
            Self::Command(argv) => {
                write!(f, "command {}", argv.first().map_or("", String::as_str))
            }
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Literal(_) => f.write_str("literal"),
        }
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Env(a), Self::Env(b)) => a == b,
            (Self::Command(a), Self::Command(b)) => a == b,
            (Self::File(a), Self::File(b)) => a == b,
            (Self::Literal(a), Self::Literal(b)) => a.expose_secret() == b.expose_secret(),
            _ => false,
        }
    }
}

/// A context ready to be opened. Equal ones are opened alike: where the secret comes from counts, what it
/// was resolved to does not.
#[derive(Clone, Debug)]
pub struct ContextSpec {
    /// Its name.
    pub name: String,
    /// The backend's kind.
    pub kind: Kind,
    /// The kind's own fields, validated.
    pub fields: IndexMap<String, Value>,
    /// The resolved secret.
    pub secret: Option<SecretText>,
    /// Where the secret comes from.
    pub reference: Option<Secret>,
    /// Refuses every change.
    pub readonly: bool,
    /// Every change that asks at all asks for the name.
    pub protected: bool,
    /// Typed gates become plain confirmations.
    pub relaxed: bool,
    /// Seconds between polls; `None` is the default.
    pub interval: Option<u64>,
    /// Seconds to connect; `None` is 5.
    pub connect_timeout: Option<u64>,
    /// Seconds for one read; `None` is 15.
    pub read_timeout: Option<u64>,
    /// Look for addresses in the background.
    pub addresses: bool,
    /// The user wrote it down; false: found on this machine.
    pub configured: bool,
    /// The name it had where it was found.
    pub origin: Option<String>,
}

impl ContextSpec {
    /// A context with defaults.
    pub fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            fields: IndexMap::new(),
            secret: None,
            reference: None,
            readonly: false,
            protected: false,
            relaxed: false,
            interval: None,
            connect_timeout: None,
            read_timeout: None,
            addresses: true,
            configured: false,
            origin: None,
        }
    }

    /// The secret stands in the config as plain text.
    pub fn secret_is_literal(&self) -> bool {
        matches!(self.reference, Some(Secret::Literal(_)))
    }

    /// A text field.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }
}

impl PartialEq for ContextSpec {
    fn eq(&self, other: &Self) -> bool {
        // Taken apart, so that a new field cannot be forgotten here.
        let Self {
            name,
            kind,
            fields,
            secret: _,
            reference,
            readonly,
            protected,
            relaxed,
            interval,
            connect_timeout,
            read_timeout,
            addresses,
            configured,
            origin,
        } = self;
        *name == other.name
            && *kind == other.kind
            && *fields == other.fields
            && *reference == other.reference
            && *readonly == other.readonly
            && *protected == other.protected
            && *relaxed == other.relaxed
            && *interval == other.interval
            && *connect_timeout == other.connect_timeout
            && *read_timeout == other.read_timeout
            && *addresses == other.addresses
            && *configured == other.configured
            && *origin == other.origin
    }
}
