//! Laying the clean tables over each other.

use config::{Config, Map as Table, Source, Value as Cell, ValueKind};
use serde_json::Value;

use super::schema::KEYS;
use super::settings::{Raw, Settings};
use crate::model::SettingRow;

/// One layer: dotted key and canonical value.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    /// `built-in`, `file`, `environment` or `flag`.
    pub source: &'static str,
    pub values: Vec<(&'static str, Value)>,
}

impl Layer {
    pub(super) fn new(source: &'static str) -> Self {
        Self {
            source,
            values: Vec::new(),
        }
    }
}

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Table<String, Cell>, config::ConfigError> {
        let mut root = Table::new();
        for (name, value) in &self.values {
            let value = cell(self.source, value);
            match name.split_once('.') {
                None => {
                    root.insert((*name).to_owned(), value);
                }
                Some((table, key)) => {
                    let table = root
                        .entry(table.to_owned())
                        .or_insert_with(|| Cell::new(None, ValueKind::Table(Table::new())));
                    if let ValueKind::Table(table) = &mut table.kind {
                        table.insert(key.to_owned(), value);
                    }
                }
            }
        }
        Ok(root)
    }
}

fn cell(source: &str, value: &Value) -> Cell {
    let kind = match value {
        Value::Null => ValueKind::Nil,
        Value::Bool(flag) => ValueKind::Boolean(*flag),
        Value::Number(number) => number.as_i64().map_or_else(
            || ValueKind::Float(number.as_f64().unwrap_or_default()),
            ValueKind::I64,
        ),
        Value::String(text) => ValueKind::String(text.clone()),
        Value::Array(items) => {
            ValueKind::Array(items.iter().map(|item| cell(source, item)).collect())
        }
        Value::Object(map) => ValueKind::Table(
            map.iter()
                .map(|(key, value)| (key.clone(), cell(source, value)))
                .collect(),
        ),
    };
    Cell::new(Some(&source.to_owned()), kind)
}

/// The effective settings, later layers over earlier ones, and where each came from.
pub(super) fn lay(layers: &[Layer]) -> Result<(Settings, Vec<SettingRow>), String> {
    let mut builder = Config::builder();
    for layer in layers {
        builder = builder.add_source(layer.clone());
    }
    let raw: Raw = builder
        .build()
        .and_then(Config::try_deserialize)
        .map_err(|error| error.to_string())?;
    let rows = KEYS
        .iter()
        .filter_map(|key| {
            let (source, value) = layers.iter().rev().find_map(|layer| {
                let (_, value) = layer.values.iter().find(|(name, _)| *name == key.name)?;
                Some((layer.source, value))
            })?;
            Some(SettingRow {
                key: key.name.to_owned(),
                value: printed(value),
                source: source.to_owned(),
            })
        })
        .collect();
    Ok((raw.into(), rows))
}

/// As TOML.
pub(super) fn printed(value: &Value) -> String {
    super::edit::toml_of(value).map_or_else(String::new, |value| value.to_string())
}
