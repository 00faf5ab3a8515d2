//! Files that a definition names and that are not there.

use std::path::Path;

use super::super::definition::Definition;
use crate::model::{Error, shown};

/// The first file that a start needs and that is gone or cannot be reached; `None` when all are
/// there. A snapshot of a stopped VM needs them too.
pub fn lost(vm: &Definition) -> Option<Error> {
    let mut needed: Vec<(String, &Path)> = Vec::new();
    for disk in &vm.disks {
        let name = shown(&disk.name);
        needed.push((format!("{name}: its image"), &disk.path));
        if let Some(base) = &disk.backing {
            needed.push((format!("{name}: the image it is an overlay of,"), base));
        }
    }
    for medium in &vm.cdroms {
        if let Some(path) = &medium.path {
            needed.push((format!("{}: its image", shown(&medium.name)), path));
        }
    }
    for (what, file) in [
        ("the UEFI firmware", &vm.firmware.code),
        ("its UEFI variables", &vm.firmware.vars),
    ] {
        if let Some(file) = file {
            needed.push((what.to_owned(), file));
        }
    }
    needed.into_iter().find_map(|(what, file)| {
        let error = std::fs::metadata(file).err()?;
        let how = match error.kind() {
            std::io::ErrorKind::NotFound => "is missing".to_owned(),
            _ => format!("cannot be reached ({error})"),
        };
        let file = file.to_string_lossy();
        Some(
            Error::refused(format!("{what} {} {how}", shown(&file)))
                .remedy("Put it back, or change the definition."),
        )
    })
}
