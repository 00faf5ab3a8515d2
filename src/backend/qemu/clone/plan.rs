//! What a clone would do, and why it may not.

use std::path::{Path, PathBuf};

use super::super::change::Seen;
use super::super::create::{comma_free, free_name, serial};
use super::super::ctx::Ctx;
use super::super::definition::{Definition, DiskDef, FORMAT, VARS_NODE, folder_name, mac};
use super::super::image::{self, quoted, stamp};
use super::super::publish::place;
use super::super::snapshots::record::Records;
use super::super::store::{DEFINITION, lost};
use super::super::{op, tpm};
use super::identity::Identity;
use super::{Cloning, Job};
use crate::backend::contract::{CloneRequest, Prepared, ReadCx};
use crate::model::{Bytes, Error, InstanceId, Result, State, Step, encode_segment, shown};

/// What a seed's serial number is.
const SEED: &str = "cidata";
/// Room for what is not counted: definition, overlays, seed.
const SMALL: Bytes = Bytes::mib(8);

pub(super) async fn prepare(
    ctx: &Ctx,
    cx: &ReadCx,
    id: &InstanceId,
    request: CloneRequest,
) -> Result<Prepared> {
    let seen = match Seen::for_plan(ctx, cx, id).await {
        Ok(seen) => seen,
        Err(refused) => return Ok(refused),
    };
    if let Some(refused) = seen.unclear(&seen.token()) {
        return Ok(refused);
    }
    if let Err(error) = possible(ctx, &seen, &request) {
        return Ok(Prepared::failed(seen.token(), &error));
    }
    let mut notes = Vec::new();
    let made = match plan(ctx, &seen, request, &mut notes).await {
        Ok(made) => made,
        Err(error) => return Ok(Prepared::failed(seen.token(), &error)),
    };
    let mut prepared = Prepared::new(token(&seen)?, steps(ctx, &made)?);
    prepared.notes = notes;
    Ok(prepared.with(made))
}

/// What must still hold when the plan runs. Of a running VM only a snapshot is read, which the
/// guest does not change.
pub(super) fn token(seen: &Seen) -> Result<String> {
    let mut token = seen.token();
    if !seen.live.is_active() {
        for disk in seen.vm.disks.iter().filter(|disk| !disk.readonly) {
            token.push(' ');
            token.push_str(&stamp(&disk.path)?);
        }
    }
    Ok(token)
}

/// What speaks against it before any image is looked at.
fn possible(ctx: &Ctx, seen: &Seen, request: &CloneRequest) -> Result<()> {
    let (vm, id) = (&seen.vm, &seen.id);
    if let Some(why) = vm.readonly_reason() {
        return Err(Error::refused(why).remedy("Use the newer corral."));
    }
    free_name(&ctx.store, &ctx.id(&request.name), &request.name)?;
    op::unfinished(&ctx.store.dir(&vm.name)?)?;
    if let Some(error) = lost(vm) {
        return Err(error);
    }
    if request.linked && request.snapshot.is_some() {
        return Err(Error::invalid(
            "--linked and --snapshot exclude each other: an overlay cannot be on top of a snapshot",
        )
        .remedy("Leave one of them out."));
    }
    if seen.live.state == State::Hibernated && request.linked {
        return Err(Error::refused(format!(
            "{id} is hibernated: its disks cannot stay as they are below a linked clone and go on with its RAM"
        ))
        .remedy(format!(
            "Start it and stop it first: corral start {id}, corral stop {id}. Or leave --linked out."
        )));
    }
    if seen.live.is_active() && request.linked {
        return Err(Error::refused(format!(
            "{id} is {}: its disks must stay as they are below a linked clone",
            seen.live.state
        ))
        .remedy(format!(
            "Stop it first: corral stop {id}. Or leave --linked out."
        )));
    }
    if seen.live.is_active() && request.snapshot.is_none() {
        let name = shown(&request.name);
        return Err(
            Error::refused(format!("{id} is {}", seen.live.state)).remedy(format!(
                "Stop it first: corral stop {id}. Or clone a snapshot of it: corral snapshot create {id} --name S, \
             then corral clone {id} --snapshot S --name {name}"
            )),
        );
    }
    if vm.tpm {
        comma_free(&ctx.store.dir(&request.name)?)?;
    }
    Ok(())
}

