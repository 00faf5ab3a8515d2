//! What saved RAM fits: the machine as its guest sees it. QEMU loads a state into no other.

use serde::{Deserialize, Serialize};

use super::definition::{Definition, FirmwareKind};
use super::process::Launch;
use super::resize::Sizes;
use crate::model::{Bytes, shown};

/// A machine as its saved RAM needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Versioned machine type.
    pub machine: String,
    /// CPU model.
    pub cpu_model: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// `kvm` or `tcg`.
    pub accel: String,
    /// Disks, drives, NICs and what else is plugged in.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Its sizes, with which a start makes a machine that fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
}

impl Layout {
    /// Of a VM that would be started now.
    pub fn of(vm: &Definition, accel: &str) -> Self {
        let mut devices: Vec<String> = vm
            .disks
            .iter()
            .map(|disk| format!("{} ({})", disk.name, disk.bus))
            .chain(vm.cdroms.iter().map(|medium| medium.name.clone()))
            .chain(
                vm.nics
                    .iter()
                    .map(|nic| format!("{} ({}, {})", nic.name, nic.model, nic.mac)),
            )
            .collect();
        if vm.tpm {
            devices.push("tpm".to_owned());
        }
        if vm.firmware.kind == FirmwareKind::Uefi {
            devices.push("uefi".to_owned());
        }
        // Room for what is plugged in later is a part of the board.
        if let Some(most) = vm.max_cpus {
            devices.push(format!("room for {most} CPUs"));
        }
        if let Some(most) = vm.max_memory {
            devices.push(format!("room for {most} of memory"));
        }
        let (_, modules) = vm.base_memory();
        for (n, module) in modules.iter().enumerate() {
            devices.push(format!("memory module {n} of {module}"));
        }
        Self {
            machine: vm.machine.clone(),
            cpu_model: vm.cpu_model.clone(),
            cpus: vm.cpus,
            memory: vm.memory.0,
            accel: accel.to_owned(),
            devices,
            sizes: Some(Sizes::of(vm)),
        }
    }

    /// The VM with the CPUs and the memory of this machine, where they are known: both may have
    /// been changed since, while it ran.
    pub fn fitted(&self, vm: &Definition) -> Definition {
        let mut vm = vm.clone();
        if let Some(sizes) = &self.sizes {
            sizes.put(&mut vm);
        }
        vm
    }

    /// Of a VM that runs: what its process has counts, not what was defined since.
    pub fn running(vm: &Definition, launch: Option<&Launch>) -> Self {
        let accel = launch.map_or("", |launch| launch.accel.word());
        let running = launch.and_then(|launch| launch.running.as_ref());
        Self::of(running.unwrap_or(vm), accel)
    }

    /// How `now` differs, in words; empty where saved RAM fits.
    pub fn unlike(&self, now: &Self) -> Vec<String> {
        let mut all = Vec::new();
        let mut told = |what: &str, then: &str, now: &str| {
            if then != now {
                all.push(format!("{what} was {}, now {}", shown(then), shown(now)));
            }
        };
        told("the machine", &self.machine, &now.machine);
        told("the CPU model", &self.cpu_model, &now.cpu_model);
        told(
            "the number of CPUs",
            &self.cpus.to_string(),
            &now.cpus.to_string(),
        );
        told(
            "memory",
            &Bytes(self.memory).to_string(),
            &Bytes(now.memory).to_string(),
        );
        if !self.accel.is_empty() && !now.accel.is_empty() {
            told("acceleration", &self.accel, &now.accel);
        }
        let gone = self.devices.iter().filter(|d| !now.devices.contains(d));
        let new = now.devices.iter().filter(|d| !self.devices.contains(d));
        all.extend(gone.map(|device| format!("{} is gone", shown(device))));
        all.extend(new.map(|device| format!("{} is new", shown(device))));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::definition::tests::sample;
    use super::*;

    #[test]
    fn what_differs_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut vm = sample("web", dir.path());
        let before = Layout::of(&vm, "tcg");
        assert!(before.unlike(&Layout::of(&vm, "tcg")).is_empty());
        assert!(before.unlike(&Layout::of(&vm, "")).is_empty());
        vm.memory = Bytes::mib(512);
        assert!(
            before
                .unlike(&Layout::of(&before.fitted(&vm), "tcg"))
                .is_empty()
        );
        vm.nics.clear();
        vm.tpm = true;
        let said = before.unlike(&Layout::of(&vm, "kvm")).join("; ");
        for word in [
            "memory was 256 MiB, now 512 MiB",
            "acceleration was tcg, now kvm",
            "net0 (virtio",
            "is gone",
            "tpm is new",
        ] {
            assert!(said.contains(word), "{said}");
        }
    }
}
