//! Reads the OVF descriptor of one machine. Whoever wrote it is not believed: no DTD and so no
//! entities, bounds on everything, and file names without a folder.

use roxmltree::{Document, Node, ParsingOptions};

use super::folder::is_plain_name;
use crate::model::{Bytes, Error, FirmwareKind, Result, shown};

/// A machine has some hundred elements.
const NODES: u32 = 200_000;
/// Deeper ones are no descriptor.
const DEPTH: usize = 64;
/// No disk is larger.
const LARGEST: u64 = 1 << 56;

/// What a descriptor says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: Option<String>,
    /// Virtual CPUs.
    pub cpus: Option<u32>,
    /// Memory.
    pub memory: Option<Bytes>,
    /// Firmware, where it says.
    pub firmware: Option<FirmwareKind>,
    /// Secure Boot.
    pub secure_boot: bool,
    /// Guest family.
    pub os: Option<String>,
    /// Number of network interfaces.
    pub nics: usize,
    /// Disks in order.
    pub disks: Vec<DescribedDisk>,
    /// What it has besides: one phrase each.
    pub not_carried: Vec<String>,
}

/// A disk of a described machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedDisk {
    /// The file's name; `None` is an empty disk.
    pub file: Option<String>,
    /// Packed with gzip.
    pub gzip: bool,
    /// Size the guest sees, where it says.
    pub capacity: Option<Bytes>,
}

/// Reads a descriptor.
///
/// # Errors
/// `Invalid` naming what is wrong with it, `Unsupported` for several machines in one.
pub fn read(text: &str) -> Result<Described> {
    let bad = |why: String| {
        Error::invalid(format!("the descriptor (OVF) {why}")).remedy(
            "Get the package again, or import its disk alone: corral import DISK --name NAME",
        )
    };
    depth(text).map_err(&bad)?;
    let options = ParsingOptions {
        nodes_limit: NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options)
        .map_err(|e| bad(format!("cannot be read: {}", shown(&e.to_string()))))?;
    let root = document.root_element();
    if root.tag_name().name() != "Envelope" {
        return Err(bad("is none: its root is no Envelope".to_owned()));
    }
    let systems: Vec<Node<'_, '_>> = all(root, "VirtualSystem").collect();
    let system = match systems.as_slice() {
        [one] => *one,
        [] => return Err(bad("describes no machine".to_owned())),
        many => {
            return Err(Error::unsupported(format!(
                "the package holds {} machines; one at a time can be imported",
                many.len()
            ))
            .remedy(
                "Unpack it and import each disk: tar xf FILE; corral import DISK --name NAME",
            ));
        }
    };
    let mut found = Described {
        name: child(system, "Name").and_then(value),
        ..Described::default()
    };
    found.name = found
        .name
        .or_else(|| attribute(system, "id").map(str::to_owned));
    found.os = child(system, "OperatingSystemSection").and_then(guest);
    let section = all(system, "VirtualHardwareSection")
        .next()
        .ok_or_else(|| bad("describes no hardware".to_owned()))?;
    let mut drives = Vec::new();
    for item in section.children().filter(|node| {
        matches!(
            node.tag_name().name(),
            "Item" | "StorageItem" | "EthernetPortItem"
        )
    }) {
        match field(item, "ResourceType").as_deref() {
            Some("3") => {
                let n =
                    quantity(item).ok_or_else(|| bad("has an odd number of CPUs".to_owned()))?;
                found.cpus = Some(u32::try_from(n).unwrap_or(u32::MAX));
            }
            Some("4") => {
                let units = field(item, "AllocationUnits").unwrap_or_default();
                let memory = quantity(item)
                    .and_then(|n| n.checked_mul(factor(&units)?))
                    .ok_or_else(|| bad("has an odd amount of memory".to_owned()))?;
                found.memory = Some(Bytes(memory));
            }
            Some("10") => found.nics = (found.nics + 1).min(64),
            Some("17") => drives.extend(field(item, "HostResource")),
            // Controllers come with the disks, a drive without a medium is nothing.
            Some("5" | "6" | "20") | None => {}
            Some("15" | "16") => found.not_carried.push("CD-ROM drive".to_owned()),
            Some("14") => found.not_carried.push("floppy drive".to_owned()),
            Some("23") => found.not_carried.push("USB controller".to_owned()),
            Some("24") => found.not_carried.push("graphics settings".to_owned()),
            Some("35") => found.not_carried.push("sound card".to_owned()),
            Some(other) => {
                let what = field(item, "ElementName").unwrap_or_default();
                found.not_carried.push(format!(
                    "{} (resource {})",
                    shown(&what.chars().take(60).collect::<String>()),
                    shown(&other.chars().take(8).collect::<String>())
                ));
            }
        }
    }
    found.not_carried.dedup();
    settings(section, system, &mut found);
    for product in all(system, "ProductSection").take(1) {
        let count = all(product, "Property").count();
        if count > 0 {
            found
                .not_carried
                .push(format!("{count} settings for its first start"));
        }
    }
    found.disks = disks(root, &drives).map_err(bad)?;
    Ok(found)
}

