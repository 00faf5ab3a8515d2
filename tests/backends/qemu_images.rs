//! Images: from servers that behave and servers that do not, and what VMs make of them.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it stands"
)]

mod lab;
mod web;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use corral::backend::contract::{
    Changes as _, DiskSource, Firmware, ImageRequest, Images as _, NoAsker, Permit, PermitRequest,
    ReadCx, TaskCx,
};
use corral::backend::qemu::images::Pulled;
use corral::model::{Consent, Error, ErrorKind, Gate, Image, Outcome, Result, State, Support};
use lab::guest::{guest, has_qemu};
use lab::{Lab, READ, request, task_within};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use web::{Asked, Say, Web, answer, half, ranged};

/// A qcow2 image with enough in it to be cut in two.
fn image(dir: &Path, name: &str) -> Vec<u8> {
    let path = dir.join(name);
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2"])
        .arg(&path)
        .arg("64M")
        .status();
    assert!(made.unwrap().success());
    std::fs::read(path).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    format!("sha256:{hex}")
}

struct Bench {
    lab: Lab,
    images: Pulled,
}

impl Bench {
    fn new() -> Self {
        let lab = Lab::new();
        let mut ctx = (*lab.ctx).clone();
        // A server that says nothing is given up soon.
        ctx.spec.read_timeout = Some(1);
        Self {
            images: Pulled(Arc::new(ctx)),
            lab,
        }
    }

    fn pull_request(source: &str, checksum: Option<&str>) -> ImageRequest {
        ImageRequest::Pull {
            source: source.to_owned(),
            checksum: checksum.map(str::to_owned),
            name: None,
        }
    }

    async fn pull(&self, source: &str, checksum: Option<&str>) -> Result<Outcome> {
        let on = self.lab.instance("image", State::Stopped);
        let wanted = Self::pull_request(source, checksum);
        self.lab.change(&self.images, &on, wanted).await
    }

    async fn delete(&self, name: &str) -> Result<Outcome> {
        let on = self.lab.instance("image", State::Stopped);
        let image = name.to_owned();
        self.lab
            .change(&self.images, &on, ImageRequest::Delete { image })
            .await
    }

    async fn list(&self) -> Vec<Image> {
        self.images.images(&ReadCx::quiet(READ)).await.unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.lab.ctx.env.dirs.data.join("images")
    }

    /// Files that are there, but locks.
    fn files(&self) -> Vec<String> {
        let mut files: Vec<String> = std::fs::read_dir(self.folder())
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect();
        files.sort();
        files
    }

    async fn fails(&self, source: &str, checksum: Option<&str>) -> Error {
        let error = self.pull(source, checksum).await.unwrap_err();
        assert!(
            self.list().await.iter().all(|i| !source.contains(&i.name)),
            "{source}"
        );
        error
    }
}

fn cancellable(cancel: CancellationToken) -> TaskCx {
    let permit = Permit::issue(&PermitRequest {
        readonly: None,
        gate: &Gate::Free,
        consent: &Consent::default(),
        support: &Support::Native,
        command: "corral",
    });
    let id = corral::model::InstanceId::new("local", None, "image");
    let (events, _) = tokio::sync::mpsc::unbounded_channel();
    TaskCx::new(permit.unwrap(), id, events, cancel, Arc::new(NoAsker), None)
}

