//! CPUs and memory of a running QEMU: what it has, and more or less of it.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::disks::live::GAP;
use super::super::process;
use super::super::unplug::has_device;
use crate::backend::contract::TaskCx;
use crate::link::qmp::Qmp;
use crate::model::{Bytes, Error, Result};

/// Between looks where no event comes.
const LOOK: Duration = Duration::from_secs(1);
/// A CPU is there within this once QEMU took it.
const SEEN: Duration = Duration::from_secs(5);
/// The balloon is in pages, and a guest may round.
const NEAR: u64 = 1 << 20;

/// What a process has now, as QEMU says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// CPUs.
    pub cpus: u32,
    /// Places for more, each as `device_add` wants it.
    pub free: Vec<Map<String, Value>>,
    /// Memory since power-on.
    pub base: Bytes,
    /// Memory in modules that were plugged in.
    pub plugged: Bytes,
    /// What the balloon leaves to the guest; `None` without a balloon.
    pub balloon: Option<Bytes>,
}

impl Now {
    /// Memory without what the balloon holds.
    pub fn total(&self) -> Bytes {
        Bytes(self.base.0.saturating_add(self.plugged.0))
    }

    /// What the guest can use.
    pub fn usable(&self) -> Bytes {
        self.balloon.unwrap_or_else(|| self.total())
    }

    /// For a plan's token: what must not change under it.
    pub fn stamp(&self) -> String {
        format!("{}/{}/{}", self.cpus, self.base.0, self.plugged.0)
    }
}

fn lies(what: &str) -> Error {
    Error::backend(format!("QEMU's answer about {what} cannot be read"))
}

/// Asks.
///
/// # Errors
/// Those of the monitor, and `Backend` for answers that are none.
pub async fn look(qmp: &mut Qmp) -> Result<Now> {
    let cpus = cpus(qmp).await?;
    let slots = qmp
        .execute("query-hotpluggable-cpus", Value::Null, process::MONITOR)
        .await?;
    let memory = qmp
        .execute("query-memory-size-summary", Value::Null, process::MONITOR)
        .await?;
    let bytes = |key: &str| memory.get(key).and_then(Value::as_u64).map(Bytes);
    Ok(Now {
        cpus,
        free: free(&slots),
        base: bytes("base-memory").ok_or_else(|| lies("its memory"))?,
        plugged: bytes("plugged-memory").unwrap_or_default(),
        balloon: balloon_now(qmp).await.ok(),
    })
}

async fn cpus(qmp: &mut Qmp) -> Result<u32> {
    let all = qmp
        .execute("query-cpus-fast", Value::Null, process::MONITOR)
        .await?;
    let count = all.as_array().ok_or_else(|| lies("its CPUs"))?.len();
    u32::try_from(count).map_err(|_| lies("its CPUs"))
}

/// Places that no CPU has, in the order in which they are filled.
fn free(slots: &Value) -> Vec<Map<String, Value>> {
    let number = |place: &Map<String, Value>, key: &str| place.get(key).and_then(Value::as_u64);
    let mut free: Vec<Map<String, Value>> = slots
        .as_array()
        .into_iter()
        .flatten()
        .filter(|slot| slot.get("qom-path").is_none())
        .filter_map(|slot| {
            let mut place = slot.get("props")?.as_object()?.clone();
            place.insert(
                "driver".to_owned(),
                Value::from(slot.get("type")?.as_str()?),
            );
            Some(place)
        })
        .collect();
    free.sort_by_key(|place| {
        ["socket-id", "die-id", "core-id", "thread-id"].map(|key| number(place, key))
    });
    free
}

