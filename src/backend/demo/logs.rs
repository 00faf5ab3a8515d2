//! Logs: what a guest and what runs it wrote.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::sync::broadcast::error::RecvError;

use super::backend::Demo;
use super::dialect::Dialect;
use super::guest::Guest;
use super::knobs::Clock;
use super::random::Random;
use super::world::World;
use crate::backend::contract::{Change, Logs, ReadCx};
use crate::model::{Bytes, Error, Instance, InstanceId, LogSource, Result, State, shown};

/// How often a guest that does nothing else writes a line.
const CHATTER: Duration = Duration::from_secs(4);

/// What services of a guest write while nothing happens.
const SERVICES: &[&str] = &[
    "systemd[1]: Started session cleanup.",
    "cron[412]: (root) CMD (run-parts /etc/cron.hourly)",
    "chronyd[388]: Selected source 192.0.2.123",
    "systemd[1]: logrotate.service: Deactivated successfully.",
    "kernel: TCP: request_sock_TCP: Possible SYN flooding on port 443.",
    "sshd[901]: Connection closed by 192.0.2.7 port 51022 [preauth]",
    "systemd-resolved[301]: Clock change detected. Flushing caches.",
];

#[async_trait]
impl Logs for Demo {
    async fn sources(&self, cx: &ReadCx, on: &Instance) -> Result<Vec<LogSource>> {
        self.world.answer(cx, "logs.sources").await?;
        let guest = self.world.guest_as(on)?;
        let sources = self.world.dialect.logs().iter().map(|(name, title)| {
            let lines = lines(&self.world, &guest, name);
            LogSource {
                name: (*name).to_owned(),
                title: (*title).to_owned(),
                size_bytes: Some(Bytes(lines.iter().map(|l| l.len() as u64 + 1).sum())),
            }
        });
        Ok(sources.collect())
    }

    async fn read(
        &self,
        cx: &ReadCx,
        on: &Instance,
        source: &str,
        tail: usize,
    ) -> Result<Vec<String>> {
        self.world.answer(cx, "logs.read").await?;
        let guest = self.world.guest_as(on)?;
        self.known(source)?;
        let mut lines = lines(&self.world, &guest, source);
        lines.drain(..lines.len().saturating_sub(tail));
        Ok(lines)
    }

    fn follow(
        &self,
        on: &Instance,
        source: &str,
        tail: usize,
    ) -> BoxStream<'static, Result<String>> {
        let seen = self.known(source).and_then(|()| {
            // Subscribed before the past is read: nothing falls between.
            let changes = self.world.subscribe();
            let guest = self.world.guest_as(on)?;
            let mut past = lines(&self.world, &guest, source);
            past.drain(..past.len().saturating_sub(tail));
            Ok((changes, past))
        });
        let (changes, past) = match seen {
            Ok(seen) => seen,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let tail = Tail {
            changes,
            world: Arc::clone(&self.world),
            id: on.id.clone(),
            turn: 0,
        };
        let coming = stream::unfold(tail, |mut tail| async move {
            let line = tail.next().await?;
            Some((line, tail))
        });
        stream::iter(past.into_iter().map(Ok)).chain(coming).boxed()
    }
}

impl Demo {
    fn known(&self, source: &str) -> Result<()> {
        let logs = self.world.dialect.logs();
        if logs.iter().any(|(name, _)| *name == source) {
            return Ok(());
        }
        let names: Vec<&str> = logs.iter().map(|(name, _)| *name).collect();
        Err(
            Error::not_found(format!("there is no log {}", shown(source)))
                .remedy(format!("There are: {}", names.join(", ")))
                .in_context(self.world.name()),
        )
    }
}

/// Follows one log: what happens to the guest, and its chatter in between.
struct Tail {
    changes: tokio::sync::broadcast::Receiver<Change>,
    world: Arc<World>,
    id: InstanceId,
    turn: u64,
}

