//! A definition as QEMU's command line.
//!
//! Places are fixed (see [`super::slots`]), so that a disk or NIC that comes or goes moves no other.
//! Block nodes are given as JSON: a path may hold commas. Every path is absolute, because
//! `-daemonize` changes to `/`.

use std::path::Path;

use serde_json::{Value, json};

use super::accel::Accel;
use super::ctx::Paths;
use super::definition::{Definition, FirmwareKind, NicDef, VARS_NODE};
use super::drive;
use super::slots::{SPARE, Slot, Slots};
use crate::model::{Error, Result, shown};

/// Modules of memory that can be plugged in.
pub const DIMMS: usize = 8;
/// More queues than this gain nothing.
const MOST_QUEUES: u32 = 64;
/// The first place of a NIC on the root bus.
const FIRST_NIC: u8 = 0x08;

/// All arguments after the program's name.
///
/// # Errors
/// `Invalid` for what the board or QEMU cannot take, naming it.
pub fn build(vm: &Definition, paths: &Paths, accel: &Accel) -> Result<Vec<String>> {
    let mut args = Args(Vec::new());
    args.flag("-nodefaults").flag("-no-user-config");
    args.two("-name", &format!("guest={}", comma(&vm.name)));
    args.two("-uuid", &vm.uuid.to_string());
    args.two("-machine", &machine(vm, accel));
    args.two("-cpu", &accel.cpu(&vm.cpu_model));
    args.two("-smp", &smp(vm)?);
    queues(vm, &mut args);
    memory(vm, &mut args)?;
    args.two("-smbios", "type=1,manufacturer=corral");
    let base = if vm.is_windows() {
        "base=localtime"
    } else {
        "base=utc"
    };
    args.two("-rtc", base);
    args.two("-boot", "strict=on");
    firmware(vm, &mut args);
    args.device("VGA,id=vga0,bus=pcie.0,addr=0x1");
    args.device("virtio-serial-pci,id=vser0,bus=pcie.0,addr=0x2");
    args.device("virtio-rng-pci,id=rng0,bus=pcie.0,addr=0x3");
    args.device("virtio-balloon-pci,id=balloon0,bus=pcie.0,addr=0x4");
    // Room for what is plugged in later.
    for n in 0..SPARE {
        args.device(&format!(
            "pcie-root-port,id=spare{n},bus=pcie.0,chassis={},addr=0x6.0x{n},multifunction=on",
            n + 1
        ));
    }
    if vm.is_windows() {
        // A pointer that follows a viewer's.
        args.device("qemu-xhci,id=usb0,bus=pcie.0,addr=0x7");
        args.device("usb-tablet,id=tablet0,bus=usb0.0");
    }
    let slots = Slots::of(vm)?;
    disks(vm, &slots, &mut args)?;
    cdroms(vm, &slots, &mut args);
    for (at, (nic, slot)) in vm.nics.iter().zip(&slots.nics).enumerate() {
        network(nic, at, *slot, &mut args)?;
    }
    sockets(paths, &mut args);
    if vm.tpm {
        args.two(
            "-chardev",
            &format!("socket,id=tpm0,path={}", file(&paths.tpm)),
        );
        args.two("-tpmdev", "emulator,id=tpm0,chardev=tpm0");
        args.device("tpm-crb,tpmdev=tpm0");
    }
    args.two("-pidfile", &paths.pid.to_string_lossy());
    args.flag("-daemonize");
    Ok(args.0)
}

struct Args(Vec<String>);

impl Args {
    fn flag(&mut self, flag: &str) -> &mut Self {
        self.0.push(flag.to_owned());
        self
    }

    fn two(&mut self, flag: &str, value: &str) {
        self.0.push(flag.to_owned());
        self.0.push(value.to_owned());
    }

    fn device(&mut self, value: &str) {
        self.two("-device", value);
    }

    fn blockdev(&mut self, node: &Value) {
        self.two("-blockdev", &node.to_string());
    }
}

/// A comma ends an option's value; a doubled one is a comma.
fn comma(text: &str) -> String {
    text.replace(',', ",,")
}

fn file(path: &Path) -> String {
    comma(&path.to_string_lossy())
}

fn machine(vm: &Definition, accel: &Accel) -> String {
    let mut text = format!("{},accel={}", comma(&vm.machine), accel.word());
    if vm.firmware.kind == FirmwareKind::Uefi {
        text.push_str(",pflash0=eficode");
        if vm.firmware.vars.is_some() {
            text.push_str(",pflash1=");
            text.push_str(VARS_NODE);
        }
        if vm.firmware.secure_boot {
            text.push_str(",smm=on");
        }
    }
    text
}

