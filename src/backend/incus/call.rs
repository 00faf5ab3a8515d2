//! One changing call of the API, as a plan shows it and as it is made.

use serde_json::Value;

use super::json::encoded;

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `PUT` …
    pub method: &'static str,
    /// Path and query.
    pub path: String,
    /// What it carries; `null` is nothing.
    pub body: Value,
}

impl Call {
    /// `method` at `path`.
    pub fn new(method: &'static str, path: impl Into<String>, body: Value) -> Self {
        Self {
            method,
            path: path.into(),
            body,
        }
    }

    /// The line of a plan, secrets masked.
    pub fn shown(&self) -> String {
        let line = match &self.body {
            Value::Null => format!("{} {}", self.method, self.path),
            body => format!("{} {} {}", self.method, self.path, masked(body.clone())),
        };
        crate::model::shown(&line).into_owned()
    }
}

/// Where something of a project is.
pub fn at(parts: &[&str], project: &str) -> String {
    let path: Vec<String> = parts.iter().map(|part| encoded(part)).collect();
    format!("/1.0/{}?project={}", path.join("/"), encoded(project))
}

/// Where an instance is; `more` is what of it: `["state"]`.
pub fn instance(name: &str, project: &str, more: &[&str]) -> String {
    let mut parts = vec!["instances", name];
    parts.extend(more);
    at(&parts, project)
}

/// What stands for a secret.
pub const MASK: &str = "********";

/// Whether the value of a key is nobody else's business: what a guest is set up with may hold passwords.
pub fn is_secret(key: &str) -> bool {
    let user_data = key.starts_with("cloud-init.")
        || matches!(
            key,
            "user.user-data" | "user.vendor-data" | "user.network-config"
        );
    user_data
        || key.starts_with("environment.")
        || matches!(
            key,
            "trust_token" | "token" | "secret" | "secrets" | "password" | "certificate"
        )
}

/// The same with every secret masked.
pub fn masked(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let pairs = map.into_iter().map(|(key, value)| {
                let value = if is_secret(&key) && !value.is_null() {
                    Value::String(MASK.to_owned())
                } else {
                    masked(value)
                };
                (key, value)
            });
            Value::Object(pairs.collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(masked).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_shows_the_call_and_no_secret() {
        let call = Call::new(
            "PATCH",
            instance("we b", "p&q", &[]),
            json!({"config": {"limits.cpu": "2", "cloud-init.user-data": "#cloud-config\npassword: x"}}),
        );
        assert_eq!(
            call.shown(),
            "PATCH /1.0/instances/we%20b?project=p%26q {\"config\":{\"limits.cpu\":\"2\",\"cloud-init.user-data\":\"********\"}}"
        );
        assert_eq!(
            Call::new("DELETE", "/1.0/x", Value::Null).shown(),
            "DELETE /1.0/x"
        );
    }
}
