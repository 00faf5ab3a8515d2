//! The command line: words in, answers out.

mod ask;
mod batch;
mod change;
pub mod complete;
pub mod docs;
mod early;
mod edit;
pub mod exit;
pub mod logs;
mod progress;
mod run;
pub mod schema;
mod signals;
pub mod terminal;

pub use ask::{is_yes, question};
pub use early::{Early, early};
pub use run::run;
pub use terminal::Terminal;

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes to standard output. A reader that went away is no failure.
pub fn out(text: &str) {
    out_bytes(text.as_bytes());
}

/// [`out`] for what is no text.
pub fn out_bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(bytes);
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => {}
        // Whoever read it has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        Err(error) => {
            if !LOST.swap(true, Ordering::Relaxed) {
                note(&format!(
                    "error: standard output cannot be written: {error}"
                ));
            }
        }
    }
}

/// Something that was to go to standard output is lost.
static LOST: AtomicBool = AtomicBool::new(false);

/// The exit code, when what was printed may not have arrived.
pub fn settled(code: u8) -> u8 {
    if code == exit::OK && LOST.load(Ordering::Relaxed) {
        exit::FAILED
    } else {
        code
    }
}

/// Writes a line to standard error.
pub fn note(line: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{line}");
}
