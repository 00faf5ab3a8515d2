//! Values of fields: from text to their canonical form, and back.

use std::time::Duration;

use clap::ArgMatches;
use serde_json::Value;

use crate::model::{
    Args, Bytes, Error, Field, FieldKind, Result, print_duration, shown, typed_duration,
};

/// The values of these fields that were given.
pub(super) fn read_fields(fields: &[Field], matches: &ArgMatches) -> Result<Args> {
    let mut args = Args::default();
    for field in fields {
        if field.kind == FieldKind::Flag {
            if matches!(matches.try_get_one::<bool>(field.name), Ok(Some(true))) {
                args.set(field.name, true);
            }
            continue;
        }
        let values: Vec<&String> = match matches.try_get_many::<String>(field.name) {
            Ok(Some(values)) => values.collect(),
            _ => continue,
        };
        let read: Vec<Value> = values
            .iter()
            .map(|text| read_value(field, text))
            .collect::<Result<_>>()?;
        if field.many {
            args.set(field.name, Value::Array(read));
        } else if let Some(value) = read.into_iter().next_back() {
            args.set(field.name, value);
        }
    }
    Ok(args)
}

/// One field's value from text, in canonical form.
pub fn read_value(field: &Field, text: &str) -> Result<Value> {
    let bad = |error: Error| Error {
        message: format!("--{}: {}", field.name, error.message),
        ..error
    };
    match field.kind {
        FieldKind::Bytes => text.parse::<Bytes>().map(|b| Value::from(b.0)).map_err(bad),
        FieldKind::Count => text.trim().parse::<u64>().map(Value::from).map_err(|_| {
            bad(Error::invalid(format!(
                "{:?} is not a whole number",
                shown(text)
            )))
        }),
        FieldKind::Duration => typed_duration(text)
            .map(|d| {
                if d.subsec_millis() == 0 {
                    Value::from(d.as_secs())
                } else {
                    Value::from(d.as_secs_f64())
                }
            })
            .map_err(bad),
        FieldKind::KeyValue if !text.contains('=') || text.starts_with('=') => Err(bad(
            Error::invalid(format!("{:?} is not KEY=VALUE", shown(text))),
        )),
        FieldKind::Choice(words) if !words.contains(&text) => Err(bad(Error::invalid(format!(
            "{:?} is none of {}",
            shown(text),
            words.join(", ")
        )))),
        FieldKind::Flag => match text {
            "true" | "yes" | "on" => Ok(Value::from(true)),
            "false" | "no" | "off" => Ok(Value::from(false)),
            _ => Err(bad(Error::invalid("a flag takes no value"))),
        },
        _ => Ok(Value::from(text)),
    }
}

/// A value as it is typed.
pub(super) fn print_value(field: &Field, value: &Value) -> String {
    match (field.kind, value) {
        (FieldKind::Bytes, value) => value
            .as_u64()
            .map_or_else(|| value.to_string(), |n| Bytes(n).exact()),
        (FieldKind::Duration, value) => value
            .as_f64()
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
            .map_or_else(|| value.to_string(), print_duration),
        (_, Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    }
}
