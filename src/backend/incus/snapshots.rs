//! Snapshots: `/1.0/instances/NAME/snapshots`.
//!
//! The server keeps a flat list. What it does not keep stands in the instance's own `user.` keys at the moment a
//! snapshot is taken, and so in the snapshot's copy of them: which one the present came from, the note, the rule.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::call::Call;
use super::ctx::Ctx;
use super::json::{Look as _, entry};
use super::power;
use super::seen::{Seen, snapshot_name};
use super::support;
use super::work::{self, Act, Edit, LOOK, Todo, Work};
use crate::backend::contract::{
    Changes, Prepared, ReadCx, SnapshotRequest, TakeSnapshot, TaskCx, free_name, satisfies,
};
use crate::model::{
    Bytes, Consistency, Error, Instance, Outcome, Refusal, Result, Snapshot, State, Support,
    encode_segment, shown,
};

/// The snapshot that the present came from.
const CURRENT: &str = "user.corral.snapshot";
/// The note of a snapshot.
const NOTE: &str = "user.corral.snapshot.note";
/// The rule that named it.
const POLICY: &str = "user.corral.snapshot.policy";
/// Taken again by its rule within this time, a snapshot is there already, seconds.
const SAME_RUN: i64 = 60;

/// The snapshots family.
#[derive(Clone, Debug)]
pub struct Snapshots(pub Arc<Ctx>);

/// The snapshots of an instance. One that is odd hides no other.
pub fn list(seen: &Seen) -> Vec<Snapshot> {
    let all: Vec<&Value> = seen.value.list("snapshots").iter().collect();
    let names: BTreeSet<&str> = all.iter().filter_map(|s| snapshot_name(s)).collect();
    let current = entry(seen.config(), CURRENT).filter(|name| names.contains(name));
    let read = |value: &&Value| {
        let name = snapshot_name(value)?;
        let config = value.object("config");
        let parent =
            entry(config, CURRENT).filter(|parent| names.contains(parent) && *parent != name);
        let broken = config
            .is_none()
            .then(|| "its definition is not there".to_owned());
        Some(Snapshot {
            instance: seen.id.clone(),
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            current: current == Some(name),
            created_at: value.time("created_at"),
            consistency: consistency(value),
            size_bytes: value.number("size").filter(|size| *size > 0).map(Bytes),
            note: entry(config, NOTE).map(str::to_owned),
            broken,
            expires_at: value.time("expires_at"),
            policy: entry(config, POLICY).map(str::to_owned),
        })
    };
    all.iter().filter_map(read).collect()
}

/// What it holds, as the server kept it: its RAM, or how the guest was at that moment.
fn consistency(snapshot: &Value) -> Option<Consistency> {
    if snapshot.flag("stateful") == Some(true) {
        return Some(Consistency::Memory);
    }
    let config = snapshot.object("config")?;
    Some(match entry(Some(config), "volatile.last_state.power") {
        // One that never ran has none.
        Some("STOPPED") | None => Consistency::Offline,
        Some(_) => Consistency::Crash,
    })
}

/// What a snapshot may be called: the server's own rule.
fn name_fault(name: &str) -> Option<String> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '\\' | '@');
    let bad = name.is_empty()
        || name.len() > 63
        || name.starts_with(['-', '.'])
        || shown(name) != name
        || name.contains(odd);
    bad.then(|| {
        format!(
            "\"{}\" cannot be the name of a snapshot: 1 to 63 characters without spaces, slashes and @",
            shown(name)
        )
    })
}

fn path(seen: &Seen, name: Option<&str>) -> String {
    match name {
        Some(name) => seen.path(&["snapshots", name]),
        None => seen.path(&["snapshots"]),
    }
}