async fn plan(
    ctx: &Ctx,
    seen: &Seen,
    request: CloneRequest,
    notes: &mut Vec<String>,
) -> Result<Cloning> {
    let source = &seen.vm;
    let uuid = uuid::Uuid::new_v4();
    let dir = ctx.store.dir(&request.name)?;
    let mut definition = Definition {
        format: FORMAT,
        uuid,
        name: request.name.clone(),
        autostart: false,
        template: false,
        created_at: Some(jiff::Timestamp::now()),
        disks: Vec::new(),
        ..source.clone()
    };
    let mut copying = Copying {
        ctx,
        seen,
        request: &request,
        dir: &dir,
        from: ctx.store.dir(&source.name)?,
        tool: image::tool(&ctx.env)?,
        jobs: Vec::new(),
        needs: SMALL.0,
        copies: Vec::new(),
    };
    let mut seed = None;
    for (n, disk) in source.disks.iter().enumerate() {
        let own = disk.path.parent() == Some(copying.from.as_path());
        if disk.readonly && !own {
            notes.push(format!(
                "{}: {} is shared, read-only",
                disk.name,
                quoted(&disk.path)
            ));
            definition.disks.push(disk.clone());
            continue;
        }
        let mut copy = copying.disk(disk).await?;
        copy.serial = if disk.serial == SEED {
            SEED.to_owned()
        } else {
            serial(&uuid, u8::try_from(n).unwrap_or(u8::MAX))
        };
        if disk.readonly && disk.serial == SEED && !request.keep_identity {
            match crate::backend::seed::Seed::read(&disk.path) {
                Ok(_) => {
                    copying.jobs.retain(|job| job.to != copy.path);
                    seed = Some((disk.path.clone(), copy.path.clone()));
                }
                Err(error) => notes.push(format!(
                    "its first-boot seed is copied as it is ({}): cloud-init takes the clone for the original",
                    error.message
                )),
            }
        }
        definition.disks.push(copy);
    }
    if let Some(vars) = &source.firmware.vars {
        let to = dir.join("efivars.qcow2");
        copying
            .copy("Copy its UEFI variables", VARS_NODE, vars, "qcow2", &to)
            .await?;
        definition.firmware.vars = Some(to);
    }
    copying.room().await?;
    let jobs = copying.jobs;
    rewire(&mut definition, notes);
    let tpm = source
        .tpm
        .then(|| {
            (
                tpm::state_dir(&ctx.store.dir(&source.name).unwrap_or_default()),
                tpm::state_dir(&dir),
            )
        })
        .filter(|(from, _)| from.is_dir());
    let records = Records::load(&ctx.store.dir(&source.name)?).unwrap_or_default();
    tell(
        seen,
        &request,
        tpm.is_some(),
        !records.snapshots.is_empty(),
        notes,
    );
    let identity = identity(seen, &request, &definition, seed.is_some(), notes);
    Ok(Cloning {
        source: seen.id.clone(),
        request,
        definition,
        jobs,
        seed,
        tpm,
        identity,
    })
}

struct Copying<'a> {
    ctx: &'a Ctx,
    seen: &'a Seen,
    request: &'a CloneRequest,
    dir: &'a Path,
    from: PathBuf,
    tool: PathBuf,
    jobs: Vec<Job>,
    needs: u64,
    copies: Vec<(image::From<'a>, image::Image)>,
}

impl<'a> Copying<'a> {
    /// Refuses what would fill the file system. What its copies take is measured only where it matters.
    async fn room(&self) -> Result<()> {
        let root = self.ctx.store.root();
        let most = self.copies.iter().fold(self.needs, |sum, (_, image)| {
            sum.saturating_add(image::at_most(image.size).0)
        });
        if image::fits(root, Bytes(most)) {
            return Ok(());
        }
        let mut needs = self.needs;
        for (from, image) in &self.copies {
            let measured = image::needed_of(&self.ctx.env, from).await;
            let copy = measured.or(image.used).unwrap_or(image.size);
            needs = needs.saturating_add(copy.0);
        }
        image::room(root, Bytes(needs))
    }

