//! Whether a text is a definition of this VM: every mistake with its place, and nothing that could
//! make it another machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::accel::Accel;
use super::super::argv;
use super::super::ctx::Ctx;
use super::super::definition::{Definition, FORMAT, FirmwareKind, sizes_fit};
use super::super::machine::Offer;
use super::super::nics::read_mac;
use super::super::publish::address_of;
use super::super::store::{self, Store};
use super::place::place;
use crate::backend::contract::check_tag;
use crate::model::{Error, Result, nearest, shown};

/// One look at a new text.
pub(super) struct Check<'a> {
    pub(super) ctx: &'a Ctx,
    pub(super) name: &'a str,
    /// What it was, where that could be read.
    pub(super) old: Option<&'a Definition>,
    pub(super) old_text: &'a str,
    pub(super) text: &'a str,
    /// What the text is called in messages.
    pub(super) label: &'a str,
}

/// What is wrong, and at which key.
pub(super) type Fault = (String, String);

/// Disks that are new in a text and those of another VM.
pub(super) fn foreign(
    store: &Store,
    name: &str,
    old: Option<&Definition>,
    vm: &Definition,
) -> Result<Vec<Fault>> {
    let before: BTreeSet<&Path> = old.into_iter().flat_map(store::files).collect();
    let mut faults = Vec::new();
    for (n, disk) in vm.disks.iter().enumerate() {
        if before.contains(disk.path.as_path()) {
            continue;
        }
        let users = store.users_of(&disk.path, name)?;
        if !users.is_empty() {
            let users: Vec<_> = users.iter().map(|name| shown(name)).collect();
            let what = format!(
                "{} is needed by {}: two that write it destroy it",
                shown(&disk.path.to_string_lossy()),
                users.join(", ")
            );
            faults.push((format!("disks.{n}.path"), what));
        }
    }
    Ok(faults)
}