/// Parsers of trees may use the stack: what is nested absurdly is not parsed at all.
fn depth(text: &str) -> std::result::Result<(), String> {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut depth = 0usize;
    loop {
        use quick_xml::events::Event;
        match reader.read_event() {
            Ok(Event::Start(_)) => depth += 1,
            Ok(Event::End(_)) => depth = depth.saturating_sub(1),
            Ok(Event::DocType(_)) => {
                return Err("declares a document type, which could hide entities".to_owned());
            }
            Ok(Event::Eof) => return Ok(()),
            Ok(_) => {}
            Err(e) => return Err(format!("cannot be read: {}", shown(&e.to_string()))),
        }
        if depth > DEPTH {
            return Err("is nested too deeply".to_owned());
        }
    }
}

fn settings(section: Node<'_, '_>, system: Node<'_, '_>, found: &mut Described) {
    for config in section
        .children()
        .filter(|n| n.tag_name().name().ends_with("Config"))
    {
        let (Some(key), Some(value)) = (attribute(config, "key"), attribute(config, "value"))
        else {
            continue;
        };
        match (key, value.to_ascii_lowercase().as_str()) {
            ("firmware", "efi" | "uefi") => found.firmware = Some(FirmwareKind::Uefi),
            ("firmware", "bios") => found.firmware = Some(FirmwareKind::Bios),
            ("bootOptions.efiSecureBootEnabled", "true") => found.secure_boot = true,
            _ => {}
        }
    }
    // VirtualBox keeps its own description beside the standard one.
    if let Some(firmware) = all(system, "Firmware").find_map(|n| attribute(n, "type")) {
        let kind = if firmware.to_ascii_uppercase().starts_with("EFI") {
            FirmwareKind::Uefi
        } else {
            FirmwareKind::Bios
        };
        found.firmware.get_or_insert(kind);
    }
}

