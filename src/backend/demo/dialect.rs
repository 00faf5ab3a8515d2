//! The kinds that are impersonated, and what is particular to each.

use crate::model::{Family, InstanceKind, Kind, NativeFormat, Snapshot, State};

/// A kind that is impersonated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Qemu,
    Libvirt,
    Incus,
    Kubevirt,
    Proxmox,
    Virtualbox,
    Vsphere,
    Xen,
    Nutanix,
    Peer,
}

impl Dialect {
    /// Each of them, in the matrix's order.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 10] = [
        Self::Qemu,
        Self::Libvirt,
        Self::Incus,
        Self::Kubevirt,
        Self::Proxmox,
        Self::Virtualbox,
        Self::Vsphere,
        Self::Xen,
        Self::Nutanix,
        Self::Peer,
    ];

    /// The kind's word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Qemu => "qemu",
            Self::Libvirt => "libvirt",
            Self::Incus => "incus",
            Self::Kubevirt => "kubevirt",
            Self::Proxmox => "proxmox",
            Self::Virtualbox => "virtualbox",
            Self::Vsphere => "vsphere",
            Self::Xen => "xen",
            Self::Nutanix => "nutanix",
            Self::Peer => "peer",
        }
    }

    pub(crate) const fn kind(self) -> Kind {
        Kind::new(self.word())
    }

    /// What the server calls itself.
    pub(crate) const fn version(self) -> &'static str {
        match self {
            Self::Qemu => "QEMU 10.0.2",
            Self::Libvirt => "libvirt 11.3.0",
            Self::Incus => "Incus 6.14",
            Self::Kubevirt => "KubeVirt v1.5.2",
            Self::Proxmox => "Proxmox VE 9.0.3",
            Self::Virtualbox => "VirtualBox 7.1.10",
            Self::Vsphere => "vCenter 8.0.3",
            Self::Xen => "XCP-ng 8.3",
            Self::Nutanix => "Prism Central pc.2024.3",
            Self::Peer => "corral 0.1.0",
        }
    }

    /// Tells of changes by itself; the others are polled.
    pub(crate) const fn is_event_driven(self) -> bool {
        !matches!(self, Self::Proxmox | Self::Virtualbox | Self::Nutanix)
    }

    /// A change goes on at its server when corral leaves.
    pub(crate) const fn is_server_side(self) -> bool {
        !matches!(self, Self::Qemu | Self::Virtualbox)
    }

    /// The list itself carries the incarnation; else only the detail does.
    pub(crate) const fn lists_uid(self) -> bool {
        !matches!(self, Self::Proxmox)
    }

    /// Addresses of guests come with the list.
    pub(crate) const fn lists_addresses(self) -> bool {
        !matches!(self, Self::Proxmox | Self::Libvirt)
    }

    /// Where the backend publishes guest ports on an address of its host.
    pub(crate) const fn publishes(self) -> bool {
        self.has(Family::Publish)
    }

    /// First half of the MAC addresses it gives out.
    pub(crate) const fn mac_prefix(self) -> &'static str {
        match self {
            Self::Incus => "10:66:6a",
            Self::Proxmox => "bc:24:11",
            Self::Virtualbox => "08:00:27",
            Self::Vsphere => "00:50:56",
            Self::Nutanix => "50:6b:8d",
            Self::Kubevirt => "02:00:00",
            Self::Xen => "ba:7e:1f",
            Self::Qemu | Self::Libvirt | Self::Peer => "52:54:00",
        }
    }

    /// The backend's own word for a state.
    pub(crate) const fn native_state(self, state: State) -> &'static str {
        match (self, state) {
            (Self::Qemu, State::Running) => "running",
            (Self::Qemu, State::Paused) => "paused",
            (Self::Qemu, _) => "shutdown",
            (Self::Libvirt, State::Stopped) => "shut off",
            (Self::Libvirt, State::Stopping) => "in shutdown",
            (Self::Incus | Self::Kubevirt | Self::Xen, State::Running) => "Running",
            (Self::Incus | Self::Kubevirt, State::Stopped) => "Stopped",
            (Self::Incus, State::Paused) => "Frozen",
            (Self::Kubevirt | Self::Xen, State::Paused) => "Paused",
            (Self::Kubevirt, State::Provisioning) => "Provisioning",
            (Self::Kubevirt, State::Crashed) => "CrashLoopBackOff",
            (Self::Incus, State::Crashed | State::Broken) => "Error",
            (Self::Virtualbox, State::Stopped) => "poweroff",
            (Self::Virtualbox, State::Hibernated) => "saved",
            (Self::Virtualbox, State::Crashed) => "aborted",
            (Self::Virtualbox, State::Broken) => "<inaccessible>",
            (Self::Vsphere, State::Running) => "poweredOn",
            (Self::Vsphere, State::Paused | State::Hibernated) => "suspended",
            (Self::Vsphere, _) => "poweredOff",
            (Self::Xen, State::Stopped) => "Halted",
            (Self::Xen, State::Hibernated) => "Suspended",
            (Self::Nutanix, State::Running) => "ON",
            (Self::Nutanix, State::Stopped) => "OFF",
            (_, state) => match state {
                State::Running => "running",
                State::Stopped => "stopped",
                State::Paused => "paused",
                State::Hibernated => "hibernated",
                State::Starting => "starting",
                State::Stopping => "stopping",
                State::Migrating => "migrating",
                State::Provisioning => "provisioning",
                State::Crashed => "crashed",
                State::Broken => "broken",
                State::Unknown => "unknown",
            },
        }
    }

    /// The form of its definitions.
    pub(crate) const fn native_format(self) -> NativeFormat {
        match self {
            Self::Qemu => NativeFormat::Toml,
            Self::Libvirt => NativeFormat::Xml,
            Self::Incus | Self::Kubevirt => NativeFormat::Yaml,
            Self::Proxmox | Self::Virtualbox | Self::Xen => NativeFormat::Text,
            Self::Vsphere | Self::Nutanix | Self::Peer => NativeFormat::Json,
        }
    }

    /// Slot, bus, format and source of the first disk of `key`.
    pub(crate) fn disk(
        self,
        kind: InstanceKind,
        key: &str,
        n: usize,
    ) -> (String, &'static str, &'static str, String) {
        let container = kind == InstanceKind::Ct;
        match self {
            Self::Qemu => (
                format!("disk{n}"),
                "virtio",
                "qcow2",
                format!("~/.local/share/corral/vms/{key}/disk{n}.qcow2"),
            ),
            Self::Libvirt => (
                format!("vd{}", letter(n)),
                "virtio",
                "qcow2",
                format!("/var/lib/libvirt/images/{key}-{n}.qcow2"),
            ),
            Self::Incus if n == 0 => ("root".into(), "virtio", "raw", format!("default/{key}")),
            Self::Incus => (
                format!("data{n}"),
                "virtio",
                "raw",
                format!("default/custom/{key}-data{n}"),
            ),
            Self::Kubevirt => (
                format!("disk{n}"),
                "virtio",
                "raw",
                format!("pvc/{key}-disk{n}"),
            ),
            Self::Proxmox if container => (
                if n == 0 {
                    "rootfs".into()
                } else {
                    format!("mp{n}")
                },
                "mount",
                "raw",
                format!("local-lvm:vm-{key}-disk-{n}"),
            ),
            Self::Proxmox => (
                format!("scsi{n}"),
                "scsi",
                "raw",
                format!("local-lvm:vm-{key}-disk-{n}"),
            ),
            Self::Virtualbox => (
                format!("SATA-{n}"),
                "sata",
                "vdi",
                format!("~/VirtualBox VMs/{key}/disk{n}.vdi"),
            ),
            Self::Vsphere => (
                format!("Hard disk {}", n + 1),
                "scsi",
                "vmdk",
                format!("[datastore1] {key}/{key}_{n}.vmdk"),
            ),
            Self::Xen => (
                format!("xvd{}", letter(n)),
                "xen",
                "vhd",
                format!("sr-ssd/{key}-{n}"),
            ),
            Self::Nutanix => (
                format!("scsi.{n}"),
                "scsi",
                "raw",
                format!("default-container/{key}-{n}"),
            ),
            Self::Peer => (
                format!("disk{n}"),
                "virtio",
                "qcow2",
                format!("site2:{key}/disk{n}"),
            ),
        }
    }

    /// Slot, network and model of the first NIC.
    pub(crate) fn nic(self, kind: InstanceKind) -> (&'static str, &'static str, &'static str) {
        if kind == InstanceKind::Ct {
            return ("eth0", "br0", "veth");
        }
        match self {
            Self::Qemu => ("net0", "user", "virtio"),
            Self::Libvirt => ("vnet0", "default", "virtio"),
            Self::Incus => ("eth0", "incusbr0", "virtio"),
            Self::Kubevirt => ("default", "pod", "virtio"),
            Self::Proxmox => ("net0", "vmbr0", "virtio"),
            Self::Virtualbox => ("nic1", "nat", "82540EM"),
            Self::Vsphere => ("Network adapter 1", "VM Network", "vmxnet3"),
            Self::Xen => ("0", "Pool-wide network 0", "netfront"),
            Self::Nutanix => ("nic0", "vlan10", "virtio"),
            Self::Peer => ("eth0", "lan", "virtio"),
        }
    }

    /// Slot and bus of the drive for media.
    pub(crate) const fn drive(self) -> (&'static str, &'static str) {
        match self {
            Self::Qemu | Self::Peer | Self::Kubevirt => ("cdrom0", "sata"),
            Self::Libvirt => ("sda", "sata"),
            Self::Incus => ("iso", "scsi"),
            Self::Proxmox => ("ide2", "ide"),
            Self::Virtualbox => ("IDE-1", "ide"),
            Self::Vsphere => ("CD/DVD drive 1", "sata"),
            Self::Xen => ("xvdd", "xen"),
            Self::Nutanix => ("ide.0", "ide"),
        }
    }

    /// Slot, network and model of NIC number `n`.
    pub(crate) fn nic_at(self, kind: InstanceKind, n: usize) -> (String, String, String) {
        let (first, network, model) = self.nic(kind);
        let slot = match (self, kind) {
            (Self::Kubevirt, _) if n > 0 => format!("net{n}"),
            (Self::Virtualbox | Self::Vsphere, InstanceKind::Vm) => {
                format!("{}{}", first.trim_end_matches('1'), n + 1)
            }
            (_, _) if n == 0 => first.to_owned(),
            (_, _) => format!("{}{n}", first.trim_end_matches('0')),
        };
        (slot, network.to_owned(), model.to_owned())
    }

    /// Why `name` cannot be the name of an instance.
    pub(crate) fn bad_name(self, name: &str) -> Option<String> {
        let length = name.chars().count();
        if name.trim().is_empty() {
            return Some("a name cannot be empty".into());
        }
        let (most, what, allowed): (usize, &str, fn(char) -> bool) = match self {
            Self::Kubevirt => (63, "a-z, 0-9 and -", |c| {
                c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
            }),
            Self::Incus | Self::Proxmox => (63, "letters, digits and -", |c| {
                c.is_ascii_alphanumeric() || c == '-'
            }),
            Self::Libvirt => (255, "anything but / and control characters", |c| {
                c != '/' && !c.is_control()
            }),
            _ => (255, "anything but control characters", |c| !c.is_control()),
        };
        let edges = matches!(self, Self::Kubevirt | Self::Incus | Self::Proxmox)
            && (name.starts_with('-') || name.ends_with('-'));
        if length > most {
            Some(format!(
                "a name has at most {most} characters here, this one {length}"
            ))
        } else if edges || !name.chars().all(allowed) {
            Some(format!("a name is made of {what} here"))
        } else {
            None
        }
    }

    /// Why `name` cannot be the name of a snapshot.
    pub(crate) fn bad_snapshot_name(self, name: &str) -> Option<String> {
        match self {
            Self::Proxmox => {
                let fine = name.starts_with(|c: char| c.is_ascii_alphabetic())
                    && name.len() <= 40
                    && name
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
                (!fine).then(|| {
                    "a snapshot's name is a letter and up to 39 letters, digits, _ and - here"
                        .into()
                })
            }
            Self::Kubevirt => self.bad_name(name),
            _ if name.trim().is_empty() => Some("a snapshot's name cannot be empty".into()),
            Self::Incus if name.contains('/') => {
                Some("a snapshot's name cannot hold / here".into())
            }
            _ if name.chars().any(char::is_control) => {
                Some("a snapshot's name cannot hold control characters".into())
            }
            _ => None,
        }
    }

    /// Whether newer snapshots block going back to `target`.
    pub(crate) fn needs_newest(self, kind: InstanceKind) -> bool {
        // ZFS-backed containers roll back to their newest snapshot only.
        self == Self::Proxmox && kind == InstanceKind::Ct
    }

    /// How a child follows its deleted parent: up to the grandparent, on every kind.
    pub(crate) fn reparent(snapshots: &mut [Snapshot], gone: &str, parent: Option<&str>) {
        for snapshot in snapshots {
            if snapshot.parent.as_deref() == Some(gone) {
                snapshot.parent = parent.map(str::to_owned);
            }
        }
    }
}

fn letter(n: usize) -> char {
    char::from(b'a' + u8::try_from(n % 26).unwrap_or(0))
}
