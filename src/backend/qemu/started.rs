//! The definition as the running process has it: written down at its start, and after every change
//! that was made while it ran. What the definition says beyond it waits for the next start.

use std::collections::BTreeMap;

use super::ctx::Paths;
use super::definition::{Definition, DiskDef, Forward, MediumDef, NicDef};
use super::process::Launch;
use super::store::Store;
use crate::link::files;
use crate::model::{Bytes, Error, Result, shown};

/// Why a running VM's row has a mark.
pub const RESTART_NEEDED: &str = "restart needed";

/// The running process has changed: `change` says how. The caller holds the VM's lock.
///
/// # Errors
/// When it cannot be written down.
pub fn took(paths: &Paths, change: impl FnOnce(&mut Definition)) -> Result<()> {
    rewrite(paths, |launch| {
        if let Some(running) = &mut launch.running {
            change(running);
        }
    })
}

/// The balloon was asked to leave so much to the guest; `None`: all.
///
/// # Errors
/// As [`took`].
pub fn ballooned(paths: &Paths, to: Option<Bytes>) -> Result<()> {
    rewrite(paths, |launch| {
        let all = launch.running.as_ref().map(|running| running.memory);
        launch.balloon = to.filter(|to| Some(*to) != all);
    })
}

fn rewrite(paths: &Paths, change: impl FnOnce(&mut Launch)) -> Result<()> {
    let Some(mut launch) = Launch::read(paths) else {
        return Ok(());
    };
    change(&mut launch);
    let bytes = serde_json::to_vec(&launch)
        .map_err(|e| Error::backend(format!("how it runs cannot be written down: {e}")))?;
    files::write_atomically(&paths.launch, &bytes)
}

/// What of the definition the running process does not have; empty when it has all of it.
pub fn pending(launch: &Launch, vm: &Definition) -> Vec<String> {
    match &launch.running {
        Some(running) => differences(running, launch.balloon, vm),
        // Started by a corral that did not write it down.
        None if launch.definition != Store::start_hash(vm) => {
            vec!["what was changed in it".to_owned()]
        }
        None => Vec::new(),
    }
}

/// CPUs and memory that the running process has, where that was written down.
pub fn size(launch: &Launch) -> Option<(u32, Bytes)> {
    let running = launch.running.as_ref()?;
    Some((running.cpus, launch.balloon.unwrap_or(running.memory)))
}

fn differences(running: &Definition, balloon: Option<Bytes>, vm: &Definition) -> Vec<String> {
    let mut out = Vec::new();
    let mut say = |differs: bool, what: &dyn Fn() -> String| {
        if differs {
            out.push(what());
        }
    };
    say(running.cpus != vm.cpus, &|| cpus(vm.cpus));
    say(balloon.unwrap_or(running.memory) != vm.memory, &|| {
        format!("memory {}", vm.memory)
    });
    say(running.max_cpus != vm.max_cpus, &|| match vm.max_cpus {
        Some(n) => format!("room for {}", cpus(n)),
        None => "no room for more CPUs".to_owned(),
    });
    say(
        running.max_memory != vm.max_memory,
        &|| match vm.max_memory {
            Some(size) => format!("room for {size} of memory"),
            None => "no room for more memory".to_owned(),
        },
    );
    say(running.machine != vm.machine, &|| {
        format!("machine {}", shown(&vm.machine))
    });
    say(running.cpu_model != vm.cpu_model, &|| {
        format!("CPU model {}", shown(&vm.cpu_model))
    });
    say(running.firmware != vm.firmware, &|| {
        "another firmware".to_owned()
    });
    say(running.tpm != vm.tpm, &|| {
        if vm.tpm { "a TPM" } else { "no TPM" }.to_owned()
    });
    say(running.is_windows() != vm.is_windows(), &|| {
        "clock and devices of another guest family".to_owned()
    });
    let disk = |disk: &DiskDef| {
        format!(
            "{} {} {} {}",
            disk.path.display(),
            disk.format,
            disk.bus,
            disk.readonly
        )
    };
    out.extend(list(&running.disks, &vm.disks, |d| &d.name, disk));
    let medium = |medium: &MediumDef| format!("{:?}", medium.path);
    out.extend(list(&running.cdroms, &vm.cdroms, |m| &m.name, medium));
    let nic = |nic: &NicDef| {
        format!(
            "{} {} {}",
            nic.mac.to_ascii_lowercase(),
            nic.model,
            nic.network
        )
    };
    out.extend(list(&running.nics, &vm.nics, |n| &n.name, nic));
    let rules = |vm: &Definition| -> BTreeMap<String, String> {
        vm.nics
            .iter()
            .flat_map(|nic| &nic.forwards)
            .map(|forward| (Forward::rule(forward), String::new()))
            .collect()
    };
    let (before, after) = (rules(running), rules(vm));
    for rule in after.keys().filter(|rule| !before.contains_key(*rule)) {
        out.push(format!("published {}", shown(rule)));
    }
    for rule in before.keys().filter(|rule| !after.contains_key(*rule)) {
        out.push(format!("no longer published {}", shown(rule)));
    }
    out
}

/// `1 CPU`, `4 CPUs`.
pub fn cpus(n: u32) -> String {
    format!("{n} CPU{}", if n == 1 { "" } else { "s" })
}

fn list<T>(
    running: &[T],
    wanted: &[T],
    name: impl Fn(&T) -> &String,
    content: impl Fn(&T) -> String,
) -> Vec<String> {
    let of = |all: &[T]| -> BTreeMap<String, String> {
        all.iter()
            .map(|item| (name(item).clone(), content(item)))
            .collect()
    };
    let (before, after) = (of(running), of(wanted));
    let mut out = Vec::new();
    for (name, content) in &after {
        match before.get(name) {
            None => out.push(format!("{} added", shown(name))),
            Some(old) if old != content => out.push(format!("{} changed", shown(name))),
            Some(_) => {}
        }
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        out.push(format!("{} removed", shown(name)));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::definition::Protocol;
    use super::super::definition::tests::sample;
    use super::*;

    #[test]
    fn what_waits_for_a_start_is_named_and_notes_are_not() {
        let running = sample("a", Path::new("/d"));
        let mut vm = running.clone();
        vm.tags = vec!["x".into()];
        vm.note = Some("n".into());
        assert!(differences(&running, None, &vm).is_empty());
        vm.cpus = 4;
        vm.memory = Bytes::gib(1);
        vm.max_cpus = Some(8);
        vm.disks[0].format = "raw".into();
        vm.nics[0].forwards.push(Forward {
            host: "127.0.0.1".into(),
            port: 8080,
            guest: 80,
            protocol: Protocol::Udp,
            picked: false,
        });
        let mut second = vm.nics[0].clone();
        second.name = "net1".into();
        second.forwards.clear();
        vm.nics.push(second);
        assert_eq!(
            differences(&running, None, &vm),
            [
                "4 CPUs",
                "memory 1.0 GiB",
                "room for 8 CPUs",
                "disk0 changed",
                "net1 added",
                "published udp:127.0.0.1:8080-:80"
            ]
        );
    }
}
