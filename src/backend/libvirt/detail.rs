//! All of one domain.

use serde_json::Value;

use super::ctx::{Ctx, Seen};
use super::domain::{DiskDef, Source};
use super::volumes::{self, Vol};
use super::{addresses, inventory, snapshots, wire};
use crate::backend::contract::ReadCx;
use crate::model::{Bytes, Detail, Disk, InstanceId, Native, NativeFormat, Nic, Result, State};

/// Reads it.
///
/// # Errors
/// `NotFound`, and those of libvirt.
pub async fn of(ctx: &Ctx, cx: &ReadCx, id: &InstanceId) -> Result<Detail> {
    let seen = ctx.look(cx, id).await?;
    let mut row = inventory::row(ctx, &seen.listed, &seen.live, jiff::Timestamp::now());
    let mut problems = Vec::new();
    let active = seen.is_active();
    let found = async {
        if active && row.state == State::Running {
            addresses::of(ctx, cx, &seen).await
        } else {
            (Vec::new(), Vec::new())
        }
    };
    let ((addresses, silent), listed, disks) = tokio::join!(
        found,
        snapshots::list(ctx, cx, &seen),
        all_disks(ctx, cx, &seen)
    );
    problems.extend(silent);
    let list = listed.unwrap_or_else(|error| {
        problems.push(format!("snapshots cannot be listed: {error}"));
        Vec::new()
    });
    row.disk_bytes = disks
        .iter()
        .filter(|disk| disk.device == "disk")
        .map(|disk| disk.size_bytes)
        .sum::<Option<Bytes>>();
    let nics = seen
        .live
        .nics
        .iter()
        .enumerate()
        .map(|(n, nic)| Nic {
            name: nic.target.clone().unwrap_or_else(|| format!("net{n}")),
            mac: nic.mac.clone(),
            network: nic.source.clone(),
            model: nic.model.clone(),
            addresses: addresses
                .iter()
                .filter(|address| address.nic.is_some() && address.nic == nic.mac)
                .map(|address| address.ip.clone())
                .collect(),
        })
        .collect();
    if active {
        row.addresses = Some(addresses);
    }
    Ok(Detail {
        disks,
        nics,
        snapshots: list,
        firmware: Some(if seen.live.uefi { "uefi" } else { "bios" }.to_owned()),
        facts: facts(&seen),
        pending: pending(&seen),
        problems,
        native: Some(Native {
            format: NativeFormat::Xml,
            text: masked(&seen.live_xml),
        }),
        instance: row,
    })
}

fn facts(seen: &Seen) -> Vec<(String, String)> {
    let live = &seen.live;
    let machine = match (&live.arch, &live.machine) {
        (Some(arch), Some(machine)) => Some(format!("{machine} ({arch})")),
        (arch, machine) => machine.clone().or_else(|| arch.clone()),
    };
    let headroom = |now: Option<String>, most: Option<String>| match (now, most) {
        (Some(now), Some(most)) if now != most => Some(format!("{now} of at most {most}")),
        _ => None,
    };
    let all = [
        (
            "Acceleration",
            live.virt.as_deref().map(|virt| match virt {
                "kvm" => "KVM".to_owned(),
                "qemu" => "none: emulated (slow)".to_owned(),
                other => other.to_owned(),
            }),
        ),
        ("Machine", machine),
        ("CPU", live.cpu.clone()),
        (
            "CPUs",
            headroom(
                live.cpus.map(|n| n.to_string()),
                live.max_cpus.map(|n| n.to_string()),
            ),
        ),
        (
            "Memory",
            headroom(
                live.current_memory.map(|n| n.to_string()),
                live.memory.map(|n| n.to_string()),
            ),
        ),
        ("TPM", live.tpm.then(|| "2.0".to_owned())),
        (
            "Graphics",
            (!live.graphics.is_empty()).then(|| live.graphics.join(", ")),
        ),
        (
            "Agent",
            match live.agent {
                None => Some("no channel".to_owned()),
                Some(false) if seen.is_active() => Some("silent".to_owned()),
                _ => None,
            },
        ),
    ];
    all.into_iter()
        .filter_map(|(label, value)| Some((label.to_owned(), value?)))
        .collect()
}

