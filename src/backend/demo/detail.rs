//! Everything about one simulated guest.

use super::dialect::Dialect;
use super::guest::Guest;
use super::world::World;
use crate::model::{Detail, Native, NativeFormat, Nic, State, shown};

pub(crate) fn detail(world: &World, guest: &Guest) -> Detail {
    let dialect = world.dialect;
    let mut row = guest.row(dialect, world.now(), world.knobs.seed);
    let running = guest.state() == State::Running;
    // One machine's addresses are worth a call where the list has none.
    if running {
        row.addresses = Some(guest.addresses.clone());
    }
    let nics = guest
        .nics
        .iter()
        .map(|nic| Nic {
            addresses: guest
                .addresses
                .iter()
                .filter(|_| running)
                .filter(|a| a.nic.as_ref() == Some(&nic.name))
                .map(|a| a.ip.clone())
                .collect(),
            ..nic.clone()
        })
        .collect();
    let mut facts = vec![("Server".to_owned(), dialect.version().to_owned())];
    if guest.base.kind == crate::model::InstanceKind::Vm {
        facts.push(("Acceleration".to_owned(), "KVM, simulated".to_owned()));
    }
    let problems = guest
        .base
        .reason
        .iter()
        .filter(|_| guest.state() == State::Broken)
        .cloned()
        .collect();
    Detail {
        disks: guest.disks.clone(),
        nics,
        snapshots: guest.snapshots.clone(),
        firmware: guest.firmware.map(str::to_owned),
        facts,
        pending: guest.pending.clone(),
        problems,
        native: (guest.state() != State::Broken).then(|| native(dialect, guest)),
        instance: row,
    }
}

/// The definition in the impersonated kind's form.
pub(crate) fn native(dialect: Dialect, guest: &Guest) -> Native {
    let row = &guest.base;
    let name = shown(&row.name).into_owned();
    let cpus = row.cpus.unwrap_or_default();
    let memory = row.memory_bytes.unwrap_or_default().0 >> 20;
    let mac = row
        .macs
        .iter()
        .flatten()
        .next()
        .cloned()
        .unwrap_or_default();
    let disks = |line: &dyn Fn(&str, &str) -> String| -> String {
        guest
            .disks
            .iter()
            .map(|d| line(&d.name, &shown(d.source.as_deref().unwrap_or_default())))
            .collect()
    };
    let text = match dialect.native_format() {
        NativeFormat::Toml => {
            let disks =
                disks(&|slot, source| format!("\n[[disk]]\nname = {slot:?}\nfile = {source:?}\n"));
            format!(
                "name = {name:?}\nuuid = {:?}\ncpus = {cpus}\nmemory = \"{memory}MiB\"\n{disks}\n[[nic]]\nmac = {mac:?}\nnetwork = \"user\"\n",
                guest.uid
            )
        }
        NativeFormat::Xml => {
            let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
            let disks = disks(&|slot, source| {
                format!(
                    "    <disk type='file' device='disk'>\n      <source file='{}'/>\n      <target dev='{slot}' bus='virtio'/>\n    </disk>\n",
                    escape(source).replace('\'', "&apos;")
                )
            });
            format!(
                "<domain type='kvm'>\n  <name>{}</name>\n  <uuid>{}</uuid>\n  <memory unit='MiB'>{memory}</memory>\n  <vcpu>{cpus}</vcpu>\n  <devices>\n{disks}    <interface type='network'>\n      <mac address='{mac}'/>\n    </interface>\n  </devices>\n</domain>\n",
                escape(&name),
                guest.uid
            )
        }
        NativeFormat::Yaml => {
            let disks = disks(&|slot, source| format!("  {slot}:\n    source: {source:?}\n"));
            format!(
                "name: {name:?}\nconfig:\n  limits.cpu: \"{cpus}\"\n  limits.memory: {memory}MiB\n  uuid: {}\ndevices:\n{disks}  eth0:\n    hwaddr: {mac:?}\n",
                guest.uid
            )
        }
        NativeFormat::Json => {
            let disks: Vec<_> = guest
                .disks
                .iter()
                .map(|d| serde_json::json!({"name": d.name, "source": d.source}))
                .collect();
            let value = serde_json::json!({
                "name": name, "uuid": guest.uid, "numCpu": cpus, "memoryMiB": memory,
                "macAddress": mac, "disks": disks,
            });
            format!("{value:#}\n")
        }
        NativeFormat::Text => {
            let disks = disks(&|slot, source| format!("{slot}: {source}\n"));
            format!(
                "name: {name}\nuuid: {}\ncores: {cpus}\nmemory: {memory}\nnet0: virtio={mac}\n{disks}",
                guest.uid
            )
        }
    };
    Native {
        format: dialect.native_format(),
        text,
    }
}
