//! Brings the bytes of an image here: from a server, going on after a broken connection, or from a file.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;

use super::partial::Partial;
use super::source::Wanted;
use crate::backend::contract::TaskCx;
use crate::backend::qemu::image;
use crate::link::download::{Begun, Client, Place};
use crate::link::files::fault;
use crate::model::{Bytes, Error, ErrorKind, Result, shown};

/// A connection may break so often without anything new having come.
const TRIES: u32 = 3;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// Progress is told no more often.
const PACE: Duration = Duration::from_millis(250);

/// What is fetched, and by what.
pub struct Fetch<'f> {
    /// The task.
    pub cx: &'f TaskCx,
    /// Asks servers.
    pub client: &'f Client,
    /// What is fetched.
    pub wanted: &'f Wanted,
    /// The folder it goes to.
    pub dir: &'f Path,
    /// A checksum is known: whatever goes wrong on the way is found out.
    pub sure: bool,
}

impl Fetch<'_> {
    /// Brings all of it.
    ///
    /// # Errors
    /// What the server says. What came stays, to be continued.
    pub async fn all(&self, partial: &mut Partial) -> Result<()> {
        match &self.wanted.place {
            Place::File(path) => self.file(path, partial).await,
            Place::Web(url) => self.web(url, partial).await,
        }
    }

    async fn file(&self, path: &Path, partial: &mut Partial) -> Result<()> {
        image::readable(path)?;
        let failed = |e| fault("read", path, e);
        let mut file = tokio::fs::File::open(path).await.map_err(failed)?;
        let total = file.metadata().await.map_err(failed)?.len();
        self.room(total)?;
        partial.begin(None)?;
        let mut pace = Pace::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            self.cx.checkpoint()?;
            let n = file.read(&mut buffer).await.map_err(failed)?;
            if n == 0 {
                return Ok(());
            }
            partial.add(&buffer[..n])?;
            pace.tell(self.cx, partial.have(), total);
        }
    }

    async fn web(&self, url: &str, partial: &mut Partial) -> Result<()> {
        let mut most = partial.have();
        let mut tries = 0;
        loop {
            let before = partial.have();
            let error = match self.once(url, partial).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if partial.have() > most {
                tries = 0;
                most = partial.have();
            }
            tries += 1;
            // Only a connection that has carried something is worth another one right away.
            let broke = error.kind == ErrorKind::Unreachable && partial.have() != before;
            if self.cx.cancel.is_cancelled() || !broke || tries >= TRIES {
                return Err(error);
            }
            self.cx.log(format!("{error}; goes on"));
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.cx.cancel.cancelled() => return Err(Error::refused("cancelled")),
            }
        }
    }

    async fn once(&self, url: &str, partial: &mut Partial) -> Result<()> {
        let begun = Begun {
            have: partial.have(),
            version: partial.version().map(str::to_owned),
        };
        let may_go_on = begun.version.is_some() || self.sure;
        let asked = self.client.get(url, may_go_on.then_some(&begun));
        let mut answer = tokio::select! {
            answer = asked => match answer {
                // What is here is longer than the file, or of another one.
                Err(error) if error.kind == ErrorKind::Conflict => {
                    partial.begin(None)?;
                    self.client.get(url, None).await?
                }
                answer => answer?,
            },
            () = self.cx.cancel.cancelled() => return Err(Error::refused("cancelled")),
        };
        if answer.media_type.as_deref() == Some("text/html") {
            return Err(Error::backend(format!(
                "{}: the server sent a web page, not an image",
                shown(url)
            ))
            .remedy("Open it in a browser: it may ask for a login, or the image has moved"));
        }
        let total = answer.total;
        if let Some(total) = total {
            self.room(total.saturating_sub(if answer.goes_on { partial.have() } else { 0 }))?;
        }
        if !answer.goes_on {
            partial.begin(answer.version.take())?;
        }
        let mut pace = Pace::new();
        loop {
            let piece = tokio::select! {
                piece = answer.piece() => piece?,
                () = self.cx.cancel.cancelled() => return Err(Error::refused("cancelled")),
            };
            let Some(piece) = piece else { break };
            partial.add(&piece)?;
            pace.tell(self.cx, partial.have(), total.unwrap_or(0));
        }
        match total {
            Some(total) if partial.have() < total => Err(Error::unreachable(format!(
                "{}: the connection ended early",
                shown(url)
            ))),
            _ => Ok(()),
        }
    }

    fn room(&self, needs: u64) -> Result<()> {
        image::room(self.dir, Bytes(needs)).map_err(|mut error| {
            error.remedy = Some("Free some: corral image list --unused".to_owned());
            error
        })
    }
}

struct Pace(Instant);

impl Pace {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn tell(&mut self, cx: &TaskCx, done: u64, total: u64) {
        if total > 0 && self.0.elapsed() >= PACE {
            self.0 = Instant::now();
            cx.progress(done, total);
        }
    }
}
