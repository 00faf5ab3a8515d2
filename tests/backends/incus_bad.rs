//! What goes wrong around a server: nobody answers, somebody else does, it does not know us, somebody else was faster.
//! One message with a remedy each, and nothing is done.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "incus_lab.rs"]
mod incus_lab;
#[path = "lab.rs"]
mod lab;

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corral::backend::contract::{
    Backend, Changes, CreateRequest, DiskSource, NoteRequest, PowerRequest, Prepared, ReadCx,
    RemoveRequest, ResizeRequest, TagsRequest,
};
use corral::backend::incus::INFO;
use corral::model::{
    Bytes, ContextSpec, ErrorKind, Instance, InstanceId, InstanceKind, Outcome, Result, State,
};
use incus_lab::Place;
use lab::task;
use secrecy::SecretString;

const SOON: Duration = Duration::from_secs(30);

fn cx() -> ReadCx {
    ReadCx::quiet(SOON)
}

fn request(name: &str) -> CreateRequest {
    CreateRequest {
        name: name.to_owned(),
        cpus: 1,
        memory: Bytes::mib(64),
        disk_size: None,
        source: DiskSource::Copy("corral-tiny".to_owned()),
        cdroms: Vec::new(),
        firmware: None,
        os: None,
        tpm: false,
        secure_boot: false,
        cloud_init: None,
        publish: Vec::new(),
        tags: Vec::new(),
        note: None,
        start: false,
        set: Vec::new(),
    }
}

fn stub(id: &InstanceId) -> Instance {
    Instance::new(
        id.clone(),
        INFO.kind(),
        InstanceKind::Ct,
        State::Provisioning,
        jiff::Timestamp::now(),
    )
}

async fn prepared<R: Send + Sync + 'static>(
    family: Option<&dyn Changes<R>>,
    on: &Instance,
    request: R,
) -> Prepared {
    family.unwrap().prepare(&cx(), on, request).await.unwrap()
}

async fn run<R: Send + Sync + 'static>(
    family: Option<&dyn Changes<R>>,
    on: &Instance,
    prepared: Prepared,
) -> Result<Outcome> {
    assert!(prepared.refusals.is_empty(), "{:?}", prepared.refusals);
    family.unwrap().run(&task(&on.id), prepared).await
}

async fn create(backend: &dyn Backend, id: &InstanceId) -> Instance {
    let on = stub(id);
    let plan = prepared(backend.families().create(), &on, request(id.key())).await;
    run(backend.families().create(), &on, plan).await.unwrap();
    backend.detail(&cx(), id).await.unwrap().instance
}

fn open(place: &Place, fields: &[(&str, &str)]) -> Arc<dyn Backend> {
    let mut spec = ContextSpec::new("lab", INFO.kind());
    spec.connect_timeout = Some(3);
    for (key, value) in fields {
        spec.fields.insert((*key).to_owned(), (*value).into());
    }
    (INFO.open)(spec, place.env()).unwrap()
}

#[tokio::test]
async fn a_server_that_is_away_is_told_from_one_that_hangs() {
    let Some(place) = Place::new("bad-away") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let gone = open(&place, &[("socket", &at("gone"))]);
    let error = gone.inventory(&cx()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(error.message.contains("does not run"), "{error}");
    assert_eq!(error.context.as_deref(), Some("lab"));

    drop(UnixListener::bind(at("dead")).unwrap());
    let error = open(&place, &[("socket", &at("dead"))])
        .inventory(&cx())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
    assert!(error.message.contains("nobody listens"), "{error}");

    // It takes the connection and says nothing, ever.
    let _frozen = UnixListener::bind(at("frozen")).unwrap();
    let frozen = open(&place, &[("socket", &at("frozen"))]);
    let begun = Instant::now();
    let short = ReadCx::quiet(Duration::from_millis(300));
    for error in [
        frozen.inventory(&short).await.err(),
        frozen.probe(&short).await.err(),
    ] {
        let error = error.unwrap();
        assert!(matches!(error.kind, ErrorKind::TimedOut), "{error}");
    }
    assert!(
        begun.elapsed() < SOON,
        "a frozen socket holds up its reader"
    );
    let checks = frozen
        .doctor(&ReadCx::quiet(Duration::from_millis(300)))
        .await;
    assert_eq!(checks.len(), 1);
}

#[tokio::test]
async fn what_answers_nonsense_is_said_to() {
    let Some(place) = Place::new("bad-nonsense") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n<html>\x1b[2");
        }
    });
    let error = open(&place, &[("socket", &socket.display().to_string())])
        .inventory(&cx())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Backend, "{error}");
    assert!(
        error.message.contains("no JSON") && !error.message.contains('\u{1b}'),
        "{error}"
    );
}

