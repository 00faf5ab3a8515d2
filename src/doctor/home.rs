//! Checks of corral's own files: who may read them, whether there is room, what is left over.

use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::model::{
    Action, Bytes, Check, Dirs, Error, Result, Step, counted, encode_segment, shown,
};

/// With less than this left, a task file or a journal line may not be written any more.
const SCARCE: u64 = 64 << 20;
/// Worth saying before it is too late: a cache of a large fleet takes some of it.
const LOW: u64 = 512 << 20;
/// A file that is being replaced is there for a moment; after this long whoever wrote it is gone.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Nobody means a machine by a list that is so old.
const OLD_CACHE: Duration = Duration::from_secs(30 * 86400);

/// What there is to look at.
#[derive(Clone, Debug)]
pub struct Home {
    /// The folders.
    pub dirs: Dirs,
    /// Files with secrets in them, as the configuration names them.
    pub secrets: Vec<PathBuf>,
    /// The configuration has a secret in it.
    pub literal: bool,
    /// Contexts that are configured or were found.
    pub contexts: Vec<String>,
}

/// The check that `--fix` mends by itself.
fn fix(id: &str) -> Action {
    Action::new("doctor").with("fix", true).with("check", id)
}

/// All checks.
pub fn checks(home: &Home) -> Vec<Check> {
    let mut found = space(&home.dirs);
    found.push(modes(home));
    found.push(caches(home));
    found.push(abandoned(home));
    found
}

/// Mends what a check of [`checks`] found; what was done.
///
/// # Errors
/// `Backend` where the file system refuses it, `Unsupported` for a check that only the user can mend.
pub fn repair(home: &Home, check: &str) -> Result<String> {
    let failed = |path: &Path, error: &std::io::Error| {
        Error::backend(format!("{}: {error}", path.display()))
    };
    match check {
        "corral.modes" => {
            let open = too_open(home);
            for (path, mode) in &open {
                let mode = std::fs::Permissions::from_mode(*mode);
                std::fs::set_permissions(path, mode).map_err(|e| failed(path, &e))?;
            }
            Ok(format!("{} closed to others", open.len()))
        }
        "corral.cache" | "corral.leftovers" => {
            let files = if check == "corral.cache" {
                unused_caches(home)
            } else {
                abandoned_files(home)
            };
            for path in &files {
                match std::fs::remove_file(path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(failed(path, &error));
                    }
                    _ => {}
                }
            }
            Ok(format!("{} removed", files.len()))
        }
        _ => Err(Error::unsupported(format!(
            "{check} is for you to mend; corral doctor says how"
        ))),
    }
}

/// Room where corral writes; folders of one file system count once.
fn space(dirs: &Dirs) -> Vec<Check> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for dir in [&dirs.state, &dirs.data, &dirs.cache] {
        let Some(there) = dir.ancestors().find(|path| path.exists()) else {
            continue;
        };
        let device = std::fs::metadata(there).map_or(0, |facts| facts.dev());
        if !seen.insert(device) {
            continue;
        }
        match rustix::fs::statvfs(there) {
            Ok(facts) => {
                let free = facts.f_bavail.saturating_mul(facts.f_frsize);
                // A file system without inodes of its own says 0 of 0.
                let full = facts.f_files > 0 && facts.f_favail == 0;
                found.push(room(dir, free, full));
            }
            Err(error) => found.push(
                Check::warn(
                    "corral.space",
                    format!("the room in {} is not known: {error}", path(dir)),
                )
                .remedy(format!("Look at: df -h '{}'", path(dir))),
            ),
        }
    }
    found
}

fn room(dir: &Path, free: u64, no_inodes: bool) -> Check {
    let text = format!("{} free in {}", Bytes(free), path(dir));
    let remedy = format!("Free some space: df -h '{}'", path(dir));
    if no_inodes {
        Check::fail(
            "corral.space",
            format!("no more files can be made in {}", path(dir)),
        )
        .remedy(format!("Remove some: df -i '{}'", path(dir)))
    } else if free < SCARCE {
        Check::fail(
            "corral.space",
            format!("only {text}: tasks and history may be lost"),
        )
        .remedy(remedy)
    } else if free < LOW {
        Check::warn("corral.space", format!("only {text}")).remedy(remedy)
    } else {
        Check::ok("corral.space", text)
    }
}

