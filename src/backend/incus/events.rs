//! What the server reports: lifecycle events and operations as they come, warnings as it keeps them.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::ctx::{Ctx, DEFAULT};
use super::json::{Look as _, named};
use crate::backend::contract::{Events, ReadCx};
use crate::model::{Event, EventLevel, InstanceId, Result, shown};

/// The events family: the warnings. What comes by is recorded by whoever watches.
#[derive(Clone, Debug)]
pub struct Warnings(pub Arc<Ctx>);

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// This instance: look at it again.
    Instance {
        /// Its project.
        project: String,
        /// Its name.
        name: String,
        /// What it was called until now.
        before: Option<String>,
    },
    /// Something that may change how many are listed: look at all.
    All,
    /// Nothing that a list shows.
    Nothing,
}

/// Reads one text of the stream.
pub fn read(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_object)
}

/// What it is about.
pub fn about(event: &Value) -> About {
    let metadata = event.get("metadata").unwrap_or(&Value::Null);
    if event.text("type") != Some("lifecycle") {
        return About::Nothing;
    }
    let action = metadata.text("action").unwrap_or_default();
    if action.starts_with("instance")
        || action.starts_with("container")
        || action.starts_with("virtual-machine")
    {
        // Looking and copying files changes no row.
        if ["-file-", "-console", "-exec", "-log-", "-metadata"]
            .iter()
            .any(|part| action.contains(part))
        {
            return About::Nothing;
        }
        return match instance(event) {
            Some((name, project)) => About::Instance {
                before: metadata
                    .get("context")
                    .and_then(|context| context.text("old_name"))
                    .map(str::to_owned),
                name,
                project,
            },
            None => About::All,
        };
    }
    let wide = [
        "profile-",
        "project-",
        "cluster-member",
        "storage-pool",
        "network-",
    ];
    if wide.iter().any(|start| action.starts_with(start)) {
        return About::All;
    }
    About::Nothing
}

/// Name and project of the instance an event speaks of.
fn instance(event: &Value) -> Option<(String, String)> {
    let metadata = event.get("metadata")?;
    let source = metadata.text("source")?;
    let (path, query) = source.split_once('?').unwrap_or((source, ""));
    let mut parts = path
        .split('/')
        .skip_while(|part| !matches!(*part, "instances" | "containers" | "virtual-machines"));
    parts.next()?;
    let name = parts.next()?;
    let (name, _) = named(&format!("/{name}?{query}"))?;
    let project = metadata
        .text("project")
        .or_else(|| event.text("project"))
        .map(str::to_owned)
        .or_else(|| named(source).map(|(_, project)| project))
        .unwrap_or_else(|| DEFAULT.to_owned());
    Some((name, project))
}

/// An event as people read it; `None` for what is no news.
pub fn translate(ctx: &Ctx, event: &Value) -> Option<Event> {
    let metadata = event.get("metadata")?;
    let at = event.time("timestamp").unwrap_or_else(Timestamp::now);
    let mut told = Event {
        at,
        context: ctx.spec.name.clone(),
        instance: None,
        level: EventLevel::Info,
        kind: String::new(),
        message: String::new(),
    };
    match event.text("type")? {
        "lifecycle" => {
            let action = metadata.text("action")?;
            told.instance = (!action.contains("-file-"))
                .then(|| instance(event))
                .flatten()
                .map(|(name, project)| ctx.id(&project, &name));
            told.instance.as_ref()?;
            action.clone_into(&mut told.kind);
            let words = action.split('-').skip(1).collect::<Vec<_>>().join(" ");
            let by = metadata
                .get("requestor")
                .and_then(|who| who.text("username"))
                .map(|who| format!(" by {}", shown(who)))
                .unwrap_or_default();
            told.message = format!("{words}{by}");
        }
        "operation" if metadata.number("status_code") == Some(400) => {
            let resources = metadata.get("resources").unwrap_or(&Value::Null);
            let of = resources.list("instances").first().and_then(Value::as_str);
            let (name, project) = named(of?)?;
            let project = event.text("project").map_or(project, str::to_owned);
            told.instance = Some(ctx.id(&project, &name));
            told.level = EventLevel::Error;
            "operation-failed".clone_into(&mut told.kind);
            let what = metadata.text("description").unwrap_or("an operation");
            let why = metadata.text("err").unwrap_or("no reason given");
            told.message = format!("{}: {}", shown(what), shown(why));
        }
        _ => return None,
    }
    Some(told)
}

