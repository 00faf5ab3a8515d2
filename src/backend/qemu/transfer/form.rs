//! What an export becomes.

use std::path::Path;

use crate::model::{Error, Result, shown};

/// The forms of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A folder with `portable.json`.
    Folder,
    /// One disk as qcow2.
    Qcow2,
    /// One disk, byte for byte.
    Raw,
    /// One disk, byte for byte, packed.
    Gz,
    /// A package with descriptor and disks.
    Ova,
}

impl Form {
    /// By the word, else by the name.
    ///
    /// # Errors
    /// `Invalid` for a name whose ending says nothing that can be written.
    pub fn of(to: &Path, format: Option<&str>) -> Result<Self> {
        let word = match format {
            Some(word) => word.to_ascii_lowercase(),
            None if to.is_dir() => return Ok(Self::Folder),
            None => to
                .extension()
                .map(|e| e.to_string_lossy().to_ascii_lowercase())
                .unwrap_or_default(),
        };
        Ok(match word.as_str() {
            "" | "dir" => Self::Folder,
            "qcow2" => Self::Qcow2,
            "raw" | "img" => Self::Raw,
            "gz" => Self::Gz,
            "ova" => Self::Ova,
            other => {
                let remedy = "Name it NAME.qcow2, NAME.raw, NAME.raw.gz, NAME.ova, or a folder \
                    without an ending; or say which: --format dir";
                return Err(
                    Error::invalid(format!("nothing is exported as \"{}\"", shown(other)))
                        .remedy(remedy),
                );
            }
        })
    }

    /// Holds one disk only, and nothing of the machine.
    pub fn is_single(self) -> bool {
        matches!(self, Self::Qcow2 | Self::Raw | Self::Gz)
    }

    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Folder => "a folder",
            Self::Qcow2 => "one qcow2 image",
            Self::Raw => "one raw image",
            Self::Gz => "one raw image, packed",
            Self::Ova => "an OVA",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_unless_a_word_does() {
        let of = |to: &str, word| Form::of(Path::new(to), word);
        assert_eq!(of("/x/web", None).unwrap(), Form::Folder);
        assert_eq!(of("/x/web.QCOW2", None).unwrap(), Form::Qcow2);
        assert_eq!(of("/x/web.raw.gz", None).unwrap(), Form::Gz);
        assert_eq!(of("/x/web.v2", Some("dir")).unwrap(), Form::Folder);
        assert_eq!(of("/x/web.v2", Some("ova")).unwrap(), Form::Ova);
        let error = of("/x/web.vmdk", None).unwrap_err();
        assert!(error.remedy.unwrap().contains(".ova"));
    }
}
