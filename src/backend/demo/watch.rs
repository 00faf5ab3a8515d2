//! Changes as they happen, for the kinds that tell of them by themselves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::knobs::Clock;
use super::world::World;
use crate::backend::contract::Change;
use crate::model::{EventLevel, Instance, Result, State};

/// How often something happens by itself.
const LIFE: Duration = Duration::from_secs(20);

enum Stage {
    Connect,
    Follow(broadcast::Receiver<Change>),
    End,
}

/// Begins with everything; ends after a failure.
pub(crate) fn stream(world: Arc<World>) -> BoxStream<'static, Result<Change>> {
    world.calls.method("watch");
    let life = Life::new(&world);
    let flicker = Flicker::new(&world);
    stream::unfold(
        (world, Stage::Connect, life, flicker),
        |(world, stage, mut life, mut flicker)| async move {
            let (change, stage) = match stage {
                Stage::End => return None,
                Stage::Connect => match connect(&world).await {
                    Ok(receiver) => (
                        Ok(Change::Reset(world.inventory())),
                        Stage::Follow(receiver),
                    ),
                    Err(error) => (Err(error), Stage::End),
                },
                Stage::Follow(mut receiver) => loop {
                    tokio::select! {
                        received = receiver.recv() => match received {
                            Ok(change) => break (Ok(change), Stage::Follow(receiver)),
                            // Too slow: some changes are lost, so everything is told anew.
                            Err(RecvError::Lagged(_)) => {
                                let receiver = world.subscribe();
                                break (Ok(Change::Reset(world.inventory())), Stage::Follow(receiver));
                            }
                            Err(RecvError::Closed) => return None,
                        },
                        () = life.next() => live(&world),
                        change = flicker.next() => break (Ok(change), Stage::Follow(receiver)),
                    }
                },
            };
            Some((change, (world, stage, life, flicker)))
        },
    )
    .boxed()
}

async fn connect(world: &World) -> Result<broadcast::Receiver<Change>> {
    tokio::time::sleep(world.knobs.latency_of(world.name())).await;
    world.connect().await?;
    Ok(world.subscribe())
}

/// The beat at which something happens without corral.
struct Life(Option<Duration>);

impl Life {
    fn new(world: &World) -> Self {
        let still = world.knobs.pace == 0 || world.knobs.clock != Clock::System;
        Self((!still).then(|| LIFE * world.knobs.pace / 100))
    }

    async fn next(&mut self) {
        match self.0 {
            Some(beat) => tokio::time::sleep(beat).await,
            None => std::future::pending().await,
        }
    }
}

/// States that flicker without anybody doing anything: a backend that talks without end.
struct Flicker {
    rate: u32,
    rows: Vec<Instance>,
    begun: Instant,
    told: u64,
}

impl Flicker {
    fn new(world: &World) -> Self {
        let rate = world.knobs.flicker_of(world.name());
        let rows = if rate == 0 {
            Vec::new()
        } else {
            world.inventory().instances
        };
        Self {
            rate,
            rows,
            begun: Instant::now(),
            told: 0,
        }
    }

    async fn next(&mut self) -> Change {
        let rows = self.rows.len() as u64;
        loop {
            let due = self.begun.elapsed().as_secs_f64() * f64::from(self.rate);
            if rows > 0 && (self.told as f64) < due {
                break;
            }
            if rows == 0 {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let row = &mut self.rows[(self.told % rows) as usize];
        self.told += 1;
        row.state = match row.state {
            State::Running => State::Paused,
            State::Paused => State::Running,
            other => other,
        };
        Change::Upsert(Box::new(row.clone()))
    }
}

/// A guest tells something.
fn live(world: &World) {
    const NEWS: [(&str, &str); 4] = [
        ("lease-renewed", "renewed its DHCP lease"),
        ("agent-connected", "has its guest agent connected"),
        ("time-synced", "set its clock"),
        ("balloon-changed", "gave memory back"),
    ];
    let running: Vec<_> = world
        .inventory()
        .instances
        .into_iter()
        .filter(|row| row.state == State::Running)
        .collect();
    let (one, news) = world.with_random(|random| {
        (
            random.below(running.len() as u64) as usize,
            NEWS.get(random.below(NEWS.len() as u64) as usize),
        )
    });
    if let (Some(row), Some((kind, what))) = (running.get(one), news) {
        let message = format!("{} {what}", crate::model::shown(&row.name));
        world.report(&row.id, EventLevel::Info, kind, &message);
    }
}
