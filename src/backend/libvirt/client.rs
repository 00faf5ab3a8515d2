//! The helper processes of one context: a reader, killed at any deadline that passes; a worker for changes, which no
//! deadline of a read ends; and one for each stream of bytes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex as Turn, broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::fault;
use super::wire::{Ask, BUILD, Call, Happened, Hello, Open, PROTOCOL, Told};
use crate::backend::contract::{Env, ReadCx};
use crate::link::child::{Cmd, Spoken};
use crate::link::frames::{self, FrameReader, FrameWriter};
use crate::model::{Error, Result};

/// The helper's name.
pub const HELPER: &str = "corral-libvirt";
/// A worker with nothing to do ends after this.
const IDLE: Duration = Duration::from_secs(60);
/// Until a worker or a stream is connected.
const CONNECT: Duration = Duration::from_secs(20);
/// Events that wait for a slow watcher; more than one look's worth is of no use to it.
const EVENTS: usize = 256;

/// The helpers of one context.
pub struct Client {
    /// The context's name, for messages.
    name: String,
    env: Arc<Env>,
    uri: String,
    readonly: bool,
    reader: Turn<Option<Arc<Conn>>>,
    worker: Turn<Option<Arc<Conn>>>,
    calls: Mutex<Vec<String>>,
}

/// One helper that is connected.
pub struct Conn {
    ask: mpsc::UnboundedSender<Vec<u8>>,
    next: AtomicU64,
    waiting: Waiting,
    events: broadcast::Sender<Happened>,
    /// Cancelled at its end.
    ended: CancellationToken,
    child: Mutex<Option<Spoken>>,
    used: Mutex<Instant>,
}

type Answer = Result<Value>;

/// Who waits for which answer; and once it has ended, why.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<Asked>>);

type Asked = (HashMap<u64, oneshot::Sender<Answer>>, Option<Error>);

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, error: &Error) {
        let mut all = self.lock();
        all.1.get_or_insert_with(|| error.clone());
        for (_, waits) in all.0.drain() {
            let _ = waits.send(Err(error.clone()));
        }
    }
}

impl Conn {
    async fn call(&self, call: Call) -> Answer {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (send, receive) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if let Some(error) = &waiting.1 {
                return Err(error.clone());
            }
            waiting.0.insert(id, send);
        }
        self.ask
            .send(json(&Ask { id, call })?)
            .map_err(|_| lost())?;
        receive.await.map_err(|_| lost())?
    }

    /// Ends it now: whoever waits is told.
    fn kill(&self, why: &Error) {
        self.waiting.end(why);
        self.ended.cancel();
        drop(
            self.child
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// What happens to domains from now on.
    pub fn events(&self) -> broadcast::Receiver<Happened> {
        self.events.subscribe()
    }

    /// Resolves once it has ended; why.
    pub async fn end(&self) -> Error {
        self.ended.cancelled().await;
        self.waiting.lock().1.clone().unwrap_or_else(lost)
    }

    fn is_over(&self) -> bool {
        self.ended.is_cancelled()
    }
}

fn lost() -> Error {
    Error::unreachable("the connection to libvirt was lost")
}

fn json(what: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(what).map_err(|e| Error::backend(format!("internal: {e}")))
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value)
        .map_err(|e| Error::backend(format!("the helper's answer cannot be read: {e}")))
}

impl Client {
    /// No I/O.
    pub fn new(name: &str, env: Arc<Env>, uri: String, readonly: bool) -> Self {
        Self {
            name: name.to_owned(),
            env,
            uri,
            readonly,
            reader: Turn::default(),
            worker: Turn::default(),
            calls: Mutex::default(),
        }
    }

    /// What it connects to.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The helper's program.
    ///
    /// # Errors
    /// `NotFound` with how to get it.
    pub fn helper(&self) -> Result<PathBuf> {
        self.env.which(HELPER).ok_or_else(|| {
            Error::not_found(format!("{HELPER} is not installed"))
                .remedy("It is built with: cargo build --features libvirt (needs libvirt-dev and pkg-config), and is looked for beside corral and on PATH")
                .in_context(&self.name)
        })
    }