fn disks(root: Node<'_, '_>, drives: &[String]) -> std::result::Result<Vec<DescribedDisk>, String> {
    let mut found = Vec::new();
    for resource in drives {
        // `ovf:/disk/ID`, `/disk/ID`; `ovf:/file/ID` names a file without a disk.
        let path = resource.strip_prefix("ovf:").unwrap_or(resource);
        let (kind, id) = path
            .trim_start_matches('/')
            .split_once('/')
            .unwrap_or(("", path));
        let disk = all(root, "Disk").find(|n| attribute(*n, "diskId") == Some(id));
        let file_id = match (kind, disk) {
            ("file", _) => Some(id),
            (_, Some(disk)) => {
                if attribute(disk, "parentRef").is_some() {
                    return Err(format!("has a disk that is an overlay: {}", shown(id)));
                }
                attribute(disk, "fileRef")
            }
            _ => return Err(format!("names a disk that is not in it: {}", shown(id))),
        };
        let capacity = match disk.and_then(|n| attribute(n, "capacity")) {
            Some(text) => {
                let units = disk
                    .and_then(|n| attribute(n, "capacityAllocationUnits"))
                    .unwrap_or("byte");
                let size = text
                    .trim()
                    .parse::<u64>()
                    .ok()
                    .and_then(|n| n.checked_mul(factor(units)?))
                    .filter(|n| *n <= LARGEST)
                    .ok_or_else(|| {
                        format!(
                            "has a disk of an impossible size: {} {}",
                            shown(text),
                            shown(units)
                        )
                    })?;
                Some(Bytes(size))
            }
            None => None,
        };
        let (file, gzip) = match file_id {
            None => (None, false),
            Some(id) => file(root, id)?,
        };
        found.push(DescribedDisk {
            file,
            gzip,
            capacity,
        });
        if found.len() > 64 {
            return Err("has more than 64 disks".to_owned());
        }
    }
    Ok(found)
}

fn file(root: Node<'_, '_>, id: &str) -> std::result::Result<(Option<String>, bool), String> {
    let node = all(root, "File")
        .find(|n| attribute(*n, "id") == Some(id))
        .ok_or_else(|| format!("names a file that is not in it: {}", shown(id)))?;
    let href = attribute(node, "href").unwrap_or("");
    let plain = href.strip_prefix("./").unwrap_or(href);
    if !is_plain_name(plain) || plain.contains("://") {
        return Err(format!("names a file elsewhere: \"{}\"", shown(href)));
    }
    if attribute(node, "chunkSize").is_some() {
        return Err(format!("has a disk in pieces: {}", shown(plain)));
    }
    let gzip = match attribute(node, "compression") {
        None | Some("" | "identity") => false,
        Some("gzip") => true,
        Some(other) => return Err(format!("has a disk packed with \"{}\"", shown(other))),
    };
    Ok((Some(plain.to_owned()), gzip))
}

fn guest(section: Node<'_, '_>) -> Option<String> {
    let mut words = child(section, "Description")
        .and_then(value)
        .unwrap_or_default();
    words.push(' ');
    words.push_str(attribute(section, "osType").unwrap_or(""));
    let words = words.to_ascii_lowercase();
    if words.contains("windows") {
        return Some("windows".to_owned());
    }
    [
        "linux", "ubuntu", "debian", "rhel", "centos", "fedora", "suse",
    ]
    .iter()
    .any(|word| words.contains(word))
    .then(|| "linux".to_owned())
}

/// `byte * 2^20`, `MegaBytes`, `KB`: how many bytes one of it is.
fn factor(units: &str) -> Option<u64> {
    let text = units.trim().to_ascii_lowercase();
    if let Some((base, power)) = text.split_once('*') {
        let (two, power) = power.trim().split_once('^')?;
        let known = base.trim() == "byte" && matches!(two.trim(), "2" | "10");
        let base: u64 = two.trim().parse().ok()?;
        return known
            .then(|| base.checked_pow(power.trim().parse().ok()?))
            .flatten();
    }
    Some(match text.as_str() {
        "" | "byte" | "bytes" => 1,
        "kb" | "kilobytes" => 1 << 10,
        "mb" | "megabytes" => 1 << 20,
        "gb" | "gigabytes" => 1 << 30,
        "tb" | "terabytes" => 1 << 40,
        _ => return None,
    })
}

fn all<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.descendants()
        .filter(move |n| n.is_element() && n.tag_name().name() == name)
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children()
        .find(|n| n.is_element() && n.tag_name().name() == name)
}

