//! What a new network interface is: its name, place, MAC, model and network.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::super::argv::nic_device;
use super::super::ctx::Ctx;
use super::super::definition::{Definition, NicDef, mac};
use super::super::slots::{BOARD_NICS, SPARE, Slot, Slots};
use crate::model::{Error, Result, shown};

/// Where distributions put the program that joins a bridge.
const HELPERS: [&str; 3] = [
    "/usr/lib/qemu/qemu-bridge-helper",
    "/usr/libexec/qemu-bridge-helper",
    "/usr/lib64/qemu/qemu-bridge-helper",
];
/// Which bridges it joins.
const ACL: &str = "/etc/qemu/bridge.conf";

/// The interface that a request means for this VM; `running` is the definition as its process has
/// it.
///
/// # Errors
/// `Invalid`, `Refused` or `Conflict` for what cannot be, with what to do.
pub fn nic(
    ctx: &Ctx,
    vm: &Definition,
    running: Option<&Definition>,
    network: Option<&str>,
    model: Option<&str>,
    given: Option<&str>,
) -> Result<NicDef> {
    let network = network.unwrap_or("user");
    let model = model.unwrap_or(if vm.is_windows() { "e1000e" } else { "virtio" });
    if nic_device(model).is_none() {
        return Err(
            Error::invalid(format!("there is no model \"{}\"", shown(model)))
                .remedy("One of: virtio, e1000e, e1000"),
        );
    }
    match network.split_once(':') {
        None if network == "user" => {}
        Some(("bridge", bridge)) => can_join(bridge)?,
        _ => {
            return Err(
                Error::invalid(format!("there is no network \"{}\"", shown(network)))
                    .remedy("One of: user, bridge:NAME"),
            );
        }
    }
    let taken = macs(ctx)?;
    let mac = match given {
        Some(text) => {
            let mac = read_mac(text)?;
            if let Some((_, name)) = taken.iter().find(|(other, _)| *other == mac) {
                return Err(
                    Error::conflict(format!("the MAC {mac} is that of {}", shown(name)))
                        .remedy("Leave --mac out, or take another"),
                );
            }
            mac
        }
        None => free_mac(vm, &taken),
    };
    let name = (0..=u8::MAX)
        .map(|n| format!("net{n}"))
        .find(|name| {
            let used = |vm: &Definition| {
                let disks = vm.disks.iter().map(|disk| &disk.name);
                let nics = vm.nics.iter().map(|nic| &nic.name);
                nics.chain(disks).any(|other| other == name)
            };
            !used(vm) && !running.is_some_and(used)
        })
        .ok_or_else(|| Error::invalid("there is no name left for it"))?;
    Ok(NicDef {
        name,
        mac,
        model: model.to_owned(),
        network: network.to_owned(),
        slot: Some(place(vm, running)?),
        forwards: Vec::new(),
    })
}

/// A free place: a root port from the high end, since disks take them from the low one. On the
/// root bus only while the VM is off.
fn place(vm: &Definition, running: Option<&Definition>) -> Result<Slot> {
    let own = Slots::of(vm)?;
    let live = running.map(Slots::of).transpose()?;
    let used = |slot: Slot| {
        let in_use = |slots: &Slots| slots.disks.contains(&slot) || slots.nics.contains(&slot);
        in_use(&own) || live.as_ref().is_some_and(in_use)
    };
    let port = (0..SPARE).rev().map(Slot::Spare).find(|slot| !used(*slot));
    if let Some(port) = port {
        return Ok(port);
    }
    if running.is_some() {
        return Err(Error::refused("none of its root ports is free")
            .remedy("Remove a disk or network interface, or stop it first"));
    }
    (0..BOARD_NICS)
        .map(Slot::Board)
        .find(|slot| !own.nics.contains(slot))
        .ok_or_else(|| {
            Error::refused("its board has no room for another network interface")
                .remedy("Remove one first: corral nic remove")
        })
}

/// The MACs of all definitions that can be read, with the VM's name.
fn macs(ctx: &Ctx) -> Result<Vec<(String, String)>> {
    let all = ctx.store.list()?.into_iter();
    Ok(all
        .filter_map(|entry| entry.definition.ok())
        .flat_map(|vm| {
            let name = vm.name;
            vm.nics
                .into_iter()
                .map(move |nic| (nic.mac.to_ascii_lowercase(), name.clone()))
        })
        .collect())
}

fn free_mac(vm: &Definition, taken: &[(String, String)]) -> String {
    let free = |mac: &String| !taken.iter().any(|(other, _)| other == mac);
    (0..=u8::MAX)
        .map(|n| mac(&vm.uuid, n))
        .chain(std::iter::repeat_with(|| {
            let [a, b, c, _] = rand::random::<u32>().to_be_bytes();
            format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
        }))
        .find(free)
        .unwrap_or_default()
}