/// What the next start changes.
fn pending(seen: &Seen) -> Vec<String> {
    let mut all = Vec::new();
    if !seen.is_active() || !seen.listed.persistent {
        return all;
    }
    let (live, config) = (&seen.live, &seen.config);
    if live.max_cpus != config.max_cpus
        && let Some(cpus) = config.max_cpus
    {
        all.push(format!("up to {cpus} CPUs"));
    }
    if live.cpus != config.cpus
        && let Some(cpus) = config.cpus
    {
        all.push(crate::model::counted(cpus as usize, "CPU"));
    }
    if live.memory != config.memory
        && let Some(memory) = config.memory
    {
        all.push(format!("up to {memory} of memory"));
    }
    for disk in &config.disks {
        if live.disk(&disk.target).is_none() {
            all.push(format!("disk {} is there", disk.target));
        }
    }
    for disk in &live.disks {
        if config.disk(&disk.target).is_none() {
            all.push(format!("disk {} is gone", disk.target));
        }
    }
    all
}

/// Disks with sizes: as the running domain tells, else as their volumes do.
async fn all_disks(ctx: &Ctx, cx: &ReadCx, seen: &Seen) -> Vec<Disk> {
    let asked = seen
        .live
        .disks
        .iter()
        .map(|disk| volumes::of_disk(ctx, cx, disk));
    let volumes = futures::future::join_all(asked).await;
    seen.live
        .disks
        .iter()
        .zip(volumes)
        .map(|(disk, volume)| told(disk, volume, &seen.listed))
        .collect()
}

fn told(disk: &DiskDef, volume: Option<Vol>, listed: &wire::Listed) -> Disk {
    let measured = |what: &str| {
        let count = listed
            .stats
            .get("block.count")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        let n = (0..count).find(|n| {
            listed
                .stats
                .get(&format!("block.{n}.name"))
                .and_then(Value::as_str)
                == Some(&disk.target)
        })?;
        listed
            .stats
            .get(&format!("block.{n}.{what}"))
            .and_then(Value::as_u64)
            .map(Bytes)
    };
    let volume = volume.as_ref();
    Disk {
        name: disk.target.clone(),
        device: if disk.is_drive() { "cdrom" } else { "disk" }.to_owned(),
        bus: disk.bus.clone(),
        source: disk.source.as_ref().map(Source::shown),
        format: disk.format.clone(),
        size_bytes: measured("capacity").or_else(|| volume.map(|v| v.capacity)),
        used_bytes: volume
            .and_then(|v| v.allocation)
            .or_else(|| measured("physical")),
        backing: disk
            .backing
            .clone()
            .or_else(|| volume.and_then(|v| v.backing.clone())),
        owned: volume.is_some() && !disk.is_drive() && !disk.readonly && !disk.shareable,
        readonly: disk.readonly,
        snapshots: None,
    }
}

/// Without passwords: libvirt leaves out those it knows; a URL or a command line may hold others.
pub fn masked(xml: &str) -> String {
    let mut out = String::with_capacity(xml.len());
    let mut rest = xml;
    while let Some(at) = rest.find("passwd=") {
        let value = at + "passwd=".len();
        let Some(quote) = rest[value..]
            .chars()
            .next()
            .filter(|c| matches!(c, '\'' | '"'))
        else {
            break;
        };
        let Some(end) = rest[value + 1..].find(quote) else {
            break;
        };
        out.push_str(&rest[..=value]);
        out.push_str("***");
        rest = &rest[value + 1 + end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let xml = "<graphics type='vnc' passwd='s3cret' port='1'/><graphics passwd=\"x y\"/>";
        assert_eq!(
            masked(xml),
            "<graphics type='vnc' passwd='***' port='1'/><graphics passwd=\"***\"/>"
        );
    }
}
