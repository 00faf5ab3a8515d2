//! Changes as they happen: folders are watched for definitions and processes that come and go,
//! monitors for events. Where another corral reads a monitor, what it writes down is read.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ctx::Ctx;
use super::definition::Definition;
use super::{events, inventory};
use crate::backend::contract::{Change, ReadCx};
use crate::link::files;
use crate::model::Result;

/// Between two looks when nothing was reported; the user's own interval goes before.
const POLL: u64 = 10;
/// Reports that come together lead to one look.
const SETTLE: Duration = Duration::from_millis(120);
/// A whole look takes at most this.
const LOOK: Duration = Duration::from_secs(15);
/// Changes that wait for a slow reader: more than one full answer is of no use to it.
const WAITING: usize = 64;

/// What wakes the loop.
enum Wake {
    Files,
    Closed(uuid::Uuid),
}

/// Begins; ends when the stream is dropped.
pub fn start(ctx: Arc<Ctx>) -> BoxStream<'static, Result<Change>> {
    let (send, receive) = mpsc::channel(WAITING);
    let task = tokio::spawn(run(ctx, send));
    let guard = AbortOnDrop(task);
    futures::stream::unfold((receive, guard), |(mut receive, guard)| async move {
        receive
            .recv()
            .await
            .map(|change| (change, (receive, guard)))
    })
    .boxed()
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(ctx: Arc<Ctx>, out: mpsc::Sender<Result<Change>>) {
    // Small and lossy: a full queue already means "look again".
    let (wake, mut woken) = mpsc::channel::<Wake>(WAITING);
    let watcher = watch_folders(&ctx, wake.clone());
    if let Err(why) = &watcher {
        let degraded = Change::Degraded(format!("folders cannot be watched: {why}"));
        if out.send(Ok(degraded)).await.is_err() {
            return;
        }
    }
    let pause = Duration::from_secs(ctx.spec.interval.unwrap_or(POLL).max(1));
    let mut tail = events::Tail::new(&ctx);
    let mut followed: HashSet<uuid::Uuid> = HashSet::new();
    let mut followers = JoinSet::new();
    loop {
        for event in tail.news(&ctx) {
            if out.send(Ok(Change::Event(event))).await.is_err() {
                return;
            }
        }
        let answer = inventory::all(&ctx, &ReadCx::quiet(LOOK)).await;
        if out.send(answer.map(Change::Reset)).await.is_err() {
            return;
        }
        follow_new(&ctx, &mut followed, &mut followers, &wake);
        while followers.try_join_next().is_some() {}
        let Ok(first) = tokio::time::timeout(pause, woken.recv()).await else {
            continue;
        };
        let Some(first) = first else { return };
        tokio::time::sleep(SETTLE).await;
        let rest = std::iter::from_fn(|| woken.try_recv().ok());
        for wake in std::iter::once(first).chain(rest) {
            if let Wake::Closed(uuid) = wake {
                followed.remove(&uuid);
            }
        }
    }
}

fn watch_folders(
    ctx: &Ctx,
    wake: mpsc::Sender<Wake>,
) -> Result<notify::RecommendedWatcher, String> {
    let handler = move |seen: notify::Result<notify::Event>| {
        // Logs and locks change all the time and tell nothing.
        let telling = seen.is_ok_and(|event| {
            !event.kind.is_access() && event.paths.iter().any(|path| is_telling(path))
        });
        if telling {
            let _ = wake.try_send(Wake::Files);
        }
    };
    let mut watcher = notify::recommended_watcher(handler).map_err(|e| e.to_string())?;
    for dir in [ctx.store.root().to_owned(), ctx.state_dir()] {
        files::make_dir(&dir).map_err(|e| e.message)?;
        watcher
            .watch(&dir, RecursiveMode::Recursive)
            .map_err(|e| e.to_string())?;
    }
    Ok(watcher)
}

fn is_telling(path: &std::path::Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name else { return true };
    matches!(
        name,
        "vm.toml"
            | "pid"
            | "launch.json"
            | "op.json"
            | "qmp.sock"
            | "snapshots.toml"
            | "events.jsonl"
    ) || !name.contains('.')
}

/// Reads the events of every running VM that nobody reads yet.
fn follow_new(
    ctx: &Arc<Ctx>,
    followed: &mut HashSet<uuid::Uuid>,
    followers: &mut JoinSet<()>,
    wake: &mpsc::Sender<Wake>,
) {
    let entries = ctx.store.list().unwrap_or_default();
    for vm in entries
        .into_iter()
        .filter_map(|entry| entry.definition.ok())
    {
        let there = ctx.paths(&vm.uuid).is_ok_and(|paths| paths.events.exists());
        if there && followed.insert(vm.uuid) {
            followers.spawn(follow(Arc::clone(ctx), vm, wake.clone()));
        }
    }
}

async fn follow(ctx: Arc<Ctx>, vm: Definition, wake: mpsc::Sender<Wake>) {
    if let (Ok(Some(mut qmp)), Ok(paths)) = (events::follow(&ctx, &vm).await, ctx.paths(&vm.uuid)) {
        while let Ok(event) = qmp.next_event().await {
            if let Some(event) = events::translate(&ctx, &vm, &event) {
                events::record(&paths, &event);
                // A full queue already means "look again".
                let _ = wake.try_send(Wake::Files);
            }
        }
    } else {
        // Another corral reads them, or the process hangs: try again later, not at once.
        tokio::time::sleep(Duration::from_secs(POLL)).await;
    }
    let _ = wake.send(Wake::Closed(vm.uuid)).await;
}
