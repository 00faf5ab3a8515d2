//! Looking at a real guest, typing into it, and files in and out, by the program itself.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may end where it stands and says what it skips"
)]

mod lab;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use corral::backend::contract::{DiskSource, Firmware};
use corral::model::{Bytes, State};
use lab::guest::{guest, has_qemu};
use lab::{Lab, request};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The program, to its end.
fn corral(lab: &Lab, words: &[&str]) -> Output {
    lab.corral(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .current_dir(lab.root.path())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(err)
    )
}

fn works(lab: &Lab, words: &[&str]) -> String {
    let output = corral(lab, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    said(&output)
}

fn refused(lab: &Lab, words: &[&str]) -> String {
    let output = corral(lab, words);
    assert!(!output.status.success(), "{words:?}: {}", said(&output));
    said(&output)
}

/// Until the screen or a log is as wanted.
fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !seen() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_is_looked_at_and_typed_into() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    lab.define(&image, "web").await;
    off(&lab);
    works(&lab, &["start", "web"]);
    lab.until("web", State::Running).await;
    let at = lab.login("web", 0).await;

    logs(&lab);
    pictures(&lab);
    copies(&lab, at).await;
    keys(&lab, at).await;
    lab.power_off("web").await;
}

fn off(lab: &Lab) {
    for words in [&["screenshot", "web"][..], &["sendkey", "web", "a"]] {
        let text = refused(lab, words);
        assert!(text.contains("corral start local/web"), "{text}");
    }
    assert!(works(lab, &["logs", "web"]).contains("empty"));
}

fn logs(lab: &Lab) {
    let text = works(lab, &["logs", "web"]);
    assert!(text.contains("lab-guest login:"), "{text}");
    assert!(!text.contains('\r') && !text.contains('\u{1b}'), "{text:?}");
    assert_eq!(
        works(lab, &["logs", "web", "--tail", "2"]).lines().count(),
        2
    );
    let text = works(lab, &["logs", "web", "--source", "qemu"]);
    assert!(text.contains("-name guest=web"), "{text}");
    assert!(works(lab, &["logs", "web", "--list"]).contains("serial"));
    let text = refused(lab, &["logs", "web", "--source", "seriel"]);
    assert!(text.contains("Did you mean --source serial?"), "{text}");
    let raw = corral(lab, &["logs", "web", "--raw"]);
    assert!(raw.stdout.contains(&b'\r'), "{}", said(&raw));
}

fn pictures(lab: &Lab) {
    let words = ["screenshot", "web", "--to", "web.png"];
    works(lab, &words);
    let file = lab.root.path().join("web.png");
    let first = std::fs::read(&file).unwrap();
    assert!(first.starts_with(b"\x89PNG") && first.ends_with(b"IEND\xaeB`\x82"));
    let text = refused(lab, &words);
    assert!(text.contains("--overwrite"), "{text}");
    assert_eq!(std::fs::read(&file).unwrap(), first);
    works(
        lab,
        &["screenshot", "web", "--to", "web.png", "--overwrite"],
    );
    let piped = corral(lab, &["screenshot", "web", "--to", "-"]);
    assert!(piped.stdout.starts_with(b"\x89PNG"), "{}", said(&piped));
    let text = refused(lab, &["screenshot", "web", "--to", "no/where.png"]);
    assert!(text.contains("there is no folder no"), "{text}");
    let vm = lab.ctx.store.load("web").unwrap();
    let dir = lab.ctx.paths(&vm.uuid).unwrap().dir;
    assert!(!names(&dir).iter().any(|name| name.starts_with("screen-")));
}

fn names(dir: &Path) -> Vec<String> {
    let all = std::fs::read_dir(dir).unwrap().flatten();
    all.map(|e| e.file_name().to_string_lossy().into_owned())
        .collect()
}