impl Tail {
    async fn next(&mut self) -> Option<Result<String>> {
        let knobs = &self.world.knobs;
        let still = knobs.pace == 0 || knobs.clock != Clock::System;
        let every = CHATTER * knobs.pace.max(1) / 100;
        loop {
            let chatter = async {
                if still {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(every).await;
            };
            let now = self.world.now();
            tokio::select! {
                change = self.changes.recv() => match change {
                    Ok(Change::Event(event)) if event.instance.as_ref() == Some(&self.id) => {
                        return Some(Ok(line(now, &format!("corral: {}", shown(&event.message)))));
                    }
                    Ok(Change::Gone(id)) if id == self.id => return None,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
                () = chatter => {
                    let guest = self.world.guest(&self.id)?;
                    if guest.state() == State::Running {
                        self.turn += 1;
                        return Some(Ok(line(now, said(&self.world, &guest, self.turn))));
                    }
                }
            }
        }
    }
}

fn line(at: jiff::Timestamp, text: &str) -> String {
    format!("{} {text}", at.strftime("%Y-%m-%dT%H:%M:%SZ"))
}

fn said(world: &World, guest: &Guest, turn: u64) -> &'static str {
    let mut random = Random::new(world.knobs.seed ^ turn, &guest.uid);
    SERVICES
        .get(random.below(SERVICES.len() as u64) as usize)
        .copied()
        .unwrap_or_default()
}

/// What there is to read of one log.
fn lines(world: &World, guest: &Guest, source: &str) -> Vec<String> {
    let name = shown(&guest.base.name).into_owned();
    let Some(started) = guest.started_at else {
        return Vec::new();
    };
    let at = |seconds: i64| {
        started
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap_or(started)
    };
    let os = guest.base.os.as_deref().unwrap_or("Linux");
    if !matches!(source, "serial" | "console" | "guest") {
        let version = world.dialect.version();
        let mut lines = vec![
            line(at(0), &format!("{version}: starting {name}")),
            line(
                at(0),
                &format!(
                    "{} CPUs, {} of memory",
                    guest.base.cpus.unwrap_or_default(),
                    guest.base.memory_bytes.unwrap_or_default()
                ),
            ),
        ];
        let events = world.events(Some(guest.id()));
        lines.extend(events.iter().map(|e| line(e.at, &shown(&e.message))));
        return lines;
    }
    let mut lines = vec![
        line(at(1), &format!("kernel: Booting {os}")),
        line(at(2), "kernel: virtio_blk virtio1: [vda] detected"),
        line(at(4), "systemd[1]: Reached target multi-user.target."),
        line(at(5), &format!("{name} login:")),
    ];
    let up = world.now().as_second() - started.as_second();
    let turns = u64::try_from(up / 600).unwrap_or(0).min(200);
    let first = up - i64::try_from(turns).unwrap_or(0) * 600;
    for turn in 0..turns {
        let offset = first + i64::try_from(turn).unwrap_or(0) * 600;
        lines.push(line(at(offset), said(world, guest, turn)));
    }
    lines
}

impl Dialect {
    /// Word and title of each log.
    const fn logs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Qemu => &[
                ("serial", "the guest's serial port"),
                ("qemu", "QEMU itself"),
            ],
            Self::Libvirt => &[("qemu", "QEMU, as libvirt keeps it")],
            Self::Incus => &[
                ("console", "the guest's console"),
                ("instance", "Incus itself"),
            ],
            Self::Kubevirt => &[
                ("launcher", "virt-launcher"),
                ("guest", "the guest's serial port"),
            ],
            Self::Proxmox => &[("tasks", "its tasks")],
            Self::Virtualbox => &[("vbox", "VBox.log")],
            Self::Vsphere => &[("vmware", "vmware.log")],
            Self::Peer => &[
                ("serial", "the guest's serial port"),
                ("host", "what runs it there"),
            ],
            Self::Xen | Self::Nutanix => &[],
        }
    }
}
