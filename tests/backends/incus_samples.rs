//! Every recorded answer of a server, broken in every place in every way: what is not broken is still listed, nothing
//! panics, and nothing that steers a terminal comes through.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it stands"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corral::backend::contract::{Backend, Env, ReadCx};
use corral::backend::incus::ctx::Ctx;
use corral::backend::incus::{INFO, inventory};
use corral::model::{ContextSpec, Dirs, InstanceId, State};
use jiff::Timestamp;
use serde_json::{Value, json};

fn sample(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/incus");
    let text = std::fs::read_to_string(file.join(format!("{name}.json"))).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    match value.get("response") {
        Some(response) => response["metadata"].clone(),
        None => value,
    }
}

/// The places of a value, as JSON pointers.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(inner, &format!("{at}/{key}"), out);
            }
        }
        Value::Array(list) => {
            for (n, inner) in list.iter().enumerate() {
                places(inner, &format!("{at}/{n}"), out);
            }
        }
        _ => {}
    }
}

/// What may stand in any place instead.
fn odd() -> Vec<Value> {
    vec![
        Value::Null,
        json!(-1),
        json!(1e300),
        json!(true),
        json!("\u{1b}[2J\u{202e}x"),
        json!("x".repeat(5000)),
        json!([]),
        json!([null, 7, "x"]),
        json!({}),
        json!({"a": {"b": []}}),
    ]
}

/// The value with the place at `pointer` replaced, and once without it.
fn broken(value: &Value, pointer: &str) -> Vec<Value> {
    let mut all: Vec<Value> = odd()
        .into_iter()
        .map(|odd| {
            let mut broken = value.clone();
            *broken.pointer_mut(pointer).unwrap() = odd;
            broken
        })
        .collect();
    if let Some((parent, key)) = pointer.rsplit_once('/') {
        let mut without = value.clone();
        let key = key.replace("~1", "/").replace("~0", "~");
        match without.pointer_mut(parent).unwrap() {
            Value::Object(map) => _ = map.shift_remove(&key),
            Value::Array(list) => _ = list.remove(key.parse().unwrap()),
            _ => {}
        }
        all.push(without);
    }
    all
}

fn env(home: &Path) -> Arc<Env> {
    let socket = home.join("s").display().to_string();
    Arc::new(Env {
        dirs: Dirs::under(home),
        path: Vec::new(),
        vars: BTreeMap::from([
            ("INCUS_SOCKET".to_owned(), socket),
            (
                "INCUS_CONF".to_owned(),
                home.join("incus").display().to_string(),
            ),
        ]),
        home: home.to_owned(),
    })
}

fn spec() -> ContextSpec {
    ContextSpec::new("lab", INFO.kind())
}

fn clean(text: &str) {
    assert!(
        !text.contains('\u{1b}') && !text.contains('\u{202e}'),
        "{text:?}"
    );
}

#[test]
fn one_odd_instance_hides_no_other() {
    let home = tempfile::tempdir().unwrap();
    let ctx = Ctx::new(spec(), env(home.path()));
    let list = sample("instances-recursion2");
    let vm = sample("vm-instance");
    let all: Vec<Value> = list
        .as_array()
        .unwrap()
        .iter()
        .cloned()
        .chain([vm])
        .collect();
    let whole = inventory::read(&ctx, &json!(all), Timestamp::now());
    assert_eq!(whole.instances.len(), all.len());
    assert!(
        whole.complete && whole.problems.is_empty(),
        "{:?}",
        whole.problems
    );
    let names = |rows: &[corral::model::Instance]| -> Vec<String> {
        rows.iter().map(|row| row.name.clone()).collect()
    };
    let mut tried = 0;
    for (n, element) in all.iter().enumerate() {
        let mut pointers = Vec::new();
        places(element, "", &mut pointers);
        for pointer in &pointers {
            for odd in broken(element, pointer) {
                let mut list = all.clone();
                list[n] = odd.clone();
                let read = inventory::read(&ctx, &json!(list), Timestamp::now());
                let there = names(&read.instances);
                for other in whole
                    .instances
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| *at != n)
                {
                    assert!(
                        there.contains(&other.1.name),
                        "{pointer}: {odd} hides {}",
                        other.1.name
                    );
                }
                // The odd one is a row, or somebody is told.
                assert!(
                    read.instances.len() == all.len()
                        || !read.complete
                        || !read.problems.is_empty(),
                    "{pointer}: {odd} is gone without a word"
                );
                for row in &read.instances {
                    row.reason.iter().for_each(|text| clean(text));
                }
                read.problems
                    .iter()
                    .for_each(|problem| clean(&problem.message));
                tried += 1;
            }
        }
    }
    assert!(tried > 5000, "{tried}");
    let twice = inventory::read(&ctx, &json!([all[0], all[0]]), Timestamp::now());
    assert_eq!(twice.instances.len(), 1);
    assert!(twice.problems[0].message.contains("twice"));
    let none = inventory::read(&ctx, &json!("x"), Timestamp::now());
    assert!(!none.complete, "what is no list is not an empty one");
}

