//! Every recipe of `docs/recipes/` and every guide of `docs/setup/` is run as it stands, on a real guest or server, and
//! checked by other means than corral's own word.
//!
//! A page's ```` ```sh ```` blocks and its `<!-- check` comments are one bash script, in order, in an empty home.
//! A page that begins with `<!-- lab: incus -->` has a server of Incus: `$INCUS_DIR`, `$PROJECT`, `$URL`, and the Incus client beside it.
//! `$GUEST` is the lab guest's disk; in checks `guest NAME COMMAND` runs a command inside of that machine and `fails COMMAND`
//! wants it to fail.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "backends/guest.rs"]
mod guest;
#[path = "backends/incus_lab.rs"]
mod incus_lab;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// One page at a time: each boots a guest, and a port that was free for two is taken by one.
const AT_ONCE: usize = 1;

/// A piece of a page's script, with the line it stands in.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    line: usize,
    text: String,
}

/// The script pieces of a page.
fn pieces(page: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut open: Option<(&str, Piece)> = None;
    for (n, line) in page.lines().enumerate() {
        open = match open {
            None => {
                let end = match line.trim_end() {
                    "```sh" => Some("```"),
                    "<!-- check" => Some("-->"),
                    _ => None,
                };
                end.map(|end| {
                    let text = String::new();
                    (end, Piece { line: n + 2, text })
                })
            }
            Some((end, piece)) if line.trim_end() == end => {
                found.push(piece);
                None
            }
            Some((end, mut piece)) => {
                piece.text.push_str(line);
                piece.text.push('\n');
                Some((end, piece))
            }
        };
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

const PRELUDE: &str = r#"set -Eeuo pipefail
trap 'status=$?; echo "FAILED (exit $status) in the block of line $BLOCK: $BASH_COMMAND" >&2' ERR
guest() {
    local name=$1 n
    shift
    for n in $(seq 60); do
        ssh -F none -q -i "$KEY" -o BatchMode=yes -o ConnectTimeout=5 -o StrictHostKeyChecking=no \
            -o UserKnownHostsFile=/dev/null -o "ProxyCommand=corral dial local/$name" root@guest true </dev/null && break
        sleep 1
    done
    ssh -F none -q -i "$KEY" -o BatchMode=yes -o ConnectTimeout=20 -o StrictHostKeyChecking=no \
        -o UserKnownHostsFile=/dev/null -o "ProxyCommand=corral dial local/$name" root@guest "$@" </dev/null
}
fails() { if "$@"; then echo "should have failed: $*" >&2; return 1; fi; }
"#;

fn script(page: &str) -> String {
    let mut text = PRELUDE.to_owned();
    for piece in pieces(page) {
        text.push_str(&format!("BLOCK={}\n{}", piece.line, piece.text));
    }
    text
}

/// Ends what a page left running: processes with its home in their command line.
fn sweep(home: &Path) {
    let marker = format!("{}/", home.display());
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&marker) {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}

/// The server a page wants.
fn server(page: &str) -> Option<&str> {
    let line = page.lines().next()?.strip_prefix("<!-- lab: ")?;
    line.strip_suffix(" -->")
}

/// Variables of an environment.
type Vars = Vec<(String, String)>;

/// What a page finds in its environment; `None`: the server it wants is not here.
fn surroundings(page: &str) -> Option<(Vars, Option<incus_lab::Place>)> {
    match server(page) {
        None => Some((Vec::new(), None)),
        Some("incus") => {
            let place = incus_lab::Place::new("recipes")?;
            let client = place.home.path().join("incus").display().to_string();
            let dir = Path::new(place.socket())
                .parent()
                .unwrap()
                .display()
                .to_string();
            let vars = [
                ("INCUS_DIR", dir),
                ("INCUS_CONF", client),
                ("INCUS_PROJECT", place.project.clone()),
                ("PROJECT", place.project.clone()),
                ("URL", place.facts["LAB_A_URL"].clone()),
            ];
            let vars = vars.into_iter().map(|(key, value)| (key.to_owned(), value));
            Some((vars.collect(), Some(place)))
        }
        Some(other) => panic!("there is no lab {other}"),
    }
}

/// Runs one page; what went wrong.
fn run(file: &Path, disk: Option<&Path>) -> Result<(), String> {
    let page = std::fs::read_to_string(file).unwrap();
    let (Some((vars, _place)), true) = (
        surroundings(&page),
        server(&page).is_some() || disk.is_some(),
    ) else {
        return Ok(());
    };
    let home = tempfile::Builder::new().prefix("cr").tempdir().unwrap();
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_corral"), bin.join("corral")).unwrap();
    let key = home.path().join("key");
    if let Some(disk) = disk {
        std::fs::copy(disk.with_file_name("id_ed25519"), &key).unwrap();
    }
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let path = std::env::var("PATH").unwrap();
    let ended = Command::new("bash")
        .args(["-c", &script(&page)])
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("TMPDIR", home.path())
        .env("GUEST", disk.unwrap_or(Path::new("")))
        .env("KEY", &key)
        .envs(vars)
        .current_dir(&work)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    sweep(home.path());
    if ended.status.success() {
        return Ok(());
    }
    Err(format!(
        "{}: {}\n{}\n{}",
        file.display(),
        ended.status,
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    ))
}

#[test]
fn every_recipe_does_what_it_says() {
    let disk = guest::guest();
    if Command::new("ssh").arg("-V").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "ssh is not installed");
        eprintln!("skipped (daemon): ssh is not installed: apt install openssh-client");
        return;
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let only = std::env::var("CORRAL_RECIPE").unwrap_or_default();
    let mut pages: Vec<PathBuf> = ["recipes", "setup"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(docs.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|e| e == "md"))
        .filter(|file| file.to_string_lossy().contains(&only))
        .collect();
    pages.sort();
    assert!(!pages.is_empty(), "no page is called {only:?}");
    let queue = Mutex::new(pages);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(file) = { queue.lock().unwrap().pop() } {
                    if let Err(why) = run(&file, disk.as_deref()) {
                        failed.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn blocks_and_checks_of_a_page_are_one_script() {
    let page = "# Title\n```sh\na\n```\ntext\n```console\n$ no\n```\n<!-- check\nb\nc\n-->\n<!-- a remark -->\n";
    let found = pieces(page);
    let text: Vec<_> = found.iter().map(|p| (p.line, p.text.as_str())).collect();
    assert_eq!(text, [(3, "a\n"), (10, "b\nc\n")]);
}

#[test]
fn a_page_that_is_wrong_fails_and_says_where() {
    let page = "```sh\ntrue\n```\n<!-- check\ntrue\nfalse | true\n-->\n";
    let ended = Command::new("bash")
        .args(["-c", &script(page)])
        .output()
        .unwrap();
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("block of line 5"), "{said}");
}