    /// Asks what only reads. When the time is up the reader is killed: nothing hangs behind it.
    ///
    /// # Errors
    /// Those of libvirt; `TimedOut`, `Unreachable`.
    pub async fn ask<T: DeserializeOwned>(&self, cx: &ReadCx, call: Call) -> Result<T> {
        let limit = tokio::time::Instant::from_std(cx.deadline);
        let conn = match tokio::time::timeout_at(limit, self.reader()).await {
            Ok(conn) => conn.map_err(|e| e.in_context(&self.name))?,
            Err(_) => return Err(self.late()),
        };
        let (seen, call) = (Arc::clone(&conn), call);
        match tokio::time::timeout_at(limit, conn.call(call)).await {
            Ok(answer) => read(answer.map_err(|e| e.in_context(&self.name))?),
            Err(_) => {
                seen.kill(&self.late());
                Err(self.late())
            }
        }
    }

    fn late(&self) -> Error {
        Error::timed_out(format!("libvirt at {} did not answer in time", self.uri))
            .in_context(&self.name)
    }

    /// Makes a change; waits as long as it takes.
    ///
    /// # Errors
    /// Those of libvirt, `Unreachable` when the helper ended: the change may have been made then.
    pub async fn change<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let conn = self.worker().await?;
        if let Some(native) = call.native() {
            self.note(native);
        }
        read(
            conn.call(call)
                .await
                .map_err(|e| e.in_context(&self.name))?,
        )
    }

    /// Makes a call of before once more: no plan has it twice.
    ///
    /// # Errors
    /// As [`Client::change`].
    pub async fn again<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let conn = self.worker().await?;
        read(
            conn.call(call)
                .await
                .map_err(|e| e.in_context(&self.name))?,
        )
    }

    /// Writes down a call that changes something.
    pub(super) fn note(&self, native: String) {
        tracing::debug!(context = %self.name, call = %native, "libvirt");
        if cfg!(debug_assertions) {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.push(native);
        }
    }

    /// The changing calls so far, as plans name them; of a build for development only.
    pub fn calls(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.clone()
    }

    /// The reader, connected.
    ///
    /// # Errors
    /// Those of connecting.
    pub async fn reader(&self) -> Result<Arc<Conn>> {
        self.in_slot(&self.reader, true).await
    }

    async fn worker(&self) -> Result<Arc<Conn>> {
        // The test driver has no daemon: what it simulates lives in the process that asks, and ends with it.
        if self.uri.starts_with("test:") {
            return self.reader().await;
        }
        let opened = tokio::time::timeout(CONNECT, self.in_slot(&self.worker, false)).await;
        let conn = opened.unwrap_or_else(|_| Err(self.late()))?;
        let watched = Arc::clone(&conn);
        tokio::spawn(async move { end_idle(&watched).await });
        Ok(conn)
    }

    async fn in_slot(&self, slot: &Turn<Option<Arc<Conn>>>, events: bool) -> Result<Arc<Conn>> {
        let mut slot = slot.lock().await;
        if let Some(conn) = slot.as_ref().filter(|conn| !conn.is_over()) {
            return Ok(Arc::clone(conn));
        }
        *slot = None;
        let conn = Arc::new(self.connect(events).await?);
        *slot = Some(Arc::clone(&conn));
        Ok(conn)
    }

    async fn begin(&self, events: bool) -> Result<(FrameReader, FrameWriter, Spoken)> {
        let cmd = Cmd::new(self.helper()?);
        let (mut from, mut to, child) = frames::start(&cmd)?;
        let hello = from.next().await?.ok_or_else(|| {
            Error::unsupported(format!("{HELPER} does not start"))
                .remedy("It needs libvirt's library: apt install libvirt0")
        })?;
        let hello: Hello = serde_json::from_slice(&hello).map_err(|_| other("an unknown one"))?;
        if hello.protocol != PROTOCOL {
            return Err(other(&hello.build));
        }
        to.send(&json(&Hello::own())?).await?;
        let open = Open {
            uri: self.uri.clone(),
            readonly: self.readonly,
            events,
        };
        to.send(&json(&open)?).await?;
        let opened = from.next().await?.ok_or_else(lost)?;
        match serde_json::from_slice(&opened) {
            Ok(Told::Opened { fault: None }) => Ok((from, to, child)),
            Ok(Told::Opened { fault: Some(why) }) => Err(fault::connecting(&why, &self.uri)),
            Ok(Told::Closed { why }) => Err(Error::unreachable(why)),
            _ => Err(lost()),
        }
    }

    async fn connect(&self, events: bool) -> Result<Conn> {
        let (from, mut to, child) = self.begin(events).await?;
        let (ask, mut asked) = mpsc::unbounded_channel::<Vec<u8>>();
        tokio::spawn(async move {
            while let Some(frame) = asked.recv().await {
                if to.send(&frame).await.is_err() {
                    return;
                }
            }
        });
        let conn = Conn {
            ask,
            next: AtomicU64::new(1),
            waiting: Waiting::default(),
            events: broadcast::channel(EVENTS).0,
            ended: CancellationToken::new(),
            child: Mutex::new(Some(child)),
            used: Mutex::new(Instant::now()),
        };
        let (waiting, events, ended) = (
            conn.waiting.clone(),
            conn.events.clone(),
            conn.ended.clone(),
        );
        tokio::spawn(async move {
            let why = listen(from, &waiting, &events).await;
            waiting.end(&why);
            ended.cancel();
        });
        Ok(conn)
    }

    /// A stream's helper, its one call made.
    pub(super) async fn stream(&self, call: Call) -> Result<(FrameReader, FrameWriter, Spoken)> {
        let begun = tokio::time::timeout(CONNECT, self.begin(false)).await;
        let begun = begun.unwrap_or_else(|_| Err(self.late()));
        let (from, mut to, child) = begun.map_err(|e| e.in_context(&self.name))?;
        if let Some(native) = call.native() {
            self.note(native);
        }
        to.send(&json(&Ask { id: 0, call })?).await?;
        Ok((from, to, child))
    }
}

