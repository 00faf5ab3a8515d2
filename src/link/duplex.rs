//! A live byte stream to a guest, whatever carries it.

use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

/// Something said beside the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The terminal has this size now.
    Resize {
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
    },
    /// Send this signal to the process at the other end.
    Signal(i32),
    /// Serial break.
    Break,
}

/// How the other end ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(String),
    /// The stream just ended.
    Closed,
}

/// A live byte stream: serial line, exec, graphics or a routed port.
pub struct Duplex {
    /// Bytes from the guest.
    pub read: Pin<Box<dyn AsyncRead + Send>>,
    /// Bytes to the guest.
    pub write: Pin<Box<dyn AsyncWrite + Send>>,
    /// Resize and signals; `None` where the carrier has no such thing. Bounded at 16: a burst of
    /// resizes may drop all but the last.
    pub control: Option<mpsc::Sender<Control>>,
    /// Resolves when the other end has ended.
    pub exit: Option<oneshot::Receiver<Exit>>,
}

impl Duplex {
    /// A plain stream without control.
    pub fn from_stream<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = tokio::io::split(stream);
        Self {
            read: Box::pin(read),
            write: Box::pin(write),
            control: None,
            exit: None,
        }
    }
}
