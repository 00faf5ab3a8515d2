//! Every recorded answer of a QEMU, broken in every place in every way: what is not broken is still
//! listed, nothing panics, and nothing that steers a terminal comes through.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it stands"
)]

mod lab;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use corral::backend::contract::{DiskSource, Firmware, ReadCx};
use corral::model::{Bytes, State};
use lab::guest::has_qemu;
use lab::{Lab, READ, request};
use serde_json::{Value, json};

/// What the monitor answers, by command, and what it was asked.
#[derive(Default)]
struct Script {
    answers: BTreeMap<String, Value>,
    asked: BTreeSet<String>,
}

type Shared = Arc<Mutex<Script>>;

fn sample(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qemu");
    let text = std::fs::read_to_string(file.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn serve(listener: UnixListener, script: Shared, uuid: uuid::Uuid) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = Arc::clone(&script);
            std::thread::spawn(move || speak(stream, &script, uuid));
        }
    });
}

fn speak(mut stream: UnixStream, script: &Shared, uuid: uuid::Uuid) -> std::io::Result<()> {
    let greeting = script.lock().unwrap().answers["greeting"].clone();
    writeln!(stream, "{greeting}")?;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let asked: Value = serde_json::from_str(&line?).unwrap();
        let command = asked["execute"].as_str().unwrap();
        let mut answer = match command {
            "qmp_capabilities" => json!({"return": {}}),
            "query-uuid" => json!({"return": {"UUID": uuid}}),
            _ => {
                let mut script = script.lock().unwrap();
                script.asked.insert(command.to_owned());
                let known = script.answers.get(command).cloned();
                known
                    .unwrap_or_else(|| json!({"error": {"class": "CommandNotFound", "desc": "no"}}))
            }
        };
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("id".to_owned(), asked["id"].clone());
        }
        writeln!(stream, "{answer}")?;
    }
    Ok(())
}

/// The places of a value, as JSON pointers.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
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

/// The value with one place broken, in every way that makes a difference there.
fn broken(value: &Value, at: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let old = value.pointer(at).unwrap().clone();
    let odd = match &old {
        Value::String(_) => json!(-1),
        Value::Number(_) => json!("\u{1b}[2J"),
        Value::Bool(_) => json!({}),
        _ => json!("\u{1b}]0;x\u{7}"),
    };
    for new in [Value::Null, odd] {
        let mut copy = value.clone();
        *copy.pointer_mut(at).unwrap() = new;
        all.push(copy);
    }
    if let Value::String(_) = old {
        let mut copy = value.clone();
        *copy.pointer_mut(at).unwrap() = json!("a\u{1b}[31m\n\u{202e}b");
        all.push(copy);
    }
    let Some((parent, key)) = at.rsplit_once('/') else {
        return all;
    };
    let mut missing = value.clone();
    match missing.pointer_mut(parent).unwrap() {
        Value::Object(map) => drop(map.remove(key)),
        Value::Array(list) => {
            let n: usize = key.parse().unwrap();
            let mut twice = value.clone();
            let again = twice.pointer_mut(parent).unwrap().as_array_mut().unwrap();
            again.insert(n, old);
            all.push(twice);
            list.remove(n);
        }
        _ => {}
    }
    all.push(missing);
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_broken_in_any_place_hides_nothing_else() {
    if !has_qemu() {
        return;
    }
    let lab = Lab::new();
    for name in ["odd", "other"] {
        let mut wanted = request(name, DiskSource::Blank, Firmware::Bios);
        wanted.disk_size = Some(Bytes::mib(8));
        lab.make(wanted).await.unwrap();
    }
    let vm = lab.ctx.store.load("odd").unwrap();
    let paths = lab.ctx.paths(&vm.uuid).unwrap();
    std::fs::create_dir_all(&paths.dir).unwrap();
    let script = Shared::default();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qemu");
    let names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|e| e.unwrap().path().file_stem()?.to_str().map(str::to_owned))
        .filter(|name| name.starts_with("query-") || name == "greeting")
        .collect();
    for name in &names {
        let answer = sample(name);
        script.lock().unwrap().answers.insert(name.clone(), answer);
    }
    serve(
        UnixListener::bind(&paths.qmp).unwrap(),
        Arc::clone(&script),
        vm.uuid,
    );

    let backend = lab.backend();
    look(&*backend, "as recorded", Some(State::Running)).await;
    let asked = script.lock().unwrap().asked.clone();
    assert!(
        asked.contains("query-status") && asked.contains("query-named-block-nodes"),
        "{asked:?}"
    );
    // After a snapshot there are more nodes than disks.
    let more = (
        "query-named-block-nodes".to_owned(),
        sample("named-block-nodes-after-snapshot"),
    );
    let own = names
        .iter()
        .filter(|name| matches!(name.as_str(), "greeting" | "query-block") || asked.contains(*name))
        .map(|name| (name.clone(), sample(name)));
    let mut tried = 0;
    for (name, whole) in own.chain([more]) {
        let mut all = Vec::new();
        places(&whole, "", &mut all);
        // Asked only of a guest that a disk has halted.
        let state = if name == "query-block" {
            let halted = json!({"return": {"status": "io-error", "running": false}});
            script
                .lock()
                .unwrap()
                .answers
                .insert("query-status".to_owned(), halted);
            State::Paused
        } else {
            State::Running
        };
        let before = script.lock().unwrap().answers[&name].clone();
        for at in all {
            for value in broken(&whole, &at) {
                let what = format!("{name}{at}: {value}");
                script.lock().unwrap().answers.insert(name.clone(), value);
                // Without a state there is none to be sure of.
                let sure = !matches!(name.as_str(), "query-status" | "greeting");
                look(&*backend, &what, sure.then_some(state)).await;
                tried += 1;
            }
        }
        let mut script = script.lock().unwrap();
        script.answers.insert(name, before);
        script
            .answers
            .insert("query-status".to_owned(), sample("query-status"));
    }
    assert!(tried > 500, "{tried}");
}

/// The list, the details and the load, as they are asked for all day.
async fn look(backend: &dyn corral::backend::contract::Backend, what: &str, sure: Option<State>) {
    let cx = || ReadCx::quiet(READ);
    let all = backend
        .inventory(&cx())
        .await
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let row = |name: &str| {
        let found = all.instances.iter().find(|row| row.name == name);
        found.unwrap_or_else(|| panic!("{what}: {name} is not listed"))
    };
    assert_eq!(row("other").state, State::Stopped, "{what}");
    let odd = row("odd");
    if let Some(sure) = sure {
        assert_eq!(odd.state, sure, "{what}");
    }
    let reason = odd.reason.clone().unwrap_or_default();
    assert!(
        !reason.contains('\u{1b}') && !reason.contains('\u{202e}'),
        "{what}: {reason}"
    );
    let detail = backend.detail(&cx(), &odd.id).await;
    let detail = detail.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(detail.instance.name, "odd", "{what}");
    assert_eq!(detail.disks.len(), 1, "{what}");
    if let Some(metrics) = backend.families().metrics() {
        let _ = metrics.sample(&cx(), std::slice::from_ref(&odd.id)).await;
    }
}