async fn keys(lab: &Lab, at: usize) {
    let text = refused(lab, &["sendkey", "web", "ctrl-alt-delte"]);
    assert!(text.contains("Did you mean delete?"), "{text}");
    let text = refused(lab, &["sendkey", "web", "--text", "ü"]);
    assert!(text.contains("US keyboard"), "{text}");
    works(lab, &["sendkey", "web", "--text", "root", "ret"]);
    // The console's password prompt is on the screen only.
    let screen = || corral(lab, &["screenshot", "web", "--to", "-"]).stdout;
    let before = screen();
    until("the screen changes", || screen() != before);
    tokio::time::sleep(Duration::from_secs(2)).await;
    works(lab, &["sendkey", "web", "--text", "corral-test", "ret"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let line = r#"echo "A~b_C'd|{}9#" >/tmp/typed"#;
    works(lab, &["sendkey", "web", "--text", line, "ret"]);
    // A message of the login may stand in between: the answer is waited for, line by line.
    let (mut text, mut at) = (String::new(), at);
    for _ in 0..60 {
        (text, at) = lab.shell("web", "cat /tmp/typed", at).await;
        if text.contains("A~b_C'd|{}9#") {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(text.contains("A~b_C'd|{}9#"), "{text}");
    // What was typed may have been a password.
    let history = works(lab, &["history", "-o", "json"]);
    assert!(!history.contains("corral-test"), "{history}");
}

/// Files in and out; what the guest says of them counts.
async fn copies(lab: &Lab, at: usize) {
    use std::os::unix::fs::PermissionsExt as _;
    let here = lab.root.path().join("in.bin");
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|n| (n.wrapping_mul(n) >> 7) as u8)
        .collect();
    std::fs::write(&here, &bytes).unwrap();
    std::fs::set_permissions(&here, std::fs::Permissions::from_mode(0o640)).unwrap();
    let to = "web:/data/in.bin";
    let done = works(lab, &["cp", "in.bin", to]);
    assert!(done.contains("SHA-256 compared"), "{done}");
    let hash = Sha256::digest(&bytes);
    let hash: String = hash.iter().map(|b| format!("{b:02x}")).collect();
    let look = "sha256sum /data/in.bin; stat -c 'mode %a' /data/in.bin; ls -A /data";
    let (text, at) = lab.shell("web", look, at).await;
    assert!(text.contains(&hash) && text.contains("mode 640"), "{text}");
    assert!(!text.contains(".part"), "{text}");

    // Nothing is replaced unasked, on either side.
    std::fs::write(&here, "other").unwrap();
    let text = refused(lab, &["cp", "in.bin", to]);
    assert!(text.contains("--overwrite"), "{text}");
    let text = refused(lab, &["cp", to, "in.bin"]);
    assert!(text.contains("--overwrite"), "{text}");
    assert_eq!(std::fs::read(&here).unwrap(), b"other");
    works(lab, &["cp", to, "out.bin"]);
    let out = lab.root.path().join("out.bin");
    assert!(std::fs::read(&out).unwrap() == bytes);
    let mode = std::fs::metadata(&out).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    works(lab, &["cp", "in.bin", "web:/data/", "--overwrite"]);
    let (text, _) = lab.shell("web", "cat /data/in.bin; echo", at).await;
    assert!(text.contains("other"), "{text}");

    for (words, why) in [
        (["cp", "web:/data", "x"], "folder"),
        (["cp", "web:/data/none", "x"], "No such file"),
        (["cp", "in.bin", "web:/none/x"], "no folder /none"),
        (["cp", ".", "web:/data/x"], "is a folder"),
        (["cp", "in.bin", "x"], "INSTANCE:/PATH"),
    ] {
        let text = refused(lab, &words);
        assert!(text.contains(why), "{words:?}: {text}");
    }
    assert!(!lab.root.path().join("x").exists());
}

/// What is wrong with an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Says it sent more than it did.
    Counts,
    NoBase64,
    /// Sends on and on, and nothing.
    NoEnd,
    /// What it sent has another hash inside.
    Hash,
    /// Takes nothing of what it is sent.
    TakesNone,
    /// Hangs up in the middle.
    Dies,
    /// Says nothing any more in the middle.
    Hangs,
}

type Ran = Arc<Mutex<Vec<String>>>;

/// Listens where QEMU would for the agent, and gives a list of what was run inside.
fn agent(lab: &Lab, fault: Fault) -> Ran {
    let vm = lab.ctx.store.load("dumb").unwrap();
    let path = lab.ctx.paths(&vm.uuid).unwrap().agent;
    std::fs::remove_file(&path).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    let ran = Ran::default();
    let list = Arc::clone(&ran);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let list = Arc::clone(&list);
            std::thread::spawn(move || answer(&stream, fault, &list));
        }
    });
    ran
}

