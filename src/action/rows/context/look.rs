//! Looking at contexts: the list, the default, a test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::known::{Known, known};
use crate::action::contexts::spec_of;
use crate::action::engine::Engine;
use crate::action::rows::create::default_name;
use crate::backend::contract::ReadCx;
use crate::backend::registry::KINDS;
use crate::config::ContextEntry;
use crate::fleet::Member;
use crate::model::{
    Action, Body, ContextRow, ContextSpec, Data, Error, Facts, Health, Result, Scope, shown,
};

/// How long a question may wait for its answer.
const PERSON: Duration = Duration::from_secs(120);

fn blank(spec: &ContextSpec, default: Option<&str>) -> ContextRow {
    let endpoint = ["url", "uri", "socket", "remote", "host", "path"]
        .iter()
        .find_map(|key| spec.text(key))
        .or(spec.origin.as_deref());
    ContextRow {
        name: spec.name.clone(),
        backend: spec.kind.to_string(),
        health: "connecting".to_owned(),
        default: default == Some(spec.name.as_str()),
        configured: spec.configured,
        readonly: spec.readonly,
        protected: spec.protected,
        instances: None,
        version: None,
        endpoint: endpoint.map(str::to_owned),
        error: None,
        latency_ms: None,
    }
}

pub(super) fn row(engine: &Engine, spec: &ContextSpec, default: Option<&str>) -> ContextRow {
    let mut row = blank(spec, default);
    let view = engine.fleet().view();
    let Some(context) = view.context(&spec.name) else {
        return row;
    };
    health(&context.health).clone_into(&mut row.health);
    row.error = context.health.error().cloned();
    row.instances = context
        .answered_at
        .is_some()
        .then_some(context.count as u64);
    row.version = context
        .facts
        .as_ref()
        .and_then(|facts| facts.version.clone());
    row.latency_ms = context.latency_ms;
    row
}

fn health(health: &Health) -> &'static str {
    match health {
        Health::Connecting => "connecting",
        Health::Ok => "ok",
        Health::Stale(_) => "stale",
        Health::Failed(_) => "failed",
        Health::LoginNeeded(_) => "login-needed",
    }
}

pub(super) fn off(entry: &ContextEntry, default: Option<&str>) -> ContextRow {
    let mut row = blank(&spec_of(entry), default);
    "disabled".clone_into(&mut row.health);
    row
}

pub(super) async fn list(engine: Arc<Engine>, _: Action) -> Result<Data> {
    engine.fleet().settle(&Scope::default()).await;
    let default = default_name(&engine);
    let default = default.as_deref();
    let mut rows: Vec<ContextRow> = engine
        .fleet()
        .members()
        .iter()
        .map(|member| row(&engine, &member.spec, default))
        .collect();
    let config = engine.config();
    let members = rows.len();
    for entry in &config.contexts {
        if rows[..members].iter().all(|row| row.name != entry.name) {
            rows.push(off(entry, default));
        }
    }
    if !engine.is_in_memory() {
        rows.extend(not_added(&engine, &rows));
    }
    let mut data = Data::new(Body::Contexts(Vec::new()));
    // A context that was merely found and never answered is no failure of the list.
    data.errors = rows
        .iter()
        .filter(|row| row.configured)
        .filter_map(|row| row.error.clone().map(|error| error.in_context(&row.name)))
        .collect();
    data.complete = data.errors.is_empty();
    data.body = Body::Contexts(rows);
    Ok(data)
}

/// What could be here and is not: found but not wanted, or missing with the way to get it.
fn not_added(engine: &Engine, rows: &[ContextRow]) -> Vec<ContextRow> {
    let mut more = Vec::new();
    for info in KINDS {
        let found = (info.discover)(engine.env());
        let mut add = |spec: &ContextSpec, endpoint: Option<String>| {
            let mut row = blank(spec, None);
            "not-added".clone_into(&mut row.health);
            row.endpoint = endpoint.or(row.endpoint);
            more.push(row);
        };
        for spec in &found.contexts {
            let there = |row: &ContextRow| row.name == spec.name || same_place(engine, row, spec);
            if !rows.iter().any(there) {
                add(spec, None);
            }
        }
        if let Some((what, why, how)) = &found.absent
            && rows.iter().all(|row| row.backend != info.id)
        {
            let spec = ContextSpec::new(info.id, info.kind());
            add(&spec, Some(format!("{what}: {why}; {how}")));
        }
    }
    more
}

fn same_place(engine: &Engine, row: &ContextRow, spec: &ContextSpec) -> bool {
    engine
        .fleet()
        .member(&row.name)
        .is_some_and(|m| m.spec.kind == spec.kind && m.spec.fields == spec.fields)
}

pub(super) async fn get(engine: Arc<Engine>, _: Action) -> Result<Data> {
    let name = default_name(&engine).ok_or_else(|| Error::not_found("there is no context"))?;
    let row = match known(&engine, &name) {
        Ok(Known::Member(spec)) => row(&engine, &spec, Some(&name)),
        Ok(Known::Off(entry)) => off(&entry, Some(&name)),
        Err(error) => {
            let mut error = error;
            error.message = format!("the default context {:?} does not exist", shown(&name));
            return Err(error.remedy("corral context use NAME"));
        }
    };
    Ok(Data::new(Body::Contexts(vec![row])))
}

pub(super) async fn test(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let default = default_name(&engine);
    let names: Vec<String> = if action.targets.is_empty() {
        engine
            .fleet()
            .members()
            .iter()
            .map(|m| m.spec.name.clone())
            .collect()
    } else {
        action
            .targets
            .iter()
            .map(|t| t.as_str().to_owned())
            .collect()
    };
    let mut members: Vec<Arc<Member>> = Vec::new();
    for name in &names {
        match known(&engine, name)? {
            Known::Member(_) => members.extend(engine.fleet().member(name)),
            Known::Off(entry) => {
                return Err(
                    Error::refused(format!("context {} is disabled", entry.name))
                        .remedy(format!("corral context enable {}", entry.name)),
                );
            }
        }
    }
    let tests = members.into_iter().map(|member| {
        let engine = &engine;
        let mut row = blank(&member.spec, default.as_deref());
        async move {
            let name = member.spec.name.clone();
            match reach(engine, &member).await {
                Ok((facts, took)) => {
                    "ok".clone_into(&mut row.health);
                    row.version = facts.version.or(facts.summary);
                    row.latency_ms = u64::try_from(took.as_millis()).ok();
                }
                Err(error) => {
                    "failed".clone_into(&mut row.health);
                    row.error = Some(error.in_context(&name));
                }
            }
            row
        }
    });
    let rows = join_all(tests).await;
    for row in &rows {
        // What was learnt is news for everyone, and a back-off is over.
        engine.fleet().refresh(Some(&row.name));
    }
    let mut data = Data::new(Body::Contexts(Vec::new()));
    data.errors = rows.iter().filter_map(|row| row.error.clone()).collect();
    data.complete = data.errors.is_empty();
    data.body = Body::Contexts(rows);
    Ok(data)
}

/// Who answers. Somebody waits for this: they can be asked, and a person takes longer than a server.
async fn reach(engine: &Engine, member: &Member) -> Result<(Facts, Duration)> {
    let name = &member.spec.name;
    let patient = engine.asking(ReadCx::quiet(PERSON));
    let ready = member.backend.ready(&patient);
    patient.within(name, ready).await?;
    let cx = engine.asking(engine.fleet().read_cx(name));
    let begun = Instant::now();
    let facts = cx.within(name, member.backend.probe(&cx)).await?;
    Ok((facts, begun.elapsed()))
}
