//! Changes as they happen: a lifecycle event leads to one look at the instance it speaks of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _};
use tokio::sync::mpsc;

use super::ctx::Ctx;
use super::events::{self, About};
use super::inventory;
use crate::backend::contract::{Change, ReadCx};
use crate::model::{ErrorKind, Result};

/// Without any event all are looked at this often, seconds; the user's own interval goes before. Loads and addresses
/// change without one.
const POLL: u64 = 30;
/// After an event its instance is looked at again this much later: an address comes after a start.
const LATER: Duration = Duration::from_secs(3);
/// Events that come together lead to one look.
const SETTLE: Duration = Duration::from_millis(40);
/// A look takes at most this.
const LOOK: Duration = Duration::from_secs(15);
/// Changes that wait for a slow reader: more than one full answer is of no use to it.
const WAITING: usize = 64;
/// With more instances than this to be looked at, all are.
const MANY: usize = 8;

/// Begins; ends when the stream is dropped, or the line to the server breaks.
pub fn start(ctx: Arc<Ctx>) -> BoxStream<'static, Result<Change>> {
    let (send, receive) = mpsc::channel(WAITING);
    let task = AbortOnDrop(tokio::spawn(run(ctx, send)));
    futures::stream::unfold((receive, task), |(mut receive, task)| async move {
        let change = receive.recv().await?;
        Some((change, (receive, task)))
    })
    .boxed()
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Out = mpsc::Sender<Result<Change>>;

/// What is to be looked at.
#[derive(Default)]
struct Due {
    all: bool,
    some: BTreeSet<(String, String)>,
}

impl Due {
    fn add(&mut self, about: About) {
        match about {
            About::All => self.all = true,
            About::Nothing => {}
            About::Instance {
                project,
                name,
                before,
            } => {
                if let Some(before) = before {
                    self.some.insert((project.clone(), before));
                }
                self.some.insert((project, name));
            }
        }
    }

    fn is_empty(&self) -> bool {
        !self.all && self.some.is_empty()
    }
}

async fn run(ctx: Arc<Ctx>, out: Out) {
    // The stream first: what happens while the list is made is told.
    let opened = async { ctx.api()?.events(ctx.project()).await };
    let mut texts = match opened.await {
        Ok(texts) => texts.boxed(),
        Err(error) => {
            let unauthorized = error.kind == ErrorKind::Unauthorized;
            // The list says more of why nobody answers.
            let first = list(&ctx, &out).await;
            if !first {
                return;
            }
            let why = if unauthorized {
                "this client may not listen to events".to_owned()
            } else {
                format!("events are not told: {error}")
            };
            let _ = out.send(Ok(Change::Degraded(why))).await;
            poll(&ctx, &out).await;
            return;
        }
    };
    if !list(&ctx, &out).await {
        return;
    }
    let pause = Duration::from_secs(ctx.spec.interval.unwrap_or(POLL).max(1));
    let mut next = tokio::time::Instant::now() + pause;
    let mut later: Option<(tokio::time::Instant, BTreeSet<(String, String)>)> = None;
    loop {
        let again = later.as_ref().map_or(next, |(at, _)| *at);
        let mut due = Due::default();
        tokio::select! {
            text = texts.next() => {
                match text {
                    Some(Ok(text)) => {
                        if !take(&ctx, &out, &text, &mut due).await {
                            return;
                        }
                    }
                    Some(Err(error)) => {
                        let _ = out.send(Err(error.in_context(&ctx.spec.name))).await;
                        return;
                    }
                    None => return,
                }
            }
            () = tokio::time::sleep_until(again.min(next)) => {
                match later.take_if(|(at, _)| *at <= tokio::time::Instant::now()) {
                    Some((_, some)) => due.some = some,
                    None => due.all = true,
                }
            }
        }
        if due.is_empty() {
            continue;
        }
        let by_event = !due.all && later.is_none();
        // Others that come at the same moment.
        let settle = tokio::time::sleep(SETTLE);
        tokio::pin!(settle);
        loop {
            tokio::select! {
                () = &mut settle => break,
                Some(Ok(text)) = texts.next() => {
                    if !take(&ctx, &out, &text, &mut due).await {
                        return;
                    }
                }
            }
        }
        if due.all || due.some.len() > MANY {
            if !list(&ctx, &out).await {
                return;
            }
            next = tokio::time::Instant::now() + pause;
            continue;
        }
        for (project, name) in &due.some {
            if !one(&ctx, &out, project, name).await {
                return;
            }
        }
        if by_event {
            later = Some((tokio::time::Instant::now() + LATER, due.some));
        }
    }
}

/// Passes an event on and notes what it is about. False: nobody listens any more.
async fn take(ctx: &Ctx, out: &Out, text: &str, due: &mut Due) -> bool {
    // What cannot be read may be about anything.
    let Some(event) = events::read(text) else {
        due.all = true;
        return true;
    };
    due.add(events::about(&event));
    match events::translate(ctx, &event) {
        Some(told) => out.send(Ok(Change::Event(told))).await.is_ok(),
        None => true,
    }
}

async fn list(ctx: &Ctx, out: &Out) -> bool {
    let answer = inventory::all(ctx, &ReadCx::quiet(LOOK)).await;
    let good = answer.is_ok();
    out.send(answer.map(Change::Reset)).await.is_ok() && good
}

async fn one(ctx: &Ctx, out: &Out, project: &str, name: &str) -> bool {
    let cx = ReadCx::quiet(LOOK);
    let change = match inventory::one(ctx, &cx, project, name).await {
        Ok((value, _)) => Change::Upsert(Box::new(inventory::row_of(ctx, &value))),
        Err(error) if error.kind == ErrorKind::NotFound => Change::Gone(ctx.id(project, name)),
        Err(error) => {
            let _ = out.send(Err(error)).await;
            return false;
        }
    };
    out.send(Ok(change)).await.is_ok()
}

/// Where nothing is told.
async fn poll(ctx: &Ctx, out: &Out) {
    let pause = Duration::from_secs(ctx.spec.interval.unwrap_or(5).max(1));
    loop {
        tokio::time::sleep(pause).await;
        if !list(ctx, out).await {
            return;
        }
    }
}
