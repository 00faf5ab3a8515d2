//! The folders of all VMs: `<data>/vms/<name>/vm.toml` with the disks beside it.

mod lost;
mod shared;

pub use lost::lost;
pub use shared::files;
pub(super) use shared::{names, real};

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::definition::{Definition, FORMAT, folder_name, name_of_folder};
use super::merge::merged;
use crate::link::files::{fault, make_dir, write_atomically};
use crate::model::{Dirs, Error, Result, shown};

/// The file that makes a folder a VM.
pub const DEFINITION: &str = "vm.toml";

/// Longest definition that is read: a real one has 2 KiB, and a file that something else grew
/// must not fill memory.
pub(super) const LONGEST: u64 = 1 << 20;

/// Where the definitions are.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// One folder below the store's root.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The VM's name.
    pub name: String,
    /// Its definition, or why it cannot be read.
    pub definition: Result<Definition>,
}

impl Store {
    /// The store below the data directory. Does no I/O.
    pub fn open(dirs: &Dirs) -> Self {
        Self {
            root: dirs.data.join("vms"),
        }
    }

    /// `<data>/vms`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Every VM, by name. Folders that no corral would make, and folders without a definition
    /// (an unfinished create, found by doctor), are left out.
    ///
    /// # Errors
    /// When the root itself cannot be read; a missing one is empty.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = self
            .folders()?
            .into_iter()
            // One that cannot be looked at is a VM that is broken, and none that is gone.
            .filter(|name| self.file(name).is_ok_and(|file| is_there(&file)))
            .map(|name| Entry {
                definition: self.alone(&name),
                name,
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        self.tell_twins(&mut entries);
        Ok(entries)
    }

    /// The names of all folders, with a definition or without.
    pub fn folders(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(fault("read", &self.root, e)),
        };
        Ok(entries
            .filter_map(std::result::Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| name_of_folder(entry.file_name().to_str()?))
            .collect())
    }

