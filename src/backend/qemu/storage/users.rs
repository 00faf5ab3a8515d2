//! Which VMs need which file: their disks, and all that those stand on.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::super::ctx::Ctx;
use super::super::image::{Header, header};
use super::super::store::{self, real};
use crate::model::{InstanceId, Result};

/// Longer chains are not followed: nothing makes them.
const LONGEST: usize = 200;

/// Who needs what, as the definitions and the images say now.
pub struct Users {
    of: BTreeMap<PathBuf, Vec<InstanceId>>,
    /// Definitions that cannot be read need a file when they name it anywhere.
    unread: Vec<(InstanceId, String)>,
    /// Folders in which the definitions name files.
    folders: Vec<PathBuf>,
}

impl Users {
    /// Reads every definition, and the headers of all images from each disk down.
    ///
    /// # Errors
    /// When the definitions cannot be listed.
    pub fn read(ctx: &Ctx) -> Result<Self> {
        let mut users = Self {
            of: BTreeMap::new(),
            unread: Vec::new(),
            folders: Vec::new(),
        };
        let mut headers = HashMap::new();
        for entry in ctx.store.list()? {
            let id = ctx.id(&entry.name);
            let Ok(vm) = entry.definition else {
                let text = ctx.store.text(&entry.name);
                users.unread.push((id, text));
                continue;
            };
            for file in store::files(&vm) {
                users.folders.extend(file.parent().map(real));
                users.chain(file, &id, &mut headers);
            }
        }
        // What was detached, or kept when its VM was deleted, needs what is below it as ever.
        for name in ctx.store.folders()? {
            let id = ctx.id(&name);
            for (_, below) in ctx.store.images_on_top(&name) {
                users.chain(&below, &id, &mut headers);
            }
        }
        users.folders.sort();
        users.folders.dedup();
        Ok(users)
    }

    fn chain(
        &mut self,
        file: &Path,
        id: &InstanceId,
        headers: &mut HashMap<PathBuf, Option<Header>>,
    ) {
        let mut next = Some(real(file));
        for _ in 0..LONGEST {
            let Some(path) = next.take() else { return };
            let users = self.of.entry(path.clone()).or_default();
            // What it stands on was seen with it.
            if users.contains(id) {
                return;
            }
            users.push(id.clone());
            let header = headers.entry(path).or_insert_with_key(|path| header(path));
            next = header
                .as_ref()
                .and_then(|header| header.backing.as_deref().map(real));
        }
    }

    /// Those that need this file.
    pub fn of(&self, file: &Path) -> Vec<InstanceId> {
        let file = real(file);
        let mut users = self.of.get(&file).cloned().unwrap_or_default();
        let unread = self.unread.iter();
        users.extend(
            unread
                .filter(|(_, text)| store::names(text, &file))
                .map(|(id, _)| id.clone()),
        );
        users
    }

    /// Folders in which the definitions name files, each once.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Every file that some VM needs.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.of.keys().map(PathBuf::as_path)
    }
}
