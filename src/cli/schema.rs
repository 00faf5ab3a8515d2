//! The JSON Schema of everything that `-o json` prints, made from the types.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::model::{Data, TaskEvent};

/// The schema, with one definition more than the envelope needs: the events of `--progress json`.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    // Puts the definition among the others.
    generator.subschema_for::<TaskEvent>();
    let mut root = generator.into_root_schema_for::<Data>().to_value();
    loosen(&mut root);
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