fn answer(mut stream: &UnixStream, fault: Fault, ran: &Ran) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let from = line.iter().rposition(|b| *b == 0xff).map_or(0, |at| at + 1);
        let asked: Value = serde_json::from_slice(&line[from..]).unwrap_or_default();
        line.clear();
        let args = &asked["arguments"];
        let value = match asked["execute"].as_str().unwrap_or_default() {
            "guest-sync-delimited" => args["id"].clone(),
            "guest-info" => {
                let names = ["open", "read", "write"].map(|n| format!("guest-file-{n}"));
                let names = names
                    .into_iter()
                    .chain(["guest-exec", "guest-exec-status"].map(Into::into));
                let list: Vec<Value> = names.map(|n| json!({"name": n, "enabled": true})).collect();
                json!({ "supported_commands": list })
            }
            "guest-file-open" if args["path"] == "/new" => {
                let text = json!({"error": {"desc": "No such file or directory"}});
                writeln!(stream, "{text}")?;
                continue;
            }
            "guest-file-open" => json!(7),
            "guest-file-seek" => {
                json!({"position": if args["whence"] == "end" { 3 } else { 0 }, "eof": false})
            }
            "guest-file-read" => match fault {
                Fault::Counts => json!({"count": 4, "buf-b64": "YWJj", "eof": true}),
                Fault::NoBase64 => json!({"count": 3, "buf-b64": "Y\u{1b}[2J", "eof": true}),
                Fault::NoEnd => json!({"count": 0, "buf-b64": "", "eof": false}),
                Fault::Dies => return Ok(()),
                Fault::Hangs => continue,
                _ => json!({"count": 3, "buf-b64": "YWJj", "eof": true}),
            },
            "guest-file-write" => match fault {
                Fault::Counts => json!({"count": 1_000_000}),
                Fault::TakesNone => json!({"count": 0}),
                Fault::NoEnd | Fault::NoBase64 => json!({}),
                Fault::Dies => return Ok(()),
                Fault::Hangs => continue,
                // One byte at a time is slow, and right.
                _ => json!({"count": 1}),
            },
            "guest-exec" => {
                let words: Vec<&str> = args["arg"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(Value::as_str)
                    .collect();
                let mut list = ran.lock().unwrap();
                list.push(format!(
                    "{} {}",
                    args["path"].as_str().unwrap(),
                    words.join(" ")
                ));
                json!({"pid": list.len() - 1})
            }
            "guest-exec-status" => {
                let list = ran.lock().unwrap();
                let what = &list[usize::try_from(args["pid"].as_u64().unwrap()).unwrap()];
                // SHA-256 of "abc".
                let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
                let hash = if fault == Fault::Hash {
                    hash.replace('b', "c")
                } else {
                    hash.to_owned()
                };
                let out = if what.starts_with("sha256sum") {
                    base64(&hash)
                } else {
                    String::new()
                };
                let code = i32::from(what == "test -d /new" || what == "test -d /old");
                json!({"exited": true, "exitcode": code, "out-data": out})
            }
            _ => json!({}),
        };
        if asked["execute"] == "guest-sync-delimited" {
            stream.write_all(&[0xff])?;
        }
        writeln!(stream, "{}", json!({ "return": value }))?;
    }
    Ok(())
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_lies_or_hangs_corrupts_nothing() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let mut wanted = request("dumb", DiskSource::Blank, Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(8));
    wanted.memory = Bytes::mib(64);
    lab.make(wanted).await.unwrap();
    works(&lab, &["start", "dumb"]);
    let file = lab.root.path().join("abc");
    std::fs::write(&file, "abc").unwrap();

    let text = refused(&lab, &["cp", "dumb:/old", "out"]);
    assert!(text.contains("qemu-guest-agent"), "{text}");

    let ran = agent(&lab, Fault::None);
    works(&lab, &["cp", "dumb:/old", "out"]);
    assert_eq!(std::fs::read(lab.root.path().join("out")).unwrap(), b"abc");
    std::fs::remove_file(lab.root.path().join("out")).unwrap();
    works(&lab, &["cp", "abc", "dumb:/new"]);
    let list = ran.lock().unwrap().clone();
    assert!(
        list.iter()
            .any(|l| l.starts_with("mv -f /.new.") && l.ends_with(" /new")),
        "{list:?}"
    );

    for fault in [
        Fault::Counts,
        Fault::NoBase64,
        Fault::NoEnd,
        Fault::Hash,
        Fault::TakesNone,
        Fault::Dies,
        Fault::Hangs,
    ] {
        let ran = agent(&lab, fault);
        if fault != Fault::TakesNone {
            let text = refused(&lab, &["cp", "dumb:/old", "out", "--timeout", "2s"]);
            assert!(
                !text.contains('\u{1b}') && !text.contains("done"),
                "{fault:?}: {text}"
            );
        }
        let text = refused(&lab, &["cp", "abc", "dumb:/new", "--timeout", "2s"]);
        let list = ran.lock().unwrap().clone();
        assert!(
            !list.iter().any(|line| line.starts_with("mv ")),
            "{fault:?}: {list:?}"
        );
        let cleared = list.iter().any(|line| line.starts_with("rm -f /.new."));
        assert!(cleared || text.contains("left inside"), "{fault:?}: {text}");
        let here = names(lab.root.path());
        let odd = here
            .iter()
            .find(|name| *name == "out" || name.contains(".part"));
        assert_eq!(odd, None, "{fault:?}");
    }
    lab.power_off("dumb").await;
}
