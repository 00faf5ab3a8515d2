//! `-o jsonpath=…`: RFC 9535, or the same in braces without the `$`.

use jsonpath_rust::JsonPath as _;
use serde_json::Value;

use crate::model::{Error, Result, shown};

/// What the path selects: texts as they are, the rest as JSON.
pub(crate) fn select(value: &Value, path: &str) -> Result<Vec<String>> {
    let inner = path
        .trim()
        .strip_prefix('{')
        .and_then(|p| p.strip_suffix('}'))
        .unwrap_or(path.trim());
    let query = match inner.as_bytes().first() {
        Some(b'$') => inner.to_owned(),
        Some(b'.' | b'[') => format!("${inner}"),
        _ => format!("$.{inner}"),
    };
    let found = value.query(&query).map_err(|e| {
        Error::invalid(format!(
            "{:?} is no JSONPath: {}",
            shown(path),
            shown(e.to_string().lines().next().unwrap_or_default())
        ))
        .remedy("For example -o 'jsonpath={.instances[*].id}'")
    })?;
    Ok(found
        .into_iter()
        .map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_with_and_without_braces() {
        let value = serde_json::json!({"instances": [{"id": "a/b", "cpus": 2}, {"id": "a/c", "cpus": null}]});
        for path in [
            "{.instances[*].id}",
            "$.instances[*].id",
            ".instances[*].id",
            "instances[*].id",
        ] {
            assert_eq!(select(&value, path).unwrap(), ["a/b", "a/c"], "{path}");
        }
        assert_eq!(
            select(&value, "{.instances[?(@.cpus == 2)].id}").unwrap(),
            ["a/b"]
        );
        assert_eq!(select(&value, "$..cpus").unwrap(), ["2", "null"]);
        assert_eq!(select(&value, "[").unwrap_err().exit_code(), 2);
    }
}
