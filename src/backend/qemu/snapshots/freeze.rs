//! The guest's file systems, frozen by its agent while its disks are marked.
//!
//! A guest that stays frozen hangs at its next write, so whatever happens after a freeze, a thaw
//! follows; where even that fails the change stays written down, and doctor tries again.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::locks;
use crate::link::qga::Agent;
use crate::model::{Error, Result};

/// An agent that is there answers within this.
const ANSWER: Duration = Duration::from_secs(3);
/// A busy guest has to write out what it holds first.
const FREEZE: Duration = Duration::from_secs(30);
/// How long a thaw is tried, whoever waits for it.
const THAW: Duration = Duration::from_secs(10);

/// File systems that are frozen. Must be given to [`Frozen::thaw`].
#[must_use]
#[derive(Debug)]
pub struct Frozen {
    _lock: locks::Lock,
}

/// Whether the agent could freeze now.
///
/// # Errors
/// Why not.
pub async fn outlook(ctx: &Ctx, vm: &Definition) -> Result<()> {
    let _lock = locks::agent(ctx, &vm.uuid).await?;
    let mut agent = Agent::connect(&ctx.paths(&vm.uuid)?.agent, ANSWER).await?;
    let about = agent.execute("guest-info", &json!({}), ANSWER).await?;
    let able = |word: &str| {
        let commands = about.get("supported_commands").and_then(Value::as_array);
        commands.into_iter().flatten().any(|command| {
            command.get("name").and_then(Value::as_str) == Some(word)
                && command.get("enabled").and_then(Value::as_bool) != Some(false)
        })
    };
    if !able("guest-fsfreeze-freeze") || !able("guest-fsfreeze-thaw") {
        return Err(Error::backend("the guest agent cannot freeze file systems"));
    }
    match status(&mut agent).await?.as_str() {
        "thawed" => Ok(()),
        _ => Err(Error::backend(
            "its file systems are frozen already, by someone else",
        )),
    }
}

/// What came of a freeze.
#[derive(Debug)]
pub enum Tried {
    /// They are frozen.
    Frozen(Frozen),
    /// They are not, and why.
    Thawed(Error),
}

/// Freezes, at most within `limit`.
///
/// # Errors
/// When it failed, and it is not known that they are thawed.
pub async fn freeze(ctx: &Ctx, vm: &Definition, limit: Option<Duration>) -> Result<Tried> {
    let lock = match locks::agent(ctx, &vm.uuid).await {
        Ok(lock) => lock,
        Err(error) => return Ok(Tried::Thawed(error)),
    };
    let path = ctx.paths(&vm.uuid)?.agent;
    let mut agent = match Agent::connect(&path, ANSWER).await {
        Ok(agent) => agent,
        Err(error) => return Ok(Tried::Thawed(error)),
    };
    let frozen = agent
        .execute(
            "guest-fsfreeze-freeze",
            &json!({}),
            limit.map_or(FREEZE, |limit| limit.min(FREEZE)),
        )
        .await;
    drop(agent);
    let error = match frozen.map(|count| count.as_u64()) {
        Ok(Some(1..)) => return Ok(Tried::Frozen(Frozen { _lock: lock })),
        Ok(_) => Error::backend("the guest agent froze no file system"),
        Err(error) => error,
    };
    // What was asked may be done late.
    release(ctx, vm).await?;
    Ok(Tried::Thawed(error))
}

impl Frozen {
    /// Thaws. True where they were frozen until now: an agent may give up by itself.
    ///
    /// # Errors
    /// When it is not known that they are thawed.
    pub async fn thaw(self, ctx: &Ctx, vm: &Definition) -> Result<bool> {
        release(ctx, vm).await
    }
}

/// Thaws what a corral that is gone may have left frozen. True where they were.
///
/// # Errors
/// As [`Frozen::thaw`].
pub async fn thaw(ctx: &Ctx, vm: &Definition) -> Result<bool> {
    let _lock = locks::agent(ctx, &vm.uuid).await?;
    release(ctx, vm).await
}

/// Thaws. The caller holds the agent's lock.
async fn release(ctx: &Ctx, vm: &Definition) -> Result<bool> {
    let path = ctx.paths(&vm.uuid)?.agent;
    let until = Instant::now() + THAW;
    let mut was = false;
    let mut last = Error::timed_out("the guest agent does not answer");
    loop {
        // Each try is a talk of its own: a late answer of the last one is no answer of this one.
        match release_once(&path, &mut was).await {
            Ok(()) => return Ok(was),
            Err(error) => last = if error.is_temporary() { last } else { error },
        }
        if Instant::now() >= until {
            let id = ctx.id(&vm.name);
            let mut error = Error::new(
                last.kind,
                format!(
                    "the file systems of {id} may still be frozen: {}",
                    last.message
                ),
            );
            error.remedy = Some(format!(
                "Thaw them: corral doctor --fix. If its agent is gone: corral restart --force {id}"
            ));
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

async fn release_once(path: &std::path::Path, was: &mut bool) -> Result<()> {
    let mut agent = Agent::connect(path, ANSWER).await?;
    if status(&mut agent).await? == "thawed" {
        return Ok(());
    }
    *was = true;
    agent
        .execute("guest-fsfreeze-thaw", &json!({}), ANSWER)
        .await?;
    match status(&mut agent).await?.as_str() {
        "thawed" => Ok(()),
        _ => Err(Error::backend("the guest agent thawed nothing")),
    }
}

async fn status(agent: &mut Agent) -> Result<String> {
    let status = agent
        .execute("guest-fsfreeze-status", &json!({}), ANSWER)
        .await?;
    status.as_str().map(str::to_owned).ok_or_else(|| {
        Error::backend("the guest agent does not say whether its file systems are frozen")
    })
}
