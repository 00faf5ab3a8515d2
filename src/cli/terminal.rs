//! What the three standard streams are.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use rustix::termios::tcgetwinsize;

use crate::action::render::has_colours;

/// What the three standard streams are.
#[derive(Clone, Debug, Default)]
pub struct Terminal {
    /// Standard input is a terminal.
    pub stdin: bool,
    /// Standard output is a terminal.
    pub stdout: bool,
    /// Standard error is a terminal.
    pub stderr: bool,
    /// Columns of standard output, where it is a terminal.
    pub width: Option<usize>,
    /// Colour is welcome on standard output.
    pub colour: bool,
}

impl Terminal {
    /// Looks at this process's streams.
    pub fn look(vars: &BTreeMap<String, String>) -> Self {
        let stdout = std::io::stdout().is_terminal();
        let term = vars.get("TERM").map_or("", String::as_str);
        Self {
            stdin: std::io::stdin().is_terminal(),
            stdout,
            stderr: std::io::stderr().is_terminal(),
            width: stdout.then(|| columns(vars)),
            colour: stdout
                && vars.get("NO_COLOR").is_none_or(String::is_empty)
                && has_colours(term) == Some(true),
        }
    }

    /// The same streams under `--headless`: no escape codes at all.
    #[must_use]
    pub fn headless(&self, headless: bool) -> Self {
        let mut terminal = self.clone();
        if headless {
            terminal.colour = false;
            terminal.stderr = false;
        }
        terminal
    }

    /// A full screen can be drawn.
    pub fn is_screen(&self) -> bool {
        self.stdin && self.stdout
    }
}

fn columns(vars: &BTreeMap<String, String>) -> usize {
    let size = tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0);
    let told = || vars.get("COLUMNS").and_then(|text| text.parse().ok());
    size.or_else(told).unwrap_or(80)
}