/// The steps that take one.
fn taking(seen: &Seen, take: &TakeSnapshot, name: &str) -> Vec<Todo> {
    let marks = [
        (NOTE, take.note.as_deref()),
        (POLICY, take.policy.as_deref()),
    ];
    let marks: Vec<(String, Option<String>)> = marks
        .into_iter()
        .filter_map(|(key, text)| Some((key.to_owned(), Some(text?.to_owned()))))
        .collect();
    let mut todos = Vec::new();
    if !marks.is_empty() {
        let edit = Edit {
            config: marks.clone(),
            ..Edit::default()
        };
        todos.push(Todo::new("Say what it is for", Act::Edit(edit)));
    }
    let mut body = json!({"name": name, "stateful": take.memory});
    if let Some(end) = take.expires_at {
        body["expires_at"] = json!(end.to_string());
    }
    let undo = format!(
        "corral snapshot delete {}@{}",
        seen.id,
        encode_segment(name)
    );
    let title = if take.memory {
        "Save RAM and disks"
    } else {
        "Take the snapshot"
    };
    todos.push(Todo::call(title, Call::new("POST", path(seen, None), body)).undo(undo));
    let mut edit = Edit::key(CURRENT, Some(name.to_owned()));
    edit.config
        .extend(marks.into_iter().map(|(key, _)| (key, None)));
    todos.push(Todo::new(
        "Note that the present came from it",
        Act::Edit(edit),
    ));
    todos
}

fn dropping(seen: &Seen, name: &str) -> Todo {
    let call = Call::new("DELETE", path(seen, Some(name)), Value::Null);
    Todo::call(format!("Delete the snapshot {}", shown(name)), call)
}

/// What a snapshot without RAM would be now.
fn outlook(seen: &Seen) -> Consistency {
    if seen.state().is_active() {
        Consistency::Crash
    } else {
        Consistency::Offline
    }
}

/// What it will be, or why it would not be what is required.
fn promise(seen: &Seen, take: &TakeSnapshot) -> Result<Consistency, Refusal> {
    let id = &seen.id;
    if take.memory && !seen.state().is_active() {
        return Err(Refusal::new(
            format!("{id} is not running: there is no RAM to save"),
            Some("Leave --with-memory out.".to_owned()),
        ));
    }
    if let (true, Support::Conditional(why)) = (take.memory, support::memory(seen)) {
        return Err(Refusal::new(why, Some(support::memory_remedy(seen))));
    }
    let got = if take.memory {
        Consistency::Memory
    } else {
        outlook(seen)
    };
    match take.require {
        Some(wanted) if !satisfies(got, wanted) => Err(Refusal::new(
            format!(
                "the snapshot would be {}, not {}: {}",
                got.as_str(),
                wanted.as_str(),
                match wanted {
                    Consistency::Filesystem => "the server freezes no file systems",
                    Consistency::Memory => "it was not asked for",
                    _ => "it is running",
                }
            ),
            Some(format!("Stop it first: corral stop {id}.")),
        )),
        _ => Ok(got),
    }
}

fn create(seen: &Seen, take: &TakeSnapshot) -> Prepared {
    let token = seen.token();
    let there = list(seen);
    let named = there.iter().map(|s| (s.name.as_str(), s.policy.as_deref()));
    let name = take.name_after(named);
    if let Some(done) = taken_already(&there, take, &name) {
        return Prepared::unchanged(token, done);
    }
    if let Some(why) = name_fault(&name) {
        return Prepared::refused(token, why, Some("Choose another name.".to_owned()));
    }
    if there.iter().any(|snapshot| snapshot.name == name) {
        return Prepared::refused(
            token,
            format!("there is already a snapshot called \"{}\"", shown(&name)),
            Some(format!(
                "Choose another name, or delete it: corral snapshot delete {}@{}",
                seen.id,
                encode_segment(&name)
            )),
        );
    }
    let got = match promise(seen, take) {
        Ok(got) => got,
        Err(refusal) => {
            let mut prepared = Prepared::new(token, Vec::new());
            prepared.refusals.push(refusal);
            return prepared;
        }
    };
    let mut todos = taking(seen, take, &name);
    let doomed = beyond(&there, take);
    todos.extend(doomed.iter().map(|old| dropping(seen, old)));
    let work = Work::on(seen, todos, format!("{} is taken", shown(&name)));
    let mut prepared = plan(seen, work, Some(name));
    prepared.notes.push(match got {
        Consistency::Memory => {
            "Consistency: memory. The guest stands still while its RAM is saved".to_owned()
        }
        Consistency::Crash => "Consistency: crash, as after a power cut".to_owned(),
        other => format!("Consistency: {}", other.as_str()),
    });
    if take.quiesce && got == Consistency::Crash {
        prepared
            .notes
            .push("The server freezes no file systems".to_owned());
    }
    if let Some(end) = take.expires_at {
        prepared.notes.push(if end > Timestamp::now() {
            format!("Expires at {end:.0}: the server removes it then")
        } else {
            format!("Expired at {end:.0} already: the server removes it soon")
        });
    }
    prepared.deletes = !doomed.is_empty();
    for old in &doomed {
        prepared
            .losses
            .push(format!("the state kept as \"{}\"", shown(old)));
    }
    if let (Some(keep), Some(policy)) = (take.keep, &take.policy) {
        prepared.notes.push(format!(
            "Of those named by {} the newest {keep} stay",
            shown(policy)
        ));
    }
    prepared
}

