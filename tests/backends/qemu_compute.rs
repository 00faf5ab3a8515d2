//! What a running guest gets and gives back: published ports, network interfaces, CPUs, memory. Each is seen
//! from inside of the guest or from outside of corral.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it stands"
)]

mod lab;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use corral::backend::contract::{
    Changes as _, DiskSource, Firmware, NicRequest, PowerRequest, PublishRequest, ReadCx,
    ResizeRequest, Way,
};
use corral::backend::qemu::definition::Definition;
use corral::backend::qemu::nics::Nics;
use corral::backend::qemu::process;
use corral::backend::qemu::publish::Publish;
use corral::backend::qemu::resize::Resize;
use corral::backend::qemu::slots::Slot;
use corral::model::{Bytes, Detail, ErrorKind, Outcome, Result, State};
use lab::guest::guest;
use lab::{Lab, READ, free_port, request, task, task_within};

/// What sshd inside the guest says to whoever connects: QEMU itself takes any connection.
fn banner(port: u16) -> String {
    let until = Instant::now() + READ;
    loop {
        if let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)) {
            socket
                .set_read_timeout(Some(Duration::from_secs(3)))
                .unwrap();
            let mut bytes = [0; 64];
            if let Ok(n) = socket.read(&mut bytes)
                && n > 0
            {
                return String::from_utf8_lossy(&bytes[..n]).into_owned();
            }
        }
        assert!(Instant::now() < until, "nobody says anything at {port}");
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn is_refused(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

async fn publish(lab: &Lab, name: &str, request: PublishRequest) -> Result<Outcome> {
    let row = lab.row(name).await;
    lab.change(&Publish(lab.ctx.clone()), &row, request).await
}

fn at(port: u16, guest: u16, protocol: &str) -> PublishRequest {
    PublishRequest::Publish {
        address: "127.0.0.1".to_owned(),
        port,
        guest,
        protocol: protocol.to_owned(),
    }
}

fn off(guest: u16, port: Option<u16>, protocol: &str) -> PublishRequest {
    PublishRequest::Unpublish {
        address: None,
        guest,
        port,
        protocol: protocol.to_owned(),
    }
}

fn load(lab: &Lab, name: &str) -> Definition {
    lab.ctx.store.load(name).unwrap()
}

async fn detail(lab: &Lab, name: &str) -> Detail {
    let id = lab.ctx.id(name);
    let detail = lab.backend().detail(&ReadCx::quiet(READ), &id).await;
    detail.unwrap()
}

/// The definition and the process agree.
async fn nothing_pending(lab: &Lab, name: &str) {
    let detail = detail(lab, name).await;
    assert!(detail.pending.is_empty(), "{:?}", detail.pending);
    assert_eq!(detail.instance.reason, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_come_and_go_while_the_guest_runs() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let source = DiskSource::Backed(image.to_str().unwrap().to_owned());
    lab.make(request("web", source.clone(), Firmware::Bios))
        .await
        .unwrap();
    lab.make(request("other", source, Firmware::Bios))
        .await
        .unwrap();
    lab.power("web", PowerRequest::Start).await.unwrap();
    let first = load(&lab, "web").nics[0].forwards[0].port;

    // Taken by another program, by another VM's definition, by the VM itself.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().port();
    let error = publish(&lab, "web", at(taken, 22, "tcp"))
        .await
        .unwrap_err();
    assert!(
        error.message.contains("used by another program") && error.remedy.is_some(),
        "{error}"
    );
    let theirs = load(&lab, "other").nics[0].forwards[0].port;
    let error = publish(&lab, "web", at(theirs, 22, "tcp"))
        .await
        .unwrap_err();
    assert!(error.message.contains("published by other"), "{error}");
    assert!(
        !publish(&lab, "web", at(first, 22, "tcp"))
            .await
            .unwrap()
            .changed
    );
    let error = publish(&lab, "web", at(first, 80, "tcp"))
        .await
        .unwrap_err();
    assert!(error.message.contains("published by web"), "{error}");
    let odd = PublishRequest::Publish {
        address: "::1".to_owned(),
        port: 0,
        guest: 22,
        protocol: "tcp".to_owned(),
    };
    assert!(
        publish(&lab, "web", odd)
            .await
            .unwrap_err()
            .message
            .contains("IPv4")
    );

    // TCP: the guest's sshd answers at the new port, and `dial` takes it too.
    let port = free_port();
    assert!(
        publish(&lab, "web", at(port, 22, "tcp"))
            .await
            .unwrap()
            .changed
    );
    lab.serial("web", "lab-guest login:", 0).await;
    assert!(banner(port).starts_with("SSH-2.0"));
    let row = lab.row("web").await;
    let backend = lab.backend();
    let routes = backend.families().routes().unwrap();
    let ways = routes.routes(&ReadCx::quiet(READ), &row, 22).await.unwrap();
    assert!(
        ways.iter()
            .any(|way| matches!(&way.way, Way::Tcp(_, p) if *p == port))
    );
    nothing_pending(&lab, "web").await;

    // UDP with the same number; a port that corral picks.
    assert!(
        publish(&lab, "web", at(port, 53, "udp"))
            .await
            .unwrap()
            .changed
    );
    assert!(UdpSocket::bind(("127.0.0.1", port)).is_err());
    let picked = publish(&lab, "web", at(0, 8022, "tcp")).await.unwrap();
    let forwards = load(&lab, "web").nics[0].forwards.clone();
    let own = forwards.iter().find(|f| f.guest == 8022).unwrap();
    assert!(
        own.port > 0 && own.picked && !is_refused(own.port),
        "{own:?}"
    );
    assert!(picked.message.unwrap().contains(&own.port.to_string()));

    // Two corrals at once: one of them does it, and it is there once.
    let family = Publish(lab.ctx.clone());
    let again = free_port();
    let row = lab.row("web").await;
    let a = lab.prepare(&family, &row, at(again, 2222, "tcp")).await;
    let b = lab.prepare(&family, &row, at(again, 2222, "tcp")).await;
    let (cx_a, cx_b) = (task(&row.id), task(&row.id));
    let (a, b) = tokio::join!(family.run(&cx_a, a), family.run(&cx_b, b));
    let lost = [&a, &b].into_iter().filter_map(|r| r.as_ref().err());
    let lost: Vec<_> = lost.collect();
    assert_eq!(lost.len(), 1, "{a:?} {b:?}");
    assert_eq!(lost[0].kind, ErrorKind::Conflict);

    // A port that is only taken between plan and run: nothing is half done.
    let row = lab.row("web").await;
    let late = TcpListener::bind("127.0.0.1:0").unwrap();
    let raced = late.local_addr().unwrap().port();
    drop(late);
    let plan = lab.prepare(&family, &row, at(raced, 9, "tcp")).await;
    assert!(plan.refusals.is_empty());
    let late = TcpListener::bind(("127.0.0.1", raced)).unwrap();
    let error = family.run(&task(&row.id), plan).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    assert!(
        load(&lab, "web").nics[0]
            .forwards
            .iter()
            .all(|f| f.guest != 9)
    );
    drop(late);

    // Away again: nobody listens, and the definition says the same.
    let elsewhere = PublishRequest::Unpublish {
        address: Some("0.0.0.0".to_owned()),
        guest: 22,
        port: Some(port),
        protocol: "tcp".to_owned(),
    };
    assert!(!publish(&lab, "web", elsewhere).await.unwrap().changed);
    assert!(!is_refused(port));
    let gone = publish(&lab, "web", off(22, Some(port), "tcp")).await;
    assert!(gone.unwrap().changed);
    assert!(is_refused(port) && banner(first).starts_with("SSH-2.0"));
    assert!(
        publish(&lab, "web", off(53, None, "udp"))
            .await
            .unwrap()
            .changed
    );
    assert!(UdpSocket::bind(("127.0.0.1", port)).is_ok());
    assert!(
        !publish(&lab, "web", off(53, None, "udp"))
            .await
            .unwrap()
            .changed
    );
    nothing_pending(&lab, "web").await;

    // While it is off only the definition changes, and the next start has it.
    lab.power_off("web").await;
    lab.until("web", State::Stopped).await;
    assert!(
        publish(&lab, "web", at(port, 22, "tcp"))
            .await
            .unwrap()
            .changed
    );
    assert!(is_refused(port));
    lab.power("web", PowerRequest::Start).await.unwrap();
    assert!(!is_refused(port));
}

async fn resize(lab: &Lab, name: &str, request: ResizeRequest) -> Result<Outcome> {
    let row = lab.row(name).await;
    lab.change(&Resize(lab.ctx.clone()), &row, request).await
}

async fn nic(lab: &Lab, name: &str, request: NicRequest) -> Result<Outcome> {
    let row = lab.row(name).await;
    lab.change(&Nics(lab.ctx.clone()), &row, request).await
}

fn run(lab: &Lab, words: &[&str]) {
    let output = lab
        .corral(words)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

fn cpus(n: u32) -> ResizeRequest {
    ResizeRequest {
        cpus: Some(n),
        ..ResizeRequest::default()
    }
}

fn memory(mib: u64) -> ResizeRequest {
    ResizeRequest {
        memory: Some(Bytes::mib(mib)),
        ..ResizeRequest::default()
    }
}

/// The first number that a command prints in the guest.
async fn number(lab: &Lab, name: &str, command: &str, at: &mut usize) -> u64 {
    let (said, to) = lab
        .shell(name, &format!("echo 'is'=$({command})="), *at)
        .await;
    *at = to;
    let value = said
        .split("is=")
        .nth(1)
        .and_then(|rest| rest.split('=').next());
    let value = value.and_then(|value| value.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{command}: {said}"))
}

/// Waits until the guest says this number.
async fn becomes(lab: &Lab, command: &str, wanted: impl Fn(u64) -> bool, at: &mut usize) {
    let until = Instant::now() + READ;
    loop {
        let n = number(lab, "web", command, at).await;
        if wanted(n) {
            return;
        }
        assert!(Instant::now() < until, "{command} is {n}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

const MEMORY: &str = "awk '/^MemTotal/ {print $2}' /proc/meminfo";

#[tokio::test(flavor = "multi_thread")]
async fn a_running_guest_gets_cpus_memory_and_cards() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let source = DiskSource::Backed(image.to_str().unwrap().to_owned());
    let mut wanted = request("web", source, Firmware::Bios);
    wanted.set = vec![
        ("max-cpus".to_owned(), "3".to_owned()),
        ("max-memory".to_owned(), "1G".to_owned()),
    ];
    lab.make(wanted).await.unwrap();
    lab.power("web", PowerRequest::Start).await.unwrap();
    let mut at = lab.login("web", 0).await;
    assert_eq!(number(&lab, "web", "nproc", &mut at).await, 1);

    // CPUs: two corrals ask at once, one of them does it.
    let family = Resize(lab.ctx.clone());
    let row = lab.row("web").await;
    let a = lab.prepare(&family, &row, cpus(2)).await;
    let b = lab.prepare(&family, &row, cpus(3)).await;
    let (cx_a, cx_b) = (task(&row.id), task(&row.id));
    let (a, b) = tokio::join!(family.run(&cx_a, a), family.run(&cx_b, b));
    let lost: Vec<_> = [&a, &b]
        .into_iter()
        .filter_map(|r| r.as_ref().err())
        .collect();
    assert_eq!(lost.len(), 1, "{a:?} {b:?}");
    assert_eq!(lost[0].kind, ErrorKind::Conflict);
    let got = load(&lab, "web").cpus;
    assert_eq!(got, if a.is_ok() { 2 } else { 3 });
    becomes(&lab, "nproc", |n| n == u64::from(got), &mut at).await;
    let _ = resize(&lab, "web", cpus(3)).await.unwrap();
    becomes(&lab, "nproc", |n| n == 3, &mut at).await;
    assert_eq!(detail(&lab, "web").await.instance.cpus, Some(3));
    for (request, why) in [
        (cpus(1), "cannot be taken"),
        (cpus(4), "room for 3 CPUs"),
        (memory(300), "blocks of 128 MiB"),
        (memory(2048), "room for 1.0 GiB"),
        (memory(64), "too little"),
    ] {
        let error = resize(&lab, "web", request).await.unwrap_err();
        assert!(error.message.contains(why), "{error}");
        assert!(error.remedy.is_some(), "{error}");
    }
    assert!(!resize(&lab, "web", cpus(3)).await.unwrap().changed);

    // Memory: more than it was started with, then less, then all again.
    let before = number(&lab, "web", MEMORY, &mut at).await;
    resize(&lab, "web", memory(512)).await.unwrap();
    becomes(&lab, MEMORY, |kib| kib > before + 240_000, &mut at).await;
    let full = number(&lab, "web", MEMORY, &mut at).await;
    resize(&lab, "web", memory(400)).await.unwrap();
    becomes(&lab, MEMORY, |kib| kib < full - 100_000, &mut at).await;
    let seen = detail(&lab, "web").await;
    assert!(
        seen.instance.memory_bytes.unwrap() < Bytes::mib(402),
        "{seen:?}"
    );
    assert_eq!(load(&lab, "web").memory, Bytes::mib(400));
    // Put to sleep like that, it wakes up like that.
    run(&lab, &["hibernate", "web"]);
    let error = resize(&lab, "web", memory(512)).await.unwrap_err();
    assert!(error.message.contains("hibernated"), "{error}");
    run(&lab, &["start", "web"]);
    assert_eq!(number(&lab, "web", "nproc", &mut at).await, 3);
    assert_eq!(lab.row("web").await.memory_bytes, Some(Bytes::mib(400)));
    nothing_pending(&lab, "web").await;
    resize(&lab, "web", memory(512)).await.unwrap();
    becomes(&lab, MEMORY, |kib| kib + 3000 > full, &mut at).await;
    nothing_pending(&lab, "web").await;

    // RAM that was saved is that of a machine of this size, which comes back with it.
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
    lab.power_off("web").await;
    lab.until("web", State::Stopped).await;
    let small = ResizeRequest {
        memory: Some(Bytes::mib(256)),
        ..cpus(1)
    };
    resize(&lab, "web", small).await.unwrap();
    assert!(load(&lab, "web").dimms.is_empty());
    run(
        &lab,
        &[
            "snapshot",
            "restore",
            "web@ram",
            "--start",
            "--confirm",
            "web",
        ],
    );
    assert_eq!(number(&lab, "web", "nproc", &mut at).await, 3);
    let restored = load(&lab, "web");
    assert_eq!(restored.dimms, [Bytes::mib(256)]);
    assert_eq!((restored.cpus, restored.memory), (3, Bytes::mib(512)));
    nothing_pending(&lab, "web").await;

    // A card: the guest sees it by its address, and gets another from its network.
    let mac = "52:54:00:c0:44:a1";
    let add = |mac: Option<&str>, network: Option<&str>| NicRequest::Add {
        network: network.map(str::to_owned),
        model: None,
        mac: mac.map(str::to_owned),
    };
    let own = load(&lab, "web").nics[0].mac.clone();
    for (request, why) in [
        (add(Some(&own), None), "that of web"),
        (add(Some("01:00:00:00:00:01"), None), "multicast"),
        (add(None, Some("bridge:no-such")), "no bridge"),
        (add(None, Some("moon")), "no network"),
    ] {
        let error = nic(&lab, "web", request).await.unwrap_err();
        assert!(error.message.contains(why), "{error}");
    }
    nic(&lab, "web", add(Some(mac), None)).await.unwrap();
    let cards = "ip -o link | grep -c ether";
    becomes(&lab, cards, |n| n == 2, &mut at).await;
    let there = format!("ip -o link | grep -c {mac}");
    assert_eq!(number(&lab, "web", &there, &mut at).await, 1);
    nothing_pending(&lab, "web").await;
    let until = Instant::now() + READ;
    loop {
        let nics = detail(&lab, "web").await.nics;
        // Each has a network to itself: answers leave by the card that was asked.
        let own = ["10.0.2.15", "10.0.3.15"];
        if nics.len() == own.len()
            && nics
                .iter()
                .zip(own)
                .all(|(nic, own)| nic.addresses.iter().any(|a| a == own))
        {
            break;
        }
        assert!(Instant::now() < until, "{nics:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    // After a cold start all of it is still there, in the same places.
    lab.power_off("web").await;
    lab.until("web", State::Stopped).await;
    let from = std::fs::read(lab.ctx.paths(&load(&lab, "web").uuid).unwrap().serial_log)
        .unwrap()
        .len();
    lab.power("web", PowerRequest::Start).await.unwrap();
    let mut at = lab.login("web", from).await;
    assert_eq!(number(&lab, "web", "nproc", &mut at).await, 3);
    let again = number(&lab, "web", MEMORY, &mut at).await;
    assert!(again.abs_diff(full) < 20_000, "{again} {full}");
    assert_eq!(number(&lab, "web", &there, &mut at).await, 1);

    // The card goes again, and so does the one that the VM was made with.
    let gone = NicRequest::Remove {
        nic: mac.to_owned(),
    };
    nic(&lab, "web", gone.clone()).await.unwrap();
    becomes(&lab, cards, |n| n == 1, &mut at).await;
    let error = nic(&lab, "web", gone).await.unwrap_err();
    assert!(error.to_string().contains("It has: net0"), "{error}");
    nic(
        &lab,
        "web",
        NicRequest::Remove {
            nic: "net0".to_owned(),
        },
    )
    .await
    .unwrap();
    becomes(&lab, cards, |n| n == 0, &mut at).await;
    nothing_pending(&lab, "web").await;
    let refused = publish(&lab, "web", at_any()).await.unwrap_err();
    assert!(refused.to_string().contains("corral nic add"), "{refused}");

    // Fewer CPUs need a restart, which asks the guest.
    let fewer = ResizeRequest {
        cpus: Some(1),
        memory: Some(Bytes::mib(256)),
        restart: true,
        ..ResizeRequest::default()
    };
    let pid = lab.pid(&load(&lab, "web"));
    resize(&lab, "web", fewer).await.unwrap();
    assert_ne!(lab.pid(&load(&lab, "web")), pid);
    let log = lab.ctx.paths(&load(&lab, "web").uuid).unwrap().serial_log;
    let said = String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
    assert!(said.contains("lab-guest: poweroff"));
    let seen = detail(&lab, "web").await.instance;
    assert_eq!(
        (seen.cpus, seen.memory_bytes),
        (Some(1), Some(Bytes::mib(256)))
    );
    assert!(load(&lab, "web").dimms.is_empty());

    // What waits for a start is told by the row and by name.
    let mut edited = load(&lab, "web");
    edited.memory = Bytes::mib(512);
    lab.ctx.store.save(&edited).unwrap();
    let seen = detail(&lab, "web").await;
    assert_eq!(
        seen.pending,
        ["memory 512 MiB at next cold restart: corral restart --cold local/web"]
    );
    assert_eq!(
        lab.row("web").await.reason.as_deref(),
        Some("restart needed")
    );
    assert_eq!(lab.row("web").await.memory_bytes, Some(Bytes::mib(256)));
}

/// Stands between corral and a running QEMU, and can hold a command up, before QEMU has it or after.
struct Between {
    real: PathBuf,
    seat: PathBuf,
    pid: PathBuf,
}

impl Between {
    fn new(lab: &Lab, name: &str) -> Self {
        let paths = lab.ctx.paths(&load(lab, name).uuid).unwrap();
        let real = paths.dir.join("real.sock");
        Self {
            real,
            seat: paths.qmp,
            pid: paths.pid,
        }
    }

    /// Runs corral until it says `command`, and kills it.
    fn kill(&self, lab: &Lab, words: &[&str], before: bool, command: &str) {
        let aside = self.pid.with_extension("aside");
        std::fs::rename(&self.seat, &self.real).unwrap();
        // Who answers is not the process in the pidfile.
        std::fs::rename(&self.pid, &aside).unwrap();
        let listener = UnixListener::bind(&self.seat).unwrap();
        let (real, wanted) = (self.real.clone(), command.to_owned());
        let (said, held) = std::sync::mpsc::channel();
        let server = std::thread::spawn(move || {
            // corral looks at the VM more than once before it changes it.
            loop {
                let (client, _) = listener.accept().unwrap();
                if serve(&client, &real, before, &wanted) {
                    said.send(client).unwrap();
                    return;
                }
            }
        });
        let mut child = lab.corral(words);
        let mut child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let Ok(client) = held.recv_timeout(READ) else {
            let _ = child.kill();
            panic!(
                "{words:?} never says {command}: {:?}",
                child.wait_with_output()
            );
        };
        child.kill().unwrap();
        child.wait().unwrap();
        drop(client);
        server.join().unwrap();
        std::fs::remove_file(&self.seat).unwrap();
        std::fs::rename(&self.real, &self.seat).unwrap();
        std::fs::rename(&aside, &self.pid).unwrap();
    }
}

/// Passes lines on until the command comes; true when it is held up.
fn serve(client: &UnixStream, real: &std::path::Path, before: bool, wanted: &str) -> bool {
    let qemu = UnixStream::connect(real).unwrap();
    let mut answers = BufReader::new(qemu.try_clone().unwrap());
    let mut lines = BufReader::new(client.try_clone().unwrap()).lines();
    let mut to = client;
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    let _ = to.write_all(line.as_bytes());
    while let Some(Ok(asked)) = lines.next() {
        let held = asked.contains(wanted);
        if held && before {
            return true;
        }
        let _ = (&qemu).write_all(format!("{asked}\n").as_bytes());
        loop {
            line.clear();
            answers.read_line(&mut line).unwrap();
            let done = line.contains("\"return\"") || line.contains("\"error\"");
            if !(held && done) {
                let _ = to.write_all(line.as_bytes());
            }
            if done {
                break;
            }
        }
        if held {
            return true;
        }
    }
    false
}

/// `corral doctor --fix` ends what was begun; then process, definition and what is told agree.
async fn mended(lab: &Lab, what: &str) {
    let dir = lab.ctx.store.dir("web").unwrap();
    assert!(
        dir.join("op.json").exists(),
        "{what}: nothing is written down"
    );
    let fixed = lab.corral(&["doctor", "--fix", "-y"]).output().unwrap();
    assert!(!dir.join("op.json").exists(), "{what}: {fixed:?}");
    let vm = load(lab, "web");
    let mut qmp = process::connect(&lab.ctx, &vm).await.unwrap().unwrap();
    let mut ask = async |command: &str, arguments: serde_json::Value| {
        qmp.execute(command, arguments, READ).await.unwrap()
    };
    let cpus = ask("query-cpus-fast", serde_json::Value::Null).await;
    assert_eq!(cpus.as_array().unwrap().len(), vm.cpus as usize, "{what}");
    let memory = ask("query-memory-size-summary", serde_json::Value::Null).await;
    let plugged: u64 = vm.dimms.iter().map(|dimm| dimm.0).sum();
    // What the balloon holds is no module of the next start.
    let held = memory["plugged-memory"] != plugged;
    assert!(!held || vm.dimms.is_empty(), "{what}: {memory}");
    let devices = ask(
        "qom-list",
        serde_json::json!({"path": "/machine/peripheral"}),
    )
    .await;
    let text = devices.to_string();
    let networks = ask(
        "human-monitor-command",
        serde_json::json!({"command-line": "info network"}),
    )
    .await;
    for n in 0..4 {
        let name = format!("net{n}");
        let defined = vm.nics.iter().any(|nic| nic.name == name);
        assert_eq!(
            text.contains(&format!("\"{name}-dev\"")),
            defined,
            "{what}: {text}"
        );
        let end = networks.as_str().unwrap().contains(&format!(" {name}: "));
        assert_eq!(end, defined, "{what}: {networks}");
    }
    let ports = ask(
        "human-monitor-command",
        serde_json::json!({"command-line": "info usernet"}),
    )
    .await;
    let open = ports.as_str().unwrap().matches("HOST_FORWARD").count();
    let defined: usize = vm.nics.iter().map(|nic| nic.forwards.len()).sum();
    assert_eq!(open, defined, "{what}: {ports}");
    drop(qmp);
    nothing_pending(lab, "web").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_killed_is_ended_or_taken_back() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let source = DiskSource::Backed(image.to_str().unwrap().to_owned());
    let mut wanted = request("web", source, Firmware::Bios);
    wanted.set = vec![
        ("max-cpus".to_owned(), "8".to_owned()),
        ("max-memory".to_owned(), "2G".to_owned()),
    ];
    lab.make(wanted).await.unwrap();
    lab.power("web", PowerRequest::Start).await.unwrap();
    lab.serial("web", "lab-guest login:", 0).await;
    let between = Between::new(&lab, "web");
    let port = format!("{}:80", free_port());
    let add_port = format!("ports publish web --port {port}");
    for (line, command, before) in [
        (&*add_port, "hostfwd_add", true),
        (&*add_port, "hostfwd_add", false),
        ("ports unpublish web --port 22", "hostfwd_remove", true),
        ("ports unpublish web --port 22", "hostfwd_remove", false),
        ("nic add web", "netdev_add", true),
        ("nic add web", "netdev_add", false),
        ("nic add web", "device_add", true),
        ("nic add web", "device_add", false),
        ("resize web --cpus 2", "device_add", true),
        ("resize web --cpus 4", "device_add", false),
        ("resize web --memory 384M", "object-add", true),
        ("resize web --cpus 5 --memory 512M", "object-add", false),
        ("resize web --memory 640M", "pc-dimm", true),
        ("resize web --memory 768M", "pc-dimm", false),
        ("resize web --memory 700M", "\"balloon\"", true),
        ("resize web --memory 600M", "\"balloon\"", false),
        ("nic remove web --nic net0", "device_del", true),
        ("nic remove web --nic net0", "device_del", false),
    ] {
        let what = format!("{line} {command} {before}");
        let words: Vec<&str> = line.split(' ').collect();
        between.kill(&lab, &words, before, command);
        mended(&lab, &what).await;
        let vm = load(&lab, "web");
        match words[1] {
            // What was begun to end, ends.
            "unpublish" => {
                assert!(vm.nics[0].forwards.iter().all(|f| f.guest != 22));
                run(&lab, &["ports", "publish", "web", "--port", "0:22"]);
            }
            "remove" => {
                assert!(vm.nics.is_empty());
                run(&lab, &["nic", "add", "web"]);
            }
            _ => assert_eq!(vm.nics.len(), 1, "{what}"),
        }
    }
    let vm = load(&lab, "web");
    assert_eq!((vm.cpus, vm.memory), (5, Bytes::mib(600)));
}

fn at_any() -> PublishRequest {
    at(0, 80, "tcp")
}

/// What a monitor that agrees to everything, and does nothing, was told.
type Told = std::sync::Arc<std::sync::Mutex<Vec<String>>>;

/// Listens where the VM's monitor would: all is as it was, whatever it takes.
fn nods(lab: &Lab, name: &str) -> Told {
    let vm = load(lab, name);
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    std::fs::create_dir_all(&paths.dir).unwrap();
    let listener = UnixListener::bind(&paths.qmp).unwrap();
    let told = Told::default();
    let heard = told.clone();
    // What is published stays so.
    let mut published = "Hub -1 (net0):\n".to_owned();
    for f in vm.nics.iter().flat_map(|nic| &nic.forwards) {
        published += &format!(
            "  TCP[HOST_FORWARD]  9  {} {} 10.0.2.15 {} 0 0\n",
            f.host, f.port, f.guest
        );
    }
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (heard, published) = (heard.clone(), published.clone());
            let uuid = vm.uuid;
            std::thread::spawn(move || -> std::io::Result<()> {
                let greeting = include_str!("../fixtures/qemu/greeting.json");
                writeln!(stream, "{}", greeting.replace('\n', ""))?;
                for line in BufReader::new(stream.try_clone()?).lines() {
                    let line = line?;
                    let asked: serde_json::Value = serde_json::from_str(&line).unwrap();
                    let place = serde_json::json!({"socket-id": 0, "core-id": 1, "thread-id": 0});
                    let answer = match asked["execute"].as_str().unwrap() {
                        "query-uuid" => serde_json::json!({"UUID": uuid}),
                        "query-status" => serde_json::json!({"status": "running"}),
                        "query-cpus-fast" => serde_json::json!([{"cpu-index": 0}]),
                        "query-hotpluggable-cpus" => {
                            serde_json::json!([{"type": "x-cpu", "props": place}])
                        }
                        "query-memory-size-summary" => {
                            serde_json::json!({"base-memory": 256 << 20, "plugged-memory": 0})
                        }
                        "query-balloon" => serde_json::json!({"actual": 256 << 20}),
                        "qom-list" => serde_json::json!([{"name": "net0-dev"}]),
                        "query-chardev" => serde_json::json!([]),
                        "human-monitor-command" if line.contains("info usernet") => {
                            serde_json::json!(published)
                        }
                        "human-monitor-command" => serde_json::json!(""),
                        _ => serde_json::json!({}),
                    };
                    heard.lock().unwrap().push(line);
                    writeln!(
                        stream,
                        "{}",
                        serde_json::json!({"return": answer, "id": asked["id"]})
                    )?;
                }
                Ok(())
            });
        }
    });
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_that_only_nods_is_not_believed() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let mut vm = lab.define(&image, "web").await;
    vm.max_cpus = Some(2);
    vm.max_memory = Some(Bytes::gib(1));
    lab.ctx.store.save(&vm).unwrap();
    let told = nods(&lab, "web");
    let said = |word: &str| {
        told.lock()
            .unwrap()
            .iter()
            .filter(|l| l.contains(word))
            .count()
    };
    let row = lab.instance("web", State::Running);
    let short = || task_within(&row.id, Some(Duration::from_secs(1)));

    let sizes = Resize(lab.ctx.clone());
    let plan = lab.prepare(&sizes, &row, memory(200)).await;
    let error = sizes.run(&short(), plan).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TimedOut);
    assert!(
        error.message.contains("does not react to its balloon"),
        "{error}"
    );
    // It is told to take back what it may have given.
    assert_eq!(said(&format!("{{\"value\":{}}}", 256 << 20)), 1);
    for request in [cpus(2), memory(384)] {
        let plan = lab.prepare(&sizes, &row, request).await;
        let error = sizes.run(&short(), plan).await.unwrap_err();
        assert!(error.message.contains("does not have it"), "{error}");
    }
    let cards = Nics(lab.ctx.clone());
    let add = NicRequest::Add {
        network: None,
        model: None,
        mac: None,
    };
    let plan = lab.prepare(&cards, &row, add).await;
    let error = cards.run(&short(), plan).await.unwrap_err();
    assert!(error.message.contains("does not have it"), "{error}");
    assert_eq!((said("netdev_add"), said("netdev_del")), (1, 1));
    let ports = Publish(lab.ctx.clone());
    let plan = lab.prepare(&ports, &row, at(free_port(), 80, "tcp")).await;
    let error = ports.run(&short(), plan).await.unwrap_err();
    assert!(error.message.contains("QEMU does not publish"), "{error}");
    let first = vm.nics[0].forwards[0].clone();
    let request = off(first.guest, None, "tcp");
    let plan = lab.prepare(&ports, &row, request).await;
    let error = ports.run(&short(), plan).await.unwrap_err();
    assert!(error.message.contains("QEMU still publishes"), "{error}");

    // Nothing of it is in the definition, and nothing is half done.
    assert_eq!(load(&lab, "web"), vm);
    assert!(!lab.ctx.store.dir("web").unwrap().join("op.json").exists());
}

/// The monitor is free for others while a change waits.
async fn others_get_in<R: std::fmt::Debug>(
    lab: &Lab,
    vm: &Definition,
    change: impl Future<Output = R>,
) -> R {
    let looks = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        for _ in 0..2 {
            let there = process::connect_within(&lab.ctx, vm, Duration::from_secs(4)).await;
            assert!(there.unwrap().is_some());
        }
    };
    tokio::pin!(change);
    tokio::select! {
        () = looks => {}
        done = &mut change => panic!("nobody waited: {done:?}"),
    }
    change.await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_can_be_looked_at_while_its_guest_is_waited_for() {
    let Some(image) = guest() else { return };
    let lab = Lab::new();
    let mut vm = lab.define(&image, "web").await;
    vm.nics[0].slot = Some(Slot::Spare(1));
    lab.ctx.store.save(&vm).unwrap();
    let _told = nods(&lab, "web");
    let row = lab.instance("web", State::Running);
    let cx = task_within(&row.id, Some(Duration::from_secs(8)));

    let sizes = Resize(lab.ctx.clone());
    let plan = lab.prepare(&sizes, &row, memory(200)).await;
    let error = others_get_in(&lab, &vm, sizes.run(&cx, plan)).await;
    assert_eq!(error.unwrap_err().kind, ErrorKind::TimedOut);

    let cards = Nics(lab.ctx.clone());
    let request = NicRequest::Remove {
        nic: "net0".to_owned(),
    };
    let plan = lab.prepare(&cards, &row, request).await;
    assert!(plan.refusals.is_empty(), "{:?}", plan.refusals);
    let error = others_get_in(&lab, &vm, cards.run(&cx, plan)).await;
    assert_eq!(error.unwrap_err().kind, ErrorKind::TimedOut);
    assert_eq!(load(&lab, "web"), vm);
    assert!(!lab.ctx.store.dir("web").unwrap().join("op.json").exists());
}

/// In a network of its own, with a bridge that QEMU's helper may join: nothing of this machine is touched.
const BRIDGED: &str = r#"set -eu
mount -t sysfs none /sys
ip link set lo up
ip link add corralbr0 type bridge
ip link set corralbr0 up
mkdir -p /etc/qemu
mount -t tmpfs none /etc/qemu
echo "allow corralbr0" >/etc/qemu/bridge.conf
corral() { "$CORRAL" --headless "$@"; }
taps() { ip -o link show master corralbr0 | wc -l; }
corral nic add web --network bridge:corralbr0 --mac 52:54:00:c0:44:b1
corral start web --for agent
echo "taps after start: $(taps)"
tap=$(ip -o link show master corralbr0 | sed 's/^[0-9]*: \([^:]*\):.*/\1/')
for _ in $(seq 100); do
    [ "$(cat "/sys/class/net/$tap/statistics/rx_packets")" = 0 ] || break
    sleep 0.1
done
echo "frames of the guest: $(cat "/sys/class/net/$tap/statistics/rx_packets")"
echo "inside: $(corral nic list web)"
corral network list
corral nic add web --network bridge:corralbr0
echo "taps with another: $(taps)"
corral nic remove web --nic 52:54:00:c0:44:b1
echo "taps without the first: $(taps)"
corral stop web --force
echo "taps when off: $(taps)"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_is_joined_and_left() {
    let Some(image) = guest() else { return };
    let may = std::process::Command::new("unshare")
        .args([
            "-n",
            "-m",
            "sh",
            "-c",
            "mount -t sysfs none /sys && ip link add corralbr0 type bridge",
        ])
        .output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: bridges need root and iproute2");
        return;
    }
    let lab = Lab::new();
    lab.make(request(
        "web",
        DiskSource::Backed(image.display().to_string()),
        Firmware::Bios,
    ))
    .await
    .unwrap();
    let made = std::path::Path::new("/etc/qemu").exists();
    let output = std::process::Command::new("unshare")
        .args(["-n", "-m", "bash", "-c", BRIDGED])
        .env_clear()
        .env("HOME", lab.root.path())
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("CORRAL", env!("CARGO_BIN_EXE_corral"))
        .output()
        .unwrap();
    if !made {
        let _ = std::fs::remove_dir("/etc/qemu");
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    let number = |what: &str| -> u32 {
        let line = said.lines().find_map(|line| line.strip_prefix(what));
        line.unwrap_or_else(|| panic!("no {what} in {said}"))
            .trim()
            .parse()
            .unwrap()
    };
    assert_eq!(number("taps after start:"), 1, "{said}");
    assert!(number("frames of the guest:") > 0, "{said}");
    assert_eq!(number("taps with another:"), 2, "{said}");
    assert_eq!(number("taps without the first:"), 1, "{said}");
    assert_eq!(number("taps when off:"), 0, "{said}");
    let bridge = said
        .lines()
        .find(|line| line.starts_with("corralbr0"))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(bridge.contains("web") && bridge.contains("yes"), "{bridge}");
}
