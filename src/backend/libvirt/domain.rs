//! A domain as its definition says: read leniently, since what is odd in one place is no reason not to see the rest.

use roxmltree::Node;

use super::wire::NAMESPACE;
use super::xml::{at, attr_at, child, children, parse, size, text, text_at};
use crate::model::{Bytes, Result};

/// The name of the agent's channel.
pub const AGENT: &str = "org.qemu.guest_agent.0";

/// What corral reads of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// `qemu`, `kvm`, `test` …
    pub virt: Option<String>,
    /// Name.
    pub name: String,
    /// UUID.
    pub uuid: String,
    /// The user's note.
    pub note: Option<String>,
    /// Most memory it can have.
    pub memory: Option<Bytes>,
    /// Memory it has.
    pub current_memory: Option<Bytes>,
    /// Most virtual CPUs it can have.
    pub max_cpus: Option<u32>,
    /// Virtual CPUs it has.
    pub cpus: Option<u32>,
    /// Architecture and machine type.
    pub arch: Option<String>,
    /// Machine type.
    pub machine: Option<String>,
    /// Has UEFI.
    pub uefi: bool,
    /// UEFI with Secure Boot.
    pub secure_boot: bool,
    /// File with the variables of its UEFI.
    pub nvram: Option<String>,
    /// Has a TPM.
    pub tpm: bool,
    /// The guest's system, as libosinfo names it.
    pub os: Option<String>,
    /// CPU mode or model.
    pub cpu: Option<String>,
    /// Disks and drives.
    pub disks: Vec<DiskDef>,
    /// Network interfaces.
    pub nics: Vec<NicDef>,
    /// `true`: the agent has its channel open; `None`: there is no channel.
    pub agent: Option<bool>,
    /// A serial console is there.
    pub serial: bool,
    /// Graphics: `vnc`, `spice`.
    pub graphics: Vec<String>,
    /// Devices of the host it uses: such a one does not move.
    pub hostdevs: usize,
    /// File systems of the host it uses.
    pub filesystems: usize,
    /// Marks of corral's own.
    pub marks: Marks,
}

/// What corral writes into `<metadata>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Tags.
    pub tags: Vec<String>,
    /// A master that refuses start.
    pub template: bool,
}

/// A disk or a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskDef {
    /// `disk`, `cdrom`, `floppy`, `lun`.
    pub device: String,
    /// Its place in the guest: `vda`.
    pub target: String,
    /// `virtio`, `scsi`, `sata` …
    pub bus: Option<String>,
    /// `file`, `block`, `volume`, `network` …
    pub kind: String,
    /// `qcow2`, `raw`.
    pub format: Option<String>,
    /// Path, or pool and volume.
    pub source: Option<Source>,
    /// The guest cannot write.
    pub readonly: bool,
    /// Several may use it.
    pub shareable: bool,
    /// The file it is on top of, where the definition says.
    pub backing: Option<String>,
    /// `cache=` of its driver.
    pub cache: Option<String>,
}

/// Where a disk's data are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A path of the host.
    Path(String),
    /// A volume of a pool.
    Volume(String, String),
    /// Somewhere else, as it is told.
    Other(String),
}

impl Source {
    /// As people read it.
    pub fn shown(&self) -> String {
        match self {
            Self::Path(path) | Self::Other(path) => path.clone(),
            Self::Volume(pool, volume) => format!("{pool}/{volume}"),
        }
    }
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicDef {
    /// `network`, `bridge`, `user`, `direct` …
    pub kind: String,
    /// MAC, lower case.
    pub mac: Option<String>,
    /// What it is connected to.
    pub source: Option<String>,
    /// `virtio`, `e1000e` …
    pub model: Option<String>,
    /// Its end at the host, while it runs.
    pub target: Option<String>,
}

impl DiskDef {
    /// Takes media.
    pub fn is_drive(&self) -> bool {
        matches!(self.device.as_str(), "cdrom" | "floppy")
    }

