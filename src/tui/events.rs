//! What the terminal sends, read on a thread of its own: crossterm never comes back from a terminal that has hung up
//! (it takes the end of the file for a pause, and reads again), and the view must end in order all the same.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use futures::StreamExt as _;
use futures::channel::oneshot;
use futures::future::{Either, select};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc;

/// Events that may wait for the view; the terminal keeps what comes after them.
const AHEAD: usize = 256;
/// What reads lets go of the terminal within this, unless it has hung up.
const LETS_GO: Duration = Duration::from_secs(1);

/// Events of the terminal, until this is dropped: then nobody reads it, and an editor may.
pub struct Events {
    sent: mpsc::Receiver<io::Result<Event>>,
    stop: Option<oneshot::Sender<()>>,
    stopped: Receiver<()>,
}

impl Events {
    /// Begins to read.
    pub fn begin() -> Self {
        let (sender, sent) = mpsc::channel(AHEAD);
        let (stop, mut stopping) = oneshot::channel();
        let (ended, stopped) = channel();
        thread::spawn(move || {
            let mut stream = EventStream::new();
            futures::executor::block_on(async {
                while let Either::Left((Some(event), _)) =
                    select(stream.next(), &mut stopping).await
                {
                    if sender.send(event).await.is_err() {
                        break;
                    }
                }
            });
            drop(stream);
            let _ = ended.send(());
        });
        Self {
            sent,
            stop: Some(stop),
            stopped,
        }
    }

    /// The next one; `None` when there will be none.
    pub async fn next(&mut self) -> Option<io::Result<Event>> {
        self.sent.recv().await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.sent.close();
        drop(self.stop.take());
        let _ = self.stopped.recv_timeout(LETS_GO);
    }
}

/// Ends when the terminal is gone, which is not always told by a signal.
pub fn hung_up() -> oneshot::Receiver<()> {
    let (gone, told) = oneshot::channel();
    thread::spawn(move || {
        let terminal = io::stdin();
        // Asked for nothing, it still says that.
        let mut fds = [PollFd::new(&terminal, PollFlags::empty())];
        loop {
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                // Without it a signal still tells.
                Err(_) => loop {
                    thread::park();
                },
            }
        }
        let _ = gone.send(());
    });
    told
}
