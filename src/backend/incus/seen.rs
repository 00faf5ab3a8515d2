//! What every change begins with: the instance as it is, and the proof that it is still what the plan was made for.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::call;
use super::ctx::Ctx;
use super::json::Look as _;
use super::{inventory, row};
use crate::backend::contract::{Prepared, ReadCx};
use crate::model::{Error, Instance, InstanceId, Result, State};

/// An instance as a plan sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its address.
    pub id: InstanceId,
    /// Its project.
    pub project: String,
    /// Its name.
    pub name: String,
    /// All the server says of it.
    pub value: Value,
    /// Names this version of its definition.
    pub etag: Option<String>,
    /// Its row.
    pub row: Instance,
}

impl Seen {
    /// Looks.
    ///
    /// # Errors
    /// As [`inventory::one`].
    pub async fn now(ctx: &Ctx, cx: &ReadCx, id: &InstanceId) -> Result<Self> {
        let (project, name) = ctx.place(id);
        let (value, etag) = inventory::one(ctx, cx, &project, &name).await?;
        Ok(Self {
            id: ctx.id(&project, &name),
            row: inventory::row_of(ctx, &value),
            project,
            name,
            value,
            etag,
        })
    }

    /// For `prepare`: looks, or says why that is refused.
    ///
    /// # Errors
    /// A ready refusal.
    pub async fn for_plan(ctx: &Ctx, cx: &ReadCx, id: &InstanceId) -> Result<Self, Prepared> {
        Self::now(ctx, cx, id)
            .await
            .map_err(|error| Prepared::failed("", &error))
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.row.state
    }

    /// Where it is, or `more` of it.
    pub fn path(&self, more: &[&str]) -> String {
        call::instance(&self.name, &self.project, more)
    }

    /// What it says of itself, without its profiles.
    pub fn config(&self) -> Option<&Map<String, Value>> {
        self.value.object("config")
    }

    /// Its own devices, without those of its profiles.
    pub fn devices(&self) -> Option<&Map<String, Value>> {
        self.value.object("devices")
    }

    /// With those of its profiles.
    pub fn all_config(&self) -> Option<&Map<String, Value>> {
        self.value
            .object("expanded_config")
            .or_else(|| self.config())
    }

    /// With those of its profiles.
    pub fn all_devices(&self) -> Option<&Map<String, Value>> {
        self.value
            .object("expanded_devices")
            .or_else(|| self.devices())
    }

    /// Incarnation, definition with its snapshots, state: three words.
    pub fn token(&self) -> String {
        let uid = row::uid(&self.value).unwrap_or_default().replace(' ', "_");
        format!("{uid} {} {}", digest(&self.definition()), self.state())
    }

    /// Incarnation and definition, whatever it does.
    pub fn token_of_definition(&self) -> String {
        let token = self.token();
        token
            .rsplit_once(' ')
            .map_or(token.clone(), |(definition, _)| definition.to_owned())
    }

    /// What it is made of. What the server notes for itself is not of it.
    fn definition(&self) -> Value {
        let own = |(key, value): (&String, &Value)| {
            (!key.starts_with("volatile.")).then(|| (key.clone(), value.clone()))
        };
        let config: Map<String, Value> = self
            .config()
            .into_iter()
            .flatten()
            .filter_map(own)
            .collect();
        let snapshots: Vec<Value> = self
            .value
            .list("snapshots")
            .iter()
            .map(|snapshot| serde_json::json!([snapshot["name"], snapshot["created_at"]]))
            .collect();
        serde_json::json!({
            "config": config,
            "devices": self.value["devices"],
            "profiles": self.value["profiles"],
            "description": self.value["description"],
            "ephemeral": self.value["ephemeral"],
            "snapshots": snapshots,
        })
    }

    /// `Conflict` when it is no longer what `token` was made of; of a token without a state the state is not asked.
    ///
    /// # Errors
    /// As said.
    pub fn still(&self, token: &str) -> Result<()> {
        let now = self.token();
        let mut parts = token.split(' ').zip(now.split(' '));
        let what = match parts.position(|(was, is)| was != is) {
            None => return Ok(()),
            Some(0) => "it is another instance now".to_owned(),
            Some(1) => "its definition was changed".to_owned(),
            Some(_) => format!("it is {} now", self.state()),
        };
        Err(self.changed(&what))
    }

    /// The `Conflict` that says so.
    pub fn changed(&self, what: &str) -> Error {
        Error::conflict(format!(
            "{} changed meanwhile: {what}. Nothing was done",
            self.id
        ))
        .remedy("Look at it and ask again.")
    }

    /// What somebody wrote into it, whatever snapshots there are: some digits.
    pub fn own_definition(&self) -> String {
        let mut definition = self.definition();
        definition["snapshots"] = Value::Null;
        digest(&definition)
    }

    /// Why nothing can be asked of it; `None` when it can.
    pub fn unclear(&self) -> Option<Prepared> {
        if !matches!(self.state(), State::Unknown | State::Broken) {
            return None;
        }
        let why = self.row.reason.clone().unwrap_or_default();
        Some(Prepared::refused(
            self.token(),
            format!("{} cannot be asked: {why}", self.id),
            Some("Nothing was done. Look what it is: corral doctor".to_owned()),
        ))
    }

    /// A snapshot of it, as the server has it.
    pub fn snapshot(&self, name: &str) -> Option<&Value> {
        self.value
            .list("snapshots")
            .iter()
            .find(|snapshot| snapshot_name(snapshot) == Some(name))
    }
}

/// The name of a snapshot; some servers say `INSTANCE/NAME`.
pub fn snapshot_name(snapshot: &Value) -> Option<&str> {
    snapshot
        .text("name")
        .map(|name| name.rsplit('/').next().unwrap_or(name))
}

/// Some hex digits that name a value.
pub fn digest(value: &Value) -> String {
    let digest = Sha256::digest(sorted(value).to_string().as_bytes());
    digest
        .iter()
        .take(10)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The same with keys in order: servers keep none.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            Value::Object(
                pairs
                    .into_iter()
                    .map(|(k, v)| (k.clone(), sorted(v)))
                    .collect(),
            )
        }
        Value::Array(list) => Value::Array(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
