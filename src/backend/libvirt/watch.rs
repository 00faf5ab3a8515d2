//! Changes as they happen: events of domains, each followed by a look at the one it is about. Nothing is polled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use jiff::Timestamp;
use tokio::sync::{broadcast, mpsc};

use super::ctx::{Ctx, Seen};
use super::wire::Happened;
use super::{events, inventory};
use crate::backend::contract::{Change, ReadCx};
use crate::model::{ErrorKind, Result};

/// A look takes at most this.
const LOOK: Duration = Duration::from_secs(15);
/// Events that come together lead to one look.
const SETTLE: Duration = Duration::from_millis(40);
/// Changes that wait for a slow reader.
const WAITING: usize = 64;
/// A whole list now and then: what no event tells (autostart, say) is seen by it.
const WHOLE: Duration = Duration::from_secs(300);

/// Begins; ends when the stream is dropped.
pub fn start(ctx: Arc<Ctx>) -> BoxStream<'static, Result<Change>> {
    let (send, receive) = mpsc::channel(WAITING);
    let watched = Watched(Arc::clone(&ctx));
    let task = tokio::spawn(async move {
        if let Err(error) = run(&ctx, &send).await {
            let _ = send.send(Err(error)).await;
        }
    });
    let guard = (AbortOnDrop(task), watched);
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

/// Definitions are kept only while somebody hears of their changes.
struct Watched(Arc<Ctx>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.watched.store(false, Ordering::Relaxed);
    }
}

async fn run(ctx: &Arc<Ctx>, out: &mpsc::Sender<Result<Change>>) -> Result<()> {
    let cx = ReadCx::quiet(LOOK);
    let conn = cx.within("libvirt", ctx.client.reader()).await;
    let conn = conn.map_err(|e| e.in_context(&ctx.spec.name))?;
    // Before the first list, so that nothing falls in between.
    let mut events = conn.events();
    loop {
        // What was read before the events were heard may be old.
        ctx.watched.store(false, Ordering::Relaxed);
        let all = inventory::all(ctx, &ReadCx::quiet(LOOK)).await?;
        ctx.watched.store(true, Ordering::Relaxed);
        if out.send(Ok(Change::Reset(all))).await.is_err() {
            return Ok(());
        }
        let until = tokio::time::Instant::now() + WHOLE;
        loop {
            let first = tokio::select! {
                event = events.recv() => event,
                why = conn.end() => return Err(why.in_context(&ctx.spec.name)),
                () = out.closed() => return Ok(()),
                () = tokio::time::sleep_until(until) => break,
            };
            let Some(first) = told(first) else { break };
            let mut domains: BTreeMap<String, String> = BTreeMap::new();
            let mut lost = false;
            let mut next = Some(first);
            let settled = tokio::time::Instant::now() + SETTLE;
            loop {
                if let Some(event) = next.take() {
                    // What waits for the look must not find the old definition.
                    ctx.forget(&event.uuid);
                    domains.insert(event.uuid.clone(), event.name.clone());
                    if let Some(event) = events::translate(ctx, &event)
                        && out.send(Ok(Change::Event(event))).await.is_err()
                    {
                        return Ok(());
                    }
                }
                match tokio::time::timeout_at(settled, events.recv()).await {
                    Err(_) => break,
                    Ok(event) => match told(event) {
                        Some(event) => next = Some(event),
                        None => {
                            lost = true;
                            break;
                        }
                    },
                }
            }
            if lost {
                break;
            }
            for (uuid, name) in domains {
                let change = look(ctx, &uuid, &name).await?;
                if out.send(Ok(change)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// `None` for a watcher that was too slow: only a whole list helps then.
fn told(event: Result<Happened, broadcast::error::RecvError>) -> Option<Happened> {
    event.ok()
}

/// The row of one domain as it is now.
async fn look(ctx: &Ctx, uuid: &str, name: &str) -> Result<Change> {
    let cx = ReadCx::quiet(LOOK);
    let looked = match ctx.find(&cx, uuid).await {
        Ok(looked) => looked,
        Err(error) if error.kind == ErrorKind::NotFound => {
            return Ok(Change::Gone(ctx.id(name)));
        }
        Err(error) => return Err(error),
    };
    let id = ctx.id(&looked.listed.name);
    if looked.listed.name != name {
        // Renamed while we looked: the next whole list says both.
        ctx.forget(uuid);
    }
    let listed = looked.listed.clone();
    let row = match Seen::of(id.clone(), looked) {
        Ok(seen) => inventory::row(ctx, &listed, &seen.live, Timestamp::now()),
        Err(error) => {
            let mut row = crate::model::Instance::broken(
                id,
                super::ctx::KIND,
                error.message,
                Timestamp::now(),
            );
            row.uid = Some(listed.uuid);
            row
        }
    };
    Ok(Change::Upsert(Box::new(row)))
}
