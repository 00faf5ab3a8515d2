//! What the suite needs of a backend.

use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{
    Backend, Changes, CreateRequest, DiskSource, Prepared, ReadCx, TaskCx,
};
use corral::model::{Error, Instance, InstanceId, InstanceKind, Outcome, Result, State};

/// A backend under test.
pub struct Bench {
    /// What is tested.
    pub backend: Arc<dyn Backend>,
    /// Its context.
    pub context: String,
    /// The namespace its instances are in.
    pub namespace: Option<String>,
    /// How long one change may take here.
    pub patience: Duration,
    /// What a new instance is made from.
    pub source: DiskSource,
    /// Native calls of changes seen so far, where the backend can tell.
    pub calls: Option<Box<dyn Fn() -> Vec<String> + Send + Sync>>,
}

impl Bench {
    pub fn cx(&self) -> ReadCx {
        ReadCx::quiet(self.patience)
    }

    pub fn task(&self, id: &InstanceId) -> TaskCx {
        crate::lab::task_within(id, Some(self.patience))
    }

    pub fn id(&self, name: &str) -> InstanceId {
        InstanceId::new(&self.context, self.namespace.as_deref(), name)
    }

    pub fn request(&self, name: &str) -> CreateRequest {
        CreateRequest {
            name: name.to_owned(),
            cpus: 1,
            memory: corral::model::Bytes::mib(256),
            disk_size: None,
            source: self.source.clone(),
            cdroms: Vec::new(),
            firmware: Some(corral::backend::contract::Firmware::Bios),
            os: None,
            tpm: false,
            secure_boot: false,
            cloud_init: None,
            publish: Vec::new(),
            tags: vec!["contract".to_owned()],
            note: None,
            start: false,
            set: Vec::new(),
        }
    }

    pub fn stub(&self, name: &str) -> Instance {
        Instance::new(
            self.id(name),
            self.backend.kind(),
            InstanceKind::Vm,
            State::Provisioning,
            jiff::Timestamp::now(),
        )
    }

    pub async fn row(&self, id: &InstanceId) -> Instance {
        self.backend.detail(&self.cx(), id).await.unwrap().instance
    }

    /// Waits until a guest that was started can be asked to do something.
    pub async fn ready(&self, id: &InstanceId) {
        let until = std::time::Instant::now() + self.patience;
        while self.row(id).await.agent != Some(true) {
            assert!(
                std::time::Instant::now() < until,
                "the agent of {id} never answered"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Prepares and runs one change as it stands.
    pub async fn change<R: Clone + Send + Sync + 'static>(
        &self,
        family: Option<&dyn Changes<R>>,
        on: &Instance,
        request: R,
    ) -> Result<Outcome> {
        let family = family.unwrap();
        let prepared = family.prepare(&self.cx(), on, request).await?;
        refused(&prepared)?;
        if prepared.unchanged {
            return Ok(Outcome::unchanged("as wanted"));
        }
        let steps: Vec<String> = prepared.steps.iter().map(|s| s.native.clone()).collect();
        assert!(!steps.is_empty(), "a change without a step");
        let before = self.calls.as_ref().map(|calls| calls().len());
        let outcome = family.run(&self.task(&on.id), prepared).await?;
        if let (Some(calls), Some(before)) = (&self.calls, before) {
            assert_eq!(calls()[before..], steps, "the calls are not the plan's");
        }
        Ok(outcome)
    }
}

/// A refusal as an error.
pub fn refused(prepared: &Prepared) -> Result<()> {
    match prepared.refusals.first() {
        None => Ok(()),
        Some(refusal) => {
            let error = Error::refused(refusal.message.clone());
            Err(match &refusal.remedy {
                Some(remedy) => error.remedy(remedy.clone()),
                None => error,
            })
        }
    }
}
