//! The OVF descriptor of an instance, in the dialect that most programs take in: OVF 1.0 with the
//! hardware words of its first vendor.

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::model::{Error, FirmwareKind, Hardware, Result};

/// A disk of the package.
#[derive(Clone, Debug)]
pub struct OvfDisk {
    /// Its member's name.
    pub file: String,
    /// The member's length.
    pub file_bytes: u64,
    /// Size the guest sees.
    pub capacity: u64,
}

/// The format of the disks in the package.
const STREAM: &str = "http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized";

type Xml = Writer<Vec<u8>>;

/// The descriptor.
pub fn descriptor(name: &str, hardware: &Hardware, disks: &[OvfDisk]) -> Result<Vec<u8>> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    write(&mut xml, name, hardware, disks)
        .map_err(|e| Error::backend(format!("the descriptor cannot be written: {e}")))?;
    let mut text = xml.into_inner();
    text.push(b'\n');
    Ok(text)
}

fn write(xml: &mut Xml, name: &str, hardware: &Hardware, disks: &[OvfDisk]) -> std::io::Result<()> {
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.create_element("Envelope")
        .with_attributes([
            ("xmlns", "http://schemas.dmtf.org/ovf/envelope/1"),
            ("xmlns:ovf", "http://schemas.dmtf.org/ovf/envelope/1"),
            (
                "xmlns:rasd",
                "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData",
            ),
            (
                "xmlns:vssd",
                "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData",
            ),
            ("xmlns:vmw", "http://www.vmware.com/schema/ovf"),
        ])
        .write_inner_content(|xml| {
            references(xml, disks)?;
            disk_section(xml, disks)?;
            if !hardware.nics.is_empty() {
                xml.create_element("NetworkSection")
                    .write_inner_content(|xml| {
                        text(xml, "Info", "Networks")?;
                        xml.create_element("Network")
                            .with_attribute(("ovf:name", "nat"))
                            .write_inner_content(|xml| text(xml, "Description", "NAT"))?;
                        Ok(())
                    })?;
            }
            system(xml, name, hardware, disks)
        })?;
    Ok(())
}

fn references(xml: &mut Xml, disks: &[OvfDisk]) -> std::io::Result<()> {
    xml.create_element("References")
        .write_inner_content(|xml| {
            for (n, disk) in disks.iter().enumerate() {
                xml.create_element("File")
                    .with_attributes([
                        ("ovf:id", format!("file{n}").as_str()),
                        ("ovf:href", disk.file.as_str()),
                        ("ovf:size", disk.file_bytes.to_string().as_str()),
                    ])
                    .write_empty()?;
            }
            Ok(())
        })?;
    Ok(())
}

fn disk_section(xml: &mut Xml, disks: &[OvfDisk]) -> std::io::Result<()> {
    xml.create_element("DiskSection")
        .write_inner_content(|xml| {
            text(xml, "Info", "Disks")?;
            for (n, disk) in disks.iter().enumerate() {
                xml.create_element("Disk")
                    .with_attributes([
                        ("ovf:diskId", format!("disk{n}").as_str()),
                        ("ovf:fileRef", format!("file{n}").as_str()),
                        ("ovf:capacity", disk.capacity.to_string().as_str()),
                        ("ovf:capacityAllocationUnits", "byte"),
                        ("ovf:format", STREAM),
                    ])
                    .write_empty()?;
            }
            Ok(())
        })?;
    Ok(())
}

fn system(
    xml: &mut Xml,
    name: &str,
    hardware: &Hardware,
    disks: &[OvfDisk],
) -> std::io::Result<()> {
    xml.create_element("VirtualSystem")
        .with_attribute(("ovf:id", "vm"))
        .write_inner_content(|xml| {
            text(xml, "Info", "A virtual machine")?;
            text(xml, "Name", name)?;
            // CIM's numbers: 101 other 64-bit Linux, 103 Windows of 64 bits, 102 any 64-bit.
            let (number, word) = match hardware.os.as_deref() {
                Some("windows") => ("103", "windows"),
                Some("linux") => ("101", "linux"),
                _ => ("102", "other"),
            };
            xml.create_element("OperatingSystemSection")
                .with_attribute(("ovf:id", number))
                .write_inner_content(|xml| {
                    text(xml, "Info", "The guest")?;
                    text(xml, "Description", word)
                })?;
            xml.create_element("VirtualHardwareSection")
                .write_inner_content(|xml| items(xml, name, hardware, disks))?;
            Ok(())
        })?;
    Ok(())
}

