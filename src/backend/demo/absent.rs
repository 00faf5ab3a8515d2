//! What the impersonated kinds cannot do at all, with the native way where there is one.

use super::dialect::Dialect;
use crate::model::Family;

impl Dialect {
    /// The families that the kind has.
    pub(crate) const fn has(self, family: Family) -> bool {
        self.lacks(family).is_none()
    }

    /// Why a family is absent. What a peer lacks is for the other corral to say.
    pub(crate) const fn lacks(self, family: Family) -> Option<&'static str> {
        match family {
            Family::Pause => self.lacks_pause(),
            Family::Hibernate => self.lacks_hibernate(),
            Family::Rename => self.lacks_rename(),
            Family::Autostart => self.lacks_autostart(),
            Family::DiskMove => self.lacks_disk_move(),
            Family::Media => self.lacks_media(),
            Family::Publish => self.lacks_publish(),
            Family::EditNative => self.lacks_edit(),
            Family::Unlock => self.lacks_unlock(),
            Family::Logs => self.lacks_logs(),
            Family::Images => self.lacks_images(),
            Family::ImagePull => self.lacks_image_pull(),
            Family::Migrate => Some("the simulated fleet moves nothing between its hosts"),
            Family::Power
            | Family::Create
            | Family::Remove
            | Family::Clone
            | Family::Template
            | Family::Tags
            | Family::Notes
            | Family::Snapshots
            | Family::Resize
            | Family::Disks
            | Family::Nics
            | Family::Export
            | Family::Import
            | Family::Backup
            | Family::Files
            | Family::SendKey
            | Family::Screenshot
            | Family::Routes
            | Family::Metrics
            | Family::Events
            | Family::Hosts
            | Family::Storage
            | Family::Networks => None,
        }
    }

    const fn lacks_pause(self) -> Option<&'static str> {
        match self {
            Self::Nutanix => Some("AHV has no pause; corral stop is the nearest"),
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Kubevirt
            | Self::Proxmox
            | Self::Virtualbox
            | Self::Vsphere
            | Self::Xen
            | Self::Peer => None,
        }
    }

    const fn lacks_hibernate(self) -> Option<&'static str> {
        match self {
            Self::Kubevirt => Some("KubeVirt saves no memory to disk; corral stop is the nearest"),
            Self::Nutanix => Some("AHV saves no memory to disk; corral stop is the nearest"),
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Proxmox
            | Self::Virtualbox
            | Self::Vsphere
            | Self::Xen
            | Self::Peer => None,
        }
    }

    const fn lacks_rename(self) -> Option<&'static str> {
        match self {
            Self::Kubevirt => {
                Some("the name of a VirtualMachine is fixed; corral clone it instead")
            }
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Proxmox
            | Self::Virtualbox
            | Self::Vsphere
            | Self::Xen
            | Self::Nutanix
            | Self::Peer => None,
        }
    }

    const fn lacks_autostart(self) -> Option<&'static str> {
        match self {
            Self::Nutanix => Some("AHV starts what ran again with its host, and nothing else"),
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Kubevirt
            | Self::Proxmox
            | Self::Virtualbox
            | Self::Vsphere
            | Self::Xen
            | Self::Peer => None,
        }
    }

    const fn lacks_disk_move(self) -> Option<&'static str> {
        match self {
            Self::Kubevirt => {
                Some("a claim stays in its storage class; clone it with a DataVolume instead")
            }
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Proxmox
            | Self::Virtualbox
            | Self::Vsphere
            | Self::Xen
            | Self::Nutanix
            | Self::Peer => None,
        }
    }

    const fn lacks_media(self) -> Option<&'static str> {
        match self {
            Self::Kubevirt => Some("a CD-ROM is part of the VM's template: corral edit"),
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Proxmox
            | Self::Virtualbox
            | Self::Vsphere
            | Self::Xen
            | Self::Nutanix
            | Self::Peer => None,
        }
    }

    const fn lacks_publish(self) -> Option<&'static str> {
        match self {
            Self::Libvirt => Some("its guests are on the host's network; corral dial is a way in"),
            Self::Proxmox | Self::Vsphere | Self::Xen | Self::Nutanix => {
                Some("its guests are bridged; corral dial is a way in")
            }
            Self::Qemu | Self::Incus | Self::Kubevirt | Self::Virtualbox | Self::Peer => None,
        }
    }

    const fn lacks_edit(self) -> Option<&'static str> {
        match self {
            Self::Virtualbox => Some("the .vbox file is VirtualBox's own; VBoxManage modifyvm"),
            Self::Vsphere => Some("vSphere has no text of a VM; corral resize, disk and nic"),
            Self::Xen => Some("XAPI has records, no text; xe vm-param-set"),
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Kubevirt
            | Self::Proxmox
            | Self::Nutanix
            | Self::Peer => None,
        }
    }

    const fn lacks_unlock(self) -> Option<&'static str> {
        match self {
            Self::Libvirt => {
                Some("libvirt keeps no lock that outlives its holder; virsh domjobabort")
            }
            Self::Incus => Some("operations hold no lock that stays; incus operation delete"),
            Self::Kubevirt => Some("KubeVirt has no locks"),
            Self::Virtualbox => {
                Some("the lock is a session's; VBoxManage startvm --type emergencystop")
            }
            Self::Vsphere => Some("a running task holds it; cancel that in vCenter"),
            Self::Xen => Some("a running task holds it; xe task-cancel"),
            Self::Nutanix => Some("a running task holds it; cancel that in Prism"),
            Self::Qemu | Self::Proxmox | Self::Peer => None,
        }
    }

    const fn lacks_logs(self) -> Option<&'static str> {
        match self {
            Self::Xen => Some("XAPI gives no log of a guest; xl console on its host"),
            Self::Nutanix => Some("Prism keeps no log of a guest; corral events has its tasks"),
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Kubevirt
            | Self::Proxmox
            | Self::Virtualbox
            | Self::Vsphere
            | Self::Peer => None,
        }
    }

    const fn lacks_images(self) -> Option<&'static str> {
        match self {
            Self::Virtualbox => Some("VirtualBox keeps no images; corral import takes a file"),
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Kubevirt
            | Self::Proxmox
            | Self::Vsphere
            | Self::Xen
            | Self::Nutanix
            | Self::Peer => None,
        }
    }

    const fn lacks_image_pull(self) -> Option<&'static str> {
        match self {
            Self::Virtualbox => Some("VirtualBox keeps no images; corral import takes a file"),
            Self::Xen => Some("XAPI fetches nothing by itself; corral import takes a file"),
            Self::Qemu
            | Self::Libvirt
            | Self::Incus
            | Self::Kubevirt
            | Self::Proxmox
            | Self::Vsphere
            | Self::Nutanix
            | Self::Peer => None,
        }
    }
}
