//! What the suite needs of a backend.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{
    Backend, Changes, CreateRequest, DiskSource, Prepared, ReadCx, RemoveRequest, TaskCx,
};
use corral::model::{
    Bytes, Detail, Error, ErrorKind, Instance, InstanceId, InstanceKind, Operation, Outcome,
    Result, State, Support,
};

use crate::undo;

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
    /// A place for files, and files in it: a disk image of 64 MiB, and a text.
    pub files: Files,
    /// Another place where disks can be kept.
    pub elsewhere: String,
    /// What an image can be pulled from.
    pub image: String,
    /// Native calls of changes seen so far, where the backend can tell.
    pub calls: Option<Box<dyn Fn() -> Vec<String> + Send + Sync>>,
}

/// Files of this machine.
pub struct Files {
    pub folder: PathBuf,
    pub disk: PathBuf,
    pub text: PathBuf,
}

impl Files {
    /// By name alone.
    pub fn named(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            disk: folder.join("contract.img"),
            text: folder.join("contract.txt"),
        }
    }

    /// In a folder that is there.
    pub fn new(folder: &Path) -> Self {
        let files = Self::named(folder);
        let disk = std::fs::File::create(&files.disk).unwrap();
        disk.set_len(64 << 20).unwrap();
        std::fs::write(&files.text, "contract\n").unwrap();
        files
    }
}

impl Bench {
    /// Whether there is something to try: what the support cell says `No` to is not.
    pub fn can(&self, operation: Operation) -> bool {
        match self.backend.support(operation, None) {
            Support::No(why) => {
                eprintln!("{}: {operation}: no: {why}", self.context);
                false
            }
            _ => true,
        }
    }

    /// A change that is planned twice and run once: the second plan is void then, and does nothing.
    pub async fn once<R: Clone + Send + Sync + 'static>(
        &self,
        family: Option<&dyn Changes<R>>,
        id: &InstanceId,
        request: R,
    ) -> Outcome {
        let row = self.row(id).await;
        let family = family.unwrap();
        let stale = family
            .prepare(&self.cx(), &row, request.clone())
            .await
            .unwrap();
        let outcome = self.change(Some(family), &row, request).await.unwrap();
        assert!(outcome.changed, "{outcome:?}");
        let before = self.calls.as_ref().map(|calls| calls());
        let error = family.run(&self.task(id), stale).await.unwrap_err();
        assert!(
            matches!(error.kind, ErrorKind::Conflict | ErrorKind::NotFound),
            "{error}"
        );
        assert_eq!(before, self.calls.as_ref().map(|calls| calls()));
        outcome
    }

    /// It is so already: nothing is done.
    pub async fn is_so<R: Clone + Send + Sync + 'static>(
        &self,
        family: Option<&dyn Changes<R>>,
        id: &InstanceId,
        request: R,
    ) {
        let row = self.row(id).await;
        let prepared = family
            .unwrap()
            .prepare(&self.cx(), &row, request)
            .await
            .unwrap();
        refused(&prepared).unwrap();
        assert!(prepared.unchanged, "{:?}", prepared.steps);
    }

    /// It is refused, before anything is done, and why.
    pub async fn refuses<R: Clone + Send + Sync + 'static>(
        &self,
        family: Option<&dyn Changes<R>>,
        id: &InstanceId,
        request: R,
    ) -> String {
        let row = self.row(id).await;
        let prepared = family.unwrap().prepare(&self.cx(), &row, request).await;
        match prepared {
            Err(error) => error.to_string(),
            Ok(prepared) => match refused(&prepared) {
                Err(error) => error.to_string(),
                Ok(()) => panic!("{id}: not refused: {:?}", prepared.steps),
            },
        }
    }

    /// An instance with a small empty disk of its own.
    pub async fn small(&self, name: &str) -> InstanceId {
        let mut request = self.request(name);
        request.source = DiskSource::Blank;
        request.disk_size = Some(Bytes::mib(64));
        let stub = self.stub(name);
        let outcome = self
            .change(self.backend.families().create(), &stub, request)
            .await
            .unwrap();
        outcome.id.unwrap_or_else(|| self.id(name))
    }

    pub async fn detail(&self, id: &InstanceId) -> Detail {
        self.backend.detail(&self.cx(), id).await.unwrap()
    }

    /// Takes an instance away with its disks.
    pub async fn remove(&self, id: &InstanceId) {
        let row = self.row(id).await;
        let remove = RemoveRequest {
            keep_disks: false,
            force: true,
        };
        self.change(self.backend.families().remove(), &row, remove)
            .await
            .unwrap();
    }

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
        undo::can_be_typed(&prepared.steps);
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