fn warning(ctx: &Ctx, value: &Value) -> Option<Event> {
    let instance = value
        .text("entity_url")
        .filter(|url| url.contains("/instances/"))
        .and_then(named)
        .map(|(name, project)| ctx.id(value.text("project").unwrap_or(&project), &name));
    let level = match value.text("severity") {
        Some("high") => EventLevel::Error,
        _ => EventLevel::Warn,
    };
    let what = value.text("type").unwrap_or("warning");
    let more = value
        .text("last_message")
        .map(|more| format!(": {more}"))
        .unwrap_or_default();
    Some(Event {
        at: value
            .time("last_seen_at")
            .or_else(|| value.time("first_seen_at"))?,
        context: ctx.spec.name.clone(),
        instance,
        level,
        kind: "warning".to_owned(),
        message: shown(&format!("{what}{more}")).into_owned(),
    })
}

#[async_trait]
impl Events for Warnings {
    async fn recorded(&self, cx: &ReadCx, id: Option<&InstanceId>) -> Result<Vec<Event>> {
        let ctx = &*self.0;
        let asked = ctx.api()?.get(cx, "/1.0/warnings?recursion=1").await;
        let list = match asked {
            Ok(reply) => reply.metadata.as_array().cloned().unwrap_or_default(),
            // A client that is restricted to a project does not see them, and older servers keep none.
            Err(error)
                if matches!(
                    error.kind,
                    crate::model::ErrorKind::Unauthorized | crate::model::ErrorKind::NotFound
                ) =>
            {
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let mut events: Vec<Event> = list
            .iter()
            .filter_map(|value| warning(ctx, value))
            .filter(|event| id.is_none() || event.instance.as_ref() == id)
            .collect();
        events.sort_by_key(|event| event.at);
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::contract::Env;
    use crate::model::{ContextSpec, Dirs};

    fn samples(text: &str) -> Vec<Value> {
        let value: Value = serde_json::from_str(text).unwrap();
        value.as_array().unwrap().clone()
    }

    fn ctx() -> Ctx {
        let env = Env {
            dirs: Dirs::under(std::path::Path::new("/nowhere")),
            path: Vec::new(),
            vars: std::collections::BTreeMap::new(),
            home: "/nowhere".into(),
        };
        Ctx::new(ContextSpec::new("lab", super::super::ctx::KIND), env.into())
    }

    #[test]
    fn a_lifecycle_event_says_at_whom_to_look() {
        let events = samples(include_str!(
            "../../../tests/fixtures/incus/events-lifecycle.json"
        ));
        let mut looked = 0;
        for event in &events {
            let action = event["metadata"]["action"].as_str().unwrap();
            match about(event) {
                About::Instance { project, name, .. } => {
                    assert_eq!(project, "default");
                    assert!(["s1", "s2", "t1", "t2"].contains(&name.as_str()), "{name}");
                    looked += 1;
                }
                About::Nothing => assert!(
                    !action.starts_with("instance-st") && !action.starts_with("instance-d"),
                    "{action}"
                ),
                About::All => {}
            }
        }
        assert!(looked > 5, "{looked}");
        let started = events
            .iter()
            .find(|e| e["metadata"]["action"] == "instance-started")
            .unwrap();
        let told = translate(&ctx(), started).unwrap();
        assert_eq!(told.kind, "instance-started");
        assert!(told.message.starts_with("started"), "{}", told.message);
        assert!(told.instance.is_some());
    }

    #[test]
    fn operations_change_no_row_and_failed_ones_are_told() {
        let events = samples(include_str!(
            "../../../tests/fixtures/incus/events-operation.json"
        ));
        for event in &events {
            assert_eq!(about(event), About::Nothing);
        }
        let mut failed = events[0].clone();
        failed["metadata"]["status_code"] = 400.into();
        failed["metadata"]["err"] = "no \u{1b}[2Jspace".into();
        failed["metadata"]["resources"] = serde_json::json!({"instances": ["/1.0/instances/s1"]});
        let told = translate(&ctx(), &failed).unwrap();
        assert_eq!(told.level, EventLevel::Error);
        assert!(!told.message.contains('\u{1b}'), "{}", told.message);
    }

    #[test]
    fn odd_events_are_no_news() {
        for odd in ["", "x", "[]", "7", "null"] {
            assert!(read(odd).is_none(), "{odd}");
        }
        for odd in [
            "{}",
            "{\"type\":7}",
            "{\"type\":\"lifecycle\",\"metadata\":[]}",
        ] {
            let event = read(odd).unwrap();
            assert_eq!(about(&event), About::Nothing, "{odd}");
            assert!(translate(&ctx(), &event).is_none(), "{odd}");
        }
        let nameless = read(
            "{\"type\":\"lifecycle\",\"metadata\":{\"action\":\"instance-started\",\"source\":3}}",
        )
        .unwrap();
        assert_eq!(about(&nameless), About::All);
    }
}