    /// The VM's folder, whether it is there or not.
    ///
    /// # Errors
    /// `Invalid` for a name that no VM can have.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        Ok(self.root.join(folder_name(name)?))
    }

    fn file(&self, name: &str) -> Result<PathBuf> {
        Ok(self.dir(name)?.join(DEFINITION))
    }

    /// Whether a VM or a half-made one has this name.
    pub fn taken(&self, name: &str) -> Result<bool> {
        Ok(fs::symlink_metadata(self.dir(name)?).is_ok())
    }

    /// One definition.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` with file, line and column for what was edited wrongly, and for a
    /// UUID that another definition has too.
    pub fn load(&self, name: &str) -> Result<Definition> {
        let vm = self.alone(name)?;
        match self.list()?.into_iter().find(|entry| entry.name == name) {
            Some(entry) => entry.definition,
            None => Ok(vm),
        }
    }

    /// Keys in a definition that mean nothing to this corral, as paths: `disks.0.cahce`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn unknown_keys(&self, name: &str) -> Result<Vec<String>> {
        let text = read(&self.file(name)?, name)?;
        let unknown = unknown_in(&text);
        Ok(unknown.iter().map(|key| shown(key).into_owned()).collect())
    }

    /// The file's text, whatever it says.
    ///
    /// # Errors
    /// `NotFound`, and for what is no plain file of this user.
    pub fn read_text(&self, name: &str) -> Result<String> {
        read(&self.file(name)?, name)
    }

    /// One definition, whatever the others say.
    pub(super) fn alone(&self, name: &str) -> Result<Definition> {
        let file = self.file(name)?;
        let text = read(&file, name)?;
        let definition = parse(&file, &text)?;
        if definition.name != name {
            return Err(Error::invalid(format!(
                "{}: the name in it is \"{}\", but its folder is that of \"{}\"",
                file.display(),
                shown(&definition.name),
                shown(name)
            ))
            .remedy("Make the two equal."));
        }
        Ok(definition.rebased(&self.dir(name)?, false))
    }

    /// Writes a definition into its folder, whole or not at all. Comments and keys that this
    /// corral does not know stay as they are.
    ///
    /// # Errors
    /// `Refused` for a definition that a newer corral wrote.
    pub fn save(&self, definition: &Definition) -> Result<()> {
        let dir = self.dir(&definition.name)?;
        let file = dir.join(DEFINITION);
        let old = match read(&file, &definition.name) {
            Ok(text) => Some(text),
            Err(e) if e.kind == crate::model::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        // The file decides: someone may have written a newer one since it was loaded.
        let newer = match &old {
            Some(text) => parse(&file, text)?.readonly_reason(),
            None => definition.readonly_reason(),
        };
        if let Some(why) = newer.or_else(|| definition.readonly_reason()) {
            return Err(Error::refused(why).remedy("Use the newer corral."));
        }
        make_dir(&self.root)?;
        make_dir(&dir)?;
        let fresh = definition.clone().rebased(&dir, true).to_toml()?;
        let text = match old {
            Some(old) => merged(&old, &fresh)
                .map_err(|e| Error::invalid(format!("{}: {e}", file.display())))?,
            None => fresh,
        };
        write_atomically(&file, text.as_bytes())
    }

    /// Makes the name in a definition that of its folder, and changes nothing else of it.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub fn name_is(&self, name: &str) -> Result<()> {
        let file = self.file(name)?;
        let text = read(&file, name)?;
        let mut definition = parse(&file, &text)?;
        name.clone_into(&mut definition.name);
        let fresh = definition.to_toml()?;
        let text = merged(&text, &fresh)
            .map_err(|e| Error::invalid(format!("{}: {e}", file.display())))?;
        write_atomically(&file, text.as_bytes())
    }

    /// What a process was started from: what is only said of a VM makes no difference to it.
    pub fn start_hash(definition: &Definition) -> String {
        Self::hash(&Definition {
            tags: Vec::new(),
            note: None,
            autostart: false,
            template: false,
            created_at: None,
            ..definition.clone()
        })
    }

    /// What must still hold when a plan runs: the content of the definition, without layout.
    pub fn hash(definition: &Definition) -> String {
        let text = definition.to_toml().unwrap_or_default();
        let digest = Sha256::digest(text.as_bytes());
        digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Whether a file is there, or may be: a folder may be closed to this user.
pub fn is_there(file: &Path) -> bool {
    match fs::symlink_metadata(file) {
        Ok(_) => true,
        Err(e) => !matches!(
            e.kind(),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
        ),
    }
}

/// Keys in a text that mean nothing, as paths: `disks.0.cahce`.
pub(super) fn unknown_in(text: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    // Whether it can be read at all is told by `parse`.
    if let Ok(deserializer) = toml::Deserializer::parse(text) {
        let _: std::result::Result<Definition, _> =
            serde_ignored::deserialize(deserializer, |path| unknown.push(path.to_string()));
    }
    unknown
}

/// A text as a definition, its paths as they stand there.
pub(super) fn parse(file: &Path, text: &str) -> Result<Definition> {
    match toml::from_str(text) {
        Ok(definition) => Ok(definition),
        Err(e) => {
            let format = text
                .parse::<toml::Table>()
                .ok()
                .and_then(|table| table.get("format")?.as_integer())
                .unwrap_or_default();
            if format > i64::from(FORMAT) {
                return Err(Error::invalid(format!(
                    "{} was written by a newer corral (format {format}) and cannot be read by this one",
                    file.display()
                ))
                .remedy("Use the newer corral."));
            }
            let (line, column) = position(text, e.span().map_or(0, |span| span.start));
            Err(Error::invalid(format!(
                "{}:{line}:{column}: {}",
                file.display(),
                shown(e.message().trim())
            ))
            .remedy("Mend that line in an editor; the rest of the fleet works."))
        }
    }
}

fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

/// Reads a definition: a plain file that this user or root owns, since it decides what is run.
fn read(file: &Path, name: &str) -> Result<String> {
    let meta = match fs::metadata(file) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(
                Error::not_found(format!("there is no VM called \"{}\"", shown(name)))
                    .remedy("List them: corral list"),
            );
        }
        Err(e) => return Err(fault("read", file, e)),
    };
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me && meta.uid() != 0 {
        return Err(Error::refused(format!(
            "{} belongs to another user (uid {})",
            file.display(),
            meta.uid()
        ))
        .remedy(format!("If it is yours: chown {me} '{}'", file.display())));
    }
    if meta.mode() & 0o002 != 0 {
        return Err(Error::refused(format!(
            "{} may be written by anybody, and it says what is run",
            file.display()
        ))
        .remedy(format!(
            "Look through it, then: chmod o-w '{}'",
            file.display()
        )));
    }
    if !meta.is_file() || meta.len() > LONGEST {
        return Err(Error::invalid(format!(
            "{} is not a definition",
            file.display()
        )));
    }
    fs::read_to_string(file).map_err(|e| fault("read", file, e))
}