fn firmware(vm: &Definition, args: &mut Args) {
    if vm.firmware.kind == FirmwareKind::Bios {
        return;
    }
    if let Some(code) = &vm.firmware.code {
        let format = vm.firmware.code_format.as_deref().unwrap_or("raw");
        args.blockdev(
            &json!({"driver": format, "node-name": "eficode", "read-only": true,
            "file": {"driver": "file", "filename": code.to_string_lossy(), "read-only": true}}),
        );
    }
    if let Some(vars) = &vm.firmware.vars {
        args.blockdev(&json!({"driver": "qcow2", "node-name": VARS_NODE,
            "file": {"driver": "file", "filename": vars.to_string_lossy()}}));
    }
    if vm.firmware.secure_boot {
        // Only code in system management mode may write the variables.
        args.two("-global", "driver=cfi.pflash01,property=secure,value=on");
        args.two("-global", "ICH9-LPC.disable_s3=1");
    }
}

fn disks(vm: &Definition, slots: &Slots, args: &mut Args) -> Result<()> {
    let mut all = slots.disks.iter().chain(&slots.cdroms);
    if all.any(|slot| matches!(slot, Slot::Scsi(_))) {
        args.device("virtio-scsi-pci,id=scsi0,bus=pcie.0,addr=0x5");
    }
    for ((n, disk), slot) in vm.disks.iter().enumerate().zip(&slots.disks) {
        args.blockdev(&drive::node(disk)?);
        let bootindex = (!disk.readonly).then_some(n + 1);
        args.device(&drive::disk(disk, *slot, bootindex).option());
    }
    Ok(())
}

fn cdroms(vm: &Definition, slots: &Slots, args: &mut Args) {
    for ((n, medium), slot) in vm.cdroms.iter().enumerate().zip(&slots.cdroms) {
        if let Some(path) = &medium.path {
            args.blockdev(&drive::medium_node(&medium.name, path));
        }
        args.device(&drive::cdrom(medium, *slot, 100 + n).option());
    }
}

fn smp(vm: &Definition) -> Result<String> {
    match vm.max_cpus {
        Some(max) if max < vm.cpus => Err(Error::invalid(format!(
            "max_cpus is {max}, less than the {} CPUs it has",
            vm.cpus
        ))),
        Some(max) => Ok(format!("cpus={},maxcpus={max}", vm.cpus)),
        None => Ok(vm.cpus.to_string()),
    }
}

/// Disks have a queue for each CPU that the VM may come to have: by itself QEMU counts those at
/// the start, and after CPUs were added saved RAM would fit no later start.
fn queues(vm: &Definition, args: &mut Args) {
    let Some(max) = vm.max_cpus else { return };
    let n = max.min(MOST_QUEUES);
    for (driver, property) in [
        ("virtio-blk-device", "num-queues"),
        ("virtio-scsi-device", "num_queues"),
    ] {
        args.two(
            "-global",
            &format!("driver={driver},property={property},value={n}"),
        );
    }
}

fn memory(vm: &Definition, args: &mut Args) -> Result<()> {
    let (base, dimms) = vm.base_memory();
    let mut text = format!("size={}K", base.0 >> 10);
    if let Some(max) = vm.max_memory {
        if max < vm.memory {
            return Err(Error::invalid(format!(
                "max_memory is {max}, less than the {} it has",
                vm.memory
            )));
        }
        // Slots without room for a module are an error to QEMU.
        if max > base {
            text.push_str(&format!(",slots={DIMMS},maxmem={}K", max.0 >> 10));
        }
    }
    args.two("-m", &text);
    if dimms.len() > DIMMS {
        return Err(Error::invalid(format!(
            "more memory modules than there are slots ({DIMMS})"
        )));
    }
    for (n, dimm) in dimms.iter().enumerate() {
        args.two(
            "-object",
            &format!("memory-backend-ram,id=mem{n},size={}", dimm.0),
        );
        args.device(&format!("pc-dimm,id=dimm{n},memdev=mem{n}"));
    }
    Ok(())
}

/// QEMU's device for a model of network interface; `None` for one that corral does not offer.
pub fn nic_device(model: &str) -> Option<&'static str> {
    match model {
        "virtio" => Some("virtio-net-pci"),
        "e1000e" => Some("e1000e"),
        "e1000" => Some("e1000"),
        _ => None,
    }
}

