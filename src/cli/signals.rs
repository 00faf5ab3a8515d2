//! Ctrl-C, SIGTERM and SIGHUP as events.

use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

use crate::model::{Error, Result};

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// The terminal is gone.
    HangUp,
}

impl Signal {
    /// 128 and its number, as shells do.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => super::exit::INTERRUPTED,
            Self::Terminate => super::exit::TERMINATED,
            Self::HangUp => 129,
        }
    }
}

/// The three, as they come.
pub(super) struct Interrupts {
    interrupt: Listener,
    terminate: Listener,
    hang_up: Listener,
}

impl Interrupts {
    /// From now on they are events, for the rest of the process.
    pub(super) fn watch() -> Result<Self> {
        let listen =
            |kind| signal(kind).map_err(|e| Error::backend("signals cannot be watched").because(e));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.hang_up.recv() => Signal::HangUp,
        }
    }
}
