//! The simulated backend: changes.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::backend::{Demo, STEP};
use super::words::{Deed, native};
use super::world::Guest;
use crate::backend::contract::{
    Changes, CreateRequest, DiskSource, PauseRequest, PowerRequest, Prepared, ReadCx,
    RemoveRequest, RestartMode, SnapshotRequest, TaskCx,
};
use crate::model::{
    Bytes, Consistency, Disk, Error, EventLevel, Instance, InstanceKind, Outcome, Result, Snapshot,
    State, Step, Usage,
};

/// A guest that does not react is waited for this long, unless the user says otherwise.
const PATIENCE: Duration = Duration::from_secs(120);

/// What `prepare` found, for `run`.
struct Payload<R> {
    id: crate::model::InstanceId,
    request: R,
    calls: Vec<String>,
}

impl Demo {
    fn token(guest: &Guest) -> String {
        format!(
            "{}:{}",
            guest.row.uid.as_deref().unwrap_or(""),
            guest.revision
        )
    }

    /// The guest, and what forbids any change of it.
    async fn look(&self, cx: &ReadCx, on: &Instance) -> Result<(Guest, String, Option<Prepared>)> {
        cx.within(&self.context, self.reach()).await?;
        let guest = self.guest(&on.id)?;
        let token = Self::token(&guest);
        let refused = if let Some(lock) = &guest.row.locked {
            Some(Prepared::refused(
                token.clone(),
                format!("{} is locked: {lock}", on.id),
                Some("Wait until that has ended".to_owned()),
            ))
        } else if guest.row.state == State::Broken {
            Some(Prepared::refused(
                token.clone(),
                format!("{} cannot be read, so it is not changed", on.id),
                None,
            ))
        } else {
            None
        };
        Ok((guest, token, refused))
    }