/// The network behind a NIC on QEMU's own, where it is not the usual one. Each card has one to itself: with two in
/// the same, a guest answers on the other card, and its published ports stay mute. By name, so that it is the
/// same for a card that was plugged in and after the next start; cards with names of their own come by place.
pub fn user_net(name: &str, at: usize) -> Option<String> {
    let number = name
        .strip_prefix("net")
        .and_then(|text| text.parse::<u8>().ok())
        .filter(|n| format!("net{n}") == name);
    match number {
        Some(0) => None,
        Some(n @ 1..=253) => Some(format!("10.0.{}.0/24", n + 2)),
        _ => Some(format!("10.1.{}.0/24", at % 256)),
    }
}

fn network(nic: &NicDef, at: usize, slot: Slot, args: &mut Args) -> Result<()> {
    let name = comma(&nic.name);
    let mut netdev = match nic.network.split_once(':') {
        None if nic.network == "user" => format!("user,id={name}"),
        Some(("bridge", bridge)) => format!("bridge,id={name},br={}", comma(bridge)),
        _ => {
            return Err(Error::invalid(format!(
                "{}: network \"{}\" is neither user nor bridge:NAME",
                shown(&nic.name),
                shown(&nic.network)
            )));
        }
    };
    let model = nic_device(&nic.model).ok_or_else(|| {
        Error::invalid(format!(
            "{}: model \"{}\" is none of virtio, e1000e, e1000",
            shown(&nic.name),
            shown(&nic.model)
        ))
    })?;
    if nic.network == "user" {
        if let Some(net) = user_net(&nic.name, at) {
            netdev.push_str(&format!(",net={net}"));
        }
        for forward in &nic.forwards {
            netdev.push_str(&format!(",hostfwd={}", comma(&forward.rule())));
        }
    }
    args.two("-netdev", &netdev);
    args.device(&format!(
        "{model},netdev={name},id={name}-dev,mac={},{}",
        comma(&nic.mac),
        place(slot)
    ));
    Ok(())
}

/// Where a NIC is plugged in.
fn place(slot: Slot) -> String {
    match slot {
        Slot::Spare(n) => format!("bus=spare{n},addr=0x0"),
        Slot::Board(n) | Slot::Scsi(n) | Slot::Sata(n) => {
            format!("bus=pcie.0,addr={:#x}", FIRST_NIC.saturating_add(n))
        }
    }
}

fn sockets(paths: &Paths, args: &mut Args) {
    let listen =
        |id: &str, path: &Path| format!("socket,id={id},path={},server=on,wait=off", file(path));
    args.two("-chardev", &listen("qmp0", &paths.qmp));
    args.two("-mon", "chardev=qmp0,mode=control");
    args.two("-chardev", &listen("qmp1", &paths.events));
    args.two("-mon", "chardev=qmp1,mode=control");
    args.two("-chardev", &listen("ga0", &paths.agent));
    args.device("virtserialport,bus=vser0.0,chardev=ga0,name=org.qemu.guest_agent.0,id=ga0-dev");
    let serial = listen("serial0", &paths.serial);
    let log = file(&paths.serial_log);
    args.two("-chardev", &format!("{serial},logfile={log},logappend=on"));
    args.two("-serial", "chardev:serial0");
    args.two("-display", "none");
    args.two("-vnc", &format!("unix:{}", file(&paths.vnc)));
}

#[cfg(test)]
mod tests {
    use crate::model::Bytes;

    use super::super::ctx::tests::context;
    use super::super::definition::tests::sample;
    use super::*;

    fn line(change: impl Fn(&mut Definition)) -> Result<String> {
        line_with(&Accel::tcg("test"), change)
    }

    fn line_with(accel: &Accel, change: impl Fn(&mut Definition)) -> Result<String> {
        let mut vm = sample("a,b", Path::new("/d/a,b"));
        change(&mut vm);
        let paths = context(Path::new("/s")).paths(&vm.uuid)?;
        build(&vm, &paths, accel).map(|args| args.join(" "))
    }

    #[test]
    fn names_and_paths_with_commas_stay_one_value() {
        let text = line(|_| ()).unwrap();
        assert!(text.contains("guest=a,,b"), "{text}");
        assert!(
            text.contains("\"filename\":\"/d/a,b/disk0.qcow2\""),
            "{text}"
        );
        assert!(text.contains("pc-q35-7.2,accel=tcg -cpu qemu64"), "{text}");
        assert!(!text.contains("smm"));
    }

