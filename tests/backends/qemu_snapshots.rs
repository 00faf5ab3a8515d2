//! Snapshots of running guests, hibernate, and disks that fail: seen from inside of the guest, and by
//! `qemu-img`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod lab;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use corral::backend::contract::{
    DiskSource, Firmware, HibernateRequest, PauseRequest, PowerRequest, ReadCx, SnapshotRequest,
    TakeSnapshot,
};
use corral::backend::qemu::families::Snapshots;
use corral::backend::qemu::hibernate::Hibernate;
use corral::backend::qemu::op::{self, Phase};
use corral::backend::qemu::snapshots::HIBERNATED;
use corral::model::{Bytes, Consistency, Outcome, Result, Snapshot, State};
use lab::guest::{guest, has_qemu};
use lab::{Lab, READ, request};
use serde_json::{Value, json};

/// The exit code, and what was printed.
fn says(lab: &Lab, words: &[&str]) -> (i32, String) {
    let output = lab
        .corral(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap_or(-1), text)
}

fn run(lab: &Lab, words: &[&str]) -> String {
    let (code, text) = says(lab, words);
    assert_eq!(code, 0, "{words:?}: {text}");
    text
}

async fn list(lab: &Lab, name: &str) -> Vec<Snapshot> {
    let id = lab.ctx.id(name);
    let detail = lab.backend().detail(&ReadCx::quiet(READ), &id).await;
    detail.unwrap().snapshots
}

async fn names(lab: &Lab, name: &str) -> Vec<String> {
    list(lab, name).await.into_iter().map(|s| s.name).collect()
}

async fn change(lab: &Lab, name: &str, request: SnapshotRequest) -> Result<Outcome> {
    let on = lab.row(name).await;
    lab.change(&Snapshots(lab.ctx.clone()), &on, request).await
}

async fn hibernate(lab: &Lab, name: &str) -> Result<Outcome> {
    let on = lab.row(name).await;
    let family = Hibernate(lab.ctx.clone());
    lab.change(&family, &on, HibernateRequest).await
}

