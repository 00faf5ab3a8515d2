//! A change as a list of acts: what a plan shows is what is done, in that order.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::api::is_stale;
use super::call::{Call, masked};
use super::ctx::Ctx;
use super::images::Taking;
use super::seen::Seen;
use super::{power, upload};
use crate::backend::contract::{Prepared, TaskCx};
use crate::model::{Error, InstanceId, Outcome, Result, Step};

/// For a look at an instance on behalf of a change.
pub const LOOK: Duration = Duration::from_secs(20);
/// A definition that the server itself changes meanwhile is written again so often.
const TRIES: usize = 4;

/// One act.
#[derive(Clone, Debug)]
pub enum Act {
    /// A call, as it stands.
    Call(Call),
    /// A call, on this version of what it changes and no other.
    CallIf(Call, String),
    /// A file of this machine, sent as the body of a call: `file` of what it carries, `name` and `type` as headers.
    Upload(Call),
    /// A file of this machine that becomes an image.
    Image(Taking),
    /// The definition, changed.
    Edit(Edit),
    /// Ask the guest to shut down, and wait; power off after so long.
    ShutDown(Option<Duration>),
    /// Stop where it still runs: for what comes after a shutdown.
    PowerOff,
}

/// An act with its step.
#[derive(Clone, Debug)]
pub struct Todo {
    /// In words.
    pub title: String,
    /// What is done.
    pub act: Act,
    /// How it could be taken back.
    pub undo: Option<String>,
}

impl Todo {
    /// An act that cannot be taken back by one call.
    pub fn new(title: impl Into<String>, act: Act) -> Self {
        Self {
            title: title.into(),
            act,
            undo: None,
        }
    }

    /// A call.
    pub fn call(title: impl Into<String>, call: Call) -> Self {
        Self::new(title, Act::Call(call))
    }

    /// How to take it back.
    #[must_use]
    pub fn undo(mut self, undo: impl Into<String>) -> Self {
        self.undo = Some(undo.into());
        self
    }

    /// As the plan shows it.
    pub fn step(&self, path: &str) -> Step {
        let native = match &self.act {
            Act::Call(call) | Act::CallIf(call, _) | Act::Upload(call) => call.shown(),
            Act::Image(taking) => taking.shown(),
            Act::Edit(edit) => edit.shown(path),
            Act::ShutDown(_) => power::call(path, "stop", json!({})).shown(),
            Act::PowerOff => power::call(path, "stop", json!({"force": true})).shown(),
        };
        Step {
            title: self.title.clone(),
            native,
            undo: self.undo.clone(),
        }
    }
}

/// Changes of a definition, each key by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    /// Keys of `config`; `None` takes one away.
    pub config: Vec<(String, Option<String>)>,
    /// Devices; `None` takes one away.
    pub devices: Vec<(String, Option<Value>)>,
    /// The description.
    pub description: Option<String>,
    /// All that an editor shows, as it is to be.
    pub whole: Option<Value>,
}

impl Edit {
    /// One key of `config`.
    pub fn key(key: &str, value: Option<String>) -> Self {
        Self {
            config: vec![(key.to_owned(), value)],
            ..Self::default()
        }
    }

    /// One device.
    pub fn device(name: &str, device: Option<Value>) -> Self {
        Self {
            devices: vec![(name.to_owned(), device)],
            ..Self::default()
        }
    }

    /// A device that goes, and a whole definition, cannot be told by `PATCH`.
    fn patches(&self) -> bool {
        self.whole.is_none() && self.devices.iter().all(|(_, device)| device.is_some())
    }