    #[test]
    fn room_for_more_is_given_only_where_it_is_wanted() {
        let plain = line(|_| ()).unwrap();
        assert!(plain.contains("-smp 1 -m size=262144K -"), "{plain}");
        assert!(!plain.contains("num-queues"));
        let text = line(|vm| {
            vm.max_cpus = Some(4);
            vm.max_memory = Some(Bytes::gib(1));
            vm.memory = Bytes::mib(512);
            vm.dimms = vec![Bytes::mib(128)];
        })
        .unwrap();
        for word in [
            "-smp cpus=1,maxcpus=4",
            "num-queues,value=4",
            "-m size=393216K,slots=8,maxmem=1048576K",
            "memory-backend-ram,id=mem0,size=134217728 -device pc-dimm,id=dimm0,memdev=mem0",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        let odd = |vm: &mut Definition| vm.max_memory = Some(Bytes::mib(128));
        assert!(line(odd).unwrap_err().message.contains("max_memory"));
        assert!(line(|vm| vm.max_cpus = Some(0)).is_err());
    }

    #[test]
    fn forwards_listen_where_the_definition_says() {
        let text = line(|vm| {
            vm.nics[0].forwards.push(super::super::definition::Forward {
                host: "127.0.0.1".into(),
                port: 2201,
                guest: 22,
                protocol: super::super::definition::Protocol::Tcp,
                picked: false,
            });
        })
        .unwrap();
        assert!(text.contains("hostfwd=tcp:127.0.0.1:2201-:22"), "{text}");
    }

    #[test]
    fn each_card_on_the_user_network_has_a_network_to_itself() {
        let text = line(|vm| {
            for name in ["net1", "lan", "net01"] {
                let mut nic = vm.nics[0].clone();
                nic.name = name.into();
                vm.nics.push(nic);
            }
        })
        .unwrap();
        for word in [
            "user,id=net0 ",
            "user,id=net1,net=10.0.3.0/24 ",
            "user,id=lan,net=10.1.2.0/24 ",
            "user,id=net01,net=10.1.3.0/24 ",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        // What a running QEMU gets is what the next start gives it.
        let mut nic = super::super::definition::tests::sample("web", std::path::Path::new("/d"))
            .nics
            .remove(0);
        nic.name = "net1".into();
        let live = super::super::nics::plug::netdev_args(&nic);
        assert_eq!(live["net"], "10.0.3.0/24");
    }

    #[test]
    fn windows_gets_its_clock_a_pointer_and_hints() {
        let windows = |vm: &mut Definition| {
            vm.os = Some("windows".into());
            vm.cpu_model = "host".into();
        };
        let mut kvm = Accel::tcg("test");
        kvm.kvm = true;
        kvm.hints = Some("hv_relaxed,hv_time".into());
        let text = line_with(&kvm, windows).unwrap();
        for word in [
            "accel=kvm -cpu host,hv_relaxed,hv_time -smp",
            "-rtc base=localtime",
            "usb-tablet",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(line(windows).unwrap().contains("-cpu qemu64 -smp"));
        assert!(line(|_| ()).unwrap().contains("-rtc base=utc"));
    }

    #[test]
    fn secure_boot_keeps_the_variables_from_the_guest() {
        let text = line(|vm| {
            vm.firmware = crate::backend::qemu::definition::FirmwareDef {
                kind: FirmwareKind::Uefi,
                code: Some("/fw/secboot.fd".into()),
                code_format: None,
                vars: Some("/d/v.qcow2".into()),
                secure_boot: true,
            };
        })
        .unwrap();
        for word in [
            "pflash0=eficode,pflash1=efivars,smm=on",
            "driver=cfi.pflash01,property=secure,value=on",
            "\"filename\":\"/fw/secboot.fd\"",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }

    #[test]
    fn what_the_board_cannot_take_is_named() {
        for (change, word) in [
            (
                (|vm| vm.disks[0].bus = "mfm".into()) as fn(&mut Definition),
                "mfm",
            ),
            (|vm| vm.disks[0].format = "vmdk".into(), "vmdk"),
            (|vm| vm.nics[0].model = "ne2k\u{1b}".into(), "ne2k\\x1b"),
            (|vm| vm.nics[0].network = "br0".into(), "br0"),
            (|vm| vm.disks = vec![vm.disks[0].clone(); 15], "14"),
        ] {
            let error = line(change).unwrap_err();
            assert!(error.message.contains(word), "{error}");
        }
    }
}
