//! Bridges of this machine, as the kernel lists them, and whether QEMU may put a guest on one.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::model::shown;

/// A bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    pub(super) name: String,
    pub(super) up: bool,
    /// Subnets behind it that this machine has a route to, as CIDR.
    pub(super) addresses: Vec<String>,
}

/// All of them, by name.
pub(super) fn bridges(sys: &Path) -> Vec<Bridge> {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let six = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut found: Vec<Bridge> = fs::read_dir(sys)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("bridge").is_dir())
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let state = fs::read_to_string(entry.path().join("operstate")).unwrap_or_default();
            let mut addresses = subnets(&routes, &name);
            addresses.extend(addresses6(&six, &name));
            Some(Bridge {
                up: state.trim() == "up",
                addresses,
                name,
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// `br0  00C8A8C0  00000000  0001  0  0  0  00FFFFFF …`, in the byte order of this machine.
fn subnets(routes: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in routes.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [of, to, gateway, _, _, _, _, mask, ..] = fields.as_slice() else {
            continue;
        };
        if *of != name || *gateway != "00000000" {
            continue;
        }
        let address = |text: &str| {
            let number = u32::from_str_radix(text, 16).ok()?;
            Some(Ipv4Addr::from(number.to_ne_bytes()))
        };
        let (Some(to), Some(mask)) = (address(to), address(mask)) else {
            continue;
        };
        let bits = u32::from(mask).leading_ones();
        if bits > 0 {
            found.push(format!("{to}/{bits}"));
        }
    }
    found
}

/// `fe80000000000000… 03 40 20 80 br0`; those that only the link itself knows are left out.
fn addresses6(table: &str, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, bits, _, _, of] = fields.as_slice() else {
            continue;
        };
        let address = u128::from_str_radix(address, 16).map(Ipv6Addr::from);
        let bits = u8::from_str_radix(bits, 16);
        if let (Ok(address), Ok(bits)) = (address, bits)
            && *of == name
            && !address.is_unicast_link_local()
        {
            found.push(format!("{address}/{bits}"));
        }
    }
    found
}

/// Where distributions put the program that gives a guest a place on a bridge.
const HELPERS: [&str; 3] = [
    "/usr/lib/qemu/qemu-bridge-helper",
    "/usr/libexec/qemu-bridge-helper",
    "/usr/local/libexec/qemu-bridge-helper",
];

/// Whether this user may put a guest on a bridge; else why not, and what to do.
pub(super) fn usable(name: &str) -> Result<(), String> {
    let root = rustix::process::geteuid().is_root();
    let Some(helper) = HELPERS.iter().find(|path| Path::new(path).exists()) else {
        return Err("there is no qemu-bridge-helper: apt install qemu-system-common".to_owned());
    };
    let setuid =
        fs::metadata(helper).is_ok_and(|meta| meta.mode() & 0o4000 != 0 && meta.uid() == 0);
    if !root && !setuid {
        return Err(format!(
            "{helper} may not make network interfaces: sudo chmod u+s {helper}"
        ));
    }
    let list = Path::new("/etc/qemu/bridge.conf");
    let allow = match fs::read_to_string(list) {
        Ok(text) => allows(&text, name),
        // Only the helper may read it: whether it allows the bridge is seen at the start.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => true,
        Err(_) => false,
    };
    if allow {
        return Ok(());
    }
    let name = shown(name);
    Err(format!(
        "/etc/qemu/bridge.conf does not allow it: echo 'allow {name}' | sudo tee -a /etc/qemu/bridge.conf"
    ))
}

/// The last line that speaks of a bridge counts for it.
fn allows(text: &str, name: &str) -> bool {
    let mut allowed = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["allow", of] if *of == name || *of == "all" => allowed = true,
            ["deny", of] if *of == name || *of == "all" => allowed = false,
            _ => {}
        }
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_of_a_bridge() {
        let raw = |a, b, c, d| format!("{:08X}", u32::from_ne_bytes([a, b, c, d]));
        let (net, mask, zero) = (
            raw(192, 168, 122, 0),
            raw(255, 255, 255, 0),
            raw(0, 0, 0, 0),
        );
        let table = format!(
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
             virbr0 {net} {zero} 0001 0 0 0 {mask} 0 0 0\n\
             virbr0 {zero} {net} 0003 0 0 0 {zero} 0 0 0\n\
             eth0 {net} {zero} 0001 0 0 0 {mask} 0 0 0\nvirbr0 zz\n"
        );
        assert_eq!(subnets(&table, "virbr0"), ["192.168.122.0/24"]);
        let six = "fe800000000000000000000000000001 03 40 20 80 br0\n\
                   fd000000000000000000000000000001 03 40 00 80 br0\nx y\n";
        assert_eq!(addresses6(six, "br0"), ["fd00::1/64"]);
    }

    #[test]
    fn only_bridges_are_listed_and_the_helpers_list_counts() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("br0/bridge")).unwrap();
        fs::write(dir.path().join("br0/operstate"), "up\n").unwrap();
        fs::create_dir_all(dir.path().join("eth0")).unwrap();
        let found = bridges(dir.path());
        assert_eq!(found.len(), 1);
        assert!(found[0].name == "br0" && found[0].up);
        assert!(allows("# x\nallow br0\n", "br0"));
        assert!(allows("deny br0\nallow all\n", "br0"));
        assert!(!allows("allow all\ndeny br0\n", "br0"));
        assert!(!allows("allow br1\n", "br0"));
    }
}
