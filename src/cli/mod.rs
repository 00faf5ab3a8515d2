//! The command line: words in, answers out.

mod ask;
mod batch;
mod change;
pub mod complete;
pub mod docs;
mod early;
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

/// Writes to standard output. A reader that went away is no failure.
pub fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

/// Writes a line to standard error.
pub fn note(line: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{line}");
}
