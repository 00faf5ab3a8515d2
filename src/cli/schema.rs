//! The JSON Schema of everything that `-o json` prints, made from the types.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::model::{Data, TaskEvent};

/// The schema, with one definition more than the envelope needs: the events of `--progress json`.
pub fn schema() -> Value {
    // As it is printed: a field that may be null is there all the same.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    // Puts the definition among the others.
    generator.subschema_for::<TaskEvent>();
    let mut root = generator.into_root_schema_for::<Data>().to_value();
    loosen(&mut root);
    tell_apart(&mut root);
    if let Value::Object(map) = &mut root {
        map.insert("title".to_owned(), "corral/1".into());
        map.insert(
            "$comment".to_owned(),
            "Lines of --progress json are $defs/TaskEvent.".into(),
        );
        if let Some(Value::Object(properties)) = map.get_mut("properties") {
            let schema = serde_json::json!({"const": crate::model::SCHEMA});
            properties.insert("schema".to_owned(), schema);
        }
    }
    root
}

/// A row of `list` has nothing that only `info` has: else what `info` lost would make it a row of `list`.
fn tell_apart(root: &mut Value) {
    let names = |name: &str| -> BTreeSet<String> {
        let of = root["$defs"][name]["properties"].as_object();
        of.into_iter().flat_map(|all| all.keys().cloned()).collect()
    };
    let (row, detail) = (names("Instance"), names("Detail"));
    let own: Vec<Value> = detail
        .difference(&row)
        .map(|name| serde_json::json!({"required": [name]}))
        .collect();
    let Some(Value::Array(bodies)) = root.get_mut("anyOf") else {
        return;
    };
    for body in bodies {
        let items = body.pointer_mut("/properties/instances/items");
        if let Some(Value::Object(items)) = items
            && items.get("$ref").is_some_and(|to| to == "#/$defs/Instance")
        {
            items.insert("not".to_owned(), serde_json::json!({ "anyOf": own }));
        }
    }
}

/// An empty list of instances and an empty list of details look the same, so "exactly one of" must be
/// "any of".
fn loosen(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(one_of) = map.remove("oneOf") {
                map.insert("anyOf".to_owned(), one_of);
            }
            map.values_mut().for_each(loosen);
        }
        Value::Array(items) => items.iter_mut().for_each(loosen),
        _ => {}
    }
}