/// Files and folders that others may read or change, with the mode they should have.
fn too_open(home: &Home) -> Vec<(PathBuf, u32)> {
    let dirs = &home.dirs;
    let mut wanted: Vec<(PathBuf, u32, u32)> = Vec::new();
    for dir in [&dirs.state, &dirs.data, &dirs.cache] {
        wanted.push((dir.clone(), 0o077, 0o700));
    }
    // A configuration may be shared to read, as long as there is no secret in it.
    wanted.push((dirs.config.clone(), 0o022, 0o700));
    let config = if home.literal { 0o077 } else { 0o022 };
    wanted.push((dirs.config.join("config.toml"), config, 0o600));
    wanted.extend(home.secrets.iter().map(|file| (file.clone(), 0o077, 0o600)));
    for file in ["trust.toml", "protect.toml", "journal.jsonl"] {
        wanted.push((dirs.state.join(file), 0o077, 0o600));
    }
    wanted
        .into_iter()
        .filter(|(path, bad, _)| {
            std::fs::metadata(path).is_ok_and(|facts| facts.permissions().mode() & bad != 0)
        })
        .map(|(path, _, mode)| (path, mode))
        .collect()
}

fn modes(home: &Home) -> Check {
    let open = too_open(home);
    let Some((first, mode)) = open.first() else {
        return Check::ok("corral.modes", "corral's files are this user's alone");
    };
    let more = match open.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let message = format!("others may read or change {}{more}", path(first));
    let secret = open.iter().any(|(path, _)| {
        home.secrets.contains(path)
            || (home.literal && *path == home.dirs.config.join("config.toml"))
    });
    let check = if secret {
        Check::fail(
            "corral.modes",
            format!("{message}; there is a secret in it"),
        )
    } else {
        Check::warn("corral.modes", message)
    };
    check
        .remedy(format!(
            "chmod {mode:o} '{}', or corral doctor --fix",
            path(first)
        ))
        .by(open.iter().map(|(file, mode)| {
            let native = format!("chmod {mode:o} '{}'", path(file));
            Step::new("Close it to others", native)
        }))
        .fix(fix("corral.modes"))
}

/// Caches of contexts that are gone, and those that nobody has refreshed for long.
fn unused_caches(home: &Home) -> Vec<PathBuf> {
    let known: BTreeSet<String> = home
        .contexts
        .iter()
        .map(|name| encode_segment(name))
        .collect();
    let mut found = Vec::new();
    for folder in ["inventory", "snapshots"] {
        for file in files(&home.dirs.cache.join(folder)) {
            let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let Some(stem) = name
                .strip_suffix(".json")
                .filter(|stem| !stem.starts_with('.'))
            else {
                continue;
            };
            if !known.contains(stem) || age(&file).is_some_and(|age| age > OLD_CACHE) {
                found.push(file);
            }
        }
    }
    found
}

fn caches(home: &Home) -> Check {
    let unused = unused_caches(home);
    let Some(first) = unused.first() else {
        return Check::ok("corral.cache", "the cache holds contexts that are in use");
    };
    Check::warn(
        "corral.cache",
        format!(
            "{} of contexts that are gone, or older than {} days, such as {}",
            counted(unused.len(), "cached list"),
            OLD_CACHE.as_secs() / 86400,
            path(first)
        ),
    )
    .remedy(format!("rm '{}', or corral doctor --fix", path(first)))
    .by(unused.iter().map(|file| removal(file)))
    .fix(fix("corral.cache"))
}

/// Files that were to replace another and never did.
fn abandoned_files(home: &Home) -> Vec<PathBuf> {
    let dirs = &home.dirs;
    let folders = [
        dirs.config.clone(),
        dirs.state.clone(),
        dirs.state.join("tasks"),
        dirs.state.join("events"),
        dirs.cache.clone(),
        dirs.cache.join("inventory"),
        dirs.cache.join("snapshots"),
    ];
    folders
        .iter()
        .flat_map(|dir| files(dir))
        .filter(|file| {
            let name = file
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or("");
            name.starts_with('.') && file.extension().is_some_and(|ending| ending == "new")
        })
        .filter(|file| age(file).is_some_and(|age| age > ABANDONED))
        .collect()
}

fn abandoned(home: &Home) -> Check {
    let files = abandoned_files(home);
    let Some(first) = files.first() else {
        return Check::ok("corral.leftovers", "no half-written files");
    };
    Check::warn(
        "corral.leftovers",
        format!(
            "{} half-written files of a corral that was killed, such as {}",
            files.len(),
            path(first)
        ),
    )
    .remedy(format!("rm '{}', or corral doctor --fix", path(first)))
    .by(files.iter().map(|file| removal(file)))
    .fix(fix("corral.leftovers"))
}