fn items(xml: &mut Xml, name: &str, hardware: &Hardware, disks: &[OvfDisk]) -> std::io::Result<()> {
    text(xml, "Info", "Virtual hardware")?;
    xml.create_element("System").write_inner_content(|xml| {
        text(xml, "vssd:ElementName", "Virtual Hardware Family")?;
        text(xml, "vssd:InstanceID", "0")?;
        text(xml, "vssd:VirtualSystemIdentifier", name)?;
        text(xml, "vssd:VirtualSystemType", "vmx-13")
    })?;
    let cpus = hardware.cpus.to_string();
    let memory = hardware.memory_bytes.0.div_ceil(1 << 20).to_string();
    item(
        xml,
        &[
            ("rasd:AllocationUnits", "hertz * 10^6"),
            ("rasd:ElementName", &format!("{cpus} CPUs")),
            ("rasd:InstanceID", "1"),
            ("rasd:ResourceType", "3"),
            ("rasd:VirtualQuantity", &cpus),
        ],
    )?;
    item(
        xml,
        &[
            ("rasd:AllocationUnits", "byte * 2^20"),
            ("rasd:ElementName", &format!("{memory} MB of memory")),
            ("rasd:InstanceID", "2"),
            ("rasd:ResourceType", "4"),
            ("rasd:VirtualQuantity", &memory),
        ],
    )?;
    item(
        xml,
        &[
            ("rasd:Address", "0"),
            ("rasd:ElementName", "SATA controller"),
            ("rasd:InstanceID", "3"),
            ("rasd:ResourceSubType", "vmware.sata.ahci"),
            ("rasd:ResourceType", "20"),
        ],
    )?;
    for n in 0..disks.len() {
        item(
            xml,
            &[
                ("rasd:AddressOnParent", &n.to_string()),
                ("rasd:ElementName", &format!("disk{n}")),
                ("rasd:HostResource", &format!("ovf:/disk/disk{n}")),
                ("rasd:InstanceID", &(10 + n).to_string()),
                ("rasd:Parent", "3"),
                ("rasd:ResourceType", "17"),
            ],
        )?;
    }
    for n in 0..hardware.nics.len() {
        item(
            xml,
            &[
                ("rasd:AddressOnParent", &n.to_string()),
                ("rasd:AutomaticAllocation", "true"),
                ("rasd:Connection", "nat"),
                ("rasd:ElementName", &format!("net{n}")),
                ("rasd:InstanceID", &(100 + n).to_string()),
                ("rasd:ResourceSubType", "E1000"),
                ("rasd:ResourceType", "10"),
            ],
        )?;
    }
    let firmware = match hardware.firmware {
        FirmwareKind::Uefi => "efi",
        FirmwareKind::Bios => "bios",
    };
    config(xml, "firmware", firmware)?;
    if hardware.secure_boot {
        config(xml, "bootOptions.efiSecureBootEnabled", "true")?;
    }
    Ok(())
}

fn item(xml: &mut Xml, fields: &[(&str, &str)]) -> std::io::Result<()> {
    xml.create_element("Item").write_inner_content(|xml| {
        for (name, value) in fields {
            text(xml, name, value)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn config(xml: &mut Xml, key: &str, value: &str) -> std::io::Result<()> {
    xml.create_element("vmw:Config")
        .with_attributes([
            ("ovf:required", "false"),
            ("vmw:key", key),
            ("vmw:value", value),
        ])
        .write_empty()?;
    Ok(())
}

fn text(xml: &mut Xml, name: &str, value: &str) -> std::io::Result<()> {
    // XML 1.0 has no way to write a control character.
    let value: String = value
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    xml.create_element(name)
        .write_text_content(BytesText::new(&value))?;
    Ok(())
}