/// What the server does, by path; `file` is the image that it has.
fn behave(asked: &Asked, file: &[u8]) -> Say {
    let name = asked.path.rsplit('/').next().unwrap_or("");
    match asked.path.as_str() {
        "/circle" => Say::Raw(answer("302 Found", "Location: /circle/back\r\n", 0, b"")),
        "/circle/back" => Say::Raw(answer("302 Found", "Location: /circle\r\n", 0, b"")),
        "/moved.qcow2" => Say::Raw(answer(
            "302 Found",
            "Location: /deep/good.qcow2\r\n",
            0,
            b"",
        )),
        path if path.starts_with("/far/") => {
            let next = format!("Location: /far/x{name}\r\n");
            Say::Raw(answer("302 Found", &next, 0, b""))
        }
        "/SUMS" => {
            let list = format!(
                "{}  good.qcow2\n{}  bad.qcow2\n",
                &sha256(file)[7..],
                "0".repeat(64)
            );
            Say::Raw(answer("200 OK", "", list.len(), list.as_bytes()))
        }
        "/none.qcow2" => Say::Raw(answer("404 Not Found", "", 0, b"")),
        "/page.qcow2" => {
            let page = b"<html>log in</html>";
            Say::Raw(answer(
                "200 OK",
                "Content-Type: text/html; charset=utf-8\r\n",
                page.len(),
                page,
            ))
        }
        // The same without saying so.
        "/junk.qcow2" => Say::Raw(answer("200 OK", "", 19, b"<html>log in</html>")),
        "/huge.qcow2" => Say::Raw(answer("200 OK", "", usize::MAX / 4, &file[..100])),
        "/silent.qcow2" => Say::Stall(Vec::new()),
        "/cut.qcow2" if asked.before == 0 => Say::Raw(half(file, "ETag: \"one\"\r\n")),
        "/stalls.qcow2" if asked.before == 0 => Say::Stall(half(file, "ETag: \"one\"\r\n")),
        "/other.qcow2" if asked.before == 0 => {
            let mut old = file.to_vec();
            old[30_000] ^= 1;
            Say::Raw(half(&old, "ETag: \"zero\"\r\n"))
        }
        // It cannot go on, and is cut each time.
        "/hopeless.qcow2" => Say::Raw(half(file, "")),
        // It promises more than it has.
        "/long.qcow2" => Say::Raw(answer("200 OK", "", file.len() + 1000, file)),
        // It promises less.
        "/short.qcow2" => Say::Raw(answer("200 OK", "", file.len() - 1000, file)),
        // It answers with another part than the one asked for.
        "/part.qcow2" if asked.from.is_some() => {
            let range = "ETag: \"one\"\r\nContent-Range: bytes 0-9/100\r\n";
            Say::Raw(answer("206 Partial Content", range, 10, &file[..10]))
        }
        "/part.qcow2" => Say::Raw(half(file, "ETag: \"one\"\r\n")),
        _ => Say::Raw(ranged(asked, file)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_whole_is_kept_and_what_was_cut_goes_on() {
    if !has_qemu() {
        return;
    }
    let bench = Bench::new();
    let file = image(bench.lab.root.path(), "src.qcow2");
    let (sum, served) = (sha256(&file), file.clone());
    let web = Web::start(move |asked| behave(asked, &served)).await;
    let kept = |name: &str| std::fs::read(bench.folder().join(name)).unwrap();

    let done = bench
        .pull(&web.url("/a/good.qcow2"), Some(&web.url("/SUMS")))
        .await
        .unwrap();
    assert!(done.message.unwrap().ends_with("good is here"));
    assert_eq!(kept("good.qcow2"), file);
    let listed = bench.list().await;
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].checksum.as_deref(), Some(sum.as_str()));
    assert!(listed[0].pulled_at.is_some() && listed[0].used_by == Some(Vec::new()));
    let again = bench.pull(&web.url("/a/good.qcow2"), None).await.unwrap();
    assert!(!again.changed, "{again:?}");
    let other = bench
        .pull(&web.url("/b/good.qcow2"), None)
        .await
        .unwrap_err();
    assert!(
        other.to_string().contains("another image called good"),
        "{other}"
    );

    // Followed to where it is; cut in the middle, and gone on with from there.
    bench
        .pull(&web.url("/moved.qcow2"), Some(&sum))
        .await
        .unwrap();
    bench
        .pull(&web.url("/cut.qcow2"), Some(&sum))
        .await
        .unwrap();
    assert_eq!(kept("cut.qcow2"), file);
    assert_eq!(web.asked("/cut.qcow2"), [None, Some(file.len() / 2)]);

    // Another file is there by now: nothing of the old one stays.
    bench
        .pull(&web.url("/other.qcow2"), Some(&sum))
        .await
        .unwrap();
    assert_eq!(kept("other.qcow2"), file);

    // The server falls silent. What came is kept, and the next pull goes on.
    let error = bench.fails(&web.url("/stalls.qcow2"), None).await;
    assert_eq!(error.kind, ErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("are kept"), "{error}");
    assert!(bench.files().contains(&"stalls.partial".to_owned()));
    bench.pull(&web.url("/stalls.qcow2"), None).await.unwrap();
    assert_eq!(kept("stalls.qcow2"), file);
    assert_eq!(web.asked("/stalls.qcow2"), [None, Some(file.len() / 2)]);
    assert!(
        bench.files().iter().all(|name| !name.contains("partial")),
        "{:?}",
        bench.files()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_what_was_promised_is_never_an_image() {
    if !has_qemu() {
        return;
    }
    let bench = Bench::new();
    let root = bench.lab.root.path();
    let file = image(root, "src.qcow2");
    let (sum, served) = (sha256(&file), file.clone());
    let web = Web::start(move |asked| behave(asked, &served)).await;
    let zero = format!("sha256:{}", "0".repeat(64));
    for (path, checksum, kind, says) in [
        (
            "/good.qcow2",
            Some(zero.as_str()),
            ErrorKind::Backend,
            "not what was promised",
        ),
        (
            "/bad.qcow2",
            Some("/SUMS"),
            ErrorKind::Backend,
            "not what was promised",
        ),
        (
            "/unlisted.qcow2",
            Some("/SUMS"),
            ErrorKind::Backend,
            "has no checksum of",
        ),
        (
            "/good.qcow2",
            Some("/none.qcow2"),
            ErrorKind::NotFound,
            "404",
        ),
        ("/none.qcow2", None, ErrorKind::NotFound, "404"),
        ("/page.qcow2", None, ErrorKind::Backend, "a web page"),
        ("/junk.qcow2", None, ErrorKind::Invalid, "no disk image"),
        ("/huge.qcow2", None, ErrorKind::Refused, "not enough space"),
        ("/silent.qcow2", None, ErrorKind::TimedOut, "said nothing"),
        ("/circle", None, ErrorKind::Refused, "in a circle"),
        (
            "/far/1.qcow2",
            None,
            ErrorKind::Refused,
            "more than 10 times",
        ),
        ("/hopeless.qcow2", None, ErrorKind::Unreachable, "hopeless"),
        ("/long.qcow2", None, ErrorKind::Unreachable, "long"),
        (
            "/short.qcow2",
            Some(sum.as_str()),
            ErrorKind::Backend,
            "not what was promised",
        ),
    ] {
        let checksum = checksum.map(|c| {
            if c.starts_with('/') {
                web.url(c)
            } else {
                c.to_owned()
            }
        });
        let error = bench.fails(&web.url(path), checksum.as_deref()).await;
        assert_eq!(error.kind, kind, "{path}: {error}");
        assert!(error.to_string().contains(says), "{path}: {error}");
        assert_eq!(bench.files(), Vec::<String>::new(), "{path}");
    }
    let error = bench.fails(&web.url("/part.qcow2"), Some(&sum)).await;
    assert!(error.to_string().contains("another part"), "{error}");
    assert!(
        error.to_string().contains("corral image delete part"),
        "{error}"
    );
    assert!(bench.delete("part").await.unwrap().changed);
    assert_eq!(bench.files(), Vec::<String>::new());
    let nobody = bench.fails("http://127.0.0.1:1/x.qcow2", None).await;
    assert_eq!(nobody.kind, ErrorKind::Unreachable, "{nobody}");

    // An image that names a file of this machine must not come in.
    let secret = root.join("secret.qcow2");
    image(root, "secret.qcow2");
    let overlay = root.join("over.qcow2");
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"])
        .args([&secret, &overlay])
        .status();
    assert!(made.unwrap().success());
    let error = bench
        .fails(&format!("file://{}", overlay.display()), None)
        .await;
    assert!(
        error.to_string().contains("another file as its base"),
        "{error}"
    );
    assert_eq!(bench.files(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_ends_when_it_is_told_to_and_another_one_is_kept_off() {
    if !has_qemu() {
        return;
    }
    let mut bench = Bench::new();
    let mut ctx = (*bench.lab.ctx).clone();
    ctx.spec.read_timeout = Some(60);
    bench.images = Pulled(Arc::new(ctx));
    let file = image(bench.lab.root.path(), "src.qcow2");
    let served = file.clone();
    let web = Web::start(move |asked| behave(asked, &served)).await;
    let url = web.url("/stalls.qcow2");
    let on = bench.lab.instance("image", State::Stopped);
    let prepared = bench
        .lab
        .prepare(&bench.images, &on, Bench::pull_request(&url, None))
        .await;
    let second = bench
        .lab
        .prepare(&bench.images, &on, Bench::pull_request(&url, None))
        .await;
    let cancel = CancellationToken::new();
    let (images, cx) = (bench.images.clone(), cancellable(cancel.clone()));
    let running = tokio::spawn(async move { images.run(&cx, prepared).await });
    let partial = bench.folder().join("stalls.partial");
    while std::fs::metadata(&partial).map_or(0, |meta| meta.len()) < (file.len() / 2) as u64 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let off = bench
        .images
        .run(&cancellable(CancellationToken::new()), second)
        .await;
    let off = off.unwrap_err();
    assert_eq!(off.kind, ErrorKind::Conflict, "{off}");
    cancel.cancel();
    let error = running.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("are kept"), "{error}");
    // With a limit over all; the server is well by now.
    let prepared = bench
        .lab
        .prepare(&bench.images, &on, Bench::pull_request(&url, None))
        .await;
    assert!(
        prepared.notes.iter().any(|n| n.contains("Goes on")),
        "{:?}",
        prepared.notes
    );
    let cx = task_within(&on.id, Some(Duration::from_secs(60)));
    bench.images.run(&cx, prepared).await.unwrap();
    assert_eq!(
        std::fs::read(bench.folder().join("stalls.qcow2")).unwrap(),
        file
    );
    assert_eq!(web.asked("/stalls.qcow2"), [None, Some(file.len() / 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_stays_as_long_as_a_disk_stands_on_it() {
    let Some(guest) = guest() else { return };
    let bench = Bench::new();
    let lab = &bench.lab;
    bench
        .pull(&format!("file://{}", guest.display()), None)
        .await
        .unwrap();
    let path = bench.folder().join("guest.qcow2");
    assert_eq!(
        std::fs::read(&path).unwrap(),
        std::fs::read(&guest).unwrap()
    );
    let wanted = request(
        "web",
        DiskSource::Backed("guest".to_owned()),
        Firmware::Bios,
    );
    lab.make(wanted).await.unwrap();
    let disk = lab.ctx.store.load("web").unwrap().disks[0].path.clone();
    let info = Command::new("qemu-img")
        .arg("info")
        .arg(&disk)
        .output()
        .unwrap();
    let info = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(
        info.contains(&format!("backing file: {}", path.display())),
        "{info}"
    );

    // What stands on it two steps up needs it as well, whatever its own definition says.
    let top = disk.with_file_name("top.qcow2");
    let made = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"])
        .args([&disk, &top])
        .status();
    assert!(made.unwrap().success());
    let toml = lab.ctx.store.dir("web").unwrap().join("vm.toml");
    let text = std::fs::read_to_string(&toml).unwrap();
    let moved: String = text
        .replace("disk0.qcow2", "top.qcow2")
        .lines()
        .filter(|line| !line.starts_with("backing"))
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(&toml, moved).unwrap();
    let error = bench.delete("guest").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.message.contains("local/web"), "{error}");
    // And so does a definition that nobody can read.
    std::fs::write(&toml, format!("cpus = \"three\"\n{text}")).unwrap();
    let error = bench.delete("guest").await.unwrap_err();
    assert!(error.message.contains("local/web"), "{error}");
    assert!(path.exists());
    std::fs::remove_dir_all(toml.parent().unwrap()).unwrap();
    bench.delete("guest").await.unwrap();
    assert_eq!(bench.files(), Vec::<String>::new());
    assert!(guest.exists());
}

/// Runs corral; its standard output and error, and how it ended.
fn corral(lab: &Lab, words: &[&str]) -> (String, String, i32) {
    let output = lab
        .corral(words)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code().unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_ones_own_are_pulled_by_name() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    let file = image(lab.root.path(), "src.qcow2");
    let (sum, served) = (sha256(&file), file.clone());
    let web = Web::start(move |asked| behave(asked, &served)).await;
    let config = lab.root.path().join(".config/corral/config.toml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    let text = format!(
        "[[image]]\nname = \"golden\"\nurl = \"{}\"\nchecksum = \"{sum}\"\ntitle = \"Ours\"\n\n\
         [[image]]\nname = \"odd\"\nurl = \"gopher://x\"\n\n[[image]]\nname = \"two\"\nurll = \"https://x/y\"\n",
        web.url("/good.qcow2")
    );
    std::fs::write(&config, text).unwrap();
    let (_, _, code) = corral(&lab, &["config", "check"]);
    assert_eq!(code, 1);
    let (out, _, _) = corral(&lab, &["config", "check", "-o", "json"]);
    for wanted in ["url must be a URL with https", "unknown key", "has no url"] {
        assert!(out.contains(wanted), "{wanted} in {out}");
    }
    let (out, _, code) = corral(&lab, &["image", "search", "-o", "name"]);
    assert!(
        code == 0 && out.starts_with("local/golden\nlocal/debian-13\n"),
        "{out}"
    );
    let (out, _, _) = corral(
        &lab,
        &["image", "search", "DEBIAN", "13", "arm", "-o", "name"],
    );
    assert_eq!(out, "local/debian-13-arm64\n");

    let (_, err, code) = corral(&lab, &["create", "web", "--image", "golden", "-y"]);
    assert!(code == 5 && err.contains("no image called"), "{err}");
    let (_, err, code) = corral(&lab, &["create", "web", "--image", "debian-13", "-y"]);
    assert!(
        code == 5 && err.contains("corral image pull debian-13"),
        "{err}"
    );
    let (out, err, code) = corral(&lab, &["image", "pull", "golden"]);
    assert!(code == 0 && out.contains("golden is here"), "{out}{err}");
    let made = [
        "create",
        "web",
        "--image",
        "golden",
        "--firmware",
        "bios",
        "-y",
    ];
    assert_eq!(corral(&lab, &made).2, 0);
    let disk = lab.ctx.store.load("web").unwrap().disks[0].path.clone();
    let same = Command::new("qemu-img")
        .args(["compare", "-q"])
        .arg(disk)
        .arg(lab.root.path().join("src.qcow2"))
        .status();
    assert!(same.unwrap().success());
    // It is a copy: nothing needs the image.
    let (out, _, _) = corral(&lab, &["image", "list", "--unused", "-o", "name"]);
    assert_eq!(out, "local/golden\n");
    let (out, _, _) = corral(&lab, &["storage", "info", "images", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let volume = &json["pools"][0]["volumes"][0];
    assert_eq!(volume["name"], "golden.qcow2");
    assert_eq!(volume["size_bytes"], 64 << 20);
    assert_eq!(volume["orphan"], true);
    let (out, _, code) = corral(&lab, &["image", "delete", "golden", "--dry-run"]);
    assert!(code == 0 && out.contains("golden.qcow2"), "{out}");
    let (_, err, code) = corral(&lab, &["image", "delete", "golden", "-y"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(corral(&lab, &["image", "delete", "golden", "-y"]).2, 5);
    assert_eq!(corral(&lab, &["image", "pull", "debian-31"]).2, 5);
    assert_eq!(
        corral(&lab, &["image", "pull", "http://example.invalid/x.img"]).2,
        6
    );
}
