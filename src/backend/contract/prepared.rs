//! What `prepare` hands over: the plan's half that people see, and the half that `run` needs.

use std::any::Any;

use crate::model::{Error, Refusal, Result, Step};

/// What `prepare` found.
pub struct Prepared {
    /// What would be done, in order; empty with `unchanged`.
    pub steps: Vec<Step>,
    /// What is lost.
    pub losses: Vec<String>,
    /// What stays, or is worth knowing.
    pub notes: Vec<String>,
    /// Why it cannot be done.
    pub refusals: Vec<Refusal>,
    /// uid + etag, digest, resourceVersion or config hash.
    pub token: String,
    /// Goes on at its server when corral leaves.
    pub detachable: bool,
    /// Already as wanted.
    pub unchanged: bool,
    /// Takes away something kept of the instance, where the verb by itself does not: a protected one asks then.
    pub deletes: bool,
    payload: Option<Box<dyn Any + Send + Sync>>,
}

impl Prepared {
    /// A change with these steps, valid while `token` holds.
    pub fn new(token: impl Into<String>, steps: Vec<Step>) -> Self {
        Self {
            steps,
            losses: Vec::new(),
            notes: Vec::new(),
            refusals: Vec::new(),
            token: token.into(),
            detachable: false,
            unchanged: false,
            deletes: false,
            payload: None,
        }
    }

    /// Already as wanted: `run` must not be called.
    pub fn unchanged(token: impl Into<String>, note: impl Into<String>) -> Self {
        let mut prepared = Self::new(token, Vec::new());
        prepared.unchanged = true;
        prepared.notes.push(note.into());
        prepared
    }

    /// Cannot be done.
    pub fn refused(
        token: impl Into<String>,
        message: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        let mut prepared = Self::new(token, Vec::new());
        prepared.refusals.push(Refusal::new(message, remedy));
        prepared
    }

    /// Cannot be done, and an error says why.
    pub fn failed(token: impl Into<String>, error: &Error) -> Self {
        let mut prepared = Self::new(token, Vec::new());
        prepared.refusals.push(Refusal::from(error));
        prepared
    }

    /// Carries what `run` needs.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, payload: T) -> Self {
        self.payload = Some(Box::new(payload));
        self
    }

    /// What `prepare` put in.
    pub fn take<T: Any + Send + Sync>(&mut self) -> Result<T> {
        self.payload
            .take()
            .and_then(|payload| payload.downcast::<T>().ok())
            .map(|payload| *payload)
            .ok_or_else(|| Error::backend("internal: a plan without its payload was run"))
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("steps", &self.steps)
            .field("losses", &self.losses)
            .field("refusals", &self.refusals)
            .field("token", &self.token)
            .field("unchanged", &self.unchanged)
            .finish_non_exhaustive()
    }
}
