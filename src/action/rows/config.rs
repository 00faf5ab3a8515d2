//! `config …`: where the configuration is, what holds, and what is wrong with it.

use std::path::Path;
use std::sync::Arc;

use super::super::engine::Engine;
use super::super::row::{Group, Row, Run};
use crate::model::{
    Action, Body, Data, PathRow, Result, Secret, SettingRow, print_duration, shown,
};

const PATH: Row = Row {
    examples: &["config path"],
    ..Row::new(
        "config path",
        Group::Setup,
        "Lists the files and folders that corral uses",
        Run::Read(|e, a| Box::pin(path(e, a))),
    )
};

const SHOW: Row = Row {
    examples: &["config show", "config show -o json"],
    details: "Every setting in effect and where it comes from: built-in, file, environment or flag. Secrets are not shown, \
only where they come from.",
    ..Row::new(
        "config show",
        Group::Setup,
        "Shows the settings in effect and their source",
        Run::Read(|e, a| Box::pin(show(e, a))),
    )
};

const CHECK: Row = Row {
    examples: &["config check", "config check -o json"],
    details: "Every fault with its line and column. Exit code 1 when there is one, 0 with warnings only.",
    ..Row::new(
        "config check",
        Group::Setup,
        "Checks the configuration",
        Run::Read(|e, a| Box::pin(check(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&PATH, &SHOW, &CHECK];

async fn path(engine: Arc<Engine>, _: Action) -> Result<Data> {
    let dirs = &engine.env().dirs;
    let row = |what: &str, path: &Path| PathRow {
        what: what.to_owned(),
        path: shown(&path.display().to_string()).into_owned(),
        exists: path.exists(),
    };
    Ok(Data::new(Body::Paths(vec![
        row("configuration", &engine.config().path),
        row("themes", &dirs.config.join("themes")),
        row("keymaps", &dirs.config.join("keymaps")),
        row("data", &dirs.data),
        row("state", &dirs.state),
        row("journal", &dirs.state.join("journal.jsonl")),
        row("pinned certificates", &dirs.state.join("trust.toml")),
        row("protection", &dirs.state.join("protect.toml")),
        row("cache", &dirs.cache),
    ])))
}

async fn show(engine: Arc<Engine>, _: Action) -> Result<Data> {
    let config = engine.config();
    let mut rows = config.rows.clone();
    for entry in &config.contexts {
        let mut say = |key: &str, value: String| {
            rows.push(SettingRow {
                key: format!("context.{}.{key}", entry.name),
                value,
                source: "file".to_owned(),
            });
        };
        let quoted = |text: &str| format!("{:?}", shown(text));
        say("backend", quoted(entry.kind.as_str()));
        for (key, value) in &entry.fields {
            say(key, shown(&value.to_string()).into_owned());
        }
        match &entry.secret {
            None => {}
            Some(Secret::Literal(_)) => say("secret", "*** (written into the file)".to_owned()),
            Some(other) => say("secret", format!("from {}", shown(&format!("{other:?}")))),
        }
        for (key, on, usual) in [
            ("enabled", entry.enabled, true),
            ("readonly", entry.readonly, false),
            ("protected", entry.protected, false),
            ("addresses", entry.addresses, true),
        ] {
            if on != usual {
                say(key, on.to_string());
            }
        }
        if entry.relaxed {
            say("confirm", quoted("relaxed"));
        }
        for (key, seconds) in [
            ("interval", entry.interval),
            ("connect-timeout", entry.connect_timeout),
            ("read-timeout", entry.read_timeout),
        ] {
            if let Some(seconds) = seconds {
                say(
                    key,
                    quoted(&print_duration(std::time::Duration::from_secs(seconds))),
                );
            }
        }
    }
    Ok(Data::new(Body::Settings(rows)))
}

async fn check(engine: Arc<Engine>, _: Action) -> Result<Data> {
    Ok(Data::new(Body::Problems(engine.config().problems.clone())))
}
