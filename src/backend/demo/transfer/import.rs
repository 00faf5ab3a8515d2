//! In from files.

use async_trait::async_trait;

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::work::{Work, run};
use super::SIMULATED;
use crate::backend::contract::{
    Changes, CreateRequest, DiskSource, ImportRequest, Prepared, ReadCx, TaskCx,
};
use crate::model::{Bytes, Error, Instance, Outcome, Result, shown};

#[async_trait]
impl Changes<ImportRequest> for Demo {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: ImportRequest,
    ) -> Result<Prepared> {
        let world = &self.world;
        world.answer(cx, "import.prepare").await?;
        if let Some(why) = world.dialect.bad_name(&request.name) {
            return Err(Error::invalid(format!("{:?}: {why}", shown(&request.name)))
                .remedy("Choose another name.")
                .in_context(world.name()));
        }
        let id = self.new_id(&on.id, &request.name);
        let unique = world.dialect.has_unique_names();
        if world.taken(|g| *g.id() == id || (g.base.name == request.name && unique)) {
            return Ok(Prepared::refused(
                "absent",
                format!(
                    "{} has an instance {} already",
                    world.name(),
                    shown(&request.name)
                ),
                Some("Choose another name.".into()),
            ));
        }
        let from = request.from.to_string_lossy().into_owned();
        let known = world.with_stores(|stores| stores.files.get(&from).cloned());
        let draft = if let Some(guest) = known {
            let mut draft = self.copy(&guest, &id, &request.name, false);
            draft.base.cpus = request.cpus.or(draft.base.cpus);
            draft.base.memory_bytes = request.memory.or(draft.base.memory_bytes);
            draft
        } else {
            self.draft(id.clone(), &as_create(&request, &from))
        };
        let mut acts = vec![
            Act::Define,
            Act::FillDisk {
                n: 0,
                source: from.clone(),
            },
        ];
        if request.start {
            acts.push(Act::Start);
        }
        let mut work = Work::new(acts, format!("{id} is made from {}", shown(&from)));
        work.draft = Some(draft.clone());
        let mut prepared = work.plan(world, &draft);
        for (key, value) in &request.set {
            prepared.notes.push(format!("{key} = {}", shown(value)));
        }
        prepared.notes.push(SIMULATED.into());
        prepared.detachable = false;
        "absent".clone_into(&mut prepared.token);
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.world, cx, prepared).await
    }
}

/// A file of which nothing is known is a disk.
fn as_create(request: &ImportRequest, from: &str) -> CreateRequest {
    CreateRequest {
        name: request.name.clone(),
        cpus: request.cpus.unwrap_or(2),
        memory: request.memory.unwrap_or(Bytes::mib(2048)),
        disk_size: None,
        source: DiskSource::Copy(from.to_owned()),
        cdroms: Vec::new(),
        firmware: None,
        os: None,
        tpm: false,
        secure_boot: false,
        cloud_init: None,
        publish: Vec::new(),
        tags: Vec::new(),
        note: None,
        start: request.start,
        set: request.set.clone(),
    }
}
