//! Every answer keeps the schema, and the schema holds every answer to its word.

use serde_json::{Value, json};

use super::harness::{Home, is_valid};

const ANSWERS: &[&[&str]] = &[
    &["list"],
    &["info", "local/web"],
    &["snapshot", "list", "hv1/db"],
    &["events", "hv1/db"],
    &["metrics", "local/web"],
    &["context", "list"],
    &["doctor"],
    &["matrix"],
    &["history"],
    &["tasks", "list"],
    &["config", "path"],
    &["config", "show"],
    &["config", "check"],
    &["context", "trust", "--list"],
    &["wait", "local/web", "--for", "running"],
    &["stop", "local/web", "--dry-run"],
    &["stop", "local/web"],
];

fn answer(words: &[&str]) -> Value {
    let mut all = words.to_vec();
    all.extend(["-o", "json"]);
    let output = Home::new().demo(&all).plain();
    let json = output.json();
    assert_eq!(json["schema"], "corral/1", "{words:?}: {}", output.err);
    json
}

/// Maps whose keys are data: what is in them is nobody's promise.
fn is_free(path: &str) -> bool {
    ["/args", "/features", "/facts/features", "/default"]
        .iter()
        .any(|end| path.ends_with(end))
}

/// An action is printed without what it does not say.
fn is_optional(path: &str) -> bool {
    path.ends_with("/action/targets")
}

/// Places in a value: of lists the first item that is not empty stands for all.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) if !is_free(at) => {
            for (key, inner) in map {
                let path = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                out.push(path.clone());
                places(inner, &path, out);
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                places(first, &format!("{at}/0"), out);
            }
        }
        _ => {}
    }
}

fn removed(value: &Value, path: &str) -> Value {
    let mut value = value.clone();
    let (parent, key) = path.rsplit_once('/').unwrap();
    if let Some(Value::Object(map)) = value.pointer_mut(parent) {
        map.remove(&key.replace("~1", "/").replace("~0", "~"));
    }
    value
}

fn retyped(value: &Value, path: &str) -> Value {
    let mut value = value.clone();
    let place = value.pointer_mut(path).unwrap();
    *place = match place {
        Value::String(_) | Value::Null => json!([[7]]),
        _ => json!("another type"),
    };
    value
}

#[test]
fn every_answer_keeps_the_schema_and_a_field_that_is_lost_or_retyped_breaks_it() {
    let mut unnoticed = Vec::new();
    let mut tried = 0;
    for words in ANSWERS {
        let whole = answer(words);
        assert!(is_valid(&whole));
        let mut all = Vec::new();
        places(&whole, "", &mut all);
        for path in all {
            tried += 2;
            if !is_optional(&path) && is_valid(&removed(&whole, &path)) {
                unnoticed.push(format!("{words:?}: {path} may be missing"));
            }
            if is_valid(&retyped(&whole, &path)) {
                unnoticed.push(format!("{words:?}: {path} may be anything"));
            }
        }
    }
    assert!(tried > 400, "{tried}");
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}
