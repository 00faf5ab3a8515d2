//! The disks of a VM as streams of bytes: what a move to another backend reads from. They are read
//! from what an export reads too: the files, a snapshot in them, or what a running QEMU keeps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::io::StreamReader;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::change::Seen;
use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::op::{Change, Journal, Phase};
use super::super::{locks, process, store};
use super::convert::{self, Access};
use super::export::access;
use super::pieces::{self, Piece};
use super::{live, target};
use crate::backend::contract::{DiskBytes, DiskStream, PortableSource, TaskCx};
use crate::backend::portable::stream::stream;
use crate::link::child::{Cmd, run_cancellable};
use crate::link::nbd::{BLOCK, Nbd};
use crate::model::{Consistency, Error, Instance, Portable, PortableDisk, Result, State, shown};

/// What stands in the record of a VM whose disks are read; no file is ever called so.
const RECORD: &str = ".portable.partial";
/// Until a block came: a disk may be slow, and a network file system gone.
const ANSWER: Duration = Duration::from_secs(60);
/// Until a process serves a file.
const SERVED: Duration = Duration::from_secs(20);

/// VMs as data for any backend.
#[derive(Clone, Debug)]
pub struct Source(pub Arc<Ctx>);

#[async_trait]
impl PortableSource for Source {
    async fn portable(
        &self,
        cx: &TaskCx,
        on: &Instance,
        snapshot: Option<&str>,
    ) -> Result<Box<dyn DiskBytes>> {
        let ctx = &self.0;
        let vm = super::super::inventory::load(ctx, &on.id)?;
        let lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        cx.checkpoint()?;
        let seen = Seen::now(ctx, &on.id, process::MONITOR).await?;
        if let Some(error) = store::lost(&seen.vm) {
            return Err(error);
        }
        if seen.live.state == State::Unknown {
            let why = seen.live.reason.clone().unwrap_or_default();
            return Err(Error::conflict(format!("{} cannot be asked: {why}", on.id))
                .remedy("Look what it is: corral doctor"));
        }
        let mut pieces = pieces::pieces(&seen.vm);
        for piece in &mut pieces {
            piece.size = convert::size(ctx, &piece.path, &piece.format).await?;
        }
        let (access, consistency) = access(ctx, &seen, &pieces, snapshot).await?;
        let mut portable = pieces::portable(ctx, &seen.vm, consistency, snapshot);
        portable.disks = pieces.iter().map(streamed).collect();
        let mut taken = Taken {
            ctx: Arc::clone(ctx),
            vm: seen.vm,
            portable,
            pieces,
            access,
            held: None,
            lock: None,
        };
        match &taken.access {
            // Nobody starts it while its files are read.
            Access::Files => taken.lock = Some(lock),
            // Nobody deletes it while it is read, and the guest can be stopped.
            Access::Snapshot(_) => taken.held = Some((taken.record(None)?, None)),
            Access::Live(_) => {
                let held = live::Held {
                    frozen: consistency == Consistency::Filesystem,
                    ran: seen.live.state == State::Running,
                };
                taken.hold(cx, held).await?;
            }
        }
        Ok(Box::new(taken))
    }
}

fn streamed(piece: &Piece) -> PortableDisk {
    PortableDisk {
        file: String::new(),
        format: "raw".to_owned(),
        file_bytes: piece.size,
        ..pieces::disk(piece, piece.size)
    }
}

/// A VM at one moment.
struct Taken {
    ctx: Arc<Ctx>,
    vm: Definition,
    portable: Portable,
    pieces: Vec<Piece>,
    access: Access,
    held: Option<(Journal, Option<live::Held>)>,
    lock: Option<locks::Lock>,
}

impl Taken {
    fn is_live(&self) -> bool {
        matches!(self.access, Access::Live(_))
    }

    /// Writes down that it is read: no other change begins until then.
    fn record(&self, live: Option<live::Held>) -> Result<Journal> {
        let dir = self.ctx.store.dir(&self.vm.name)?;
        let change = Change::Export {
            partial: dir.join(RECORD),
            live,
            others: Vec::new(),
        };
        let mut journal = Journal::begin(&dir, change)?;
        journal.phase(Phase::Working)?;
        Ok(journal)
    }

    /// Has QEMU keep what the disks are now.
    async fn hold(&mut self, cx: &TaskCx, held: live::Held) -> Result<()> {
        let journal = self.record(Some(held))?;
        cx.step("Keep the disks as they are");
        match live::begin(&self.ctx, &self.vm, &self.pieces, held.frozen).await {
            Ok(less) => {
                self.portable.taken_at = jiff::Timestamp::now();
                if let Some(why) = less {
                    cx.log(format!("as after a power cut: {why}"));
                    self.portable.consistency = Consistency::Crash;
                }
                let held = live::Held {
                    frozen: false,
                    ..held
                };
                self.held = Some((journal, Some(held)));
                Ok(())
            }
            Err(error) => {
                live::end(&self.ctx, &self.vm, held).await?;
                journal.finish()?;
                Err(error)
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some((journal, held)) = self.held.take() else {
            return;
        };
        let Some(held) = held else {
            let _ = journal.finish();
            return;
        };
        // Without a runtime, or where it fails, the record stays, and doctor ends it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (ctx, vm) = (Arc::clone(&self.ctx), self.vm.clone());
            runtime.spawn(async move {
                if live::end(&ctx, &vm, held).await.is_ok() {
                    let _ = journal.finish();
                }
            });
        }
    }
}

#[async_trait]
impl DiskBytes for Taken {
    fn portable(&self) -> &Portable {
        &self.portable
    }

