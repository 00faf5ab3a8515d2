//! The folders that images are kept in, what is in them and who uses it.

mod users;
mod volumes;

pub use users::Users;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::proc;
use super::store::real;
use crate::backend::contract::{ReadCx, Storage};
use crate::model::{Bytes, Error, Result, StoragePool, Volume, shown};

/// A file system that does not answer holds up its own folder alone.
const EACH: Duration = Duration::from_secs(3);

/// The storage family.
#[derive(Clone, Debug)]
pub struct Folders(pub Arc<Ctx>);

/// One folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Folder {
    name: String,
    place: PathBuf,
    /// Images lie in folders below it too.
    deep: bool,
}

/// The pool with the folders of all VMs.
const VMS: &str = "vms";
/// The pool with pulled images.
pub const IMAGES: &str = "images";

/// corral's own folders, then those of other folders that some VM has a file in.
fn folders(ctx: &Ctx, users: &Users) -> Vec<Folder> {
    let data = &ctx.env.dirs.data;
    let own = [
        (VMS, ctx.store.root().to_owned(), true),
        (IMAGES, data.join(IMAGES), false),
        ("backups", data.join("backups"), true),
        ("state", ctx.state_dir(), true),
    ];
    let mut all: Vec<Folder> = own
        .into_iter()
        .map(|(name, place, deep)| Folder {
            name: name.to_owned(),
            place,
            deep,
        })
        .collect();
    for folder in users.folders() {
        let known = |own: &Folder| {
            let place = real(&own.place);
            *folder == place || (own.deep && folder.starts_with(place))
        };
        if !all.iter().any(known) {
            all.push(Folder {
                name: folder.display().to_string(),
                place: folder.clone(),
                deep: false,
            });
        }
    }
    all
}

/// A chain may lead onto a file system that does not answer.
async fn read_users(ctx: &Arc<Ctx>, cx: &ReadCx) -> Result<Arc<Users>> {
    let ctx = Arc::clone(ctx);
    let reading = apart(move || Users::read(&ctx).map(Arc::new));
    cx.within("what the disks stand on", reading).await?
}

/// Work on files, beside the others.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::backend(format!("internal: {e}")))
}

#[async_trait]
impl Storage for Folders {
    async fn pools(&self, cx: &ReadCx) -> Result<Vec<StoragePool>> {
        let ctx = &self.0;
        let users = read_users(ctx, cx).await?;
        let looked = folders(ctx, &users).into_iter().map(|folder| async move {
            let place = folder.place.clone();
            let look = tokio::task::spawn_blocking(move || space(&place));
            let found = match tokio::time::timeout(EACH, look).await {
                Ok(Ok(found)) => found,
                Ok(Err(error)) => Err(format!("internal: {error}")),
                Err(_) => Err("its file system does not answer".to_owned()),
            };
            pool(ctx, &folder, found)
        });
        Ok(futures::future::join_all(looked).await)
    }

    async fn volumes(&self, cx: &ReadCx, pool: &str) -> Result<Vec<Volume>> {
        let ctx = &self.0;
        let users = read_users(ctx, cx).await?;
        let folder = folders(ctx, &users)
            .into_iter()
            .find(|folder| folder.name == pool)
            .ok_or_else(|| Error::not_found(format!("there is no storage {:?}", shown(pool))))?;
        let what = folder.place.display().to_string();
        let known = Arc::clone(&users);
        cx.within(&what, apart(move || volumes::list(&folder, &known)))
            .await?
    }
}

fn pool(
    ctx: &Ctx,
    folder: &Folder,
    found: std::result::Result<(Bytes, Bytes), String>,
) -> StoragePool {
    let (space, fault) = match found {
        Ok(space) => (Some(space), None),
        Err(why) => (None, Some(why)),
    };
    StoragePool {
        context: ctx.spec.name.clone(),
        name: folder.name.clone(),
        kind: "folder".to_owned(),
        place: Some(folder.place.display().to_string()),
        host: Some(proc::host_name()),
        size_bytes: space.map(|(size, _)| size),
        used_bytes: space.map(|(_, used)| used),
        fault,
    }
}

/// Size and use of the file system that a folder is on, or will be on once it is made.
fn space(place: &Path) -> std::result::Result<(Bytes, Bytes), String> {
    let there = place
        .ancestors()
        .find(|dir| super::store::is_there(dir))
        .unwrap_or(Path::new("/"));
    let meta = std::fs::metadata(there).map_err(|e| e.to_string())?;
    if !meta.is_dir() {
        return Err(format!("{} is no folder", shown(&there.to_string_lossy())));
    }
    let stat = rustix::fs::statvfs(there).map_err(|e| e.to_string())?;
    let blocks = |n: u64| n.saturating_mul(stat.f_frsize);
    // Of what is kept back for root nobody else can take anything: it counts as used.
    let (size, free) = (blocks(stat.f_blocks), blocks(stat.f_bavail));
    Ok((Bytes(size), Bytes(size.saturating_sub(free))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_has_the_space_of_its_place() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            space(&dir.path().join("a/b")).unwrap().0,
            space(dir.path()).unwrap().0
        );
        let file = dir.path().join("f");
        std::fs::write(&file, "").unwrap();
        assert!(space(&file.join("x")).unwrap_err().contains("no folder"));
    }
}