fn removal(file: &Path) -> Step {
    Step::new("Remove it", format!("rm '{}'", path(file)))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .filter_map(std::result::Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found
}

/// Since it was written; of a file from the future nothing is known.
fn age(file: &Path) -> Option<Duration> {
    let written = std::fs::metadata(file).ok()?.modified().ok()?;
    SystemTime::now().duration_since(written).ok()
}

fn path(path: &Path) -> String {
    shown(&path.display().to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CheckStatus;

    fn home() -> (tempfile::TempDir, Home) {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::under(root.path());
        for dir in [&dirs.config, &dirs.state, &dirs.data, &dirs.cache] {
            std::fs::create_dir_all(dir).unwrap();
            mode(dir, 0o700);
        }
        let home = Home {
            dirs,
            secrets: Vec::new(),
            literal: false,
            contexts: vec!["hv1".to_owned()],
        };
        (root, home)
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn write(path: &Path, wanted: u32, hours: u64) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
        mode(path, wanted);
        let then = SystemTime::now() - Duration::from_secs(hours * 3600);
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(then).unwrap();
    }

    fn of(home: &Home, id: &str) -> Check {
        let mut found = checks(home);
        found.retain(|check| check.id == id);
        found.swap_remove(0)
    }

    /// What is not well says what to do, and is well once it is repaired.
    fn mended(home: &Home, id: &str, status: CheckStatus) -> Check {
        let check = of(home, id);
        assert_eq!(check.status, status, "{check:?}");
        assert!(check.remedy.is_some() && check.fix.is_some(), "{check:?}");
        repair(home, id).unwrap();
        assert_eq!(of(home, id).status, CheckStatus::Ok);
        check
    }

    #[test]
    fn a_new_home_is_well() {
        let (_root, home) = home();
        for check in checks(&home) {
            if check.id != "corral.space" {
                assert_eq!(check.status, CheckStatus::Ok, "{check:?}");
            }
        }
    }

    #[test]
    fn open_files_are_closed() {
        let (_root, mut home) = home();
        let config = home.dirs.config.join("config.toml");
        write(&config, 0o644, 0);
        assert_eq!(
            of(&home, "corral.modes").status,
            CheckStatus::Ok,
            "no secret in it"
        );
        write(&config, 0o664, 0);
        let check = mended(&home, "corral.modes", CheckStatus::Warn);
        assert!(check.message.contains("config.toml"), "{check:?}");
        write(&config, 0o644, 0);
        home.literal = true;
        let check = mended(&home, "corral.modes", CheckStatus::Fail);
        assert!(check.remedy.unwrap().contains("chmod 600"));
        let secret = home.dirs.config.join("secrets/pve");
        write(&secret, 0o640, 0);
        home.secrets.push(secret);
        mended(&home, "corral.modes", CheckStatus::Fail);
        mode(&home.dirs.state, 0o755);
        mended(&home, "corral.modes", CheckStatus::Warn);
    }

    #[test]
    fn caches_nobody_uses_go_and_the_others_stay() {
        let (_root, home) = home();
        let inventory = home.dirs.cache.join("inventory");
        write(&inventory.join("hv1.json"), 0o600, 24);
        assert_eq!(of(&home, "corral.cache").status, CheckStatus::Ok);
        write(&inventory.join("gone.json"), 0o600, 24);
        let check = mended(&home, "corral.cache", CheckStatus::Warn);
        assert!(check.message.contains("gone.json"), "{check:?}");
        assert!(inventory.join("hv1.json").exists());
        write(&inventory.join("hv1.json"), 0o600, 24 * 31);
        mended(&home, "corral.cache", CheckStatus::Warn);
    }

    #[test]
    fn half_written_files_go_once_their_writer_is_surely_gone() {
        let (_root, home) = home();
        let file = home.dirs.state.join(".aBc12.new");
        write(&file, 0o600, 0);
        assert_eq!(
            of(&home, "corral.leftovers").status,
            CheckStatus::Ok,
            "it may be at work"
        );
        write(&file, 0o600, 2);
        mended(&home, "corral.leftovers", CheckStatus::Warn);
        assert!(!file.exists());
    }

    #[test]
    fn little_room_is_told_before_there_is_none() {
        let dir = Path::new("/x");
        assert_eq!(room(dir, 1 << 40, false).status, CheckStatus::Ok);
        assert_eq!(room(dir, 100 << 20, false).status, CheckStatus::Warn);
        assert_eq!(room(dir, 1 << 20, false).status, CheckStatus::Fail);
        let full = room(dir, 1 << 40, true);
        assert!(full.remedy.unwrap().contains("df -i"));
        assert_eq!(space(&Dirs::under(Path::new("/nonexistent/x"))).len(), 1);
    }

    #[test]
    fn what_only_the_user_can_mend_is_not_repaired() {
        let (_root, home) = home();
        assert!(repair(&home, "corral.space").is_err());
    }
}
