//! The engine: reads, plans, and the only door to changes.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::grammar::{self, RunOptions};
use super::journal::Journal;
use super::lines::Entered;
use super::planner::Planned;
use super::protect::Protection;
use super::reload::Source;
use super::row::Run;
use super::runner;
use super::same::same;
use super::session::OpenSession;
use super::task::{TaskBoard, TaskHandle};
use super::ui_state::UiMemory;
use crate::backend::contract::{Asker, Env, NoAsker, ReadCx};
use crate::config::Loaded;
use crate::fleet::Fleet;
use crate::model::{
    Action, Consent, Data, Error, InstanceId, Operation, Plan, Refusal, Result, Support, Task,
};

/// What an engine is made of.
pub struct EngineParts {
    /// The fleet, started.
    pub fleet: Arc<Fleet>,
    /// The process's surroundings.
    pub env: Arc<Env>,
    /// The configuration.
    pub config: Loaded,
    /// Refuses every change; the reason as printed.
    pub readonly: Option<Refusal>,
    /// Nothing is written to disk: the simulated fleet.
    pub in_memory: bool,
    /// Where the configuration came from; `None`: it stays as it is.
    pub source: Option<Source>,
}

/// Reads, plans, and the only door to changes.
pub struct Engine {
    fleet: Arc<Fleet>,
    env: Arc<Env>,
    config: RwLock<Arc<Loaded>>,
    readonly: RwLock<Option<Refusal>>,
    in_memory: bool,
    source: Option<Source>,
    board: TaskBoard,
    journal: Journal,
    protection: Protection,
    ui: UiMemory,
    entered: Entered,
    asker: RwLock<Arc<dyn Asker>>,
}

impl Engine {
    /// Builds it and applies stored protection to the fleet.
    pub fn new(parts: EngineParts) -> Arc<Self> {
        let state = (!parts.in_memory).then(|| parts.env.dirs.state.clone());
        let protection = Protection::open(state.clone());
        parts.fleet.set_protected(protection.identities());
        Arc::new(Self {
            fleet: parts.fleet,
            env: parts.env,
            readonly: RwLock::new(parts.readonly),
            source: parts.source,
            in_memory: parts.in_memory,
            ui: UiMemory::open(state.as_deref()),
            entered: Entered::open(state.as_deref()),
            board: TaskBoard::open(state.clone()),
            journal: Journal::open(state),
            protection,
            config: RwLock::new(Arc::new(parts.config)),
            asker: RwLock::new(Arc::new(NoAsker)),
        })
    }

    /// The fleet.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// The process's surroundings.
    pub fn env(&self) -> &Arc<Env> {
        &self.env
    }

    /// The configuration as last loaded.
    pub fn config(&self) -> Arc<Loaded> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Nothing is written to disk.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// The tasks of this process.
    pub fn board(&self) -> &TaskBoard {
        &self.board
    }

    /// The journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Stored protection.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// What was changed in the full-screen view.
    pub fn ui(&self) -> &UiMemory {
        &self.ui
    }

    /// What was entered in its command line.
    pub fn entered(&self) -> &Entered {
        &self.entered
    }

    /// Who answers questions from below.
    pub fn set_asker(&self, asker: Arc<dyn Asker>) {
        *self.asker.write().unwrap_or_else(PoisonError::into_inner) = asker;
    }

