//! Load, as libvirt measures it: one call for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use super::ctx::Ctx;
use super::wire::{Call, Listed};
use crate::backend::contract::{Metrics, ReadCx};
use crate::model::{Bytes, InstanceId, Result, Sample};

/// Two readings closer than this say nothing.
const APART: f64 = 0.05;

/// The metrics family; remembers the last reading of each domain for rates.
pub struct Load {
    ctx: Arc<Ctx>,
    last: Mutex<HashMap<InstanceId, Reading>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    at: Instant,
    number: u32,
    cpu: Option<u64>,
    cpus: u32,
    memory: Option<Bytes>,
    disk: (Option<u64>, Option<u64>),
    net: (Option<u64>, Option<u64>),
}

impl Load {
    /// Nothing read yet.
    pub fn new(ctx: Arc<Ctx>) -> Self {
        Self {
            ctx,
            last: Mutex::default(),
        }
    }
}

/// The sum over all devices of a kind; `None` where none says.
fn sum(listed: &Listed, kind: &str, what: &str) -> Option<u64> {
    let count = listed.stats.get(&format!("{kind}.count"))?.as_u64()?;
    let mut all = None;
    // A count is what the other side says: no more devices than it has values.
    for n in 0..count.min(listed.stats.len() as u64) {
        let key = format!("{kind}.{n}.{what}");
        if let Some(value) = listed.stats.get(&key).and_then(Value::as_u64) {
            all = Some(all.unwrap_or(0_u64).saturating_add(value));
        }
    }
    all
}

fn reading(listed: &Listed) -> Option<Reading> {
    let number = |name: &str| listed.stats.get(name).and_then(Value::as_u64);
    Some(Reading {
        at: Instant::now(),
        number: listed.id?,
        cpu: number("cpu.time"),
        cpus: number("vcpu.current")
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(1),
        memory: number("balloon.rss").map(Bytes::kib),
        disk: (
            sum(listed, "block", "rd.bytes"),
            sum(listed, "block", "wr.bytes"),
        ),
        net: (
            sum(listed, "net", "rx.bytes"),
            sum(listed, "net", "tx.bytes"),
        ),
    })
}

fn sample(before: Option<Reading>, now: Reading) -> Sample {
    let mut sample = Sample {
        at: Timestamp::now(),
        cpu_percent: None,
        memory_bytes: now.memory,
        disk_read_bps: None,
        disk_write_bps: None,
        net_rx_bps: None,
        net_tx_bps: None,
    };
    let Some(before) = before.filter(|before| before.number == now.number) else {
        return sample;
    };
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    if seconds < APART {
        return sample;
    }
    let more = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?) as f64);
    let rate = |now, before| more(now, before).map(|bytes| (bytes / seconds) as u64);
    sample.cpu_percent = more(now.cpu, before.cpu)
        .map(|busy| busy / 1e9 / seconds / f64::from(now.cpus.max(1)) * 100.0);
    sample.disk_read_bps = rate(now.disk.0, before.disk.0);
    sample.disk_write_bps = rate(now.disk.1, before.disk.1);
    sample.net_rx_bps = rate(now.net.0, before.net.0);
    sample.net_tx_bps = rate(now.net.1, before.net.1);
    sample
}

#[async_trait]
impl Metrics for Load {
    async fn sample(&self, cx: &ReadCx, ids: &[InstanceId]) -> Result<Vec<(InstanceId, Sample)>> {
        let listed: Vec<Listed> = self.ctx.client.ask(cx, Call::List { all: true }).await?;
        let wanted: std::collections::HashSet<&InstanceId> = ids.iter().collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for one in &listed {
            let id = self.ctx.id(&one.name);
            if !wanted.contains(&id) {
                continue;
            }
            if let Some(now) = reading(one) {
                let before = last.insert(id.clone(), now);
                all.push((id, sample(before, now)));
            } else {
                last.remove(&id);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_numbers_count_as_nothing() {
        let mut listed = Listed {
            id: Some(1),
            ..Listed::default()
        };
        assert_eq!(sum(&listed, "block", "rd.bytes"), None);
        for (key, value) in [
            ("block.count", Value::from(u64::MAX)),
            ("block.0.rd.bytes", 5.into()),
            ("block.1.rd.bytes", "x".into()),
            ("block.2.rd.bytes", 7.into()),
        ] {
            listed.stats.insert(key.to_owned(), value);
        }
        assert_eq!(sum(&listed, "block", "rd.bytes"), Some(12));
        let now = reading(&listed).unwrap();
        assert_eq!(sample(None, now).disk_read_bps, None);
        let earlier = Reading {
            at: now
                .at
                .checked_sub(std::time::Duration::from_secs(2))
                .unwrap(),
            disk: (Some(2), None),
            ..now
        };
        assert_eq!(sample(Some(earlier), now).disk_read_bps, Some(5));
        assert_eq!(sample(Some(earlier), now).disk_write_bps, None);
    }
}
