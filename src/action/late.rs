//! A context whose secret has to be fetched first: opened when it is first asked, by whoever asks. A password
//! manager that hangs holds up its own context and nobody else.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::stream::BoxStream;
use tokio::sync::Mutex;

use super::contexts::open_now;
use super::secrets::Secrets;
use crate::backend::contract::{Backend, Change, Env, Families, NoFamilies, ReadCx, TaskCx};
use crate::model::{
    Check, ContextSpec, Detail, Error, Facts, Instance, InstanceId, Inventory, Kind, Operation,
    Outcome, Result, Secret, Support,
};

/// Stands before the backend until the secret is there, and passes everything on from then on.
pub(super) struct Late {
    spec: ContextSpec,
    env: Arc<Env>,
    secret: Secret,
    secrets: Arc<Secrets>,
    inner: OnceLock<Arc<dyn Backend>>,
    /// Why it could not be opened. Held while it is tried: one at a time.
    failed: Mutex<Option<Error>>,
}

impl Late {
    pub(super) fn new(
        spec: ContextSpec,
        env: Arc<Env>,
        secret: Secret,
        secrets: Arc<Secrets>,
    ) -> Self {
        Self {
            spec,
            env,
            secret,
            secrets,
            inner: OnceLock::new(),
            failed: Mutex::new(None),
        }
    }

    /// The backend. What failed once fails again until somebody asks for another try by `ready`.
    async fn opened(&self, again: bool) -> Result<&Arc<dyn Backend>> {
        if let Some(backend) = self.inner.get() {
            return Ok(backend);
        }
        let mut failed = self.failed.lock().await;
        if let Some(backend) = self.inner.get() {
            return Ok(backend);
        }
        if let Some(error) = failed.as_ref().filter(|_| !again) {
            return Err(error.clone());
        }
        match self.open().await {
            Ok(backend) => {
                *failed = None;
                Ok(self.inner.get_or_init(|| backend))
            }
            Err(error) => {
                *failed = Some(error.clone());
                Err(error)
            }
        }
    }

    async fn open(&self) -> Result<Arc<dyn Backend>> {
        let name = &self.spec.name;
        let text = self.secrets.resolve(name, &self.secret).await?;
        let mut spec = self.spec.clone();
        spec.secret = Some(text);
        open_now(spec, &self.env).map_err(|error| error.in_context(name))
    }

    fn inner(&self) -> Option<&dyn Backend> {
        self.inner.get().map(AsRef::as_ref)
    }
}

#[async_trait]
impl Backend for Late {
    fn kind(&self) -> Kind {
        self.spec.kind.clone()
    }

    fn support(&self, operation: Operation, on: Option<&Instance>) -> Support {
        match self.inner() {
            Some(backend) => backend.support(operation, on),
            None => Support::No(format!(
                "context {} is not connected: its secret is not there yet",
                self.spec.name
            )),
        }
    }

    async fn ready(&self, cx: &ReadCx) -> Result<()> {
        self.opened(true).await?.ready(cx).await
    }

    async fn probe(&self, cx: &ReadCx) -> Result<Facts> {
        self.opened(false).await?.probe(cx).await
    }

    async fn inventory(&self, cx: &ReadCx) -> Result<Inventory> {
        self.opened(false).await?.inventory(cx).await
    }

    async fn detail(&self, cx: &ReadCx, id: &InstanceId) -> Result<Detail> {
        self.opened(false).await?.detail(cx, id).await
    }

    fn watch(self: Arc<Self>) -> Option<BoxStream<'static, Result<Change>>> {
        Arc::clone(self.inner.get()?).watch()
    }

    async fn doctor(&self, cx: &ReadCx) -> Vec<Check> {
        match self.opened(false).await {
            Ok(backend) => backend.doctor(cx).await,
            Err(error) => vec![super::contexts::cannot_open(&error)],
        }
    }

    async fn repair(&self, cx: &TaskCx, check: &str) -> Result<Outcome> {
        self.opened(false).await?.repair(cx, check).await
    }

    fn families(&self) -> &dyn Families {
        self.inner().map_or(&NoFamilies, Backend::families)
    }
}
