//! `events.jsonl` in a VM's state folder: appended by whoever saw something.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use jiff::Timestamp;

use super::super::ctx::{Ctx, Paths};
use super::super::definition::Definition;
use super::super::locks;
use crate::link::files;
use crate::model::{Event, EventLevel};

/// Events that are told per VM.
const KEPT: usize = 200;
/// The journal is cut to its newer half beyond this.
const LONGEST: u64 = 256 * 1024;
/// An event is not held up for long by another writer.
const WAIT: Duration = Duration::from_millis(200);

/// Appends to the VM's journal. It is a convenience: failing to write it fails nothing else.
pub fn record(paths: &Paths, event: &Event) {
    let Ok(line) = serde_json::to_string(event) else {
        return;
    };
    // Not while another corral cuts it: what is appended meanwhile would be lost.
    let _lock = files::lock(&paths.dir.join("journal.lock"), "the journal", WAIT);
    if std::fs::metadata(&paths.journal).is_ok_and(|meta| meta.len() > LONGEST)
        && let Ok(text) = std::fs::read_to_string(&paths.journal)
    {
        let lines: Vec<&str> = text.lines().collect();
        let newer = lines[lines.len() / 2..].join("\n") + "\n";
        let _ = files::write_atomically(&paths.journal, newer.as_bytes());
    }
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&paths.journal);
    if let Ok(mut file) = file {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
    if event.kind == "SHUTDOWN" {
        // Its end is told.
        let _ = std::fs::remove_file(&paths.alive);
    }
}

/// Records what corral itself did or found.
pub fn say(ctx: &Ctx, vm: &Definition, level: EventLevel, kind: &str, message: impl Into<String>) {
    let Ok(paths) = ctx.paths(&vm.uuid) else {
        return;
    };
    let event = Event {
        at: Timestamp::now(),
        context: ctx.spec.name.clone(),
        instance: Some(ctx.id(&vm.name)),
        level,
        kind: kind.to_owned(),
        message: message.into(),
    };
    // A VM that never ran has no folder there yet.
    let _ = files::make_dir(&paths.dir);
    record(&paths, &event);
}

/// A VM was found off: records that once, unless whoever reads its events has told it already.
pub async fn see_end(ctx: &Ctx, vm: &Definition, level: EventLevel, message: &str) {
    let Ok(paths) = ctx.paths(&vm.uuid) else {
        return;
    };
    if !paths.alive.exists() {
        return;
    }
    // One that holds the socket is still about to tell it.
    let Ok(Some(_lock)) = locks::events(ctx, &vm.uuid).await else {
        return;
    };
    // Whoever removes the mark is the one to tell it.
    if std::fs::remove_file(&paths.alive).is_ok() {
        say(ctx, vm, level, "ENDED", message);
    }
}

/// What the journal holds; torn lines are skipped.
pub fn journal(paths: &Paths) -> Vec<Event> {
    let mut events: Vec<Event> = lines(paths)
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    if events.len() > KEPT {
        events.drain(..events.len() - KEPT);
    }
    events
}

fn lines(paths: &Paths) -> Vec<String> {
    let text = std::fs::read(&paths.journal).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

/// What journals gain from one look to the next.
#[derive(Debug)]
pub struct Tail {
    /// Length and last line of each, as of the last look.
    read: HashMap<uuid::Uuid, (u64, Option<String>)>,
}

impl Tail {
    /// What is there now is not news.
    pub fn new(ctx: &Ctx) -> Self {
        let mut tail = Self {
            read: HashMap::new(),
        };
        tail.news(ctx);
        tail
    }

    /// The events since the last look, in order.
    pub fn news(&mut self, ctx: &Ctx) -> Vec<Event> {
        let mut news = Vec::new();
        let entries = ctx.store.list().unwrap_or_default();
        for vm in entries
            .into_iter()
            .filter_map(|entry| entry.definition.ok())
        {
            let Ok(paths) = ctx.paths(&vm.uuid) else {
                continue;
            };
            let length = std::fs::metadata(&paths.journal).map_or(0, |meta| meta.len());
            let (seen, last) = self.read.get(&vm.uuid).cloned().unwrap_or_default();
            if seen == length && self.read.contains_key(&vm.uuid) {
                continue;
            }
            let lines = lines(&paths);
            let from = last
                .and_then(|last| lines.iter().rposition(|line| *line == last))
                .map_or(0, |at| at + 1);
            news.extend(
                lines[from..]
                    .iter()
                    .filter_map(|line| serde_json::from_str::<Event>(line).ok()),
            );
            self.read.insert(vm.uuid, (length, lines.last().cloned()));
        }
        news.sort_by_key(|event| event.at);
        news
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::ctx::tests::context;
    use super::super::super::definition::tests::sample;
    use super::*;

    #[tokio::test]
    async fn a_tail_tells_each_event_once_and_an_end_is_told_once() {
        let root = tempfile::tempdir().unwrap();
        let ctx = context(root.path());
        let vm = sample("web", &ctx.store.dir("web").unwrap());
        ctx.store.save(&vm).unwrap();
        let paths = ctx.paths(&vm.uuid).unwrap();
        files::make_dir(&paths.dir).unwrap();
        let tell = |text: &str| say(&ctx, &vm, EventLevel::Info, "X", text);
        tell("old");
        let mut tail = Tail::new(&ctx);
        assert!(tail.news(&ctx).is_empty());
        tell("one");
        std::fs::OpenOptions::new()
            .append(true)
            .open(&paths.journal)
            .unwrap()
            .write_all(b"{ torn\n")
            .unwrap();
        tell("two");
        let texts = |events: Vec<Event>| -> Vec<String> {
            events.into_iter().map(|event| event.message).collect()
        };
        assert_eq!(texts(tail.news(&ctx)), ["one", "two"]);
        // A cut journal is no news.
        let all = std::fs::read_to_string(&paths.journal).unwrap();
        let half: Vec<&str> = all.lines().skip(2).collect();
        std::fs::write(&paths.journal, half.join("\n") + "\n").unwrap();
        assert!(tail.news(&ctx).is_empty());
        see_end(&ctx, &vm, EventLevel::Warn, "found off").await;
        std::fs::write(&paths.alive, "").unwrap();
        see_end(&ctx, &vm, EventLevel::Warn, "found off").await;
        see_end(&ctx, &vm, EventLevel::Warn, "found off").await;
        assert_eq!(texts(tail.news(&ctx)), ["found off"]);
    }
}