    /// Its path, where it has one.
    pub fn path(&self) -> Option<&str> {
        match &self.source {
            Some(Source::Path(path)) => Some(path),
            _ => None,
        }
    }
}

impl Domain {
    /// Reads a definition.
    ///
    /// # Errors
    /// `Backend` for what is no XML, or no domain.
    pub fn read(xml: &str) -> Result<Self> {
        let document = parse(xml)?;
        let root = document.root_element();
        if root.tag_name().name() != "domain" {
            return Err(crate::model::Error::backend("the XML is of no domain"));
        }
        let vcpu = child(root, "vcpu");
        let max_cpus: Option<u32> = vcpu.and_then(text).and_then(|text| text.parse().ok());
        let current = vcpu.and_then(|node| node.attribute("current")?.parse().ok());
        let memory = child(root, "memory").and_then(size).map(Bytes);
        let loader = at(root, &["os", "loader"]);
        let uefi = attr_at(root, &["os"], "firmware").as_deref() == Some("efi")
            || loader.is_some_and(|node| node.attribute("type") == Some("pflash"))
            || at(root, &["os", "nvram"]).is_some();
        let devices = child(root, "devices");
        let in_devices = |name: &'static str| {
            devices
                .into_iter()
                .flat_map(move |devices| children(devices, name).collect::<Vec<_>>())
        };
        let cpu = child(root, "cpu");
        Ok(Self {
            virt: root.attribute("type").map(str::to_owned),
            name: text_at(root, &["name"]).unwrap_or_default(),
            uuid: text_at(root, &["uuid"]).unwrap_or_default(),
            note: text_at(root, &["description"]),
            memory,
            current_memory: child(root, "currentMemory")
                .and_then(size)
                .map(Bytes)
                .or(memory),
            max_cpus,
            cpus: current.or(max_cpus),
            arch: attr_at(root, &["os", "type"], "arch"),
            machine: attr_at(root, &["os", "type"], "machine"),
            uefi,
            secure_boot: loader.is_some_and(|node| node.attribute("secure") == Some("yes")),
            nvram: text_at(root, &["os", "nvram"]),
            tpm: in_devices("tpm").next().is_some(),
            os: os_of(root),
            cpu: cpu.and_then(|node| {
                text_at(node, &["model"]).or_else(|| node.attribute("mode").map(str::to_owned))
            }),
            disks: in_devices("disk").map(disk).collect(),
            nics: in_devices("interface").map(nic).collect(),
            agent: in_devices("channel").find_map(|channel| {
                let target = child(channel, "target")?;
                (target.attribute("name") == Some(AGENT))
                    .then(|| target.attribute("state") == Some("connected"))
            }),
            serial: in_devices("serial").next().is_some() || in_devices("console").next().is_some(),
            graphics: in_devices("graphics")
                .filter_map(|node| node.attribute("type").map(str::to_owned))
                .collect(),
            hostdevs: in_devices("hostdev").count(),
            filesystems: in_devices("filesystem").count(),
            marks: Marks::read(root),
        })
    }

    /// The disk or drive at a place in the guest.
    pub fn disk(&self, target: &str) -> Option<&DiskDef> {
        self.disks.iter().find(|disk| disk.target == target)
    }
}

fn os_of(root: Node<'_, '_>) -> Option<String> {
    let metadata = child(root, "metadata")?;
    let id = metadata
        .descendants()
        .find(|node| node.is_element() && node.tag_name().name() == "os")?
        .attribute("id")?;
    // `http://debian.org/debian/12`: the last two parts say it.
    let mut parts: Vec<&str> = id.trim_end_matches('/').rsplit('/').take(2).collect();
    parts.reverse();
    Some(parts.join(" "))
}

fn disk(node: Node<'_, '_>) -> DiskDef {
    let target = child(node, "target");
    let attr = |node: Option<Node<'_, '_>>, name: &str| {
        node.and_then(|node| node.attribute(name))
            .map(str::to_owned)
    };
    let source = child(node, "source");
    let kind = node.attribute("type").unwrap_or("file").to_owned();
    let path = |node: Option<Node<'_, '_>>| {
        attr(node, "file")
            .or_else(|| attr(node, "dev"))
            .or_else(|| attr(node, "dir"))
    };
    let told = match (path(source), attr(source, "pool"), attr(source, "volume")) {
        (Some(path), _, _) => Some(Source::Path(path)),
        (None, Some(pool), Some(volume)) => Some(Source::Volume(pool, volume)),
        _ => attr(source, "name").map(|name| {
            let protocol = attr(source, "protocol").unwrap_or_else(|| kind.clone());
            Source::Other(format!("{protocol}:{name}"))
        }),
    };
    let driver = child(node, "driver");
    let device = node.attribute("device").unwrap_or("disk").to_owned();
    DiskDef {
        target: attr(target, "dev").unwrap_or_default(),
        bus: attr(target, "bus"),
        format: attr(driver, "type"),
        cache: attr(driver, "cache"),
        source: told,
        readonly: child(node, "readonly").is_some() || device == "cdrom",
        shareable: child(node, "shareable").is_some(),
        backing: child(node, "backingStore").and_then(|node| path(child(node, "source"))),
        device,
        kind,
    }
}