/// Plugs `count` CPUs in, and looks whether they are there.
///
/// # Errors
/// With QEMU's words. CPUs that came before stay: a guest cannot be made to give one back.
pub async fn add_cpus(qmp: &mut Qmp, cx: Option<&TaskCx>, count: u32) -> Result<()> {
    let before = cpus(qmp).await?;
    for n in 0..count {
        if let Some(cx) = cx {
            cx.checkpoint()?;
            cx.progress(u64::from(n), u64::from(count));
        }
        let now = look(qmp).await?;
        let mut place = now
            .free
            .into_iter()
            .next()
            .ok_or_else(|| Error::refused("there is no room for another CPU"))?;
        place.insert("id".to_owned(), Value::from(format!("cpu{}", now.cpus)));
        qmp.execute("device_add", Value::Object(place), process::MONITOR)
            .await?;
        let until = Instant::now() + SEEN;
        while cpus(qmp).await? < before + n + 1 {
            if Instant::now() >= until {
                return Err(Error::backend("QEMU took another CPU and does not have it"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Plugs a module of memory in, and looks whether it is there. A failure leaves nothing of it.
///
/// # Errors
/// With QEMU's words.
pub async fn add_memory(qmp: &mut Qmp, number: usize, size: Bytes) -> Result<()> {
    let before = look(qmp).await?.plugged;
    let (backend, module) = (format!("mem{number}"), format!("dimm{number}"));
    if has_device(qmp, &module).await? {
        // A corral that was killed got so far.
        return Ok(());
    }
    // What a killed corral left without its module.
    let _ = qmp
        .execute("object-del", json!({"id": backend}), process::MONITOR)
        .await;
    qmp.execute(
        "object-add",
        json!({"qom-type": "memory-backend-ram", "id": backend, "size": size.0}),
        process::MONITOR,
    )
    .await?;
    let plugged = qmp
        .execute(
            "device_add",
            json!({"driver": "pc-dimm", "id": module, "memdev": backend}),
            process::MONITOR,
        )
        .await;
    let plugged = match plugged {
        Ok(_) if look(qmp).await?.plugged.0 >= before.0.saturating_add(size.0) => Ok(()),
        Ok(_) => Err(Error::backend("QEMU took the memory and does not have it")),
        Err(error) => Err(error),
    };
    if plugged.is_err() {
        let _ = qmp
            .execute("object-del", json!({"id": backend}), process::MONITOR)
            .await;
    }
    plugged
}

async fn balloon_now(qmp: &mut Qmp) -> Result<Bytes> {
    let answer = qmp
        .execute("query-balloon", Value::Null, process::MONITOR)
        .await?;
    answer
        .get("actual")
        .and_then(Value::as_u64)
        .map(Bytes)
        .ok_or_else(|| lies("its balloon"))
}

/// Asks the guest to leave this much to itself, without waiting.
///
/// # Errors
/// Those of the monitor.
pub async fn set_balloon(qmp: &mut Qmp, to: Bytes) -> Result<()> {
    qmp.execute("balloon", json!({"value": to.0}), process::MONITOR)
        .await
        .map(drop)
}

/// Asks the guest, and waits until it has done so. Where it does not, it is told to take back what
/// it gave, and all is as it was.
///
/// # Errors
/// `TimedOut` with what was reached, `Refused` when the user cancelled.
pub async fn balloon(
    ctx: &Ctx,
    vm: &Definition,
    cx: &TaskCx,
    to: Bytes,
    patience: Duration,
) -> Result<()> {
    let mut qmp = monitor(ctx, vm).await?;
    let before = balloon_now(&mut qmp).await?;
    set_balloon(&mut qmp, to).await?;
    let until = Instant::now() + patience;
    let way = before.0.abs_diff(to.0);
    loop {
        let now = balloon_now(&mut qmp).await?;
        let missing = now.0.abs_diff(to.0);
        if missing <= NEAR {
            return Ok(());
        }
        cx.progress(way.saturating_sub(missing) >> 20, way >> 20);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || cx.cancel.is_cancelled() {
            set_balloon(&mut qmp, before).await?;
            if cx.cancel.is_cancelled() {
                return Err(Error::refused(format!(
                    "cancelled; the guest was at {now} and goes back to {before}"
                )));
            }
            let why = if now == before {
                "the guest does not react to its balloon (it may have no driver for it)".to_owned()
            } else {
                format!("the guest came only as far as {now}")
            };
            return Err(Error::timed_out(format!(
                "{why}: it is told to go back to {before}"
            )));
        }
        // The word that it moved ends the wait early; where it never comes, a look does.
        let look = Instant::now() + left.min(LOOK);
        loop {
            let left = look.saturating_duration_since(Instant::now());
            match qmp.event(left).await? {
                Some(event) if event.name != "BALLOON_CHANGE" && !left.is_zero() => {}
                _ => break,
            }
        }
        // Others look at the VM too.
        drop(qmp);
        tokio::time::sleep(GAP).await;
        qmp = monitor(ctx, vm).await?;
    }
}

/// The monitor of a VM that runs.
///
/// # Errors
/// `Conflict` when it ended.
pub async fn monitor(ctx: &Ctx, vm: &Definition) -> Result<Qmp> {
    let ended = || Error::conflict(format!("{} ended meanwhile", ctx.called(vm)));
    process::connect(ctx, vm).await?.ok_or_else(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_places_are_those_without_a_cpu_in_order() {
        let slots = json!([
            {"props": {"core-id": 3, "thread-id": 0, "socket-id": 0}, "type": "t", "vcpus-count": 1},
            {"props": {"core-id": 1, "thread-id": 0, "socket-id": 0, "node-id": 0}, "type": "t"},
            {"props": {"core-id": 0}, "type": "t", "qom-path": "/machine/unattached/device[0]"},
            {"props": 3, "type": "t"}, {"props": {}}, null
        ]);
        let free = free(&slots);
        assert_eq!(free.len(), 2);
        assert_eq!(free[0]["core-id"], 1);
        assert_eq!(free[0]["node-id"], 0);
        assert_eq!(free[1]["driver"], "t");
        assert!(super::free(&Value::Null).is_empty());
    }
}
