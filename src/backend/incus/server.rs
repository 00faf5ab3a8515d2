//! What a server says of itself: `GET /1.0`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::json::Look as _;

/// A server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// It lets this client in.
    pub trusted: bool,
    /// `incus`, `lxd`.
    pub software: String,
    /// Its version.
    pub version: Option<String>,
    /// The machine's or the member's name.
    pub name: Option<String>,
    /// Part of a cluster.
    pub clustered: bool,
    /// SHA-256 of its certificate: who it is.
    pub fingerprint: Option<String>,
    /// Its certificate, PEM.
    pub certificate: Option<String>,
    /// `lxc`, `qemu`.
    pub drivers: Vec<String>,
    /// Versions of these, in the same order.
    pub driver_versions: Vec<String>,
    /// Kernel of its host.
    pub kernel: Option<String>,
    /// System of its host.
    pub os: Option<String>,
    /// How it knows this client: a user name, a fingerprint.
    pub user: Option<String>,
    /// By what: `unix`, `tls`, `oidc`.
    pub method: Option<String>,
    /// What its API can do beyond the first.
    pub extensions: BTreeSet<String>,
}

impl Server {
    /// Reads what it says.
    pub fn read(value: &Value) -> Self {
        let environment = value.get("environment").unwrap_or(&Value::Null);
        let words = |key: &str| -> Vec<String> {
            let text = environment.text(key).unwrap_or_default();
            text.split('|')
                .map(|word| word.trim().to_owned())
                .filter(|word| !word.is_empty())
                .collect()
        };
        let texts = |value: &Value, key: &str| value.text(key).map(str::to_owned);
        let join = |a: Option<&str>, b: Option<&str>| {
            let parts: Vec<&str> = a.into_iter().chain(b).collect();
            (!parts.is_empty()).then(|| parts.join(" "))
        };
        Self {
            trusted: value.text("auth") == Some("trusted"),
            software: texts(environment, "server").unwrap_or_else(|| "server".to_owned()),
            version: texts(environment, "server_version"),
            name: texts(environment, "server_name"),
            clustered: environment.flag("server_clustered").unwrap_or(false),
            fingerprint: texts(environment, "certificate_fingerprint"),
            certificate: texts(environment, "certificate"),
            drivers: words("driver"),
            driver_versions: words("driver_version"),
            kernel: join(
                environment.text("kernel"),
                environment.text("kernel_version"),
            ),
            os: join(environment.text("os_name"), environment.text("os_version")),
            user: texts(value, "auth_user_name"),
            method: texts(value, "auth_user_method"),
            extensions: value
                .list("api_extensions")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        }
    }

    /// Its API can do this. A server that lists none is not known to lack it.
    pub fn can(&self, extension: &str) -> bool {
        self.extensions.is_empty() || self.extensions.contains(extension)
    }

    /// It runs VMs, and not only containers.
    pub fn runs_vms(&self) -> bool {
        self.drivers.iter().any(|driver| driver == "qemu")
    }

    /// How people call it: `Incus`, `LXD`.
    pub fn title(&self) -> String {
        match self.software.as_str() {
            "incus" => "Incus".to_owned(),
            "lxd" => "LXD".to_owned(),
            other => other.to_owned(),
        }
    }
}