    /// The clone's disk, and the command that makes it.
    async fn disk(&mut self, disk: &'a DiskDef) -> Result<DiskDef> {
        let raw = disk.readonly;
        let file = if disk.serial == SEED && raw {
            "seed.img".to_owned()
        } else {
            format!(
                "{}.{}",
                encode_segment(&disk.name),
                if raw { "img" } else { "qcow2" }
            )
        };
        let mut copy = DiskDef {
            path: self.dir.join(file),
            format: if raw { "raw" } else { "qcow2" }.to_owned(),
            backing: None,
            owned: true,
            ..disk.clone()
        };
        let name = shown(&disk.name).into_owned();
        if self.request.linked && !raw {
            let found = image::defined(&self.ctx.env, &disk.path, &disk.format, false).await?;
            self.expected(disk, &found)?;
            copy.size = found.size;
            copy.backing = Some(disk.path.clone());
            self.jobs.push(Job {
                title: format!("Make an overlay of {name}"),
                cmd: image::overlay_cmd(&self.tool, &copy.path, &disk.path, &found.format, None),
                to: copy.path.clone(),
            });
            return Ok(copy);
        }
        if raw {
            self.needs = self.needs.saturating_add(disk.size.0);
            self.jobs.push(Job {
                title: format!("Copy {name}"),
                cmd: image::raw_copy_cmd(&self.tool, &disk.path, &copy.path),
                to: copy.path.clone(),
            });
            return Ok(copy);
        }
        let title = format!("Copy {name}");
        let size = self
            .copy(&title, &disk.name, &disk.path, &disk.format, &copy.path)
            .await?;
        copy.size = size;
        if let Some((_, found)) = self.copies.last() {
            self.expected(disk, found)?;
        }
        Ok(copy)
    }

    /// An image that stands on a file its definition knows nothing of is not followed there.
    fn expected(&self, disk: &DiskDef, found: &image::Image) -> Result<()> {
        let other = match (&found.data_file, &found.backing, &disk.backing) {
            (Some(data), _, _) => data,
            (None, Some(base), None) => base,
            _ => return Ok(()),
        };
        Err(Error::refused(format!(
            "{} of {} stands on {}, which is not in its definition",
            shown(&disk.name),
            self.seen.id,
            quoted(other)
        ))
        .remedy(format!(
            "If you trust it, make one file of it while the VM is off: qemu-img convert -O qcow2 {} WHOLE.qcow2",
            quoted(&disk.path)
        )))
    }

    /// A whole copy of an image, or of a snapshot in it. Gives its size.
    async fn copy(
        &mut self,
        title: &str,
        node: &str,
        from: &'a Path,
        format: &'a str,
        to: &Path,
    ) -> Result<Bytes> {
        let env = &self.ctx.env;
        let running = self.seen.live.is_active();
        let tag = self.request.snapshot.as_deref();
        let found = image::defined(env, from, format, running).await?;
        if let Some(tag) = tag
            && !found.snapshots.iter().any(|inside| inside.tag == tag)
        {
            let id = &self.seen.id;
            return Err(Error::not_found(format!(
                "there is no snapshot \"{}\" in {} of {id}",
                shown(tag),
                shown(node)
            ))
            .remedy(format!("List them: corral snapshot list {id}")));
        }
        let from = image::From {
            path: from,
            format,
            snapshot: tag,
            shared: running,
        };
        self.jobs.push(Job {
            title: title.to_owned(),
            cmd: image::convert_cmd(&self.tool, &from, to),
            to: to.to_owned(),
        });
        let size = found.size;
        self.copies.push((from, found));
        Ok(size)
    }
}