/// The tags in an image, by `qemu-img`'s word; of one in use too.
fn tags(image: &Path) -> String {
    let output = Command::new("qemu-img")
        .args(["snapshot", "-U", "-l"])
        .arg(image)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn disk(lab: &Lab, name: &str) -> PathBuf {
    lab.ctx.store.load(name).unwrap().disks[0].path.clone()
}

/// A VM that waits in its firmware for something to boot.
async fn idle(lab: &Lab, name: &str, memory: Bytes) {
    let mut wanted = request(name, DiskSource::Blank, Firmware::Bios);
    wanted.disk_size = Some(Bytes::mib(64));
    wanted.memory = memory;
    lab.make(wanted).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_guest_had_is_there_again() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    lab.define(&image, "web").await;
    lab.power("web", PowerRequest::Start).await.unwrap();
    let at = lab.login("web", 0).await;
    let begun = "echo before > /data/kept; sync; echo ram > /tmp/ram; (while :; do sleep 1; done) & echo $! > /tmp/pid";
    let (_, at) = lab.shell("web", begun, at).await;
    let until = Instant::now() + READ * 2;
    while lab.row("web").await.agent != Some(true) {
        assert!(Instant::now() < until, "its agent does not come");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    // Frozen by its agent, and it goes on.
    let quiet = TakeSnapshot {
        require: Some(Consistency::Filesystem),
        quiesce: true,
        ..TakeSnapshot::named("quiet")
    };
    let on = lab.row("web").await;
    let plan = lab
        .prepare(
            &Snapshots(lab.ctx.clone()),
            &on,
            SnapshotRequest::Create(quiet.clone()),
        )
        .await;
    assert!(
        plan.notes[0].contains("filesystem"),
        "{plan:?} {:?}",
        plan.notes
    );
    let taken = change(&lab, "web", SnapshotRequest::Create(quiet))
        .await
        .unwrap();
    assert_eq!(
        taken.consistency,
        Some(Consistency::Filesystem),
        "{taken:?}"
    );
    let (_, at) = lab.shell("web", "echo after > /data/after; sync", at).await;

    let whole = TakeSnapshot {
        memory: true,
        ..TakeSnapshot::named("whole")
    };
    change(&lab, "web", SnapshotRequest::Create(whole))
        .await
        .unwrap();
    let (_, at) = lab
        .shell(
            "web",
            "rm /tmp/ram /data/after; echo gone > /data/gone; sync",
            at,
        )
        .await;
    let seen = list(&lab, "web").await;
    let kinds: Vec<_> = seen
        .iter()
        .map(|s| (s.name.as_str(), s.consistency))
        .collect();
    assert_eq!(
        kinds,
        [
            ("quiet", Some(Consistency::Filesystem)),
            ("whole", Some(Consistency::Memory))
        ]
    );

    // Hibernated: no process, no snapshot of the user's, and back with what runs in it.
    hibernate(&lab, "web").await.unwrap();
    let row = lab.row("web").await;
    assert_eq!(row.state, State::Hibernated, "{row:?}");
    assert!(row.usage.is_none(), "{row:?}");
    assert_eq!(names(&lab, "web").await, ["quiet", "whole"]);
    assert!(tags(&disk(&lab, "web")).contains(HIBERNATED));
    let again = lab.power("web", PowerRequest::Start).await.unwrap();
    let said = again.message.unwrap();
    assert!(said.contains("from where it was"), "{said}");
    let (said, at) = lab
        .shell(
            "web",
            "cat /data/gone; ls /tmp/ram; kill -0 $(cat /tmp/pid) && echo al''ive",
            at,
        )
        .await;
    assert!(said.contains("gone") && said.contains("alive"), "{said}");
    assert!(!tags(&disk(&lab, "web")).contains(HIBERNATED));
    assert_eq!(lab.row("web").await.state, State::Running);

    // Back to the one with RAM: its files, its processes, nothing that came later.
    let back = SnapshotRequest::Restore {
        name: "whole".into(),
        stop: true,
        start: true,
        keep_present: None,
    };
    change(&lab, "web", back).await.unwrap();
    let (said, _) = lab
        .shell(
            "web",
            "cat /tmp/ram /data/after /data/kept; ls /data/gone; kill -0 $(cat /tmp/pid) && echo al''ive",
            at,
        )
        .await;
    for word in ["ram", "after", "before", "alive", "No such file"] {
        assert!(said.contains(word), "{word} in {said}");
    }
    lab.power_off("web").await;
    let back = SnapshotRequest::Restore {
        name: "quiet".into(),
        stop: false,
        start: false,
        keep_present: None,
    };
    change(&lab, "web", back).await.unwrap();
    let sound = Command::new("qemu-img")
        .arg("check")
        .arg(disk(&lab, "web"))
        .status();
    assert!(sound.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_name_keep_and_expire() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for name in ["a", "b"] {
        idle(&lab, name, Bytes::mib(64)).await;
    }
    let rule = [
        "snapshot",
        "create",
        "a",
        "--name-template",
        "n-{n}",
        "--keep",
        "2",
    ];
    run(&lab, &["snapshot", "create", "a", "--name", "mine"]);
    for _ in 0..4 {
        run(&lab, &rule);
    }
    assert_eq!(names(&lab, "a").await, ["mine", "n-3", "n-4"]);
    let listed = tags(&disk(&lab, "a"));
    assert!(
        !listed.contains("n-2") && listed.contains("n-4"),
        "{listed}"
    );
    let plan = run(&lab, &[&rule[..], &["--dry-run"]].concat());
    assert!(plan.contains("n-5") && plan.contains("n-3"), "{plan}");
    assert!(plan.contains("Consistency: offline"), "{plan}");

    // The same rule in the same minute: there already. Later: told.
    let daily = [
        "snapshot",
        "create",
        "a",
        "b",
        "-y",
        "--name-template",
        "{instance}-{date}",
    ];
    run(&lab, &daily);
    let again = run(&lab, &daily);
    assert!(again.contains("taken just now"), "{again}");
    let (code, other) = says(&lab, &["snapshot", "create", "a", "--name", "mine"]);
    assert!(code == 6 && other.contains("already"), "{code} {other}");
    assert_eq!(names(&lab, "b").await.len(), 1);

    for wrong in [
        &["--name", "x", "--keep", "2"][..],
        &["--name-template", "{instance}"],
        &["--name-template", "{day}"],
        &["--with-memory", "--quiesce"],
        &["--keep", "0"],
    ] {
        let (code, said) = says(&lab, &[&["snapshot", "create", "a"][..], wrong].concat());
        assert_eq!(code, 2, "{wrong:?}: {said}");
    }
    let (code, said) = says(&lab, &["snapshot", "create", "a", "--require", "memory"]);
    assert!(code == 6 && said.contains("not running"), "{code} {said}");

    // Expiry.
    assert!(run(&lab, &["gc", "-y"]).contains("nothing has expired"));
    let old = [
        "snapshot",
        "create",
        "a",
        "b",
        "-y",
        "--name",
        "old",
        "--expires",
        "1h",
    ];
    let past = [&old[..], &["--at", "2020-01-01T00:00:00Z"]].concat();
    let plan = run(&lab, &[&past[..], &["--dry-run"]].concat());
    assert!(
        plan.contains("Expired at 2020-01-01T01:00:00Z already"),
        "{plan}"
    );
    run(&lab, &past);
    run(
        &lab,
        &[
            "snapshot",
            "create",
            "a",
            "--name",
            "young",
            "--expires",
            "7d",
        ],
    );
    let shown = run(&lab, &["snapshot", "list", "a"]);
    assert!(shown.contains("expired 2020-01-01 01:00"), "{shown}");
    assert!(shown.contains("expires 20"), "{shown}");
    assert!(shown.contains("(you are here, after young)"), "{shown}");
    let plan = run(&lab, &["gc", "--dry-run"]);
    assert!(
        plan.contains("Delete old from disk0") && !plan.contains("Delete young"),
        "{plan}"
    );
    assert_eq!(says(&lab, &["gc"]).0, 6, "several are asked about");
    run(&lab, &["gc", "-y"]);
    assert!(!names(&lab, "a").await.contains(&"old".to_owned()));
    assert!(!tags(&disk(&lab, "b")).contains("old"));
    assert!(names(&lab, "a").await.contains(&"young".to_owned()));
    assert!(run(&lab, &["gc", "-y"]).contains("nothing has expired"));

    // Two within a second get two names.
    for _ in 0..2 {
        run(
            &lab,
            &[
                "snapshot",
                "restore",
                "a@mine",
                "--keep-present",
                "--present-name",
                "kept",
                "--confirm",
                "a",
            ],
        );
    }
    let seen = names(&lab, "a").await;
    for name in ["kept", "kept-2"] {
        assert!(seen.contains(&name.to_owned()), "{seen:?}");
    }
    assert!(run(&lab, &["snapshot", "list", "a"]).contains("(you are here, after mine)"));
}

/// What listens in place of a guest's agent.
#[derive(Default)]
struct Mood {
    frozen: bool,
    /// This command is carried out and not answered, once.
    hangs: Option<&'static str>,
    /// This command is answered so, and not carried out.
    lies: Option<(&'static str, Value)>,
    calls: Vec<String>,
}

type Agent = Arc<Mutex<Mood>>;

/// Takes the place of the agent of a running VM.
fn agent(lab: &Lab, name: &str) -> Agent {
    let vm = lab.ctx.store.load(name).unwrap();
    let path = lab.ctx.paths(&vm.uuid).unwrap().agent;
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let mood = Agent::default();
    let given = Arc::clone(&mood);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mood = Arc::clone(&mood);
            std::thread::spawn(move || {
                let _ = speak(stream, &mood);
            });
        }
    });
    given
}

fn speak(stream: UnixStream, mood: &Agent) -> std::io::Result<()> {
    let mut answers = stream.try_clone()?;
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let start = line.iter().rposition(|b| *b == 0xff).map_or(0, |at| at + 1);
        let asked: Value = serde_json::from_slice(&line[start..]).unwrap_or_default();
        let word = asked["execute"].as_str().unwrap_or("").to_owned();
        let mut mood = mood.lock().unwrap();
        mood.calls.push(word.clone());
        if let Some((_, answer)) = mood.lies.clone().filter(|(lie, _)| *lie == word) {
            answers.write_all(format!("{answer}\n").as_bytes())?;
            continue;
        }
        let said = match word.as_str() {
            "guest-sync-delimited" => asked["arguments"]["id"].clone(),
            "guest-info" => json!({"supported_commands": [
                {"name": "guest-fsfreeze-freeze", "enabled": true},
                {"name": "guest-fsfreeze-thaw", "enabled": true},
            ]}),
            "guest-fsfreeze-status" if mood.frozen => json!("frozen"),
            "guest-fsfreeze-status" => json!("thawed"),
            "guest-fsfreeze-freeze" => {
                mood.frozen = true;
                json!(2)
            }
            "guest-fsfreeze-thaw" => {
                mood.frozen = false;
                json!(2)
            }
            _ => json!({}),
        };
        if mood.hangs.is_some_and(|hangs| hangs == word) {
            mood.hangs = None;
            continue;
        }
        answers.write_all(format!("{}\n", json!({"return": said})).as_bytes())?;
    }
}

