//! The one instance that a row reads from.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::planner::resolve;
use crate::backend::contract::{Backend, ReadCx};
use crate::fleet::selector::Purpose;
use crate::model::{Action, Error, Instance, Operation, Result};

/// An instance, who has it, and how long may be asked.
pub(super) struct One {
    pub(super) instance: Arc<Instance>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) cx: ReadCx,
}

impl One {
    /// The one that `action` names.
    pub(super) async fn of(engine: &Arc<Engine>, action: &Action) -> Result<Self> {
        let resolved = resolve(engine, action, Purpose::Read).await?;
        let [instance] = resolved.targets.as_slice() else {
            let verb = &action.verb;
            return Err(
                Error::invalid(format!("{verb} takes exactly one instance")).remedy("Use its ID")
            );
        };
        let context = &instance.context;
        let member = engine
            .fleet()
            .member(context)
            .ok_or_else(|| Error::not_found(format!("there is no context {context:?}")))?;
        Ok(Self {
            instance: Arc::clone(instance),
            backend: Arc::clone(&member.backend),
            cx: engine.fleet().read_cx(context),
        })
    }

    /// Why `operation`, whose family is missing, cannot be done.
    pub(super) fn cannot(&self, operation: Operation) -> Error {
        let why = self.backend.support(operation, Some(&self.instance));
        let reason = why.reason().unwrap_or("not part of this backend");
        Error::unsupported(format!(
            "{}: {}: {reason}",
            self.instance.id,
            operation.title()
        ))
    }
}