async fn end_idle(conn: &Conn) {
    loop {
        let used = *conn.used.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = used.elapsed();
        if conn.is_over() {
            return;
        }
        if idle >= IDLE && conn.waiting.lock().0.is_empty() {
            conn.kill(&lost());
            return;
        }
        tokio::time::sleep(IDLE.saturating_sub(idle).max(Duration::from_secs(1))).await;
    }
}

fn other(build: &str) -> Error {
    Error::unsupported(format!(
        "{HELPER} is of another version: {}; this is corral {BUILD}",
        crate::model::shown(build)
    ))
    .remedy(format!("Install the {HELPER} that came with this corral"))
}

/// Until the end; says why it came.
async fn listen(
    mut from: FrameReader,
    waiting: &Waiting,
    events: &broadcast::Sender<Happened>,
) -> Error {
    loop {
        let frame = match from.next().await {
            Ok(Some(frame)) => frame,
            Ok(None) => return lost(),
            Err(error) => return error,
        };
        match serde_json::from_slice(&frame) {
            Ok(Told::Answer { id, value, fault }) => {
                let answer = match fault {
                    None => Ok(value.unwrap_or_default()),
                    Some(why) => Err(fault::error(&why)),
                };
                if let Some(waits) = waiting.lock().0.remove(&id) {
                    let _ = waits.send(answer);
                }
            }
            Ok(Told::Happened(happened)) => {
                let _ = events.send(happened);
            }
            Ok(Told::Closed { why }) => return Error::unreachable(why),
            Ok(Told::Opened { .. }) => {}
            Err(error) => return Error::backend(format!("the helper cannot be read: {error}")),
        }
    }
}