#[tokio::test]
async fn a_certificate_is_trusted_by_its_pin_and_by_nothing_else() {
    let Some(place) = Place::new("bad-tls") else {
        return;
    };
    let url = place.facts["LAB_A_URL"].as_str();
    // Nobody vouches for it: the line that pins it is said.
    let error = open(&place, &[("url", url)])
        .inventory(&cx())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(
        error
            .remedy
            .as_ref()
            .unwrap()
            .contains("corral context trust lab --fingerprint"),
        "{error}"
    );
    // Another one is pinned.
    let other = "AB".repeat(32);
    let pinned = open(&place, &[("url", url), ("fingerprint", &other)]);
    let error = pinned.inventory(&cx()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
    assert!(error.message.contains("not the pinned one"), "{error}");
    // The remote of the client's own configuration has kept it, and is let in.
    let remote = open(&place, &[("remote", "lab-a"), ("project", &place.project)]);
    assert!(remote.inventory(&cx()).await.unwrap().complete);
    let facts = remote.probe(&cx()).await.unwrap();
    assert!(facts.server.is_some());
    let checks = remote.doctor(&cx()).await;
    assert!(
        checks.iter().any(|check| check.id == "incus.certificate"),
        "{checks:?}"
    );
    let error = open(&place, &[("remote", "nobody")])
        .inventory(&cx())
        .await
        .unwrap_err();
    assert!(error.remedy.as_ref().unwrap().contains("lab-a"), "{error}");
}

/// A context of the URL alone, by a user without an Incus client.
fn stranger(
    place: &Place,
    token: Option<&str>,
    project: Option<&str>,
) -> (Arc<dyn Backend>, tempfile::TempDir) {
    let home = tempfile::Builder::new().prefix("cs").tempdir().unwrap();
    let mut env = (*place.env()).clone();
    env.dirs = corral::model::Dirs::under(home.path());
    env.vars.insert(
        "INCUS_CONF".to_owned(),
        home.path().join("none").display().to_string(),
    );
    let mut spec = ContextSpec::new("lab", INFO.kind());
    if let Some(project) = project {
        spec.fields.insert("project".to_owned(), project.into());
    }
    match token {
        Some(token) => spec.secret = Some(SecretString::from(token.to_owned())),
        None => {
            let certificate = std::fs::read(&place.facts["LAB_A_SERVER_CERT"]).unwrap();
            let pin = corral::link::x509::pem_fingerprint(&certificate).unwrap();
            spec.fields
                .insert("url".to_owned(), place.facts["LAB_A_URL"].clone().into());
            spec.fields.insert("fingerprint".to_owned(), pin.into());
        }
    }
    ((INFO.open)(spec, Arc::new(env)).unwrap(), home)
}

fn trusted(place: &Place, name: &str, more: &[&str]) -> String {
    let mut words = vec!["config", "trust", "add", name, "-q"];
    words.extend(more);
    place.incus(&words).trim().to_owned()
}

#[tokio::test]
async fn a_token_lets_one_client_in_once() {
    let Some(place) = Place::new("bad-token") else {
        return;
    };
    let (nobody, _home) = stranger(&place, None, None);
    let error = nobody.inventory(&cx()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
    assert!(
        error
            .remedy
            .as_ref()
            .unwrap()
            .contains("incus config trust add"),
        "{error}"
    );
    let checks = nobody.doctor(&cx()).await;
    assert!(
        checks
            .iter()
            .any(|check| check.id == "incus.trust" && check.remedy.is_some()),
        "{checks:?}"
    );

    let token = trusted(&place, "bad-token", &[]);
    let (first, home) = stranger(&place, Some(&token), Some(&place.project));
    first.ready(&cx()).await.unwrap();
    assert!(first.inventory(&cx()).await.unwrap().complete);
    // Asked again it is known already, and the key is its user's alone.
    first.ready(&cx()).await.unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    let dirs = corral::model::Dirs::under(home.path());
    let key = std::fs::metadata(dirs.data.join("incus/client.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let (second, _other) = stranger(&place, Some(&token), None);
    let error = second.ready(&cx()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
    assert!(error.remedy.is_some());
    for odd in ["", "nonsense", "e30="] {
        let (odd, _home) = stranger(&place, Some(odd), None);
        let error = odd.inventory(&cx()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
    // The trust ends: what was known is not known any more.
    let print = place.incus(&["config", "trust", "list", "-f", "csv"]);
    let line = print
        .lines()
        .find(|line| line.contains("bad-token"))
        .unwrap();
    let print = line
        .split(',')
        .find(|cell| cell.len() == 12 && cell.bytes().all(|b| b.is_ascii_hexdigit()))
        .unwrap();
    place.incus(&["config", "trust", "remove", print]);
    let error = first.inventory(&cx()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized, "{error}");
}

#[tokio::test]
async fn a_restricted_certificate_sees_its_project_and_is_refused_elsewhere() {
    let Some(place) = Place::new("bad-restricted") else {
        return;
    };
    let Some(hidden) = Place::new("bad-hidden") else {
        return;
    };
    hidden.launch("hidden");
    place.launch("seen");
    let token = trusted(
        &place,
        "bad-restricted",
        &["--restricted", "--projects", &place.project],
    );
    let (backend, _home) = stranger(&place, Some(&token), None);
    backend.ready(&cx()).await.unwrap();
    let all = backend.inventory(&cx()).await.unwrap();
    let names: Vec<&str> = all.instances.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["seen"]);
    let checks = backend.doctor(&cx()).await;
    let trust = checks
        .iter()
        .find(|check| check.id == "incus.trust")
        .unwrap();
    assert!(trust.message.contains("restricted"), "{trust:?}");
    let elsewhere = InstanceId::new("lab", Some("bad-hidden"), "hidden");
    let error = backend.detail(&cx(), &elsewhere).await.unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::Unauthorized | ErrorKind::NotFound),
        "{error}"
    );
    let id = InstanceId::new("lab", Some("bad-restricted"), "seen");
    let row = backend.detail(&cx(), &id).await.unwrap().instance;
    let tag = TagsRequest {
        add: vec!["x".to_owned()],
        remove: Vec::new(),
    };
    let plan = prepared(backend.families().tags(), &row, tag).await;
    run(backend.families().tags(), &row, plan).await.unwrap();
    let print = place.incus(&["config", "trust", "list", "-f", "csv"]);
    for line in print.lines().filter(|line| line.contains("bad-restricted")) {
        let cell = line
            .split(',')
            .find(|cell| cell.len() == 12 && cell.bytes().all(|b| b.is_ascii_hexdigit()));
        place.incus(&["config", "trust", "remove", cell.unwrap()]);
    }
}

#[tokio::test]
async fn somebody_else_was_faster() {
    let Some(place) = Place::new("bad-race") else {
        return;
    };
    let backend = place.backend();
    let families = backend.families();
    let id = InstanceId::new("lab", Some(&place.project), "web");
    // The name is taken between plan and run.
    let on = stub(&id);
    let plan = prepared(families.create(), &on, request("web")).await;
    place.launch("web");
    let error = run(families.create(), &on, plan).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert!(error.message.contains("already"), "{error}");
    let row = backend.detail(&cx(), &id).await.unwrap().instance;
    assert_eq!(row.state, State::Running, "the other one was touched");

    // Its definition is changed by the Incus client.
    let note = NoteRequest {
        text: Some("mine".to_owned()),
    };
    let plan = prepared(families.notes(), &row, note.clone()).await;
    place.incus(&["config", "set", "web", "user.other=1"]);
    let error = run(families.notes(), &row, plan).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert_eq!(
        backend.detail(&cx(), &id).await.unwrap().instance.note,
        None
    );
    // What the server itself notes is no change: a start in between is lived with.
    let plan = prepared(families.notes(), &row, note).await;
    place.incus(&["restart", "web", "--force"]);
    run(families.notes(), &row, plan).await.unwrap();

    // It is replaced by another one of the same name.
    let row = backend.detail(&cx(), &id).await.unwrap().instance;
    let remove = RemoveRequest {
        keep_disks: false,
        force: true,
    };
    let plan = prepared(families.remove(), &row, remove).await;
    place.incus(&["delete", "--force", "web"]);
    place.launch("web");
    let error = run(families.remove(), &row, plan).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert!(error.message.contains("another instance"), "{error}");
    let again = prepared(families.remove(), &row, remove).await;
    assert!(!again.refusals.is_empty(), "an old row deletes the new one");
    // It is gone.
    let row = backend.detail(&cx(), &id).await.unwrap().instance;
    let plan = prepared(
        families.power(),
        &row,
        PowerRequest::Restart(corral::backend::contract::RestartMode::Cold),
    )
    .await;
    place.incus(&["delete", "--force", "web"]);
    let error = run(families.power(), &row, plan).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn the_server_says_no_and_why() {
    let Some(place) = Place::new("bad-no") else {
        return;
    };
    let backend = place.backend();
    let families = backend.families();
    let id = InstanceId::new("lab", Some(&place.project), "web");
    let row = create(&*backend, &id).await;
    // More than the server's project allows.
    place.incus(&["project", "set", &place.project, "limits.memory=96MiB"]);
    let resize = ResizeRequest {
        memory: Some(Bytes::mib(256)),
        ..ResizeRequest::default()
    };
    let plan = prepared(families.resize(), &row, resize).await;
    let error = run(families.resize(), &row, plan).await.unwrap_err();
    assert!(error.message.contains("limits.memory"), "{error}");
    let now = backend.detail(&cx(), &id).await.unwrap().instance;
    assert_eq!(now.memory_bytes, Some(Bytes::mib(64)));
    place.incus(&["project", "unset", &place.project, "limits.memory"]);
    // Images, pools, networks and members that are not there.
    let other = stub(&InstanceId::new("lab", Some(&place.project), "other"));
    for (change, says) in [
        (("image", "no-such"), "no image"),
        (("image", "nobody:debian/12"), "no remote"),
        (("profile", "no-such"), "profile"),
        (("network", "no-such"), "no network"),
    ] {
        let mut wanted = request("other");
        match change {
            ("image", image) => wanted.source = DiskSource::Copy(image.to_owned()),
            (key, value) => wanted.set = vec![(key.to_owned(), value.to_owned())],
        }
        let plan = prepared(families.create(), &other, wanted).await;
        let refusal = plan
            .refusals
            .first()
            .unwrap_or_else(|| panic!("{change:?} is not refused"));
        assert!(refusal.message.contains(says), "{refusal:?}");
    }
    // Protected by the server itself.
    place.incus(&["config", "set", "web", "security.protection.delete=true"]);
    let row = backend.detail(&cx(), &id).await.unwrap().instance;
    assert!(row.protected);
    let remove = RemoveRequest {
        keep_disks: false,
        force: true,
    };
    let plan = prepared(families.remove(), &row, remove).await;
    assert!(
        plan.refusals[0].message.contains("protected"),
        "{:?}",
        plan.refusals
    );
}

#[tokio::test]
async fn a_full_pool_says_so_and_leaves_nothing() {
    let Some(place) = Place::new("bad-full") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=3M", "none"])
        .arg(dir.path())
        .status()
        .unwrap();
    assert!(mounted.success());
    let source = dir.path().display().to_string();
    place.incus(&[
        "storage",
        "create",
        "bad-full",
        "dir",
        &format!("source={source}"),
    ]);
    let backend = place.backend();
    let id = InstanceId::new("lab", Some(&place.project), "web");
    let on = stub(&id);
    let mut wanted = request("web");
    wanted.set = vec![("pool".to_owned(), "bad-full".to_owned())];
    let plan = prepared(backend.families().create(), &on, wanted).await;
    let error = run(backend.families().create(), &on, plan)
        .await
        .unwrap_err();
    let left = backend.inventory(&cx()).await.unwrap().instances.len();
    let checks = backend.doctor(&cx()).await;
    place.incus(&["storage", "delete", "bad-full"]);
    let _ = std::process::Command::new("umount")
        .arg(dir.path())
        .status();
    assert!(error.message.contains("disk space"), "{error}");
    assert!(
        error
            .remedy
            .as_ref()
            .unwrap()
            .contains("corral storage list"),
        "{error}"
    );
    assert_eq!(left, 0);
    assert!(
        checks
            .iter()
            .any(|check| check.id == "incus.storage.bad-full"),
        "{checks:?}"
    );
}