fn value(node: Node<'_, '_>) -> Option<String> {
    let text = node.text()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn field(item: Node<'_, '_>, name: &str) -> Option<String> {
    child(item, name).and_then(value)
}

fn quantity(item: Node<'_, '_>) -> Option<u64> {
    field(item, "VirtualQuantity")?.parse().ok()
}

/// An attribute whatever its namespace: products differ in that.
fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attributes()
        .find(|a| a.name() == name)
        .map(|a| a.value())
}

#[cfg(test)]
mod tests {
    use super::super::ovf::{OvfDisk, descriptor};
    use super::*;
    use crate::model::{Hardware, PortableNic};

    fn hardware() -> Hardware {
        Hardware {
            cpus: 3,
            memory_bytes: Bytes::mib(768),
            firmware: FirmwareKind::Uefi,
            secure_boot: true,
            tpm: false,
            os: Some("linux".into()),
            nics: vec![
                PortableNic {
                    model: None,
                    mac: None
                };
                2
            ],
            tags: Vec::new(),
            note: None,
        }
    }

    fn own() -> String {
        let disks = [OvfDisk {
            file: "a&b.vmdk".into(),
            file_bytes: 9,
            capacity: 1 << 30,
        }];
        String::from_utf8(descriptor("we<b \u{1b}>", &hardware(), &disks).unwrap()).unwrap()
    }

    #[test]
    fn what_was_written_is_read() {
        let found = read(&own()).unwrap();
        assert_eq!(found.name.as_deref(), Some("we<b  >"));
        assert_eq!((found.cpus, found.memory), (Some(3), Some(Bytes::mib(768))));
        assert_eq!(
            (found.firmware, found.secure_boot),
            (Some(FirmwareKind::Uefi), true)
        );
        assert_eq!((found.nics, found.os.as_deref()), (2, Some("linux")));
        assert_eq!(
            found.disks,
            [DescribedDisk {
                file: Some("a&b.vmdk".into()),
                gzip: false,
                capacity: Some(Bytes::gib(1)),
            }]
        );
    }

    #[test]
    fn hostile_descriptors_are_refused_in_words() {
        let own = own();
        let bomb = "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY a \"&b;&b;\"><!ENTITY b SYSTEM \"file:///etc/shadow\">]><Envelope>&a;</Envelope>";
        let deep = "<a>".repeat(100_000);
        for (text, wanted) in [
            (bomb.to_owned(), "document type"),
            (deep, "nested too deeply"),
            (String::new(), "cannot be read"),
            ("<Envelope/>".to_owned(), "no machine"),
            ("<html/>".to_owned(), "no Envelope"),
            (own.replace("a&amp;b.vmdk", "../../etc/shadow"), "elsewhere"),
            (own.replace("a&amp;b.vmdk", "/etc/shadow"), "elsewhere"),
            (own.replace("a&amp;b.vmdk", "http://x/y"), "elsewhere"),
            (
                own.replace("1073741824", "99999999999999999999999"),
                "impossible size",
            ),
            (own.replace("1073741824", "-5"), "impossible size"),
            (
                own.replace(">768<", ">99999999999999999<"),
                "amount of memory",
            ),
            (
                own.replace(">3</rasd:VirtualQuantity>", ">x</rasd:VirtualQuantity>"),
                "odd number of CPUs",
            ),
            (
                own.replace("ovf:/disk/disk0", "ovf:/disk/other"),
                "not in it: other",
            ),
            (
                own.replace("fileRef=\"file0\"", "fileRef=\"f\""),
                "not in it: f",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.to_string().contains(wanted), "{wanted}: {error}");
        }
    }

    #[test]
    fn units() {
        assert_eq!(factor("byte * 2^20"), Some(1 << 20));
        assert_eq!(factor("byte*10^9"), Some(1_000_000_000));
        assert_eq!(factor("MegaBytes"), Some(1 << 20));
        assert_eq!(factor("byte * 2^400"), None);
        assert_eq!(factor("parsec"), None);
    }
}