impl Check<'_> {
    /// The definition in it, with what is worth knowing of it.
    pub(super) async fn read(&self) -> Result<(Definition, Vec<String>)> {
        let read = store::parse(Path::new(self.label), self.text).map_err(|error| Error {
            remedy: Some("Mend that line; nothing was written.".to_owned()),
            ..error
        })?;
        self.keys()?;
        let dir = self.ctx.store.dir(self.name)?;
        let vm = read.rebased(&dir, false);
        let mut faults = self.identity(&vm);
        faults.extend(values(&vm));
        faults.extend(self.sizes(&vm));
        faults.extend(foreign(&self.ctx.store, self.name, self.old, &vm)?);
        if let Some((key, what)) = faults.into_iter().next() {
            return Err(self.at(&key, &what));
        }
        self.board(&vm)?;
        self.offered(&vm).await?;
        let mut notes = self.notes(&vm, &dir);
        notes.extend(self.shared(&vm)?);
        Ok((vm, notes))
    }

    fn at(&self, key: &str, what: &str) -> Error {
        let (line, column) = place(self.text, key);
        let label = shown(self.label);
        Error::invalid(format!("{label}:{line}:{column}: {what}"))
            .remedy("Mend that line; nothing was written.")
    }

    /// A key that means nothing: mistyped, most likely. One that was there before may stay.
    fn keys(&self) -> Result<()> {
        let before: BTreeSet<String> = store::unknown_in(self.old_text).into_iter().collect();
        let Some(odd) = store::unknown_in(self.text)
            .into_iter()
            .find(|key| !before.contains(key))
        else {
            return Ok(());
        };
        let last = odd.rsplit('.').next().unwrap_or(&odd);
        let near = nearest(last, KEYS.iter().copied());
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        Err(self.at(&odd, &format!("there is no key \"{}\"{hint}", shown(last))))
    }

    /// What makes it this VM, and the text one that this corral can write.
    fn identity(&self, vm: &Definition) -> Vec<Fault> {
        let mut faults = Vec::new();
        if vm.format != self.old.map_or(FORMAT, |old| old.format) {
            let what = "the format cannot be changed by hand".to_owned();
            faults.push(("format".to_owned(), what));
        }
        if vm.name != self.name {
            let id = self.ctx.id(self.name);
            let what = format!(
                "the name cannot be changed here: corral rename {id} --to {}",
                shown(&vm.name)
            );
            faults.push(("name".to_owned(), what));
        }
        match self.old {
            Some(old) if old.uuid != vm.uuid => {
                let what = format!("the uuid is its identity and stays {}", old.uuid);
                faults.push(("uuid".to_owned(), what));
            }
            // One that could not be read may need another: two had the same.
            None if self.taken(&vm.uuid) => {
                let what = "another VM has this uuid".to_owned();
                faults.push(("uuid".to_owned(), what));
            }
            _ => {}
        }
        faults
    }

    fn taken(&self, uuid: &uuid::Uuid) -> bool {
        let all = self.ctx.store.folders().unwrap_or_default();
        all.iter().filter(|name| *name != self.name).any(|name| {
            self.ctx
                .store
                .alone(name)
                .is_ok_and(|other| other.uuid == *uuid)
        })
    }

    /// A size that is written here makes no disk larger.
    fn sizes(&self, vm: &Definition) -> Vec<Fault> {
        let Some(old) = self.old else {
            return Vec::new();
        };
        let id = self.ctx.id(self.name);
        let all = vm.disks.iter().enumerate();
        all.filter_map(|(n, disk)| {
            let before = old.disks.iter().find(|before| before.path == disk.path)?;
            (before.size != disk.size).then(|| {
                (
                    format!("disks.{n}.size"),
                    format!(
                        "the disk is {} large whatever stands here: corral disk grow {id}",
                        before.size
                    ),
                )
            })
        })
        .collect()
    }

    /// What is new here and another has already: it may be meant, and the verbs refuse it.
    fn shared(&self, vm: &Definition) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let old_nics = || self.old.into_iter().flat_map(|old| &old.nics);
        let mut macs: BTreeMap<String, String> = BTreeMap::new();
        let mut ports = BTreeMap::new();
        for other in self.ctx.store.list()? {
            let Ok(other) = other.definition else {
                continue;
            };
            if other.name == self.name {
                continue;
            }
            for nic in &other.nics {
                let whose = shown(&other.name).into_owned();
                for forward in nic.forwards.iter().filter(|forward| forward.port != 0) {
                    ports.insert((forward.protocol, forward.port), whose.clone());
                }
                macs.insert(nic.mac.to_ascii_lowercase(), whose);
            }
        }
        for nic in &vm.nics {
            let mac = nic.mac.to_ascii_lowercase();
            let is_new = !old_nics().any(|old| old.name == nic.name && old.mac == nic.mac);
            if let Some(whose) = macs.get(&mac).filter(|_| is_new) {
                notes.push(format!(
                    "the MAC {mac} of {} is that of {whose}: on one network neither is reached reliably",
                    nic.name
                ));
            }
            macs.insert(mac, format!("{} of this VM", nic.name));
            for forward in &nic.forwards {
                let is_new = !old_nics().any(|old| old.forwards.contains(forward));
                let key = (forward.protocol, forward.port);
                if let Some(whose) = ports.get(&key).filter(|_| is_new) {
                    notes.push(format!(
                        "port {} is published by {whose}: only one of the two can run",
                        forward.port
                    ));
                }
            }
        }
        Ok(notes)
    }

    /// What the board cannot take, as the start would say it.
    fn board(&self, vm: &Definition) -> Result<()> {
        let paths = self.ctx.paths(&vm.uuid)?;
        argv::build(vm, &paths, &Accel::tcg("a check"))
            .map(drop)
            .map_err(|error| {
                let named = |name: &str| error.message.starts_with(&format!("{}:", shown(name)));
                let disk = vm.disks.iter().position(|disk| named(&disk.name));
                let nic = vm.nics.iter().position(|nic| named(&nic.name));
                let drive = vm.cdroms.iter().position(|drive| named(&drive.name));
                let key = match (disk, nic, drive) {
                    (Some(n), _, _) => format!("disks.{n}"),
                    (_, Some(n), _) => format!("nics.{n}"),
                    (_, _, Some(n)) => format!("cdroms.{n}"),
                    _ => "machine".to_owned(),
                };
                self.at(&key, &error.message)
            })
    }

    /// Machine type and CPU model, where they are new: QEMU knows which there are.
    async fn offered(&self, vm: &Definition) -> Result<()> {
        let machine = self.old.is_none_or(|old| old.machine != vm.machine);
        let model = self.old.is_none_or(|old| old.cpu_model != vm.cpu_model);
        if !machine && !model {
            return Ok(());
        }
        let offer = Offer::ask(self.ctx).await?;
        if machine {
            let wanted = offer.machine(&vm.machine);
            let found = wanted.map_err(|error| self.at("machine", &error.message))?;
            if found != vm.machine {
                let what = format!("write the versioned machine type: {found}");
                return Err(self.at("machine", &what));
            }
        }
        if model {
            let known = offer.cpu_model(&vm.cpu_model);
            known.map_err(|error| self.at("cpu_model", &error.message))?;
        }
        Ok(())
    }

    fn notes(&self, vm: &Definition, dir: &Path) -> Vec<String> {
        let mut notes = Vec::new();
        let before: BTreeSet<&Path> = self.old.into_iter().flat_map(store::files).collect();
        for file in store::files(vm).filter(|file| !before.contains(file)) {
            let name = shown(&file.to_string_lossy()).into_owned();
            if !file.exists() {
                notes.push(format!("{name} is not there: it cannot start so"));
            } else if !file.starts_with(dir) {
                notes.push(format!(
                    "{name} is outside of its folder: a delete leaves it"
                ));
            }
        }
        for file in before
            .iter()
            .filter(|file| !store::files(vm).any(|now| now == **file))
        {
            let name = shown(&file.to_string_lossy()).into_owned();
            notes.push(format!(
                "{name} is no longer part of it, and stays where it is"
            ));
        }
        if self
            .old
            .is_some_and(|old| Store::start_hash(old) == Store::start_hash(vm))
        {
            notes.push("its hardware stays as it is".to_owned());
        }
        notes
    }
}