/// Addresses and ports of its own.
fn rewire(vm: &mut Definition, notes: &mut Vec<String>) {
    let uuid = vm.uuid;
    for (n, nic) in vm.nics.iter_mut().enumerate() {
        nic.mac = mac(&uuid, u8::try_from(n).unwrap_or(u8::MAX));
        for forward in &mut nic.forwards {
            if !forward.picked {
                notes.push(format!(
                    "{} stays the original's: another port is picked for the clone's {}",
                    place(forward),
                    forward.guest
                ));
            }
            forward.port = 0;
            forward.picked = true;
        }
    }
}

fn tell(seen: &Seen, request: &CloneRequest, tpm: bool, snapshots: bool, notes: &mut Vec<String>) {
    let id = &seen.id;
    if let Some(tag) = &request.snapshot {
        notes.push(format!(
            "the clone is as {id} was at {}, as after a power cut",
            shown(tag)
        ));
    } else {
        if seen.live.state == State::Hibernated {
            notes.push(format!(
                "{id} is hibernated: the clone gets its disks as after a power cut, and nothing of its RAM"
            ));
        }
        if snapshots {
            notes.push("snapshots are not copied".to_owned());
        }
    }
    if tpm {
        let now = if seen.live.is_active() {
            ", as it is now"
        } else {
            ""
        };
        notes.push(format!(
            "the TPM's memory is copied{now}: what is sealed to it opens in the clone too"
        ));
    }
    if request.linked {
        notes.push(format!(
            "{id} cannot be started or taken back to a snapshot while the clone is on top of its disks"
        ));
        if !seen.vm.template {
            notes.push(format!("to say so: corral template {id} --on"));
        }
    }
}

/// What the guest is to get of its own, and how; said in the plan.
fn identity(
    seen: &Seen,
    request: &CloneRequest,
    clone: &Definition,
    seed: bool,
    notes: &mut Vec<String>,
) -> Option<Identity> {
    if request.keep_identity {
        notes.push("machine ID, SSH host keys and host name stay the original's".to_owned());
        return None;
    }
    if clone.is_windows() {
        notes.push(
            "Windows keeps its name and identity: run sysprep in the original before, or in the clone"
                .to_owned(),
        );
        return None;
    }
    let hostname = crate::backend::seed::hostname_from(&clone.name);
    notes.push(if seed {
        "host name and SSH host keys are made anew by cloud-init, the machine ID by the guest agent, \
         at the first start; without an agent in the guest the machine ID stays the original's"
            .to_owned()
    } else {
        format!(
            "machine ID, SSH host keys and host name ({hostname}) are made anew by the guest agent at the first \
             start; without an agent in the guest they stay the original's"
        )
    });
    Some(Identity {
        of: seen.id.to_string(),
        hostname,
        seed,
        tried: None,
    })
}

fn steps(ctx: &Ctx, made: &Cloning) -> Result<Vec<Step>> {
    let vm = &made.definition;
    folder_name(&vm.name)?;
    let dir = ctx.store.dir(&vm.name)?;
    let mut steps = vec![
        Step::new("Make its folder", format!("mkdir -m 700 {}", quoted(&dir)))
            .undo(format!("rm -r {}", quoted(&dir))),
    ];
    for job in &made.jobs {
        steps.push(Step::new(job.title.clone(), job.cmd.shown()));
    }
    if let Some((_, to)) = &made.seed {
        steps.push(Step::new(
            "Write a first-boot seed of its own",
            format!("write {} (0600)", quoted(to)),
        ));
    }
    if let Some((from, to)) = &made.tpm {
        steps.push(Step::new(
            "Copy the TPM's memory",
            format!("cp -r {} {}", quoted(from), quoted(to)),
        ));
    }
    steps.push(Step::new(
        "Define it, with a UUID, addresses, serial numbers and ports of its own",
        format!("write {}", quoted(&dir.join(DEFINITION))),
    ));
    if made.request.start {
        steps.push(Step::new("Start it", "qemu-system-x86_64 …"));
        if made.identity.is_some() {
            steps.push(Step::new(
                "Give the guest an identity of its own",
                "agent guest-exec /bin/sh -c …",
            ));
        }
    }
    Ok(steps)
}
