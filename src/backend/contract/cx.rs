//! What a read and a change may use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::permit::Permit;
use crate::model::{Error, InstanceId, Prompt, Result, SecretText, TaskEvent};

/// Who answers questions.
#[async_trait]
pub trait Asker: Send + Sync {
    /// Asks. `Refused` with the exact remedy where nobody can answer.
    async fn ask(&self, prompt: Prompt) -> Result<SecretText>;
}

/// Answers nothing: background refreshes and headless runs.
pub struct NoAsker;

#[async_trait]
impl Asker for NoAsker {
    async fn ask(&self, prompt: Prompt) -> Result<SecretText> {
        Err(
            Error::new(crate::model::ErrorKind::Unauthorized, prompt.question)
                .remedy(prompt.remedy)
                .in_context(&prompt.context),
        )
    }
}

/// What a read may use.
#[derive(Clone)]
pub struct ReadCx {
    /// When it must have ended.
    pub deadline: Instant,
    /// Who answers questions.
    pub asker: Arc<dyn Asker>,
}

impl ReadCx {
    /// A read of at most `limit` that asks nobody.
    pub fn quiet(limit: Duration) -> Self {
        Self {
            deadline: Instant::now() + limit,
            asker: Arc::new(NoAsker),
        }
    }

    /// Time left.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Runs `work` until the deadline; then `TimedOut` with `what`.
    pub async fn within<T>(
        &self,
        what: &str,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        match tokio::time::timeout_at(self.deadline.into(), work).await {
            Ok(result) => result,
            Err(_) => Err(Error::timed_out(format!("{what} did not answer in time"))),
        }
    }
}

/// What a change may use. Cannot be made without a [`Permit`].
#[derive(Clone)]
pub struct TaskCx {
    id: InstanceId,
    events: mpsc::UnboundedSender<TaskEvent>,
    /// Cancelled when the user asks: the backend answers by stopping at a safe point, or goes on
    /// when it is too late.
    pub cancel: CancellationToken,
    /// Who answers questions.
    pub asker: Arc<dyn Asker>,
    /// How long to wait for the wanted state.
    pub timeout: Option<Duration>,
}

impl TaskCx {
    /// For one target. `events` is unbounded because progress is coalesced by the backend's own
    /// pace (a few lines a second) and must never block a change.
    pub fn new(
        _permit: Permit,
        id: InstanceId,
        events: mpsc::UnboundedSender<TaskEvent>,
        cancel: CancellationToken,
        asker: Arc<dyn Asker>,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            id,
            events,
            cancel,
            asker,
            timeout,
        }
    }

    /// A step begins.
    pub fn step(&self, title: impl Into<String>) {
        let _ = self.events.send(TaskEvent::Step {
            id: self.id.clone(),
            title: title.into(),
        });
    }

    /// A step moves on.
    pub fn progress(&self, done: u64, total: u64) {
        let _ = self.events.send(TaskEvent::Progress {
            id: self.id.clone(),
            done,
            total,
        });
    }

    /// A line for the log.
    pub fn log(&self, line: impl Into<String>) {
        let _ = self.events.send(TaskEvent::Log {
            id: self.id.clone(),
            line: line.into(),
        });
    }

    /// The server's own task.
    pub fn native_task(&self, task: impl Into<String>) {
        let _ = self.events.send(TaskEvent::Native {
            id: self.id.clone(),
            task: task.into(),
        });
    }

    /// A read on behalf of this change, of at most `limit`.
    pub fn read(&self, limit: Duration) -> ReadCx {
        ReadCx {
            deadline: Instant::now() + limit,
            asker: Arc::clone(&self.asker),
        }
    }

    /// `Err(Refused)` once the user has cancelled: call it where stopping is safe.
    pub fn checkpoint(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Error::refused("cancelled"));
        }
        Ok(())
    }
}
