//! What is printed as a headless command line is that action again when it is typed.

use corral::action::grammar::{self, ParseFailure};
use corral::action::{Row, Targets, Words, rows};
use corral::model::{Action, Field, FieldKind, GroupNoun, Scope, Selector};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Any text that a user, a file or a server may come up with.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        "[a-z][a-z0-9.-]{0,8}",
        "\\PC{0,12}",
        "-{1,2}[a-z=]{0,6}",
        Just("--help".to_owned()),
        Just("--".to_owned()),
    ]
    .boxed()
}

fn selector() -> BoxedStrategy<Selector> {
    prop_oneof![
        "[a-z]{1,3}/[a-z]{1,4}(@[a-z]{1,3})?",
        "\\PC{1,12}",
        "[a-z*?]{1,6}"
    ]
    .prop_filter_map("names no instance", |text: String| text.parse().ok())
    .boxed()
}

fn one(kind: FieldKind) -> BoxedStrategy<Value> {
    match kind {
        FieldKind::Flag => Just(json!(true)).boxed(),
        FieldKind::Bytes | FieldKind::Count => {
            prop_oneof![any::<u64>(), 0u64..5000, (0u64..64).prop_map(|n| n << 30)]
                .prop_map(Value::from)
                .boxed()
        }
        // Whole seconds, as the grammar makes them; a fraction is kept to the millisecond.
        FieldKind::Duration => prop_oneof![
            (0u64..10_000_000).prop_map(Value::from),
            (1u64..1000).prop_map(|ms| json!(std::time::Duration::from_millis(ms).as_secs_f64())),
        ]
        .boxed(),
        FieldKind::Choice(words) => prop::sample::select(words).prop_map(Value::from).boxed(),
        FieldKind::KeyValue => ("[a-z-]{1,8}", text())
            .prop_map(|(k, v)| json!(format!("{k}={v}")))
            .boxed(),
        _ => text().prop_map(Value::from).boxed(),
    }
}

fn value(field: &Field) -> BoxedStrategy<Value> {
    if field.many {
        prop::collection::vec(one(field.kind), 1..3)
            .prop_map(Value::Array)
            .boxed()
    } else {
        one(field.kind)
    }
}

fn scope(row: &Row) -> BoxedStrategy<Scope> {
    if !matches!(row.noun, GroupNoun::Instances | GroupNoun::NewInstance) {
        return Just(Scope::default()).boxed();
    }
    let names = || prop::collection::vec(text(), 0..2);
    (names(), names(), prop::option::of(text()), any::<bool>())
        .prop_map(|(contexts, backends, filter, allow_partial)| Scope {
            contexts,
            backends,
            filter,
            allow_partial,
        })
        .boxed()
}

/// Any action of a row, secrets left out: they are never printed.
fn action(row: &'static Row) -> BoxedStrategy<Action> {
    let count = match row.targets {
        Targets::None => 0..=0,
        Targets::One => 1..=1,
        Targets::Some => 1..=3,
        Targets::Any => 0..=3,
    };
    let fields: Vec<_> = row
        .fields
        .iter()
        .filter(|field| !field.secret)
        .map(|field| {
            let some = value(field).prop_map(Some);
            // Without both ends it is no copy.
            let end = row.words == Words::FromTo && matches!(field.name, "from" | "to");
            let given = if field.required || end {
                some.boxed()
            } else {
                prop_oneof![Just(None), some].boxed()
            };
            given.prop_map(|value| (field.name, value))
        })
        .collect();
    (prop::collection::vec(selector(), count), scope(row), fields)
        .prop_map(|(targets, scope, fields)| {
            let mut action = Action {
                targets,
                scope,
                ..Action::new(row.name)
            };
            for (name, value) in fields {
                if let Some(value) = value {
                    action.args.set(name, value);
                }
            }
            action
        })
        .boxed()
}

fn parse(line: &str) -> Result<Action, String> {
    let words = grammar::tokenize(line).map_err(|error| error.to_string())?;
    match grammar::parse(&words) {
        Ok(invocation) => Ok(invocation.action),
        Err(ParseFailure::Bad(error)) => Err(error.to_string()),
        Err(ParseFailure::Show(text)) => Err(text),
    }
}

#[test]
fn every_action_of_every_row_is_itself_after_printing() {
    for row in rows() {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 60,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let tried = runner.run(&action(row), |action| {
            let line = grammar::print(&action);
            prop_assert_eq!(parse(&line), Ok(action), "corral {}", line);
            Ok(())
        });
        if let Err(error) = tried {
            panic!("{}: {error}", row.name);
        }
    }
}