    /// Who answers questions from below.
    pub fn asker(&self) -> Arc<dyn Asker> {
        Arc::clone(&self.asker.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A read that somebody waits for: they can be asked.
    pub fn asking(&self, cx: ReadCx) -> ReadCx {
        ReadCx {
            asker: self.asker(),
            ..cx
        }
    }

    /// Changes run at the same time, per context.
    pub fn concurrency(&self) -> usize {
        self.config().settings.bulk_concurrency.max(1)
    }

    /// Why nothing may be changed anywhere.
    pub fn readonly(&self) -> Option<Refusal> {
        let readonly = self.readonly.read();
        readonly.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the configuration comes from, if it can be loaded again.
    pub(super) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// From now on it is this that holds.
    pub(super) fn follow_config(&self, config: Loaded, readonly: Option<Refusal>) {
        *self
            .readonly
            .write()
            .unwrap_or_else(PoisonError::into_inner) = readonly;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Why nothing may be changed in a context.
    pub fn readonly_reason(&self, context: &str) -> Option<Refusal> {
        if let Some(why) = self.readonly() {
            return Some(why);
        }
        let member = self.fleet.member(context)?;
        member.spec.readonly.then(|| {
            Refusal::new(
                format!("context {context} is read-only (readonly = true in the configuration)"),
                Some(format!(
                    "To allow changes there: corral context set {context} --set readonly=false"
                )),
            )
        })
    }

    /// What can be done with an instance, and why not.
    pub fn support(&self, operation: Operation, id: &InstanceId) -> Support {
        let Some(member) = self.fleet.member(id.context()) else {
            return Support::No(format!("there is no context {:?}", id.context()));
        };
        if let Some(why) = self.readonly_reason(id.context())
            && !operation.reads()
        {
            return Support::No(why.message);
        }
        member
            .backend
            .support(operation, self.fleet.instance(id).as_deref())
    }

    /// Carries out an action that reads.
    pub async fn read(self: &Arc<Self>, action: Action) -> Result<Data> {
        match grammar::validate(&action)?.shape(&action) {
            Run::Read(read) => {
                let data = read(Arc::clone(self), action).await;
                data.map_err(|error| self.in_shell(error))
            }
            _ => Err(Error::invalid(format!("{} is no question", action.verb))),
        }
    }

    /// Carries out an action that goes on answering.
    pub fn follow(self: &Arc<Self>, action: Action) -> BoxStream<'static, Result<Data>> {
        match grammar::validate(&action).map(|row| row.shape(&action)) {
            Ok(Run::Follow(follow)) => follow(Arc::clone(self), action),
            Ok(_) => {
                let error = Error::invalid(format!("{} cannot be followed", action.verb));
                futures::stream::once(async { Err(error) }).boxed()
            }
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }

    /// Opens a live stream.
    pub async fn open(self: &Arc<Self>, action: Action) -> Result<OpenSession> {
        match grammar::validate(&action)?.shape(&action) {
            Run::Open(open) => open(Arc::clone(self), action).await,
            _ => Err(Error::invalid(format!("{} opens nothing", action.verb))),
        }
    }

    /// Says what a change would do. Reads only.
    pub async fn plan(self: &Arc<Self>, action: &Action) -> Result<Plan> {
        Ok(self.planned(action).await?.plan)
    }

    async fn planned(self: &Arc<Self>, action: &Action) -> Result<Planned> {
        match grammar::validate(action)?.shape(action) {
            Run::Change(change) => {
                let planned = change(Arc::clone(self), action.clone()).await;
                let mut planned = planned.map_err(|error| self.in_shell(error))?;
                self.plan_in_shell(&mut planned.plan);
                Ok(planned)
            }
            _ => Err(Error::invalid(format!("{} changes nothing", action.verb))),
        }
    }

    /// Carries out a plan: prepares again, compares, checks, runs.
    ///
    /// # Errors
    /// `Conflict` when the plan no longer holds (plan again and ask again), `Refused` when the
    /// consent does not open the gate or every target is refused. Nothing was done then.
    pub async fn submit(
        self: &Arc<Self>,
        plan: &Plan,
        consent: &Consent,
        options: &RunOptions,
    ) -> Result<TaskHandle> {
        // Who is at each ID now, from the backends themselves: the first write comes right after.
        let mut contexts: Vec<&str> = plan.targets.iter().map(|t| t.id.context()).collect();
        contexts.dedup();
        for context in contexts {
            self.fleet.refresh(Some(context));
        }
        let planned = self.planned(&plan.action).await?;
        same(plan, &planned.plan)?;
        runner::submit(self, planned, consent, options)
    }

    /// Every task of this process, newest last; updated as they go.
    pub fn tasks(&self) -> tokio::sync::watch::Receiver<Arc<Vec<Task>>> {
        self.board.subscribe()
    }

    /// Asks a task of this process to stop.
    pub fn cancel(&self, id: &str) -> Result<()> {
        self.board.cancel(id)
    }

    /// Stops queueing, lets running steps end (at most `grace`), journals what is left.
    pub async fn shutdown(&self, grace: Duration) {
        self.board.stop_queueing();
        let done = self.board.idle();
        let _ = tokio::time::timeout(grace, done).await;
        for task in self.board.interrupt() {
            self.journal.end(&task);
        }
        self.ui.flush().await;
        self.entered.flush().await;
        self.fleet.shutdown().await;
    }
}