/// Runs corral until the agent has been asked this, and kills it.
fn killed_at(lab: &Lab, mood: &Agent, words: &[&str], call: &'static str) {
    mood.lock().unwrap().calls.clear();
    mood.lock().unwrap().hangs = Some(call);
    let mut child = lab.corral(words).spawn().unwrap();
    let until = Instant::now() + READ;
    while mood.lock().unwrap().hangs.is_some() {
        assert!(Instant::now() < until, "{words:?} never asked {call}");
        assert!(child.try_wait().unwrap().is_none(), "{words:?} has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_guest_stays_frozen() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    idle(&lab, "web", Bytes::mib(64)).await;
    run(&lab, &["start", "web"]);
    let take = |name: &'static str| ["snapshot", "create", "web", "--quiesce", "--name", name];
    let strict = |name: &'static str| {
        [
            "snapshot",
            "create",
            "web",
            "--require",
            "filesystem",
            "--name",
            name,
        ]
    };

    // Nobody answers: refused before anything, or told in the plan.
    let (code, said) = says(&lab, &strict("no"));
    assert!(
        code == 6 && said.contains("would be crash, not filesystem"),
        "{code} {said}"
    );
    let plan = run(&lab, &[&take("no")[..], &["--dry-run"]].concat());
    assert!(
        plan.contains("Consistency: crash") && plan.contains("agent"),
        "{plan}"
    );

    let mood = agent(&lab, "web");
    run(&lab, &strict("good"));
    assert!(!mood.lock().unwrap().frozen);
    assert_eq!(
        list(&lab, "web").await[0].consistency,
        Some(Consistency::Filesystem)
    );

    // Someone else froze it: theirs stays.
    mood.lock().unwrap().frozen = true;
    let (code, said) = says(&lab, &strict("no"));
    assert!(
        code == 6 && said.contains("frozen already"),
        "{code} {said}"
    );
    assert!(mood.lock().unwrap().frozen);
    mood.lock().unwrap().frozen = false;

    // One that freezes and does not say so, one that refuses, one that lies.
    mood.lock().unwrap().hangs = Some("guest-fsfreeze-freeze");
    let said = run(&lab, &[&take("hangs")[..], &["--timeout", "1s"]].concat());
    assert!(said.contains("crash"), "{said}");
    assert!(!mood.lock().unwrap().frozen, "left frozen");
    let words = [
        json!({"error": {"desc": "no\u{1b}[2J"}}),
        json!({"return": "yes"}),
        json!({"return": 0}),
        json!({}),
    ];
    for (n, answer) in words.into_iter().enumerate() {
        mood.lock().unwrap().lies = Some(("guest-fsfreeze-freeze", answer));
        let (code, said) = says(&lab, &strict("no"));
        assert!(
            code == 1 && said.contains("no snapshot was taken"),
            "{code} {said}"
        );
        assert!(!said.contains('\u{1b}'));
        let name = ["l0", "l1", "l2", "l3"][n];
        run(&lab, &take(name));
        let seen = list(&lab, "web").await;
        let taken = seen.iter().find(|s| s.name == name).unwrap();
        assert_eq!(taken.consistency, Some(Consistency::Crash));
    }
    mood.lock().unwrap().lies = None;

    // One that cannot thaw is told, and thawed once it can.
    mood.lock().unwrap().lies = Some(("guest-fsfreeze-thaw", json!({"error": {"desc": "busy"}})));
    let (code, said) = says(&lab, &take("stuck"));
    assert!(
        code == 1 && said.contains("may still be frozen"),
        "{code} {said}"
    );
    assert!(said.contains("doctor --fix"), "{said}");
    mood.lock().unwrap().lies = None;
    run(&lab, &["doctor", "--fix", "-y"]);
    assert!(!mood.lock().unwrap().frozen);
    let kind = |seen: &[Snapshot], name: &str| {
        let found = seen.iter().find(|s| s.name == name);
        found.and_then(|s| s.consistency)
    };
    assert_eq!(
        kind(&list(&lab, "web").await, "stuck"),
        Some(Consistency::Filesystem)
    );

    // Killed before and after the disks were marked.
    killed_at(&lab, &mood, &take("k1"), "guest-fsfreeze-freeze");
    assert!(mood.lock().unwrap().frozen);
    run(&lab, &["doctor", "--fix", "-y"]);
    assert!(!mood.lock().unwrap().frozen);
    assert_eq!(kind(&list(&lab, "web").await, "k1"), None);
    killed_at(&lab, &mood, &take("k2"), "guest-fsfreeze-thaw");
    mood.lock().unwrap().frozen = true;
    run(&lab, &["doctor", "--fix", "-y"]);
    assert!(!mood.lock().unwrap().frozen);
    assert_eq!(
        kind(&list(&lab, "web").await, "k2"),
        Some(Consistency::Filesystem)
    );
    assert!(tags(&disk(&lab, "web")).contains("k2"));
}

/// Kills corral once the change has reached a phase, or a moment later; false: it was done before.
fn killed_in(lab: &Lab, words: &[&str], phase: Phase, then: Duration) -> bool {
    let file = lab.ctx.store.dir("web").unwrap().join(op::FILE);
    let mut child = lab.corral(words).spawn().unwrap();
    let until = Instant::now() + READ * 2;
    loop {
        let reached = op::read(&file).is_ok_and(|op| op.is_some_and(|op| op.phase >= phase));
        if reached || child.try_wait().unwrap().is_some() || Instant::now() >= until {
            break;
        }
    }
    std::thread::sleep(then);
    let _ = child.kill();
    child.wait().unwrap();
    file.exists()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hibernate_or_its_start_that_was_killed_is_whole_or_taken_back() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    idle(&lab, "web", Bytes::mib(256)).await;
    run(&lab, &["start", "web"]);
    let image = disk(&lab, "web");
    let mut hits = 0;
    for (phase, millis) in [
        (Phase::Begun, 0),
        (Phase::Working, 0),
        (Phase::Working, 60),
        (Phase::Working, 200),
        (Phase::Recording, 0),
        (Phase::Recording, 30),
    ] {
        for words in [&["hibernate", "web"][..], &["start", "web"]] {
            let wait = Duration::from_millis(millis);
            hits += usize::from(killed_in(&lab, words, phase, wait));
            let (_, said) = says(&lab, &["doctor", "--fix", "-y"]);
            let row = lab.row("web").await;
            match row.state {
                State::Hibernated => assert!(tags(&image).contains(HIBERNATED)),
                State::Running => assert!(!tags(&image).contains(HIBERNATED)),
                other => panic!("{words:?} {phase:?} {millis}: {other} {row:?} {said}"),
            }
            let dir = lab.ctx.store.dir("web").unwrap();
            assert!(!dir.join(op::FILE).exists(), "{words:?} {phase:?}: {said}");
            // Where it was taken back, it works the next time.
            run(&lab, words);
        }
    }
    assert!(hits > 4, "it was hardly ever hit: {hits}");

    // What was changed meanwhile is told before any call, and can be given up.
    run(&lab, &["hibernate", "web"]);
    assert!(run(&lab, &["hibernate", "web"]).contains("already"));
    let file = lab.ctx.store.dir("web").unwrap().join("vm.toml");
    let before = fs::read_to_string(&file).unwrap();
    let other = before.replace("model = \"virtio\"", "model = \"e1000e\"");
    assert_ne!(other, before);
    fs::write(&file, &other).unwrap();
    let (code, said) = says(&lab, &["start", "web"]);
    assert!(
        code == 6 && said.contains("net0 (virtio") && said.contains("is gone"),
        "{code} {said}"
    );
    assert!(said.contains("--discard-state"), "{said}");
    fs::write(&file, &before).unwrap();
    let (code, said) = says(&lab, &["start", "web", "--discard-state"]);
    assert!(code == 6, "{code} {said}");
    // Its image lost it.
    let copy = image.with_extension("copy");
    fs::copy(&image, &copy).unwrap();
    let gone = Command::new("qemu-img")
        .args(["snapshot", "-d", HIBERNATED])
        .arg(&image)
        .status();
    assert!(gone.unwrap().success());
    let (code, said) = says(&lab, &["start", "web"]);
    assert!(code == 6 && said.contains("not in disk0"), "{code} {said}");
    fs::rename(&copy, &image).unwrap();
    let plan = run(&lab, &["delete", "web", "--dry-run"]);
    assert!(plan.contains("saved when it was hibernated"), "{plan}");
    run(
        &lab,
        &["start", "web", "--discard-state", "--confirm", "web"],
    );
    assert_eq!(lab.row("web").await.state, State::Running);
    assert!(!tags(&image).contains(HIBERNATED));

    // A restore takes the place of what was saved; saved RAM that does not fit is refused.
    run(
        &lab,
        &[
            "snapshot",
            "create",
            "web",
            "--name",
            "ram",
            "--with-memory",
        ],
    );
    run(&lab, &["hibernate", "web"]);
    let plan = run(
        &lab,
        &["snapshot", "create", "web", "--name", "cold", "--dry-run"],
    );
    assert!(
        plan.contains("Consistency: crash") && plan.contains("hibernated"),
        "{plan}"
    );
    run(
        &lab,
        &["snapshot", "restore", "web@ram", "--confirm", "web"],
    );
    assert_eq!(lab.row("web").await.state, State::Stopped);
    assert!(!tags(&image).contains(HIBERNATED));
    fs::write(&file, &other).unwrap();
    let words = [
        "snapshot",
        "restore",
        "web@ram",
        "--start",
        "--confirm",
        "web",
    ];
    let (code, said) = says(&lab, &words);
    assert!(
        code == 6 && said.contains("net0 (e1000e") && said.contains("is new"),
        "{code} {said}"
    );
    assert_eq!(lab.row("web").await.state, State::Stopped);
    fs::write(&file, &before).unwrap();
    run(&lab, &words);
    assert_eq!(lab.row("web").await.state, State::Running);
}

/// Boots into a loop that writes one sector into each cluster of its disk.
const WRITER: [u8; 48] = [
    0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xd0, 0xbc, 0x00, 0x7c, 0xbe, 0x20, 0x7c, 0xb8, 0x00, 0x43, 0xb2,
    0x80, 0xcd, 0x13, 0x66, 0x81, 0x06, 0x28, 0x7c, 0x80, 0x00, 0x00, 0x00, 0xeb, 0xeb, 0x66, 0x90,
    0x10, 0x00, 0x01, 0x00, 0x00, 0x7c, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
];

/// A file system of its own size; gone with it.
struct Small(PathBuf);

impl Small {
    fn new(dir: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(dir).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir)
            .status();
        mounted.unwrap().success().then(|| Self(dir.to_owned()))
    }

    fn resize(&self, size: &str) {
        let done = Command::new("mount")
            .args(["-o", &format!("remount,size={size}")])
            .arg(&self.0)
            .status();
        assert!(done.unwrap().success());
    }
}

