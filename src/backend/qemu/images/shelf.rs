//! The folder of pulled images: what is in it, under which name, and what is known of where it came from.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::ctx::Ctx;
use super::super::image::{absolute, stamp};
use super::super::storage::IMAGES;
use crate::backend::contract::Env;
use crate::link::files::{fault, write_atomically};
use crate::model::{Bytes, Error, Result, is_image_name, nearest, shown};

/// Endings of images in the folder; the name is what stands before.
const ENDINGS: [&str; 9] = [
    "qcow2", "qcow", "img", "raw", "iso", "vmdk", "vdi", "vhd", "vhdx",
];

/// A pull that writes nothing for so long has ended.
const QUIET: Duration = Duration::from_secs(60);

/// What is known of an image that was pulled; stands beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// What it is.
    pub title: Option<String>,
    /// Its architecture.
    pub arch: Option<String>,
    /// Where it came from.
    pub url: Option<String>,
    /// What its bytes added up to.
    pub checksum: Option<String>,
    /// The checksum was known before, and was the same.
    pub verified: bool,
    /// When it came.
    pub pulled_at: Option<Timestamp>,
}

/// An image in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The file's length.
    pub size: Bytes,
    /// What is known of it.
    pub record: Record,
}

impl Kept {
    /// Another content has another stamp.
    pub fn stamp(&self) -> String {
        stamp(&self.path).unwrap_or_else(|_| "gone".to_owned())
    }
}

/// The folder.
#[derive(Clone, Debug)]
pub struct Shelf {
    dir: PathBuf,
}

impl Shelf {
    /// Does no I/O.
    pub fn of(ctx: &Ctx) -> Self {
        Self::under(&ctx.env)
    }

    /// Does no I/O.
    pub fn under(env: &Env) -> Self {
        Self {
            dir: env.dirs.data.join(IMAGES),
        }
    }

    /// The file that is meant as an image: by its path, or by the bare name of an image that is here.
    ///
    /// # Errors
    /// As [`Self::path_of`].
    pub fn place(&self, text: &str) -> Result<PathBuf> {
        if text.contains('/') {
            Ok(absolute(Path::new(text)))
        } else {
            self.path_of(text)
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// What is fetched and not whole yet.
    pub fn partial(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.partial"))
    }

    /// What was fetched in part and is not being written, by name; with what is known of where it comes from.
    pub fn partials(&self) -> Vec<Kept> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut all: Vec<Kept> = entries
            .filter_map(|entry| {
                let path = entry.path();
                let name = path.file_name()?.to_str()?.strip_suffix(".partial")?;
                let meta = fs::symlink_metadata(&path)
                    .ok()
                    .filter(fs::Metadata::is_file)?;
                let quiet = meta.modified().ok()?.elapsed().ok()? > QUIET;
                quiet.then(|| Kept {
                    name: name.to_owned(),
                    size: Bytes(meta.len()),
                    record: known(&path),
                    path: path.clone(),
                })
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// All images, by name. A name that two files would have is that of the first; the other is called by its file.
    ///
    /// # Errors
    /// When the folder cannot be read; one that is not there is empty.
    pub fn list(&self) -> Result<Vec<Kept>> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(fault("read", &self.dir, e)),
        };
        let mut files: Vec<PathBuf> = entries
            .filter_map(std::result::Result::ok)
            .map(|entry| entry.path())
            .collect();
        files.sort();
        let mut all = BTreeMap::new();
        for path in files {
            let Some(kept) = kept(&path) else { continue };
            let name = if all.contains_key(&kept.name) {
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            } else {
                kept.name.clone()
            };
            all.insert(name.clone(), Kept { name, ..kept });
        }
        Ok(all.into_values().collect())
    }

    /// The image of this name, if it is here.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn find(&self, name: &str) -> Result<Option<Kept>> {
        Ok(self.list()?.into_iter().find(|kept| kept.name == name))
    }

    /// The file of an image that is here.
    ///
    /// # Errors
    /// `NotFound` with the command that fetches it, where it is in the catalogue.
    pub fn path_of(&self, name: &str) -> Result<PathBuf> {
        if let Some(kept) = self.find(name)? {
            return Ok(kept.path);
        }
        if crate::backend::catalogue::find(name).is_some() {
            return Err(
                Error::not_found(format!("{} is not pulled yet", shown(name)))
                    .remedy(format!("Fetch it first: corral image pull {name}")),
            );
        }
        let here = self.list()?;
        let known = here.iter().map(|kept| kept.name.as_str()).chain(
            crate::backend::catalogue::all()
                .iter()
                .map(|image| image.name.as_str()),
        );
        let remedy = nearest(name, known).map_or_else(
            || "See corral image list and corral image search".to_owned(),
            |near| format!("Did you mean {}?", shown(near)),
        );
        Err(Error::not_found(format!(
            "there is no file and no image called \"{}\"",
            shown(name)
        ))
        .remedy(remedy))
    }

    /// Writes what is known of the image that is to be `file`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, file: &Path, record: &Record) -> Result<()> {
        let text = serde_json::to_vec_pretty(record).unwrap_or_default();
        write_atomically(&record_of(file), &text)
    }

