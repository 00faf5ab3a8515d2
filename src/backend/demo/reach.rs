//! The simulated backend: ways in, load, recorded events.

use async_trait::async_trait;
use jiff::{Span, Timestamp};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::backend::Demo;
use crate::backend::contract::{Events, Metrics, Opener, ReadCx, Route, Routes, Way};
use crate::link::Duplex;
use crate::model::{Bytes, Error, Event, EventLevel, Instance, InstanceId, Result, Sample, State};

/// Enough for a screen of text in flight; more waits for the reader.
const PIPE: usize = 64 * 1024;

struct Canned {
    host: String,
}

#[async_trait]
impl Opener for Canned {
    /// A prompt that answers each line with canned text.
    async fn open(&self) -> Result<Duplex> {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let host = self.host.clone();
        tokio::spawn(async move {
            let (read, mut write) = tokio::io::split(theirs);
            let mut lines = BufReader::new(read).lines();
            let greeting = format!("Simulated console of {host}\r\n{host}:~$ ");
            if write.write_all(greeting.as_bytes()).await.is_err() {
                return;
            }
            while let Ok(Some(line)) = lines.next_line().await {
                let answer = match line.trim() {
                    "exit" | "logout" => return,
                    "" => String::new(),
                    "uptime" => {
                        " 03:02:11 up 9 days, load average: 0.04, 0.03, 0.00\r\n".to_owned()
                    }
                    "hostname" => format!("{host}\r\n"),
                    other => format!("{other}: simulated, nothing real is touched\r\n"),
                };
                if write
                    .write_all(format!("{answer}{host}:~$ ").as_bytes())
                    .await
                    .is_err()
                {
                    return;
                }
            }
        });
        Ok(Duplex::from_stream(ours))
    }
}

#[async_trait]
impl Routes for Demo {
    async fn routes(&self, cx: &ReadCx, on: &Instance, port: u16) -> Result<Vec<Route>> {
        cx.within(&self.context, self.reach()).await?;
        let guest = self.guest(&on.id)?;
        if guest.row.state != State::Running {
            return Err(Error::refused(format!("{} is not running", on.id))
                .remedy(format!("Start it: corral start {}", on.id)));
        }
        Ok(vec![Route {
            way: Way::Stream(Box::new(Canned {
                host: guest.row.name.clone(),
            })),
            why: format!("simulated port {port}"),
            age: Some(0),
        }])
    }
}

#[async_trait]
impl Metrics for Demo {
    async fn sample(&self, cx: &ReadCx, ids: &[InstanceId]) -> Result<Vec<(InstanceId, Sample)>> {
        self.world.calls().metrics += 1;
        cx.within(&self.context, self.reach()).await?;
        let mut samples = Vec::new();
        for id in ids {
            let Ok(guest) = self.guest(id) else { continue };
            let Some(usage) = guest.row.usage else {
                continue;
            };
            samples.push((
                id.clone(),
                Sample {
                    at: Timestamp::now(),
                    cpu_percent: usage
                        .cpu_percent
                        .map(|cpu| cpu + self.world.random(30) as f64 / 10.0),
                    memory_bytes: usage.memory_bytes,
                    disk_read_bps: Some(self.world.random(4 << 20)),
                    disk_write_bps: Some(self.world.random(2 << 20)),
                    net_rx_bps: Some(self.world.random(Bytes::kib(800).0)),
                    net_tx_bps: Some(self.world.random(Bytes::kib(300).0)),
                },
            ));
        }
        Ok(samples)
    }
}

#[async_trait]
impl Events for Demo {
    async fn recorded(&self, cx: &ReadCx, id: Option<&InstanceId>) -> Result<Vec<Event>> {
        cx.within(&self.context, self.reach()).await?;
        let guests = self.world.guests();
        let mut events = Vec::new();
        for guest in guests
            .values()
            .filter(|g| id.is_none_or(|id| g.row.id == *id))
            .take(200)
        {
            let row = &guest.row;
            let mut push = |minutes: i64, level, kind: &str, message: String| {
                let at = row.created_at.unwrap_or(row.observed_at);
                events.push(Event {
                    at: at.checked_add(Span::new().minutes(minutes)).unwrap_or(at),
                    context: self.context.clone(),
                    instance: Some(row.id.clone()),
                    level,
                    kind: kind.to_owned(),
                    message,
                });
            };
            push(0, EventLevel::Info, "created", "was made".to_owned());
            if let (State::Paused | State::Crashed | State::Broken, Some(reason)) =
                (row.state, &row.reason)
            {
                push(90, EventLevel::Error, row.state.as_str(), reason.clone());
            }
        }
        Ok(events)
    }
}