    async fn open(&self, cx: &TaskCx, disk: &str) -> Result<DiskStream> {
        let piece = self.pieces.iter().find(|piece| piece.name == disk);
        let Some(piece) = piece else {
            return Err(Error::not_found(format!(
                "{} has no disk {}",
                self.ctx.called(&self.vm),
                shown(disk)
            )));
        };
        let (nbd, served) = match &self.access {
            Access::Live(socket) if !piece.readonly => {
                (Nbd::connect(socket, &piece.name, ANSWER).await?, None)
            }
            access => {
                let served = Served::begin(&self.ctx, &self.vm, access, piece)?;
                (served.connect(&piece.name).await?, Some(served))
            }
        };
        let size = nbd.size();
        let reading = Reading {
            nbd,
            at: 0,
            ended: false,
            keeps: self
                .is_live()
                .then(|| (Arc::clone(&self.ctx), self.vm.clone(), self.pieces.clone())),
            cancel: cx.cancel.clone(),
            _served: served,
        };
        let blocks = futures::stream::try_unfold(reading, Reading::next);
        Ok(stream(size, StreamReader::new(Box::pin(blocks))))
    }
}

/// What a running VM's QEMU must still do at the end.
type Keeps = (Arc<Ctx>, Definition, Vec<Piece>);

struct Reading {
    nbd: Nbd,
    at: u64,
    ended: bool,
    keeps: Option<Keeps>,
    cancel: CancellationToken,
    _served: Option<Served>,
}

impl Reading {
    async fn next(mut self) -> std::io::Result<Option<(std::io::Cursor<Vec<u8>>, Self)>> {
        let failed = |error: Error| std::io::Error::other(error.to_string());
        let left = self.nbd.size().0.saturating_sub(self.at);
        let length = left.min(u64::from(BLOCK)) as u32;
        if length == 0 {
            // Only then is what was read what the disk was.
            if let Some((ctx, vm, pieces)) = self.keeps.take()
                && !self.ended
            {
                live::holds(&ctx, &vm, &pieces).await.map_err(failed)?;
                self.ended = true;
            }
            return Ok(None);
        }
        let block = tokio::select! {
            block = self.nbd.read(self.at, length) => block.map_err(failed)?,
            () = self.cancel.cancelled() => return Err(failed(Error::refused("cancelled"))),
        };
        self.at += u64::from(length);
        let bytes = block.unwrap_or_else(|| vec![0; length as usize]);
        Ok(Some((std::io::Cursor::new(bytes), self)))
    }
}

/// A process that serves a file; it ends with this.
struct Served {
    socket: PathBuf,
    ended: tokio::task::JoinHandle<Result<String>>,
    _stop: DropGuard,
}

impl Served {
    fn begin(ctx: &Ctx, vm: &Definition, access: &Access, piece: &Piece) -> Result<Self> {
        let tool = ctx.env.which("qemu-nbd").ok_or_else(|| {
            Error::unsupported("qemu-nbd is not installed").remedy("apt install qemu-utils")
        })?;
        let one = uuid::Uuid::new_v4().simple().to_string();
        let dir = ctx.paths(&vm.uuid)?.dir;
        crate::link::files::make_dir(&dir)?;
        let socket = dir.join(format!("nbd-{}", &one[..8]));
        let stop = CancellationToken::new();
        let (cmd, cancel) = (serve(&tool, &socket, access, piece), stop.clone());
        let ended = tokio::spawn(async move {
            run_cancellable(&cmd, None, &cancel)
                .await
                .map(|output| output.complaint())
        });
        Ok(Self {
            socket,
            ended,
            _stop: stop.drop_guard(),
        })
    }

    /// Once it listens.
    async fn connect(&self, name: &str) -> Result<Nbd> {
        let until = Instant::now() + SERVED;
        loop {
            match Nbd::connect(&self.socket, name, ANSWER).await {
                Ok(nbd) => return Ok(nbd),
                Err(error) if Instant::now() >= until => return Err(error),
                Err(_) if self.ended.is_finished() => {
                    return Err(Error::backend(format!(
                        "{} cannot be served: see qemu-nbd",
                        shown(name)
                    )));
                }
                // A process says nothing when it begins to listen.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = target::remove(&self.socket);
    }
}

/// The command that serves a file as raw bytes until its one client has gone.
fn serve(tool: &Path, socket: &Path, access: &Access, piece: &Piece) -> Cmd {
    let mut cmd = Cmd::new(tool)
        .args(["--read-only", "--cache=writeback", "-x", &piece.name, "-k"])
        .arg(socket);
    if let Access::Snapshot(tag) = access
        && !piece.readonly
    {
        let tag = tag.replace(',', ",,");
        cmd = cmd.args(["-l", &format!("snapshot.name={tag}")]);
    }
    let node = json!({"driver": piece.format, "force-share": *access != Access::Files,
        "file": {"driver": "file", "filename": piece.path.to_string_lossy()}});
    cmd.arg(format!("json:{node}"))
}