impl Small {
    /// Leaves so many KiB free.
    fn leave(&self, free: u64) {
        let now = rustix::fs::statvfs(&self.0).unwrap();
        let used = (now.f_blocks - now.f_bfree) * now.f_frsize;
        self.resize(&format!("{}k", (used >> 10) + free));
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_halts_the_guest_and_loses_nothing() {
    if !has_qemu() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root for a file system of its own size");
        return;
    }
    let lab = Lab::new();
    let Some(small) = Small::new(&lab.ctx.env.dirs.data, "200m") else {
        eprintln!("skipped: cannot mount a tmpfs here");
        return;
    };
    let raw = lab.root.path().join("writer.raw");
    let mut content = vec![0; 1 << 20];
    content[..WRITER.len()].copy_from_slice(&WRITER);
    content[510..512].copy_from_slice(&[0x55, 0xaa]);
    fs::write(&raw, content).unwrap();
    let mut wanted = request(
        "web",
        DiskSource::Copy(raw.to_str().unwrap().to_owned()),
        Firmware::Bios,
    );
    wanted.disk_size = Some(Bytes::mib(64 << 10));
    wanted.memory = Bytes::mib(64);
    lab.make(wanted).await.unwrap();
    small.resize("6m");
    lab.power("web", PowerRequest::Start).await.unwrap();
    let row = lab.until("web", State::Paused).await;
    let folder = disk(&lab, "web").parent().unwrap().display().to_string();
    assert_eq!(
        row.reason,
        Some(format!("I/O error on disk0: no space on {folder}"))
    );
    let listed = run(&lab, &["list", "--filter", "problem:yes", "-o", "name"]);
    assert!(listed.contains("local/web"), "{listed}");

    // What cannot go on does not claim to.
    let (code, said) = says(&lab, &["resume", "web"]);
    assert!(
        code == 1 && said.contains("halted again") && said.contains("no space"),
        "{code} {said}"
    );
    let (code, said) = says(&lab, &["hibernate", "web"]);
    assert!(code == 6 && said.contains("no space"), "{code} {said}");
    let events = run(&lab, &["events", "web"]);
    assert!(events.contains("I/O error on disk0"), "{events}");

    // Room again: it goes on from where it was.
    small.resize("200m");
    lab.pause("web", PauseRequest::Resume).await.unwrap();
    lab.pause("web", PauseRequest::Pause).await.unwrap();

    // Full in the middle of a snapshot with RAM: none, and the guest as it was.
    let family = Snapshots(lab.ctx.clone());
    let on = lab.row("web").await;
    let ram = SnapshotRequest::Create(TakeSnapshot {
        memory: true,
        ..TakeSnapshot::named("ram")
    });
    let planned = lab.prepare(&family, &on, ram).await;
    assert!(planned.refusals.is_empty(), "{planned:?}");
    let hibernating = Hibernate(lab.ctx.clone());
    let sleep = lab.prepare(&hibernating, &on, HibernateRequest).await;
    assert!(sleep.refusals.is_empty(), "{sleep:?}");
    small.leave(100);
    use corral::backend::contract::Changes as _;
    let error = family.run(&lab::task(&on.id), planned).await.unwrap_err();
    let after = lab.row("web").await;
    small.leave(100);
    let late = hibernating
        .run(&lab::task(&on.id), sleep)
        .await
        .unwrap_err();
    let later = lab.row("web").await;
    small.resize("200m");
    assert!(error.message.contains("snapshot-save"), "{error}");
    assert_eq!(after.state, State::Paused, "{after:?}");
    assert!(late.message.contains("stays paused"), "{late}");
    assert_eq!(later.state, State::Paused, "{later:?}");
    assert!(!lab.ctx.store.dir("web").unwrap().join(op::FILE).exists());
    assert!(names(&lab, "web").await.is_empty());
    lab.power_off("web").await;
    let sound = Command::new("qemu-img")
        .arg("check")
        .arg(disk(&lab, "web"))
        .status();
    assert!(matches!(sound.unwrap().code(), Some(0 | 3)));
}