fn nic(node: Node<'_, '_>) -> NicDef {
    let attr = |name: &str, key: &str| attr_at(node, &[name], key);
    let kind = node.attribute("type").unwrap_or("user").to_owned();
    NicDef {
        mac: attr("mac", "address").map(|mac| mac.to_lowercase()),
        source: attr("source", "network")
            .or_else(|| attr("source", "bridge"))
            .or_else(|| attr("source", "dev"))
            .or_else(|| (kind == "user").then(|| "user".to_owned())),
        model: attr("model", "type"),
        target: attr("target", "dev"),
        kind,
    }
}

impl Marks {
    /// Of a definition.
    fn read(root: Node<'_, '_>) -> Self {
        let own = child(root, "metadata").and_then(|metadata| {
            metadata
                .children()
                .find(|node| node.is_element() && node.tag_name().namespace() == Some(NAMESPACE))
        });
        let Some(own) = own else {
            return Self::default();
        };
        Self {
            tags: children(own, "tag").filter_map(text).collect(),
            template: child(own, "template").is_some(),
        }
    }

    /// As corral's own element; `None` where there is nothing to say.
    pub fn element(&self) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        let mut inside: String = self
            .tags
            .iter()
            .map(|tag| format!("<tag>{}</tag>", super::xml::escaped(tag)))
            .collect();
        if self.template {
            inside.push_str("<template/>");
        }
        Some(format!("<instance>{inside}</instance>"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_definition_is_read() {
        let live = include_str!("../../../tests/fixtures/libvirt/lab1-live.xml");
        let domain = Domain::read(live).unwrap();
        assert_eq!(domain.name, "lab1");
        assert_eq!((domain.cpus, domain.max_cpus), (Some(1), Some(4)));
        assert_eq!(domain.memory, Some(Bytes::mib(512)));
        assert_eq!(domain.current_memory, Some(Bytes::mib(256)));
        assert_eq!(domain.disk("vda").unwrap().format.as_deref(), Some("qcow2"));
        assert_eq!(domain.nics[0].source.as_deref(), Some("default"));
        assert_eq!(domain.agent, Some(true));
        assert!(!domain.uefi && domain.serial && domain.graphics == ["vnc"]);
    }

    #[test]
    fn marks_come_back_as_they_were_written() {
        let marks = Marks {
            tags: vec!["a & b".to_owned(), "größe".to_owned()],
            template: true,
        };
        let element = marks.element().unwrap();
        let element = element
            .replace(
                "<instance>",
                "<corral:instance xmlns:corral='urn:corral:1'>",
            )
            .replace("</instance>", "</corral:instance>")
            .replace("<tag>", "<corral:tag>")
            .replace("</tag>", "</corral:tag>");
        let xml = format!("<domain><metadata><x/>{element}</metadata></domain>");
        assert_eq!(Domain::read(&xml).unwrap().marks, marks);
        assert_eq!(Marks::default().element(), None);
    }

    /// Every element of a real definition is dropped, doubled and emptied in turn, every attribute emptied and made
    /// odd: what can still be read is read.
    #[test]
    fn req_05_no_broken_part_hides_the_rest() {
        for text in [
            include_str!("../../../tests/fixtures/libvirt/lab1-live.xml"),
            include_str!("../../../tests/fixtures/libvirt/lab1-inactive.xml"),
        ] {
            let document = super::super::xml::parse(text).unwrap();
            let mut tried = 0;
            for node in document.descendants().filter(Node::is_element) {
                let range = node.range();
                let element = &text[range.clone()];
                let name = node.tag_name().name();
                let mut variants = vec![format!("<{name}/>"), format!("{element}{element}")];
                if node.parent().is_some_and(|parent| parent.is_element()) {
                    variants.push(String::new());
                    variants.push(format!("<{name}>{}</{name}>", "9".repeat(400)));
                }
                for attribute in node.attributes() {
                    let at = attribute.range();
                    for odd in ["", "-1", "99999999999999999999999", "\u{202e}x"] {
                        let new = format!("{}='{odd}'", attribute.name());
                        let mut whole = text.to_owned();
                        whole.replace_range(at.clone(), &new);
                        assert!(Domain::read(&whole).is_ok(), "{name} {new}");
                        tried += 1;
                    }
                }
                for variant in variants {
                    let mut whole = text.to_owned();
                    whole.replace_range(range.clone(), &variant);
                    let read = Domain::read(&whole);
                    let well_formed = super::super::xml::parse(&whole).is_ok();
                    assert_eq!(read.is_ok(), well_formed, "{name}: {variant}");
                    tried += 1;
                }
            }
            assert!(tried > 400, "{tried}");
        }
    }
}
