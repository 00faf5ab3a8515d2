//! What a running guest gets and gives back: published ports, network interfaces, CPUs, memory. Each is seen
//! from inside of the guest or from outside of corral.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it stands"
)]

mod lab;

use std::io::Read as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use corral::backend::contract::{
    Changes as _, DiskSource, Firmware, PowerRequest, PublishRequest, ReadCx, Way,
};
use corral::backend::qemu::definition::Definition;
use corral::backend::qemu::publish::Publish;
use corral::model::{ErrorKind, Outcome, Result, State};
use lab::guest::guest;
use lab::{Lab, READ, free_port, request, task};

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
        guest,
        port,
        protocol: protocol.to_owned(),
    }
}

fn load(lab: &Lab, name: &str) -> Definition {
    lab.ctx.store.load(name).unwrap()
}

/// The definition and the process agree.
async fn nothing_pending(lab: &Lab, name: &str) {
    let id = lab.ctx.id(name);
    let detail = lab.backend().detail(&ReadCx::quiet(READ), &id).await;
    let detail = detail.unwrap();
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
