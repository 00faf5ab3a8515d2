//! Load: one list with states, whose counters make rates.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use super::ctx::Ctx;
use super::json::Look as _;
use super::row;
use crate::backend::contract::{Metrics, ReadCx};
use crate::model::{Bytes, InstanceId, Result, Sample, State};

/// Counters of one instance at one moment.
#[derive(Clone, Debug)]
struct Reading {
    at: Instant,
    uid: Option<String>,
    /// Nanoseconds of all its CPUs.
    cpu: Option<u64>,
    received: u64,
    sent: u64,
}

/// The metrics family; remembers the last reading of each instance for rates.
pub struct Load {
    ctx: Arc<Ctx>,
    last: Mutex<HashMap<InstanceId, Reading>>,
    /// CPUs of the host, asked once.
    cpus: OnceCell<Option<u32>>,
}

impl Load {
    /// Nothing read yet.
    pub fn new(ctx: Arc<Ctx>) -> Self {
        Self {
            ctx,
            last: Mutex::default(),
            cpus: OnceCell::new(),
        }
    }

    async fn cpus(&self, cx: &ReadCx) -> Option<u32> {
        // Members of a cluster differ.
        if self.ctx.known().is_some_and(|server| server.clustered) {
            return None;
        }
        let asked = async {
            let reply = self.ctx.api()?.get(cx, "/1.0/resources").await?;
            Ok::<_, crate::model::Error>(super::host::cpus(&reply.metadata))
        };
        let known = self.cpus.get_or_try_init(|| asked).await;
        known.ok().copied().flatten()
    }
}

/// `cpus` are those its load is counted in: a container without a limit has those of its host.
fn rate(before: Option<&Reading>, now: &Reading, cpus: Option<u32>, memory: Option<u64>) -> Sample {
    let mut sample = Sample {
        at: Timestamp::now(),
        cpu_percent: None,
        memory_bytes: memory.filter(|bytes| *bytes > 0).map(Bytes),
        disk_read_bps: None,
        disk_write_bps: None,
        net_rx_bps: None,
        net_tx_bps: None,
    };
    let Some(before) = before.filter(|before| before.uid == now.uid) else {
        return sample;
    };
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    if seconds < 0.05 {
        return sample;
    }
    let grown = |now: u64, before: u64| now.checked_sub(before).map(|more| more as f64 / seconds);
    sample.cpu_percent = now
        .cpu
        .zip(before.cpu)
        .and_then(|(now, before)| grown(now, before))
        .zip(cpus)
        .map(|(nanos, cpus)| nanos / 1e9 / f64::from(cpus.max(1)) * 100.0);
    sample.net_rx_bps = grown(now.received, before.received).map(|bps| bps as u64);
    sample.net_tx_bps = grown(now.sent, before.sent).map(|bps| bps as u64);
    sample
}

/// Bytes of all its NICs but the loop.
fn traffic(network: Option<&Map<String, Value>>) -> (u64, u64) {
    let mut sum = (0_u64, 0_u64);
    for nic in network.into_iter().flat_map(Map::values) {
        if nic.text("type") == Some("loopback") {
            continue;
        }
        let count = |key: &str| nic.get("counters").and_then(|c| c.number(key)).unwrap_or(0);
        sum.0 = sum.0.saturating_add(count("bytes_received"));
        sum.1 = sum.1.saturating_add(count("bytes_sent"));
    }
    sum
}

#[async_trait]
impl Metrics for Load {
    async fn sample(&self, cx: &ReadCx, ids: &[InstanceId]) -> Result<Vec<(InstanceId, Sample)>> {
        let ctx = &self.ctx;
        let path = format!("/1.0/instances?recursion=2&{}", ctx.scope());
        let reply = ctx.api()?.get(cx, &path).await?;
        let at = Instant::now();
        let host = self.cpus(cx).await;
        let list = reply.metadata.as_array().cloned().unwrap_or_default();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut samples = Vec::new();
        for value in &list {
            let Ok(row) = row::read(ctx, value, Timestamp::now()) else {
                continue;
            };
            let Some(live) = value.get("state").filter(|live| live.is_object()) else {
                continue;
            };
            if !ids.contains(&row.id) || !matches!(row.state, State::Running | State::Paused) {
                continue;
            }
            let (received, sent) = traffic(live.object("network"));
            let now = Reading {
                at,
                uid: row.uid.clone(),
                cpu: live.get("cpu").and_then(|cpu| cpu.number("usage")),
                received,
                sent,
            };
            let memory = live.get("memory").and_then(|memory| memory.number("usage"));
            let before = last.insert(row.id.clone(), now.clone());
            let sample = rate(before.as_ref(), &now, row.cpus.or(host), memory);
            samples.push((row.id, sample));
        }
        last.retain(|_, reading| at.duration_since(reading.at).as_secs() < 3600);
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rates_need_two_readings_of_the_same_one() {
        let at = Instant::now();
        let reading = |seconds: u64, cpu: u64, uid: &str| Reading {
            at: at + std::time::Duration::from_secs(seconds),
            uid: Some(uid.to_owned()),
            cpu: Some(cpu),
            received: cpu,
            sent: 0,
        };
        let first = reading(0, 0, "a");
        assert_eq!(rate(None, &first, Some(1), None).cpu_percent, None);
        let second = reading(2, 2_000_000_000, "a");
        let sample = rate(Some(&first), &second, Some(2), Some(7));
        assert_eq!(sample.cpu_percent, Some(50.0));
        assert_eq!(sample.memory_bytes, Some(Bytes(7)));
        assert_eq!(sample.net_rx_bps, Some(1_000_000_000));
        assert_eq!(
            rate(Some(&reading(0, 0, "b")), &second, Some(2), None).cpu_percent,
            None
        );
        assert_eq!(
            rate(Some(&second), &reading(3, 0, "a"), Some(1), None).cpu_percent,
            None
        );
    }

    #[test]
    fn odd_counters_count_as_nothing() {
        let odd = json!({"a": 3, "b": {"counters": null}, "lo": {"type": "loopback", "counters": {"bytes_sent": 9}},
            "c": {"counters": {"bytes_sent": 5, "bytes_received": "x"}}});
        assert_eq!(traffic(odd.as_object()), (0, 5));
        assert_eq!(traffic(None), (0, 0));
    }
}