/// Every key that there is, for what was mistyped.
const KEYS: &[&str] = &[
    "format",
    "uuid",
    "name",
    "cpus",
    "max_cpus",
    "memory",
    "max_memory",
    "dimms",
    "machine",
    "cpu_model",
    "firmware",
    "tpm",
    "os",
    "tags",
    "note",
    "autostart",
    "template",
    "created_at",
    "disks",
    "cdroms",
    "nics",
    "kind",
    "code",
    "code_format",
    "vars",
    "secure_boot",
    "path",
    "bus",
    "size",
    "backing",
    "owned",
    "serial",
    "readonly",
    "mac",
    "model",
    "network",
    "forwards",
    "host",
    "port",
    "guest",
    "protocol",
    "picked",
    "slot",
];

/// Values that no VM can have.
fn values(vm: &Definition) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |key: String, what: String| faults.push((key, what));
    if let Err((key, error)) = sizes_fit(vm.cpus, vm.memory) {
        fault(key.into(), error.message);
    }
    if vm.firmware.kind == FirmwareKind::Uefi
        && (vm.firmware.code.is_none() || vm.firmware.vars.is_none())
    {
        let what = "UEFI needs the images \"code\" and \"vars\"".to_owned();
        fault("firmware".into(), what);
    }
    for (n, tag) in vm.tags.iter().enumerate() {
        if let Err(error) = check_tag(tag) {
            fault(format!("tags.{n}"), error.message);
        }
    }
    let mut names = BTreeSet::new();
    let disks = vm
        .disks
        .iter()
        .enumerate()
        .map(|(n, d)| (format!("disks.{n}"), &d.name));
    let drives = vm
        .cdroms
        .iter()
        .enumerate()
        .map(|(n, d)| (format!("cdroms.{n}"), &d.name));
    let nics = vm
        .nics
        .iter()
        .enumerate()
        .map(|(n, d)| (format!("nics.{n}"), &d.name));
    for (key, name) in disks.chain(drives).chain(nics) {
        let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if !plain {
            let what = format!("\"{}\" cannot be the name of a device", shown(name));
            fault(format!("{key}.name"), what);
        } else if !names.insert(name) {
            fault(
                format!("{key}.name"),
                format!("the name \"{name}\" is there twice"),
            );
        }
    }
    let mut ports = BTreeSet::new();
    for (n, nic) in vm.nics.iter().enumerate() {
        if read_mac(&nic.mac).ok() != Some(nic.mac.to_ascii_lowercase()) {
            let what = format!("\"{}\" is no MAC address of a machine", shown(&nic.mac));
            fault(format!("nics.{n}.mac"), what);
        }
        for (m, forward) in nic.forwards.iter().enumerate() {
            let key = format!("nics.{n}.forwards.{m}");
            if let Err(error) = address_of(&forward.host) {
                fault(format!("{key}.host"), error.message);
            }
            if forward.guest == 0 {
                fault(format!("{key}.guest"), "0 is no port of a guest".into());
            }
            if forward.port != 0 && !ports.insert((forward.protocol, forward.port)) {
                let what = format!("port {} is published twice", forward.port);
                fault(format!("{key}.port"), what);
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::super::definition::tests::sample;
    use super::super::super::definition::{Forward, Protocol};
    use super::super::super::slots::Slot;
    use super::*;
    use crate::model::Bytes;

    fn vm() -> Definition {
        let mut vm = sample("a", Path::new("/d"));
        vm.nics[0].forwards = [Protocol::Tcp, Protocol::Udp]
            .map(|protocol| Forward {
                host: "127.0.0.1".to_owned(),
                port: 8053,
                guest: 53,
                protocol,
                picked: true,
            })
            .into();
        vm
    }

    #[test]
    fn tcp_and_udp_do_not_meet_and_twice_the_same_does() {
        let mut vm = vm();
        assert!(values(&vm).is_empty(), "{:?}", values(&vm));
        vm.nics[0].forwards[0].protocol = Protocol::Udp;
        assert_eq!(values(&vm)[0].0, "nics.0.forwards.1.port");
    }

    #[test]
    fn values_that_no_machine_takes_are_named_by_their_key() {
        let faults = |change: &dyn Fn(&mut Definition)| {
            let mut vm = vm();
            change(&mut vm);
            values(&vm)
                .into_iter()
                .map(|fault| fault.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(faults(&|vm| vm.cpus = 256), ["cpus"]);
        assert_eq!(faults(&|vm| vm.memory = Bytes(1)), ["memory"]);
        for mac in [
            "00:00:00:00:00:00",
            "01:00:00:00:00:01",
            "52-54-00-00-00-01",
            "+2:0:0:0:0:0",
        ] {
            assert_eq!(
                faults(&|vm| mac.clone_into(&mut vm.nics[0].mac)),
                ["nics.0.mac"],
                "{mac}"
            );
        }
        // QEMU's own network listens on no other.
        let host = |vm: &mut Definition| vm.nics[0].forwards[0].host = "::1".to_owned();
        assert_eq!(faults(&host), ["nics.0.forwards.0.host"]);
    }

    #[test]
    fn every_key_of_a_definition_is_known() {
        fn keys(value: &toml::Value, into: &mut BTreeSet<String>) {
            match value {
                toml::Value::Table(table) => {
                    for (key, value) in table {
                        into.insert(key.clone());
                        keys(value, into);
                    }
                }
                toml::Value::Array(list) => list.iter().for_each(|value| keys(value, into)),
                _ => {}
            }
        }
        let mut vm = vm();
        vm.max_cpus = Some(2);
        vm.max_memory = Some(Bytes::gib(1));
        vm.dimms = vec![Bytes::mib(128)];
        vm.nics[0].slot = Some(Slot::Spare(1));
        let mut all = BTreeSet::new();
        keys(&toml::Value::try_from(&vm).unwrap(), &mut all);
        assert!(all.contains("dimms") && all.contains("protocol"), "{all:?}");
        let known: BTreeSet<String> = KEYS.iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(
            all.difference(&known).collect::<Vec<_>>(),
            Vec::<&String>::new()
        );
    }
}