    fn plan<R: Send + Sync + 'static>(
        &self,
        guest: &Guest,
        token: String,
        steps: &[(&str, Deed<'_>)],
        request: R,
    ) -> Prepared {
        let steps: Vec<Step> = steps
            .iter()
            .map(|(title, deed)| Step::new(*title, native(&self.kind, &guest.row, *deed)))
            .collect();
        let calls = steps.iter().map(|step| step.native.clone()).collect();
        let mut prepared = Prepared::new(token, steps);
        prepared.detachable = matches!(
            self.kind.as_str(),
            "proxmox" | "vsphere" | "xen" | "nutanix" | "incus" | "kubevirt"
        );
        prepared.with(Payload {
            id: guest.row.id.clone(),
            request,
            calls,
        })
    }

    /// The last look before the first write.
    fn recheck(&self, token: &str, id: &crate::model::InstanceId) -> Result<Guest> {
        let guest = self.guest(id)?;
        if Self::token(&guest) != token {
            return Err(Error::conflict(format!(
                "{id} was changed by someone else since the plan was made. Nothing was done"
            )));
        }
        Ok(guest)
    }

    async fn step(&self, cx: &TaskCx, call: &str) -> Result<()> {
        cx.checkpoint()?;
        cx.step(call.to_owned());
        if matches!(self.kind.as_str(), "proxmox" | "vsphere") {
            cx.native_task(format!(
                "task-{:08x}",
                self.world.random(u64::from(u32::MAX))
            ));
        }
        self.world.calls().native.push(call.to_owned());
        for part in 1..=4 {
            tokio::time::sleep(self.knobs.paced(STEP) / 4).await;
            cx.progress(part, 4);
        }
        Ok(())
    }

    fn bump(&self, id: &crate::model::InstanceId) {
        self.world.change(id, |guest| guest.revision += 1);
    }

    fn goes(&self, id: &crate::model::InstanceId, state: State) {
        self.world.set_state(id, state);
    }

    fn runs(&self, id: &crate::model::InstanceId) {
        self.world.change(id, |guest| {
            guest.row.usage = Some(Usage {
                cpu_percent: Some(3.0),
                memory_bytes: guest.row.memory_bytes.map(|b| Bytes(b.0 / 4)),
            });
            guest.row.uptime_seconds = Some(0);
        });
        self.goes(id, State::Running);
    }

    /// Asks the guest and waits; a stubborn one never reacts.
    async fn shut_down(
        &self,
        cx: &TaskCx,
        guest: &Guest,
        call: &str,
        force_after: Option<Duration>,
    ) -> Result<()> {
        let id = &guest.row.id;
        self.goes(id, State::Stopping);
        self.step(cx, call).await?;
        if guest.row.name == "stubborn" {
            let patience = force_after.or(cx.timeout).unwrap_or(PATIENCE);
            tokio::select! {
                () = tokio::time::sleep(patience) => {}
                () = cx.cancel.cancelled() => {}
            }
            if force_after.is_none() || cx.cancel.is_cancelled() {
                self.goes(id, State::Running);
                cx.checkpoint()?;
                return Err(Error::timed_out(format!(
                    "{id} is still running {} s after the shutdown request; the guest has not reacted",
                    patience.as_secs()
                ))
                .remedy(format!("Wait: corral wait {id} --for stopped. Force: corral stop --force {id}")));
            }
            self.step(cx, &native(&self.kind, &guest.row, Deed::Off))
                .await?;
        }
        self.goes(id, State::Stopped);
        Ok(())
    }
}

#[async_trait]
impl Changes<PowerRequest> for Demo {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: PowerRequest) -> Result<Prepared> {
        let (guest, token, refused) = self.look(cx, on).await?;
        if let Some(refused) = refused {
            return Ok(refused);
        }
        let id = &on.id;
        let state = guest.row.state;
        let off = matches!(state, State::Stopped | State::Crashed | State::Hibernated);
        Ok(match &request {
            PowerRequest::Start if guest.row.template => Prepared::refused(
                token,
                format!("{id} is a template and is never started"),
                None,
            ),
            PowerRequest::Start if state == State::Paused => Prepared::refused(
                token,
                format!("{id} is paused, not stopped"),
                Some(format!("Resume it: corral resume {id}")),
            ),
            PowerRequest::Start if !off => Prepared::unchanged(token, "runs already"),
            PowerRequest::Start => {
                self.plan(&guest, token, &[("Powers it on", Deed::Start)], request)
            }
            PowerRequest::Stop { .. } if off => Prepared::unchanged(token, "is stopped already"),
            PowerRequest::Stop { force: true, .. } => {
                let mut prepared =
                    self.plan(&guest, token, &[("Powers it off now", Deed::Off)], request);
                prepared.losses.push("unsaved work in the guest".to_owned());
                prepared
            }
            PowerRequest::Stop { .. } => self.plan(
                &guest,
                token,
                &[("Asks the guest to shut down, and waits", Deed::Shutdown)],
                request,
            ),
            PowerRequest::Restart(_) if off => Prepared::refused(
                token,
                format!("{id} is not running"),
                Some(format!("Start it: corral start {id}")),
            ),
            PowerRequest::Restart(RestartMode::Guest) => self.plan(
                &guest,
                token,
                &[("Asks the guest to reboot", Deed::Reboot)],
                request,
            ),
            PowerRequest::Restart(RestartMode::Force) => {
                let mut prepared =
                    self.plan(&guest, token, &[("Resets it now", Deed::Reset)], request);
                prepared.losses.push("unsaved work in the guest".to_owned());
                prepared
            }
            PowerRequest::Restart(RestartMode::Cold) => self.plan(
                &guest,
                token,
                &[
                    ("Asks the guest to shut down, and waits", Deed::Shutdown),
                    ("Powers it on", Deed::Start),
                ],
                request,
            ),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let payload: Payload<PowerRequest> = prepared.take()?;
        let id = &payload.id;
        let guest = self.recheck(&prepared.token, id)?;
        self.bump(id);
        match payload.request {
            PowerRequest::Start => {
                self.goes(id, State::Starting);
                self.step(cx, &payload.calls[0]).await?;
                if guest.row.name == "badboot" {
                    self.goes(id, State::Stopped);
                    self.world
                        .event(id, EventLevel::Error, "start-failed", "no bootable device");
                    return Err(Error::backend(format!(
                        "{id} did not start: no bootable device"
                    )));
                }
                self.runs(id);
                Ok(Outcome::changed("runs"))
            }
            PowerRequest::Stop { force: true, .. } => {
                self.step(cx, &payload.calls[0]).await?;
                self.goes(id, State::Stopped);
                Ok(Outcome::changed("is off"))
            }
            PowerRequest::Stop { force_after, .. } => {
                self.shut_down(cx, &guest, &payload.calls[0], force_after)
                    .await?;
                Ok(Outcome::changed("has shut down"))
            }
            PowerRequest::Restart(RestartMode::Cold) => {
                self.shut_down(cx, &guest, &payload.calls[0], None).await?;
                self.step(cx, &payload.calls[1]).await?;
                self.runs(id);
                Ok(Outcome::changed("was stopped and started"))
            }
            PowerRequest::Restart(_) => {
                self.step(cx, &payload.calls[0]).await?;
                self.runs(id);
                Ok(Outcome::changed("was restarted"))
            }
        }
    }
}

#[async_trait]
impl Changes<PauseRequest> for Demo {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: PauseRequest) -> Result<Prepared> {
        let (guest, token, refused) = self.look(cx, on).await?;
        if let Some(refused) = refused {
            return Ok(refused);
        }
        Ok(match (request, guest.row.state) {
            (PauseRequest::Pause, State::Paused) => Prepared::unchanged(token, "is paused already"),
            (PauseRequest::Resume, State::Running) => Prepared::unchanged(token, "runs already"),
            (PauseRequest::Pause, State::Running) => {
                self.plan(&guest, token, &[("Halts its CPUs", Deed::Pause)], request)
            }
            (PauseRequest::Resume, State::Paused) => self.plan(
                &guest,
                token,
                &[("Lets its CPUs go on", Deed::Resume)],
                request,
            ),
            (_, state) => Prepared::refused(
                token,
                format!("{} is {state}", on.id),
                Some(format!("Start it: corral start {}", on.id)),
            ),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let payload: Payload<PauseRequest> = prepared.take()?;
        let id = &payload.id;
        let guest = self.recheck(&prepared.token, id)?;
        self.bump(id);
        self.step(cx, &payload.calls[0]).await?;
        match payload.request {
            PauseRequest::Pause => {
                self.goes(id, State::Paused);
                Ok(Outcome::changed("is paused"))
            }
            PauseRequest::Resume if guest.row.reason.is_some() => {
                self.world
                    .event(id, EventLevel::Error, "io-error", "paused again");
                Err(Error::backend(format!(
                    "{id} paused again at once: {}",
                    guest.row.reason.as_deref().unwrap_or("")
                ))
                .remedy("Make room in its pool first"))
            }
            PauseRequest::Resume => {
                self.runs(id);
                Ok(Outcome::changed("runs"))
            }
        }
    }
}

#[async_trait]
impl Changes<CreateRequest> for Demo {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: CreateRequest,
    ) -> Result<Prepared> {
        cx.within(&self.context, self.reach()).await?;
        let token = format!("new:{}", request.name);
        if request.name.is_empty() || request.name.chars().any(char::is_control) {
            return Ok(Prepared::refused(
                token,
                "a name needs at least one character and no control characters",
                None,
            ));
        }
        let taken = self
            .world
            .guests()
            .values()
            .any(|g| g.row.name == request.name || g.row.id == on.id);
        if taken {
            return Ok(Prepared::refused(
                token,
                format!("{} is taken", on.id),
                Some("Choose another name".to_owned()),
            ));
        }
        let mut steps =
            vec![Step::new("Makes it", native(&self.kind, on, Deed::Create)).undo("corral delete")];
        if request.start {
            steps.push(Step::new(
                "Powers it on",
                native(&self.kind, on, Deed::Start),
            ));
        }
        let calls = steps.iter().map(|s| s.native.clone()).collect();
        Ok(Prepared::new(token, steps).with(Payload {
            id: on.id.clone(),
            request,
            calls,
        }))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let payload: Payload<CreateRequest> = prepared.take()?;
        let (id, request) = (&payload.id, &payload.request);
        if self.world.guests().contains_key(id) {
            return Err(Error::conflict(format!(
                "{id} was made by someone else meanwhile. Nothing was done"
            )));
        }
        let mut row = Instance::new(
            id.clone(),
            self.kind.clone(),
            InstanceKind::Vm,
            State::Provisioning,
            Timestamp::now(),
        );
        row.uid = Some(uuid::Uuid::new_v4().to_string());
        row.cpus = Some(request.cpus);
        row.memory_bytes = Some(request.memory);
        let size = request.disk_size.unwrap_or(Bytes::gib(20));
        row.disk_bytes = Some(size);
        row.tags.clone_from(&request.tags);
        row.note.clone_from(&request.note);
        row.created_at = Some(Timestamp::now());
        row.addresses = Some(Vec::new());
        let backing = match &request.source {
            DiskSource::Backed(image) => Some(image.clone()),
            _ => None,
        };
        let disk = Disk {
            name: "disk0".to_owned(),
            device: "disk".to_owned(),
            bus: Some("virtio".to_owned()),
            source: Some(format!("pool/{}-disk0", request.name)),
            format: Some("qcow2".to_owned()),
            size_bytes: Some(size),
            used_bytes: Some(Bytes::mib(1)),
            backing,
            owned: true,
            readonly: false,
        };
        self.world.add(Guest {
            row,
            disks: vec![disk],
            nics: Vec::new(),
            snapshots: Vec::new(),
            revision: 1,
        });
        self.step(cx, &payload.calls[0]).await?;
        self.goes(id, State::Stopped);
        if let Some(call) = payload.calls.get(1) {
            self.step(cx, call).await?;
            self.runs(id);
        }
        Ok(Outcome {
            id: Some(id.clone()),
            ..Outcome::changed("was made")
        })
    }
}

#[async_trait]
impl Changes<RemoveRequest> for Demo {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: RemoveRequest,
    ) -> Result<Prepared> {
        cx.within(&self.context, self.reach()).await?;
        let Ok(guest) = self.guest(&on.id) else {
            return Ok(Prepared::unchanged("gone", "is gone already"));
        };
        let (guest, token, refused) = match self.look(cx, on).await? {
            (_, token, Some(refused)) => (guest, token, Some(refused)),
            seen => seen,
        };
        if let Some(refused) = refused {
            return Ok(refused);
        }
        let active = guest.row.state.is_active();
        if active && !request.force {
            return Ok(Prepared::refused(
                token,
                format!("{} is {}", on.id, guest.row.state),
                Some(format!(
                    "stop it first: corral stop {} (or add --force)",
                    on.id
                )),
            ));
        }
        let mut steps = vec![("Deletes it", Deed::Delete)];
        if active {
            steps.insert(0, ("Powers it off now", Deed::Off));
        }
        let mut prepared = self.plan(&guest, token, &steps, request);
        for disk in &guest.disks {
            let line = format!("{} {}", disk.name, disk.source.as_deref().unwrap_or(""));
            if request.keep_disks {
                prepared.notes.push(format!("keeps {line}"));
            } else {
                prepared.losses.push(format!(
                    "disk {line} {}",
                    disk.size_bytes.unwrap_or_default()
                ));
            }
        }
        if !guest.snapshots.is_empty() {
            prepared
                .losses
                .push(format!("{} snapshots", guest.snapshots.len()));
        }
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let payload: Payload<RemoveRequest> = prepared.take()?;
        self.recheck(&prepared.token, &payload.id)?;
        for call in &payload.calls {
            self.step(cx, call).await?;
        }
        self.world.remove(&payload.id);
        Ok(Outcome::changed("is deleted"))
    }
}

#[async_trait]
impl Changes<SnapshotRequest> for Demo {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: SnapshotRequest,
    ) -> Result<Prepared> {
        let (guest, token, refused) = self.look(cx, on).await?;
        if let Some(refused) = refused {
            return Ok(refused);
        }
        let id = &on.id;
        let find = |name: &str| guest.snapshots.iter().find(|s| s.name == name);
        Ok(match &request {
            SnapshotRequest::Create { name, .. }
                if name.is_empty() || name.len() > 100 || name.chars().any(char::is_control) =>
            {
                Prepared::refused(
                    token,
                    "a snapshot's name has 1 to 100 characters, none of them a control character",
                    None,
                )
            }
            SnapshotRequest::Create { name, .. } if find(name).is_some() => Prepared::refused(
                token,
                format!("{id} has a snapshot {name} already"),
                Some("Choose another name".to_owned()),
            ),
            SnapshotRequest::Create { memory: true, .. } if guest.row.state != State::Running => {
                Prepared::refused(
                    token,
                    format!("{id} is not running: there is no RAM to keep"),
                    Some("Leave --with-memory out".to_owned()),
                )
            }
            SnapshotRequest::Create { name, .. } => self.plan(
                &guest,
                token,
                &[("Takes the snapshot", Deed::Snapshot(name))],
                request.clone(),
            ),
            SnapshotRequest::Restore { name, .. } | SnapshotRequest::Delete { name }
                if find(name).is_none() =>
            {
                if matches!(request, SnapshotRequest::Delete { .. }) {
                    Prepared::unchanged(token, "there is no such snapshot")
                } else {
                    Prepared::refused(
                        token,
                        format!("{id} has no snapshot {name}"),
                        Some(format!("corral snapshot list {id}")),
                    )
                }
            }
            SnapshotRequest::Restore { stop: false, .. } if guest.row.state.is_active() => {
                Prepared::refused(
                    token,
                    format!("{id} is {}", guest.row.state),
                    Some(format!(
                        "stop it first: corral stop {id} (or add --stop --start)"
                    )),
                )
            }
            SnapshotRequest::Restore {
                name,
                start,
                keep_present,
                ..
            } => {
                let mut steps = Vec::new();
                if guest.row.state.is_active() {
                    steps.push(("Asks the guest to shut down, and waits", Deed::Shutdown));
                }
                if let Some(present) = keep_present {
                    steps.push(("Takes a snapshot of the present", Deed::Snapshot(present)));
                }
                steps.push(("Goes back to the snapshot", Deed::Revert(name)));
                if *start {
                    steps.push(("Powers it on", Deed::Start));
                }
                let mut prepared = self.plan(&guest, token, &steps, request.clone());
                let since = find(name)
                    .and_then(|s| s.created_at)
                    .map_or_else(String::new, |at| format!(" since {}", at.strftime("%F %R")));
                prepared.losses.push(format!("everything written{since}"));
                prepared
            }
            SnapshotRequest::Delete { name } => self.plan(
                &guest,
                token,
                &[("Deletes the snapshot", Deed::Unsnapshot(name))],
                request.clone(),
            ),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let payload: Payload<SnapshotRequest> = prepared.take()?;
        let id = &payload.id;
        let guest = self.recheck(&prepared.token, id)?;
        self.bump(id);
        match &payload.request {
            SnapshotRequest::Create { name, note, memory } => {
                self.step(cx, &payload.calls[0]).await?;
                let consistency = consistency(&guest, *memory);
                self.keep(id, name, note.clone(), consistency);
                Ok(Outcome {
                    consistency: Some(consistency),
                    ..Outcome::changed(format!("has the snapshot {name}"))
                })
            }
            SnapshotRequest::Restore {
                name,
                start,
                keep_present,
                ..
            } => {
                let mut calls = payload.calls.iter();
                if guest.row.state.is_active()
                    && let Some(call) = calls.next()
                {
                    self.shut_down(cx, &guest, call, None).await?;
                }
                if let Some(present) = keep_present
                    && let Some(call) = calls.next()
                {
                    self.step(cx, call).await?;
                    self.keep(id, present, None, Consistency::Offline);
                }
                if let Some(call) = calls.next() {
                    self.step(cx, call).await?;
                }
                self.world.change(id, |guest| {
                    for snapshot in &mut guest.snapshots {
                        snapshot.current = snapshot.name == *name;
                    }
                });
                if *start && let Some(call) = calls.next() {
                    self.step(cx, call).await?;
                    self.runs(id);
                }
                Ok(Outcome::changed(format!("is back at {name}")))
            }
            SnapshotRequest::Delete { name } => {
                self.step(cx, &payload.calls[0]).await?;
                self.world
                    .change(id, |guest| forget(&mut guest.snapshots, name));
                Ok(Outcome::changed(format!(
                    "no longer has the snapshot {name}"
                )))
            }
        }
    }
}

impl Demo {
    fn keep(
        &self,
        id: &crate::model::InstanceId,
        name: &str,
        note: Option<String>,
        consistency: Consistency,
    ) {
        self.world.change(id, |guest| {
            let parent = guest
                .snapshots
                .iter()
                .find(|s| s.current)
                .map(|s| s.name.clone());
            guest.snapshots.iter_mut().for_each(|s| s.current = false);
            guest.snapshots.push(Snapshot {
                instance: id.clone(),
                name: name.to_owned(),
                parent,
                current: true,
                created_at: Some(Timestamp::now()),
                consistency: Some(consistency),
                size_bytes: Some(Bytes::mib(12)),
                note,
                broken: None,
            });
        });
    }
}

fn consistency(guest: &Guest, memory: bool) -> Consistency {
    match (guest.row.state, memory) {
        (State::Running, true) => Consistency::Memory,
        (State::Running | State::Paused, _) if guest.row.agent == Some(true) => {
            Consistency::Filesystem
        }
        (State::Running | State::Paused, _) => Consistency::Crash,
        _ => Consistency::Offline,
    }
}

/// Takes a snapshot out of the tree; its children move up.
fn forget(snapshots: &mut Vec<Snapshot>, name: &str) {
    let Some(at) = snapshots.iter().position(|s| s.name == name) else {
        return;
    };
    let gone = snapshots.remove(at);
    for snapshot in snapshots.iter_mut() {
        if snapshot.parent.as_deref() == Some(name) {
            snapshot.parent.clone_from(&gone.parent);
        }
        if gone.current && Some(&snapshot.name) == gone.parent.as_ref() {
            snapshot.current = true;
        }
    }
}