    /// Takes an image out, its record after it.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub fn remove(&self, file: &Path) -> Result<()> {
        fs::remove_file(file).map_err(|e| fault("delete", file, e))?;
        let _ = fs::remove_file(record_of(file));
        Ok(())
    }
}

/// Where the record of a file stands.
pub fn record_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".json");
    PathBuf::from(name)
}

fn kept(path: &Path) -> Option<Kept> {
    let file = path.file_name()?.to_str()?;
    let (name, _) = split(file)?;
    // A link leads to an image that is kept elsewhere.
    let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(Kept {
        name: name.to_owned(),
        path: path.to_owned(),
        size: Bytes(meta.len()),
        record: known(path),
    })
}

fn known(file: &Path) -> Record {
    let record = fs::read(record_of(file)).ok();
    record
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Name and ending of an image's file; `None` for any other file.
pub fn split(file: &str) -> Option<(&str, &str)> {
    let (name, ending) = file.rsplit_once('.')?;
    let known = ENDINGS
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known));
    (known && !name.is_empty() && !name.starts_with('.')).then_some((name, ending))
}

/// What an image may be called: it becomes a file's name.
///
/// # Errors
/// `Invalid` with what is allowed.
pub fn check_name(name: &str) -> Result<()> {
    if is_image_name(name) {
        return Ok(());
    }
    Err(
        Error::invalid(format!("\"{}\" is no name for an image", shown(name))).remedy(
            "Letters, digits and . _ + - are allowed, at most 100; give another one: --name NAME",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::qemu::ctx::tests::context;

    #[test]
    fn images_are_listed_whatever_lies_beside_them() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = context(dir.path());
        let shelf = Shelf::of(&ctx);
        assert!(shelf.list().unwrap().is_empty());
        fs::create_dir_all(shelf.file("folder.qcow2")).unwrap();
        for file in [
            "a.qcow2",
            "a.iso",
            "b.partial",
            "b.partial.json",
            ".c.lock",
            "d.txt",
            "é.img",
        ] {
            fs::write(shelf.file(file), "x").unwrap();
        }
        fs::write(record_of(&shelf.file("a.iso")), "{\"url\":\"u\",\"new\":1}").unwrap();
        fs::write(record_of(&shelf.file("a.qcow2")), "{\"url\":").unwrap();
        let all = shelf.list().unwrap();
        let names: Vec<_> = all.iter().map(|kept| kept.name.as_str()).collect();
        assert_eq!(names, ["a", "a.qcow2", "é"]);
        assert_eq!(all[0].record.url.as_deref(), Some("u"));
        let missing = shelf.path_of("debian-13").unwrap_err();
        assert!(
            missing.to_string().contains("corral image pull debian-13"),
            "{missing}"
        );
        assert!(
            shelf
                .path_of("debian-31")
                .unwrap_err()
                .to_string()
                .contains("debian-13")
        );
        for bad in ["", "a/b", ".a", "-a", "a b", "a\n", &"a".repeat(101)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("ubuntu-24.04").is_ok());
    }
}