#[test]
fn what_cannot_be_told_is_unknown_and_says_why() {
    let home = tempfile::tempdir().unwrap();
    let ctx = Ctx::new(spec(), env(home.path()));
    let mut one = sample("instances-recursion2")[0].clone();
    one["status"] = json!("Error");
    one["status_code"] = json!(112);
    one["location"] = json!("member-2");
    one["state"] = Value::Null;
    let read = inventory::read(&ctx, &json!([one]), Timestamp::now());
    let row = &read.instances[0];
    assert_eq!(row.state, State::Unknown);
    assert!(row.reason.as_ref().unwrap().contains("member-2"));
    assert_eq!(row.host.as_deref(), Some("member-2"));
    assert_eq!(row.addresses, None, "not known is not none");
    assert_eq!(row.usage, None);
}

type Answers = Arc<Mutex<BTreeMap<String, Value>>>;

/// Answers each path with what stands under its first part.
fn serve(socket: &Path, answers: Answers) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answers = Arc::clone(&answers);
            std::thread::spawn(move || speak(stream, &answers));
        }
    });
}

fn speak(mut stream: UnixStream, answers: &Answers) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            if header.trim().is_empty() {
                break;
            }
            if let Some(text) = header.to_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let known = {
            let answers = answers.lock().unwrap();
            let path = path.split('?').next().unwrap_or_default();
            answers.get(path).cloned()
        };
        let (status, body) = match known {
            Some(metadata) => (
                200,
                json!({"type": "sync", "status_code": 200, "metadata": metadata}),
            ),
            None => (
                404,
                json!({"type": "error", "error_code": 404, "error": "not found"}),
            ),
        };
        let body = body.to_string();
        write!(
            stream,
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nEtag: \"e\"\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
    }
}

fn cx() -> ReadCx {
    ReadCx::quiet(Duration::from_secs(30))
}

/// What is asked of a backend in one go: each answer or error, as text.
async fn ask(backend: &dyn Backend, what: &str) -> (usize, String) {
    let families = backend.families();
    let id = InstanceId::new("lab", Some("default"), "s1");
    let told = |answer: corral::model::Result<(usize, String)>| match answer {
        Ok(answer) => answer,
        Err(error) => {
            clean(&error.message);
            (0, error.to_string())
        }
    };
    match what {
        "/1.0/storage-pools" => told(
            families
                .storage()
                .unwrap()
                .pools(&cx())
                .await
                .map(|all| (all.len(), format!("{all:?}"))),
        ),
        "/1.0/networks" => told(
            families
                .networks()
                .unwrap()
                .networks(&cx())
                .await
                .map(|all| (all.len(), format!("{all:?}"))),
        ),
        "/1.0/images" => told(
            families
                .images()
                .unwrap()
                .images(&cx())
                .await
                .map(|all| (all.len(), format!("{all:?}"))),
        ),
        "/1.0/warnings" => told(
            families
                .events()
                .unwrap()
                .recorded(&cx(), None)
                .await
                .map(|all| (all.len(), format!("{all:?}"))),
        ),
        "/1.0" => told(
            backend
                .probe(&cx())
                .await
                .map(|facts| (1, format!("{facts:?}"))),
        ),
        _ => told(backend.detail(&cx(), &id).await.map(|detail| {
            (
                detail.disks.len() + detail.nics.len(),
                format!("{detail:?}"),
            )
        })),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_answers_of_every_kind_are_lived_with() {
    let home = tempfile::tempdir().unwrap();
    let mut snapshot = sample("instances-recursion2")[0].clone();
    snapshot["name"] = json!("s1");
    snapshot["snapshots"] = sample("snapshots-recursion1");
    let good: BTreeMap<String, Value> = [
        ("/1.0", sample("server")),
        ("/1.0/storage-pools", sample("storage-pools")),
        (
            "/1.0/storage-pools/default/resources",
            json!({"space": {"total": 10, "used": 3}}),
        ),
        ("/1.0/storage-pools/default/volumes", json!([])),
        ("/1.0/networks", sample("networks")),
        ("/1.0/images", sample("images")),
        ("/1.0/warnings", sample("warnings")),
        ("/1.0/instances/s1", snapshot),
    ]
    .into_iter()
    .map(|(path, value)| (path.to_owned(), value))
    .collect();
    let answers: Answers = Arc::new(Mutex::new(good.clone()));
    serve(&home.path().join("s"), Arc::clone(&answers));
    let backend = (INFO.open)(spec(), env(home.path())).unwrap();
    let mut tried = 0;
    for (path, value) in good.iter().filter(|(path, _)| !path.contains("/default/")) {
        let (whole, text) = ask(&*backend, path).await;
        assert!(whole > 0 || path.ends_with("warnings"), "{path}: {text}");
        let mut pointers = Vec::new();
        places(value, "", &mut pointers);
        // Of long lists of words the first is enough.
        pointers.retain(|pointer| !pointer.contains("api_extensions/") || pointer.ends_with("/0"));
        for pointer in &pointers {
            for odd in broken(value, pointer) {
                answers.lock().unwrap().insert(path.clone(), odd.clone());
                let (found, text) = ask(&*backend, path).await;
                // One element is odd: at most it is missing.
                let inside = pointer.matches('/').count() > 1 || value.is_object();
                if value.is_array() && inside {
                    assert!(found + 3 >= whole, "{path}{pointer}: {odd}: {text}");
                }
                tried += 1;
            }
        }
        answers.lock().unwrap().insert(path.clone(), value.clone());
    }
    assert!(tried > 2000, "{tried}");
}
