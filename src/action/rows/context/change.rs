//! A change of contexts: planned, gated and journalled like every other change, and followed at once.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::action::engine::Engine;
use crate::action::planner::{Job, LocalWork, Planned, Shape, Work, fill, finish, target_of};
use crate::backend::contract::{Prepared, TaskCx};
use crate::config::edit;
use crate::model::{
    Action, Error, Instance, InstanceId, InstanceKind, Kind, Outcome, Prompt, PromptKind, Refusal,
    Result, SecretText, State, Step, Support,
};

/// Stands where an instance's ID has its context: no context can have this name, so none of a
/// context's own rules (relaxed, read-only) bend a change of the configuration.
const PLACE: &str = ".context";

/// What one context's change does, once it is allowed.
pub(super) type Deed = Box<dyn Fn() -> Result<Outcome> + Send + Sync>;

struct Edit {
    deed: Arc<Deed>,
    secret: Option<NewSecret>,
}

/// A secret that is asked for when the change runs, and where it goes.
pub(super) struct NewSecret {
    pub context: String,
    pub folder: PathBuf,
}

#[async_trait]
impl LocalWork for Edit {
    async fn run(&self, cx: &TaskCx, _: Prepared) -> Result<Outcome> {
        if let Some(new) = &self.secret {
            let text = ask(cx, &new.context).await?;
            edit::store_secret(&new.folder, &new.context, &text)?;
        }
        let deed = Arc::clone(&self.deed);
        // It may wait for another corral's lock.
        tokio::task::spawn_blocking(move || deed())
            .await
            .map_err(|error| Error::backend("the change ended inside").because(error))?
    }
}

/// From a pipe, else from whoever answers questions.
async fn ask(cx: &TaskCx, context: &str) -> Result<SecretText> {
    let piped = tokio::task::spawn_blocking(|| {
        let stdin = std::io::stdin();
        if stdin.is_terminal() {
            return Ok(None);
        }
        let mut line = String::new();
        std::io::Read::take(stdin.lock(), 64 << 10)
            .read_line(&mut line)
            .map(|_| Some(line))
    })
    .await
    .map_err(|error| Error::backend("standard input cannot be read").because(error))?
    .map_err(|error| Error::backend(format!("standard input cannot be read: {error}")))?;
    if let Some(line) = piped {
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            return Err(Error::invalid(
                "standard input has no secret in its first line",
            ));
        }
        return Ok(SecretText::from(line.to_owned()));
    }
    cx.asker
        .ask(Prompt {
            context: context.to_owned(),
            question: format!("Secret for {context}:"),
            facts: Vec::new(),
            answer: PromptKind::Secret,
            remedy: format!("corral context set {context} --secret-stdin <FILE"),
        })
        .await
}

/// One context in a plan.
pub(super) struct Target {
    pub name: String,
    pub kind: Kind,
    pub protected: bool,
    pub prepared: Prepared,
    pub work: Arc<dyn LocalWork>,
    /// Opened again even where the configuration has not changed: a secret or a pin behind it has.
    pub reopen: bool,
}

/// A change, and the running corral follows it.
struct Followed {
    engine: Arc<Engine>,
    work: Arc<dyn LocalWork>,
    reopen: Vec<String>,
}

#[async_trait]
impl LocalWork for Followed {
    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        let outcome = self.work.run(cx, prepared).await?;
        self.engine.reload(&self.reopen).await?;
        Ok(outcome)
    }
}

/// A plan over contexts.
pub(super) fn plan(
    engine: &Arc<Engine>,
    action: Action,
    shape: Shape,
    targets: Vec<Target>,
) -> Result<Planned> {
    let readonly = engine.readonly_reason(PLACE);
    let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
    let ask = shape.ask.clone();
    let jobs = targets
        .into_iter()
        .map(|target| {
            let id = InstanceId::new(PLACE, None, &target.name);
            let now = Timestamp::now();
            let mut stub = Instance::new(id, target.kind, InstanceKind::Vm, State::Unknown, now);
            stub.protected = target.protected;
            let mut planned = target_of(&stub);
            let refusal = if engine.is_in_memory() {
                let why = "the simulated fleet has no configuration to change";
                Some(Refusal::new(
                    why,
                    Some("Start corral without --demo".to_owned()),
                ))
            } else {
                readonly.clone()
            };
            planned.refusals.extend(refusal);
            fill(&mut planned, &target.prepared);
            let prepared = planned.refusals.is_empty().then_some(target.prepared);
            let work = Followed {
                engine: Arc::clone(engine),
                work: target.work,
                reopen: target.reopen.then_some(target.name).into_iter().collect(),
            };
            let job = Job {
                instance: Arc::new(stub),
                work: Work::Local(Arc::new(work)),
                prepared,
                support: Support::Native,
                readonly: readonly.clone(),
            };
            (planned, job)
        })
        .collect();
    let mut planned = finish(engine, action, shape, jobs, Vec::new())?;
    planned.plan.question = format!("{ask} {}?", names.join(", "));
    Ok(planned)
}

/// What must still hold when the change runs: the file as it was read.
pub(super) fn token(engine: &Engine) -> String {
    match std::fs::read(&engine.config().path) {
        Ok(bytes) => Sha256::digest(bytes)
            .iter()
            .fold(String::new(), |mut hex, byte| {
                hex.push_str(&format!("{byte:02x}"));
                hex
            }),
        Err(_) => "none".to_owned(),
    }
}

/// A change without questions.
pub(super) fn simple(deed: Deed) -> Arc<dyn LocalWork> {
    asking(deed, None)
}

/// A change that asks for a secret first, where there is a new one.
pub(super) fn asking(deed: Deed, secret: Option<NewSecret>) -> Arc<dyn LocalWork> {
    Arc::new(Edit {
        deed: Arc::new(deed),
        secret,
    })
}

pub(super) fn only(action: &Action) -> String {
    action
        .targets
        .first()
        .map_or_else(String::new, |target| target.as_str().to_owned())
}

pub(super) fn step(title: String, native: &str, undo: Option<String>) -> Step {
    Step {
        undo,
        ..Step::new(title, format!("config.toml: {native}"))
    }
}