#[cfg(test)]
mod tests {
    use super::super::definition::tests::sample;
    use super::*;
    use crate::model::ErrorKind;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Dirs::under(dir.path()));
        (dir, store)
    }

    #[test]
    fn comes_back_as_it_was_written() {
        let (_keep, store) = store();
        let vm = sample("my vm", &store.dir("my vm").unwrap());
        store.save(&vm).unwrap();
        assert_eq!(store.load("my vm").unwrap(), vm);
        let file = store.dir("my vm").unwrap().join(DEFINITION);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("path = \"disk0.qcow2\"") && text.contains("memory = \"256M\""));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            fs::metadata(file.parent().unwrap()).unwrap().mode() & 0o777,
            0o700
        );
        assert_eq!(store.list().unwrap().len(), 1);
    }

    #[test]
    fn hand_edits_stay_and_mistakes_are_located() {
        let (_keep, store) = store();
        let mut vm = sample("web", &store.dir("web").unwrap());
        vm.note = Some("old".into());
        store.save(&vm).unwrap();
        let file = store.dir("web").unwrap().join(DEFINITION);
        let text = fs::read_to_string(&file).unwrap();
        let text = format!("# mine\nflavour = \"x\"\n{text}").replace(
            "bus = \"virtio\"",
            "bus = \"virtio\" # fast\ncache = \"none\"",
        );
        fs::write(&file, &text).unwrap();
        let mut vm = store.load("web").unwrap();
        vm.cpus = 3;
        vm.note = None;
        store.save(&vm).unwrap();
        let after = fs::read_to_string(&file).unwrap();
        for kept in ["# mine", "flavour = \"x\"", "cache = \"none\"", "cpus = 3"] {
            assert!(after.contains(kept), "{kept} in\n{after}");
        }
        assert!(!after.contains("note"));
        fs::write(&file, after.replace("cpus = 3", "cpus = \"three\"")).unwrap();
        let error = store.load("web").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(
            error.message.contains("vm.toml:6:8: invalid type"),
            "{error}"
        );
        assert!(store.save(&vm).is_err());
        assert!(store.list().unwrap()[0].definition.is_err());
    }

    #[test]
    fn a_definition_that_anybody_may_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_keep, store) = store();
        let vm = sample("web", &store.dir("web").unwrap());
        store.save(&vm).unwrap();
        let file = store.file("web").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        let error = store.load("web").unwrap_err();
        assert!(error.to_string().contains("chmod o-w"), "{error}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
        assert!(store.load("web").is_ok());
    }

    #[test]
    fn a_newer_format_is_looked_at_only() {
        let (_keep, store) = store();
        let vm = sample("web", &store.dir("web").unwrap());
        store.save(&vm).unwrap();
        let file = store.dir("web").unwrap().join(DEFINITION);
        let text = fs::read_to_string(&file)
            .unwrap()
            .replace("format = 1", "format = 2");
        fs::write(&file, &text).unwrap();
        let newer = store.load("web").unwrap();
        assert!(newer.readonly_reason().is_some());
        assert_eq!(store.save(&vm).unwrap_err().kind, ErrorKind::Refused);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        fs::write(&file, "format = 7\nname = 3\n").unwrap();
        assert!(
            store
                .load("web")
                .unwrap_err()
                .message
                .contains("newer corral")
        );
    }

    #[test]
    fn odd_folders_do_no_harm() {
        let (_keep, store) = store();
        make_dir(&store.root().join("no vm here")).unwrap();
        make_dir(&store.root().join("empty")).unwrap();
        make_dir(&store.root().join("dir").join(DEFINITION)).unwrap();
        let vm = sample("a", &store.dir("a").unwrap());
        store.save(&vm).unwrap();
        fs::create_dir_all(store.dir("b").unwrap()).unwrap();
        fs::copy(
            store.dir("a").unwrap().join(DEFINITION),
            store.dir("b").unwrap().join(DEFINITION),
        )
        .unwrap();
        let list = store.list().unwrap();
        let seen: Vec<_> = list
            .iter()
            .map(|e| (e.name.as_str(), e.definition.is_ok()))
            .collect();
        assert_eq!(seen, [("a", true), ("b", false), ("dir", false)]);
    }
}