/// The same one of the same rule, taken a moment ago: cron may run twice.
fn taken_already(there: &[Snapshot], take: &TakeSnapshot, name: &str) -> Option<String> {
    let old = there.iter().find(|snapshot| snapshot.name == name)?;
    let got = old.consistency?;
    if take.policy.is_none() || old.policy != take.policy {
        return None;
    }
    if take.require.is_some_and(|wanted| !satisfies(got, wanted)) {
        return None;
    }
    let age = Timestamp::now().as_second() - old.created_at?.as_second();
    (0..SAME_RUN)
        .contains(&age)
        .then(|| format!("{} was taken just now, {}", shown(name), got.as_str()))
}

/// Those of the same rule that are too many once the new one is there, oldest first.
fn beyond(there: &[Snapshot], take: &TakeSnapshot) -> Vec<String> {
    let (Some(keep), Some(_)) = (take.keep, &take.policy) else {
        return Vec::new();
    };
    let mut same: Vec<&Snapshot> = there.iter().filter(|s| s.policy == take.policy).collect();
    same.sort_by_key(|snapshot| snapshot.created_at);
    let many = same.len().saturating_sub(keep.saturating_sub(1));
    same.iter().take(many).map(|s| s.name.clone()).collect()
}

/// How one goes back.
struct Back {
    stop: bool,
    start: bool,
    keep_present: Option<String>,
}

fn restore(seen: &Seen, name: &str, back: &Back) -> Prepared {
    let (id, token) = (&seen.id, seen.token());
    let Some(snapshot) = seen.snapshot(name) else {
        return Prepared::failed(
            token,
            &Error::not_found(format!("{id} has no snapshot \"{}\"", shown(name)))
                .remedy(format!("See corral snapshot list {id}")),
        );
    };
    if let Some(refused) = seen.unclear() {
        return refused;
    }
    let active = seen.state().is_active();
    if active && !back.stop {
        return Prepared::refused(
            token,
            format!("{id} is {}", seen.state()),
            Some(format!("Stop it first: corral stop {id}")),
        );
    }
    if seen.row.template && back.start {
        return Prepared::refused(
            token,
            format!("{id} is a template and is not started"),
            Some("Leave --start out.".to_owned()),
        );
    }
    let mut todos = Vec::new();
    if active {
        if seen.state() == State::Paused {
            todos.push(Todo::new(format!("Power off {id}"), Act::PowerOff));
        } else {
            todos.push(Todo::new(
                format!("Ask {id} to shut down, and wait"),
                Act::ShutDown(None),
            ));
        }
    }
    let names = list(seen);
    let kept = back.keep_present.as_ref().map(|wanted| {
        let kept = free_name(wanted, names.iter().map(|s| s.name.as_str()));
        todos.extend(taking(seen, &TakeSnapshot::named(kept.clone()), &kept));
        kept
    });
    if let Some(why) = kept.as_deref().and_then(name_fault) {
        return Prepared::refused(token, why, Some("Choose another name.".to_owned()));
    }
    let stateful = snapshot.flag("stateful") == Some(true);
    let call = Call::new(
        "PUT",
        seen.path(&[]),
        json!({"restore": name, "stateful": stateful}),
    );
    todos.push(Todo::call(format!("Go back to {}", shown(name)), call));
    todos.push(Todo::new(
        "Note that the present came from it",
        Act::Edit(Edit::key(CURRENT, Some(name.to_owned()))),
    ));
    // With its RAM it runs at once.
    let starts = back.start && !stateful;
    if starts {
        todos.push(Todo::call(
            format!("Start {id}"),
            power::call(&seen.path(&[]), "start", json!({})),
        ));
    }
    let runs = starts || stateful;
    let work = Work::on(
        seen,
        todos,
        format!(
            "{id} is back at {}{}",
            shown(name),
            if runs { ", running" } else { "" }
        ),
    );
    let mut prepared = plan(seen, work, None);
    prepared.detachable = false;
    match kept {
        Some(kept) => prepared
            .notes
            .push(format!("The present is kept as {kept}")),
        None => prepared.losses.push(format!(
            "what {id} holds now and no snapshot does, its settings included"
        )),
    }
    if stateful {
        prepared
            .notes
            .push("It goes on with the RAM of the snapshot".to_owned());
    }
    prepared
}

