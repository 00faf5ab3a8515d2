//! Load: the process as the kernel counts it, disks as QEMU does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::Value;

use super::ctx::Ctx;
use super::definition::Definition;
use super::{proc, process};
use crate::backend::contract::{Metrics, ReadCx};
use crate::model::{InstanceId, Result, Sample};

/// One VM may take this long.
const EACH: Duration = Duration::from_secs(3);
/// VMs asked at once, to bound open files.
const AT_ONCE: usize = 64;

#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    pid: u32,
    stat: proc::Stat,
    read: u64,
    written: u64,
}

/// The metrics family; remembers the last reading of each VM for rates.
pub struct Load {
    ctx: Arc<Ctx>,
    last: Mutex<HashMap<InstanceId, Reading>>,
}

impl Load {
    /// Nothing read yet.
    pub fn new(ctx: Arc<Ctx>) -> Self {
        Self {
            ctx,
            last: Mutex::default(),
        }
    }

    async fn one(&self, vm: Definition, limit: Duration) -> Option<(InstanceId, Sample)> {
        let id = self.ctx.id(&vm.name);
        let mut qmp = process::connect_within(&self.ctx, &vm, limit)
            .await
            .ok()??;
        let pid = qmp.peer_pid()?;
        let stats = qmp
            .execute("query-blockstats", Value::Null, limit)
            .await
            .unwrap_or_default();
        drop(qmp);
        let (read, written) = totals(&stats);
        let now = Reading {
            at: Instant::now(),
            pid,
            stat: proc::Stat::read(pid)?,
            read,
            written,
        };
        let before = self
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id.clone(), now)
            .filter(|before| before.pid == pid);
        Some((id, sample(before, now, vm.cpus)))
    }
}

fn sample(before: Option<Reading>, now: Reading, cpus: u32) -> Sample {
    let mut sample = Sample {
        at: Timestamp::now(),
        cpu_percent: None,
        memory_bytes: Some(now.stat.memory),
        disk_read_bps: None,
        disk_write_bps: None,
        net_rx_bps: None,
        net_tx_bps: None,
    };
    let Some(before) = before else { return sample };
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    if seconds < 0.05 {
        return sample;
    }
    let busy = now.stat.cpu_ms.saturating_sub(before.stat.cpu_ms) as f64 / 1000.0;
    sample.cpu_percent = Some(busy / seconds / f64::from(cpus.max(1)) * 100.0);
    let rate = |now: u64, before: u64| Some((now.saturating_sub(before) as f64 / seconds) as u64);
    sample.disk_read_bps = rate(now.read, before.read);
    sample.disk_write_bps = rate(now.written, before.written);
    sample
}

/// Bytes read and written by all devices.
fn totals(stats: &Value) -> (u64, u64) {
    let mut sum = (0u64, 0u64);
    for device in stats.as_array().into_iter().flatten() {
        // Nodes without a device (firmware variables) are no disk.
        let number = |key: &str| {
            device
                .pointer(&format!("/stats/{key}"))
                .and_then(Value::as_u64)
                .unwrap_or(0)
        };
        sum.0 = sum.0.saturating_add(number("rd_bytes"));
        sum.1 = sum.1.saturating_add(number("wr_bytes"));
    }
    sum
}

#[async_trait]
impl Metrics for Load {
    async fn sample(&self, cx: &ReadCx, ids: &[InstanceId]) -> Result<Vec<(InstanceId, Sample)>> {
        let limit = EACH.min(cx.left().mul_f64(0.8));
        // All definitions at once: each alone would be compared with all others.
        let wanted = ids.iter().map(ToString::to_string);
        let wanted: std::collections::HashSet<String> = wanted.collect();
        let vms: Vec<Definition> = self
            .ctx
            .store
            .list()?
            .into_iter()
            .filter_map(|entry| entry.definition.ok())
            .filter(|vm| wanted.contains(&self.ctx.called(vm)))
            .collect();
        Ok(futures::stream::iter(vms)
            .map(|vm| self.one(vm, limit))
            .buffered(AT_ONCE)
            .filter_map(|sample| async move { sample })
            .collect()
            .await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_statistics_count_as_nothing() {
        let odd =
            serde_json::json!([null, {"stats": 3}, {"stats": {"rd_bytes": "x", "wr_bytes": 7}}]);
        assert_eq!(totals(&odd), (0, 7));
        let sample: Value = serde_json::from_str(include_str!(
            "../../../tests/fixtures/qemu/query-blockstats.json"
        ))
        .unwrap();
        assert_eq!(totals(&sample["return"]).1, 37888);
        assert_eq!(totals(&Value::Null), (0, 0));
    }
}