/// A MAC as it is written everywhere here: lower case, with colons.
///
/// # Errors
/// `Invalid` for what is none, and for one that no single card can have.
pub fn read_mac(text: &str) -> Result<String> {
    let bad = |why: &str| {
        Err(Error::invalid(format!("--mac: {} {why}", shown(text)))
            .remedy("Write it like 52:54:00:12:34:56"))
    };
    let parts: Vec<&str> = text.split([':', '-']).collect();
    let bytes: Vec<u8> = parts
        .iter()
        .filter(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
        .filter_map(|part| u8::from_str_radix(part, 16).ok())
        .collect();
    let [first, ..] = bytes.as_slice() else {
        return bad("is no MAC address");
    };
    if parts.len() != 6 || bytes.len() != 6 {
        return bad("is no MAC address");
    }
    if first & 1 == 1 {
        return bad("is a multicast address");
    }
    if bytes.iter().all(|b| *b == 0) {
        return bad("is no card's address");
    }
    let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    Ok(hex.join(":"))
}

/// Whether QEMU could join this bridge: it is there, and the helper may.
fn can_join(bridge: &str) -> Result<()> {
    let plain = (1..=15).contains(&bridge.len())
        && bridge
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !bridge.starts_with('.');
    if !plain {
        return Err(Error::invalid(format!(
            "\"{}\" is no name of a bridge",
            shown(bridge)
        )));
    }
    if !Path::new("/sys/class/net")
        .join(bridge)
        .join("bridge")
        .exists()
    {
        return Err(Error::refused(format!("this machine has no bridge {bridge}"))
            .remedy(format!("Make it: sudo ip link add {bridge} type bridge && sudo ip link set {bridge} up; or take --network user")));
    }
    let Some(helper) = HELPERS.iter().map(PathBuf::from).find(|path| path.exists()) else {
        return Err(
            Error::refused("QEMU's program that joins bridges is not installed")
                .remedy("apt install qemu-system-common"),
        );
    };
    let set_uid = fs::metadata(&helper)
        .is_ok_and(|meta| meta.permissions().mode() & 0o4000 != 0 && meta.uid() == 0);
    if !set_uid && !rustix::process::geteuid().is_root() {
        return Err(
            Error::refused(format!("{} may not join bridges for you", helper.display()))
                .remedy(format!("sudo chmod u+s {}", helper.display())),
        );
    }
    let rules = fs::read_to_string(ACL).unwrap_or_default();
    if !allows(&rules, bridge) {
        return Err(Error::refused(format!("{ACL} does not allow {bridge}"))
            .remedy(format!("echo 'allow {bridge}' | sudo tee -a {ACL}")));
    }
    Ok(())
}

/// The helper refuses what a `deny` names, whatever else is allowed.
fn allows(rules: &str, bridge: &str) -> bool {
    let named = |word: &str| {
        rules.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(word) && words.next().is_some_and(|w| w == bridge || w == "all")
        })
    };
    named("allow") && !named("deny")
}

#[cfg(test)]
mod tests {
    use super::super::super::definition::tests::sample;
    use super::*;

    #[test]
    fn macs_as_they_are_typed() {
        for (typed, is) in [
            ("52:54:00:AB:cd:01", "52:54:00:ab:cd:01"),
            ("52-54-00-00-00-01", "52:54:00:00:00:01"),
        ] {
            assert_eq!(read_mac(typed).unwrap(), is);
        }
        for odd in [
            "",
            "52:54:00:00:00",
            "52:54:00:00:00:00:01",
            "52:54:00:00:00:0g",
            "52:54:00:00:00:+1",
            "01:00:5e:00:00:01",
            "00:00:00:00:00:00",
            "52:54:00:00:00:01,br=x",
            "\u{1b}[2J",
        ] {
            let error = read_mac(odd).unwrap_err();
            assert!(!error.message.contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn a_mac_is_found_that_nobody_has() {
        let vm = sample("a", Path::new("/d"));
        let taken: Vec<(String, String)> = (0..=u8::MAX)
            .map(|n| (mac(&vm.uuid, n), "b".to_owned()))
            .collect();
        assert_eq!(free_mac(&vm, &taken[1..]), taken[0].0);
        let other = free_mac(&vm, &taken);
        assert!(taken.iter().all(|(mac, _)| *mac != other) && read_mac(&other).is_ok());
    }

    #[test]
    fn ports_are_taken_from_the_high_end() {
        let mut vm = sample("a", Path::new("/d"));
        assert_eq!(place(&vm, None).unwrap(), Slot::Spare(7));
        vm.nics[0].slot = Some(Slot::Spare(7));
        let running = vm.clone();
        vm.nics.clear();
        assert_eq!(place(&vm, Some(&running)).unwrap(), Slot::Spare(6));
        let first = running.nics[0].clone();
        vm.nics = (0..8)
            .map(|n| NicDef {
                name: format!("net{n}"),
                slot: Some(Slot::Spare(n)),
                ..first.clone()
            })
            .collect();
        assert_eq!(place(&vm, None).unwrap(), Slot::Board(0));
        assert!(place(&vm, Some(&vm)).is_err());
    }

    #[test]
    fn bridges_that_cannot_be_joined_say_why() {
        for odd in ["", "../x", "a b", "br0,x=y", "0123456789abcdef"] {
            assert!(can_join(odd).is_err(), "{odd}");
        }
        let error = can_join("no-such-br").unwrap_err();
        assert!(error.message.contains("no bridge no-such-br"), "{error}");
        assert!(allows("# x\nallow all\n", "br0"));
        assert!(!allows("allow all\ndeny br0\n", "br0"));
        assert!(!allows("allow br1", "br0"));
    }
}