fn delete(seen: &Seen, names: &[String]) -> Prepared {
    let there = |name: &&String| seen.snapshot(name).is_some();
    let names: Vec<&String> = names.iter().filter(there).collect();
    if names.is_empty() {
        return Prepared::unchanged(seen.token(), "it is already gone");
    }
    let todos = names.iter().map(|name| dropping(seen, name)).collect();
    let listed: Vec<_> = names.iter().map(|name| shown(name)).collect();
    let said = format!("{} is deleted", listed.join(", "));
    let mut prepared = plan(seen, Work::on(seen, todos, said), None);
    for name in names {
        prepared
            .losses
            .push(format!("the state kept as \"{}\"", shown(name)));
    }
    prepared
}

/// What `run` needs: the work, and the snapshot that is to be read back.
struct Snapping {
    work: Work,
    taken: Option<String>,
}

fn plan(seen: &Seen, work: Work, taken: Option<String>) -> Prepared {
    let path = seen.path(&[]);
    let steps = work.todos.iter().map(|todo| todo.step(&path)).collect();
    Prepared::new(seen.token(), steps).with(Snapping { work, taken })
}

#[async_trait]
impl Changes<SnapshotRequest> for Snapshots {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: SnapshotRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        Ok(match request {
            SnapshotRequest::Create(take) => seen.unclear().unwrap_or_else(|| create(&seen, &take)),
            SnapshotRequest::Restore {
                name,
                stop,
                start,
                keep_present,
            } => restore(
                &seen,
                &name,
                &Back {
                    stop,
                    start,
                    keep_present,
                },
            ),
            SnapshotRequest::Delete { names } => delete(&seen, &names),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let Snapping { work, taken } = prepared.take()?;
        let on = work.on.clone();
        let mut outcome = work::carry_out(&self.0, cx, work, &prepared.token).await?;
        if let (Some(name), Some(id)) = (taken, on) {
            // What it really is, and not what was asked for.
            let seen = Seen::now(&self.0, &cx.read(LOOK), &id).await?;
            let got = seen.snapshot(&name).and_then(consistency);
            outcome.consistency = got;
            outcome.message = Some(match got {
                Some(got) => format!("{} is taken, {}", shown(&name), got.as_str()),
                None => format!("{} is taken; what it holds is not said", shown(&name)),
            });
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_snapshot_holds_is_read_from_it() {
        let of = |stateful: bool, power: Option<&str>| {
            let config = match power {
                Some(power) => json!({"volatile.last_state.power": power}),
                None => json!({}),
            };
            consistency(&json!({"stateful": stateful, "config": config}))
        };
        assert_eq!(of(true, Some("RUNNING")), Some(Consistency::Memory));
        assert_eq!(of(false, Some("RUNNING")), Some(Consistency::Crash));
        assert_eq!(of(false, Some("STOPPED")), Some(Consistency::Offline));
        assert_eq!(of(false, None), Some(Consistency::Offline));
        assert_eq!(consistency(&json!({"stateful": false})), None);
    }

    #[test]
    fn names_of_snapshots_are_words() {
        for bad in ["", "a/b", "a b", "-a", "a\u{7}", "a@b", &"x".repeat(64)] {
            assert!(name_fault(bad).is_some(), "{bad:?}");
        }
        assert!(name_fault("before-2.0_x").is_none());
    }
}
