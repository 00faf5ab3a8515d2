//! Pools and networks of each impersonated kind.

use crate::backend::demo::dialect::Dialect;

/// Where disks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    /// What the sources of its disks begin with.
    pub(crate) prefix: &'static str,
    /// Size in all.
    pub(crate) gib: u64,
}

impl Pool {
    /// A disk with this source is in it.
    pub(crate) fn holds(&self, source: &str) -> bool {
        source.starts_with(self.prefix)
    }
}

const fn pool(name: &'static str, kind: &'static str, prefix: &'static str, gib: u64) -> Pool {
    Pool {
        name,
        kind,
        prefix,
        gib,
    }
}

/// The pools, the default one first.
pub(crate) const fn pools(dialect: Dialect) -> &'static [Pool] {
    match dialect {
        Dialect::Qemu => {
            const {
                &[
                    pool("vms", "folder", "~/.local/share/corral/vms/", 512),
                    pool("images", "folder", "~/.local/share/corral/images/", 512),
                    pool("big", "folder", "/srv/big/", 4096),
                ]
            }
        }
        Dialect::Libvirt => {
            const {
                &[
                    pool("default", "dir", "/var/lib/libvirt/images/", 200),
                    pool("fast", "logical", "/dev/vg0/", 1024),
                ]
            }
        }
        Dialect::Incus => {
            const {
                &[
                    pool("default", "zfs", "default/", 1024),
                    pool("ssd", "btrfs", "ssd/", 512),
                ]
            }
        }
        Dialect::Kubevirt => {
            const {
                &[
                    pool("rook-ceph-block", "rbd.csi.ceph.com", "pvc/", 8192),
                    pool("local-path", "rancher.io/local-path", "local/", 512),
                ]
            }
        }
        Dialect::Proxmox => {
            const {
                &[
                    pool("local-lvm", "lvmthin", "local-lvm:", 2048),
                    pool("ceph", "rbd", "ceph:", 8192),
                    pool("local", "dir", "local:", 256),
                ]
            }
        }
        Dialect::Virtualbox => {
            const {
                &[
                    pool("machines", "folder", "~/VirtualBox VMs/", 512),
                    pool("big", "folder", "/srv/vbox/", 4096),
                ]
            }
        }
        Dialect::Vsphere => {
            const {
                &[
                    pool("datastore1", "VMFS", "[datastore1] ", 8192),
                    pool("datastore2", "VMFS", "[datastore2] ", 8192),
                ]
            }
        }
        Dialect::Xen => {
            const {
                &[
                    pool("sr-ssd", "lvm", "sr-ssd/", 2048),
                    pool("sr-nfs", "nfs", "sr-nfs/", 4096),
                ]
            }
        }
        Dialect::Nutanix => {
            const {
                &[
                    pool(
                        "default-container",
                        "container",
                        "default-container/",
                        16384,
                    ),
                    pool("ssd-container", "container", "ssd-container/", 4096),
                ]
            }
        }
        Dialect::Peer => {
            const {
                &[
                    pool("site2", "folder", "site2:", 1024),
                    pool("site2-big", "folder", "site2-big:", 4096),
                ]
            }
        }
    }
}

/// Name, kind and addresses.
type Known = (&'static str, &'static str, &'static [&'static str]);

/// The networks, the default one first.
pub(super) const fn networks(dialect: Dialect) -> &'static [Known] {
    match dialect {
        Dialect::Qemu => &[
            ("user", "user", &["10.0.2.0/24"]),
            ("br0", "bridge", &["192.168.1.20/24"]),
        ],
        Dialect::Libvirt => &[
            ("default", "nat", &["192.168.122.1/24"]),
            ("br0", "bridge", &["10.20.0.2/24"]),
        ],
        Dialect::Incus => &[
            ("incusbr0", "bridge", &["10.31.7.1/24", "fd42:31::1/64"]),
            ("br0", "physical", &[]),
        ],
        Dialect::Kubevirt => &[
            ("pod", "masquerade", &[]),
            ("storage-net", "bridge", &["10.60.0.0/24"]),
        ],
        Dialect::Proxmox => &[
            ("vmbr0", "bridge", &["10.9.0.11/24"]),
            ("vmbr1", "bridge", &[]),
            ("br0", "bridge", &[]),
        ],
        Dialect::Virtualbox => &[("nat", "nat", &["10.0.2.0/24"]), ("eth0", "bridged", &[])],
        Dialect::Vsphere => &[("VM Network", "portgroup", &[]), ("DMZ", "portgroup", &[])],
        Dialect::Xen => &[
            ("Pool-wide network 0", "bridge", &[]),
            ("Storage", "bridge", &["10.70.0.0/24"]),
        ],
        Dialect::Nutanix => &[
            ("vlan10", "vlan", &["10.10.0.0/16"]),
            ("vlan20", "vlan", &[]),
        ],
        Dialect::Peer => &[("lan", "bridge", &["10.99.0.0/24"]), ("br0", "bridge", &[])],
    }
}

/// Who reaches guests on a network of this kind.
pub(super) fn reach(kind: &str) -> &'static str {
    match kind {
        "user" => "guests reach out; published ports alone lead in",
        "nat" | "masquerade" => "guests reach out; their host reaches them",
        _ => "guests are on the network of their host",
    }
}
