//! UEFI firmware, found by the descriptors that distributions install for QEMU.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::backend::contract::Env;
use crate::model::{Error, Result};

/// One firmware build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firmware {
    /// Read-only code.
    pub code: PathBuf,
    /// Its format.
    pub code_format: String,
    /// What a VM's variables begin as.
    pub template: PathBuf,
    /// Format of the template.
    pub template_format: String,
}

/// Folders with descriptors, weakest first.
pub fn descriptor_dirs(env: &Env) -> Vec<PathBuf> {
    vec![
        PathBuf::from("/usr/share/qemu/firmware"),
        PathBuf::from("/etc/qemu/firmware"),
        env.home.join(".config/qemu/firmware"),
    ]
}

/// The best UEFI firmware for a q35 machine.
///
/// # Errors
/// `Unsupported` with the package that brings it.
pub fn find(dirs: &[PathBuf], secure_boot: bool) -> Result<Firmware> {
    let mut descriptors = BTreeMap::new();
    // A file of the same name in a stronger folder hides the weaker one, by convention.
    for dir in dirs {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|e| e == "json") {
                descriptors.insert(entry.file_name(), entry.path());
            }
        }
    }
    descriptors
        .values()
        .find_map(|file| candidate(file, secure_boot))
        .ok_or_else(|| {
            let what = if secure_boot {
                "UEFI firmware with Secure Boot"
            } else {
                "UEFI firmware"
            };
            Error::unsupported(format!("no {what} is installed"))
                .remedy("apt install ovmf, or use --firmware bios")
        })
}

/// The firmware of a descriptor, if it fits and its files are there.
fn candidate(file: &Path, secure_boot: bool) -> Option<Firmware> {
    let value: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let words = |pointer: &str| -> Vec<&str> {
        let list = value.pointer(pointer).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    let features = words("/features");
    let has = |feature: &str| features.contains(&feature);
    let fits_machine = value
        .get("targets")
        .and_then(Value::as_array)?
        .iter()
        .any(|target| {
            target.get("architecture").and_then(Value::as_str) == Some("x86_64")
                && target
                    .get("machines")
                    .and_then(Value::as_array)
                    .is_some_and(|machines| {
                        machines
                            .iter()
                            .filter_map(Value::as_str)
                            .any(|machine| matches!(machine, "pc-q35-*" | "q35" | "*"))
                    })
        });
    let fits_boot = if secure_boot {
        // Without enrolled keys it would accept everything: not what was asked for.
        has("secure-boot") && has("enrolled-keys")
    } else {
        !has("secure-boot") && !has("requires-smm")
    };
    let confidential = has("amd-sev-snp") || has("intel-tdx");
    if !words("/interface-types").contains(&"uefi") || !fits_machine || !fits_boot || confidential {
        return None;
    }
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    if text("/mapping/device") != Some("flash") {
        return None;
    }
    let found = Firmware {
        code: text("/mapping/executable/filename")?.into(),
        code_format: text("/mapping/executable/format")
            .unwrap_or("raw")
            .to_owned(),
        template: text("/mapping/nvram-template/filename")?.into(),
        template_format: text("/mapping/nvram-template/format")
            .unwrap_or("raw")
            .to_owned(),
    };
    (found.code.is_file() && found.template.is_file()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(dir: &Path, name: &str, features: &[&str]) {
        let code = dir.join(format!("{name}.code"));
        fs::write(&code, "").unwrap();
        let value = serde_json::json!({
            "interface-types": ["uefi"], "features": features,
            "mapping": {"device": "flash", "executable": {"filename": code, "format": "raw"},
                "nvram-template": {"filename": code, "format": "raw"}},
            "targets": [{"architecture": "x86_64", "machines": ["pc-q35-*"]}]
        });
        fs::write(dir.join(name), value.to_string()).unwrap();
    }

    #[test]
    fn the_right_build_is_taken() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path();
        let dirs = [dir.to_owned(), dir.join("none")];
        for secure in [false, true] {
            let error = find(&dirs, secure).unwrap_err();
            assert!(error.remedy.unwrap().contains("apt install ovmf"));
        }
        descriptor(dir, "10.json", &["secure-boot", "requires-smm"]);
        fs::write(dir.join("05.json"), "{ torn").unwrap();
        fs::write(dir.join("06.json"), r#"{"targets": 7, "features": null}"#).unwrap();
        assert!(find(&dirs, false).is_err() && find(&dirs, true).is_err());
        descriptor(
            dir,
            "20.json",
            &["secure-boot", "requires-smm", "enrolled-keys"],
        );
        descriptor(dir, "30.json", &["acpi-s3"]);
        assert!(find(&dirs, true).unwrap().code.ends_with("20.json.code"));
        assert!(find(&dirs, false).unwrap().code.ends_with("30.json.code"));
        fs::remove_file(dir.join("30.json.code")).unwrap();
        assert!(find(&dirs, false).is_err());
    }
}