    fn difference(&self) -> Value {
        if let Some(whole) = &self.whole {
            return whole.clone();
        }
        let mut body = Map::new();
        if !self.config.is_empty() {
            let keys = self.config.iter();
            let keys =
                keys.map(|(key, value)| (key.clone(), json!(value.as_deref().unwrap_or(""))));
            body.insert("config".to_owned(), Value::Object(keys.collect()));
        }
        if !self.devices.is_empty() {
            let devices = self.devices.iter();
            let devices =
                devices.map(|(name, device)| (name.clone(), device.clone().unwrap_or(Value::Null)));
            body.insert("devices".to_owned(), Value::Object(devices.collect()));
        }
        if let Some(text) = &self.description {
            body.insert("description".to_owned(), json!(text));
        }
        Value::Object(body)
    }

    fn shown(&self, path: &str) -> String {
        let method = if self.patches() { "PATCH" } else { "PUT" };
        let rest = if self.patches() || self.whole.is_some() {
            ""
        } else {
            ", all else as it is"
        };
        let line = format!(
            "{method} {path} If-Match {}{rest}",
            masked(self.difference())
        );
        crate::model::shown(&line).into_owned()
    }

    /// The call that makes it, for the definition as it is.
    fn call(&self, seen: &Seen) -> Call {
        let path = seen.path(&[]);
        if self.patches() {
            return Call::new("PATCH", path, self.difference());
        }
        let mut body = Map::new();
        for key in [
            "architecture",
            "config",
            "devices",
            "ephemeral",
            "profiles",
            "stateful",
            "description",
        ] {
            if let Some(value) = seen.value.get(key) {
                body.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(whole) = &self.whole {
            for (key, value) in whole.as_object().into_iter().flatten() {
                body.insert(key.clone(), value.clone());
            }
            // What the server notes for itself goes back as it is.
            let kept = seen
                .config()
                .into_iter()
                .flatten()
                .filter(|(key, _)| key.starts_with("volatile."));
            if let Some(Value::Object(config)) = body.get_mut("config") {
                for (key, value) in kept {
                    config.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        if let Some(Value::Object(config)) = body.get_mut("config") {
            for (key, value) in &self.config {
                match value {
                    Some(value) => _ = config.insert(key.clone(), json!(value)),
                    None => _ = config.shift_remove(key),
                }
            }
        }
        if let Some(Value::Object(devices)) = body.get_mut("devices") {
            for (name, device) in &self.devices {
                match device {
                    Some(device) => _ = devices.insert(name.clone(), device.clone()),
                    None => _ = devices.shift_remove(name),
                }
            }
        }
        if let Some(text) = &self.description {
            body.insert("description".to_owned(), json!(text));
        }
        Call::new("PUT", path, Value::Object(body))
    }

    /// Writes it over the version that was seen, and no other.
    async fn write(&self, ctx: &Ctx, cx: &TaskCx, seen: &Seen) -> Result<()> {
        let mut now = seen.clone();
        for _ in 0..TRIES {
            let call = self.call(&now);
            match ctx.api()?.change(cx, &call, now.etag.as_deref()).await {
                Err(error) if is_stale(&error) => {
                    let before = now.own_definition();
                    now = Seen::now(ctx, &cx.read(LOOK), &seen.id).await?;
                    // Only what the server notes for itself may differ.
                    if now.own_definition() != before {
                        return Err(now.changed("its definition was changed"));
                    }
                }
                other => return other.map(drop),
            }
        }
        Err(Error::conflict(format!(
            "{} is changed all the time by somebody else. Nothing was done",
            seen.id
        ))
        .remedy("Look at it and ask again."))
    }
}

/// What `run` needs.
#[derive(Clone, Debug)]
pub struct Work {
    /// Whom it is about; `None`: nobody that is there yet.
    pub on: Option<InstanceId>,
    /// In order.
    pub todos: Vec<Todo>,
    /// One line once it is done.
    pub said: String,
    /// The ID from now on, where it changes.
    pub id: Option<InstanceId>,
}

impl Work {
    /// On an instance as it was seen.
    pub fn on(seen: &Seen, todos: Vec<Todo>, said: impl Into<String>) -> Self {
        Self {
            on: Some(seen.id.clone()),
            todos,
            said: said.into(),
            id: None,
        }
    }

    /// As a plan, valid while `token` holds. What runs at its server goes on there.
    pub fn plan(self, token: impl Into<String>, path: &str) -> Prepared {
        let steps = self.todos.iter().map(|todo| todo.step(path)).collect();
        let mut prepared = Prepared::new(token, steps);
        prepared.detachable = self.todos.len() == 1;
        prepared.with(self)
    }
}

/// A plan on an instance as it was seen.
pub fn plan(seen: &Seen, todos: Vec<Todo>, said: impl Into<String>) -> Prepared {
    Work::on(seen, todos, said).plan(seen.token(), &seen.path(&[]))
}

/// Does what was prepared.
///
/// # Errors
/// `Conflict` before the first call when it is not for this any more; else what the server says.
pub async fn run(ctx: &Ctx, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
    let work: Work = prepared.take()?;
    carry_out(ctx, cx, work, &prepared.token).await
}

/// [`run`], of what was taken out already.
///
/// # Errors
/// As there.
pub async fn carry_out(ctx: &Ctx, cx: &TaskCx, work: Work, token: &str) -> Result<Outcome> {
    let mut seen = match &work.on {
        Some(id) => {
            let seen = Seen::now(ctx, &cx.read(LOOK), id).await?;
            seen.still(token)?;
            Some(seen)
        }
        None => None,
    };
    let count = work.todos.len();
    for (n, todo) in work.todos.into_iter().enumerate() {
        if cx.cancel.is_cancelled() {
            return Err(cancelled(n, count));
        }
        cx.step(&todo.title);
        if n > 0
            && let (Act::Edit(_), Some(before)) = (&todo.act, &mut seen)
        {
            // On top of what the acts before it made.
            let now = Seen::now(ctx, &cx.read(LOOK), &before.id).await?;
            if now.row.uid != before.row.uid {
                return Err(now.changed("it is another instance now"));
            }
            *before = now;
        }
        let done = act(ctx, cx, &todo.act, seen.as_ref()).await;
        done.map_err(|error| in_the_middle(error, n, count, &todo.title))?;
    }
    let mut outcome = Outcome::changed(work.said);
    outcome.id = work.id;
    Ok(outcome)
}

async fn act(ctx: &Ctx, cx: &TaskCx, act: &Act, seen: Option<&Seen>) -> Result<()> {
    match (act, seen) {
        (Act::Call(call), _) => ctx.api()?.change(cx, call, None).await.map(drop),
        (Act::CallIf(call, etag), _) => {
            let made = ctx.api()?.change(cx, call, Some(etag)).await;
            made.map(drop).map_err(|error| {
                if is_stale(&error) {
                    Error::conflict("it was changed meanwhile. Nothing was done")
                        .remedy("Look at it and ask again.")
                } else {
                    error
                }
            })
        }
        (Act::Upload(call), _) => upload::file(ctx, cx, call).await.map(drop),
        (Act::Image(taking), _) => taking.run(ctx, cx).await,
        (Act::Edit(edit), Some(seen)) => edit.write(ctx, cx, seen).await,
        (Act::ShutDown(force_after), Some(seen)) => {
            power::shut_down(ctx, cx, seen, *force_after).await
        }
        (Act::PowerOff, Some(seen)) => power::off(ctx, cx, seen).await,
        (_, None) => Err(Error::backend("internal: a change of nobody")),
    }
}

fn cancelled(n: usize, count: usize) -> Error {
    if n == 0 {
        return Error::refused("cancelled; nothing was done");
    }
    Error::refused(format!("cancelled after step {n} of {count}"))
}

/// Half done is said so.
fn in_the_middle(mut error: Error, n: usize, count: usize, title: &str) -> Error {
    if n > 0 {
        error.message = format!("step {} of {count} ({title}): {}", n + 1, error.message);
        let rest = "what came before it stays; the plan shows how to take it back";
        error.remedy = Some(match error.remedy {
            Some(remedy) => format!("{remedy}; {rest}"),
            None => rest.to_owned(),
        });
    }
    error
}
