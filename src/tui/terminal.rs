//! The terminal: taken, drawn on, and always given back as it was.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste};
use crossterm::style::{Attribute, Color, Colors, Print, ResetColor, SetAttribute, SetColors};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::backend::IntoCrossterm as _;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;

use super::background;
use super::presence::{Manners, Notify, Presence, Progress};

/// The thread whose panic gives the terminal back, while it is taken.
static OWNER: Mutex<Option<ThreadId>> = Mutex::new(None);

/// The terminal's title was put aside, and a progress may be shown: both are undone when it is given back.
static TITLED: AtomicBool = AtomicBool::new(false);
static PROGRESS: AtomicBool = AtomicBool::new(false);

/// Presses, the wheel, and moves with a button down, with places beyond column 223. Other moves are not asked for: on a
/// slow link they would be all there is.
const MOUSE: &str = "\x1b[?1000h\x1b[?1002h\x1b[?1006h";

/// The terminal, taken.
pub struct Terminal {
    shown: Buffer,
    cursor: Option<Position>,
    mouse: bool,
    /// What it was last told besides the screen.
    told: Option<(Presence, Manners)>,
    /// Everything has to be painted.
    stale: bool,
}

impl Terminal {
    /// Takes it. A panic of this thread gives it back before it is reported.
    pub fn take(mouse: bool) -> io::Result<Self> {
        enable_raw_mode()?;
        let owner = std::thread::current().id();
        if let Ok(mut slot) = OWNER.lock() {
            *slot = Some(owner);
        }
        hook();
        let terminal = Self {
            shown: Buffer::empty(Rect::ZERO),
            cursor: None,
            mouse,
            told: None,
            stale: true,
        };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        queue!(out, EnterAlternateScreen, Hide, EnableBracketedPaste)?;
        if self.mouse {
            queue!(out, Print(MOUSE))?;
        }
        out.flush()
    }

    /// Gives it back for a while.
    pub fn leave() {
        give_back();
    }

    /// Takes it again.
    pub fn enter_again(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        self.repaint();
        self.enter()?;
        match &self.told {
            Some((presence, manners)) => say(presence, *manners),
            None => Ok(()),
        }
    }

    /// The process goes on after a stop. Where that came from outside, nothing could be given back
    /// and the shell has had the terminal since: its modes are set anew. The other screen is ours
    /// still, so that it is not entered twice.
    pub fn continued(&mut self) {
        if let Err(error) = disable_raw_mode().and_then(|()| enable_raw_mode()) {
            tracing::warn!(%error, "the terminal's modes could not be set anew");
        }
        let mut out = io::stdout().lock();
        let _ = execute!(out, Hide, EnableBracketedPaste);
        drop(out);
        if self.mouse {
            let _ = self.set_mouse(true);
        }
        self.repaint();
    }

    /// The next frame paints everything.
    pub fn repaint(&mut self) {
        self.stale = true;
    }

    /// Mouse reports on or off.
    pub fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        let mut out = io::stdout().lock();
        if on {
            execute!(out, Print(MOUSE))
        } else {
            execute!(out, DisableMouseCapture)
        }
    }

    /// Asks what colour the background has.
    pub fn ask_background() -> io::Result<()> {
        execute!(io::stdout().lock(), Print(background::ASK))
    }

    /// Asks the terminal to put a text on its clipboard.
    pub fn copy(text: &str) -> io::Result<()> {
        execute!(
            io::stdout().lock(),
            CopyToClipboard::to_clipboard_from(text)
        )
    }

    /// Title and progress, as far as they are wanted. The title that was there is put aside first (XTWINOPS 22), and
    /// comes back with the terminal.
    pub fn present(&mut self, presence: Presence, manners: Manners) -> io::Result<()> {
        let said = say(&presence, manners);
        self.told = Some((presence, manners));
        said
    }

    /// Says that something long has ended.
    pub fn ring(text: &str, how: Notify) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match how {
            Notify::Off => return Ok(()),
            Notify::Bell => out.write_all(b"\x07")?,
            Notify::Desktop => write!(out, "\x1b]9;{text}\x1b\\")?,
        }
        out.flush()
    }

    /// Columns and rows.
    pub fn size() -> (u16, u16) {
        crossterm::terminal::size().unwrap_or((80, 24))
    }

    /// Brings a frame on the screen: only what differs is written, in one piece; nothing, if nothing
    /// differs.
    pub fn show(&mut self, next: Buffer, cursor: Option<Position>) -> io::Result<()> {
        let mut bytes = Vec::new();
        if self.stale || self.shown.area != next.area {
            queue!(bytes, ResetColor, Clear(ClearType::All))?;
            self.shown = Buffer::empty(next.area);
            self.stale = false;
            self.cursor = None;
            queue!(bytes, Hide)?;
        }
        let changed = self.shown.diff(&next);
        if !changed.is_empty() {
            paint(&mut bytes, &changed)?;
        }
        if cursor != self.cursor || (cursor.is_some() && !changed.is_empty()) {
            match cursor {
                Some(at) => queue!(bytes, MoveTo(at.x, at.y), Show)?,
                None => queue!(bytes, Hide)?,
            }
            self.cursor = cursor;
        }
        self.shown = next;
        if bytes.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
        if let Ok(mut slot) = OWNER.lock() {
            *slot = None;
        }
    }
}

/// Writes cells. After anything but plain ASCII the place is set anew: terminals differ in how wide
/// they draw such characters, and a border must not move for it.
fn paint(out: &mut Vec<u8>, cells: &[(u16, u16, &Cell)]) -> io::Result<()> {
    let mut expected = None;
    let mut colours = (ratatui::style::Color::Reset, ratatui::style::Color::Reset);
    let mut modifier = Modifier::empty();
    queue!(out, SetAttribute(Attribute::Reset))?;
    for (x, y, cell) in cells {
        if expected != Some((*x, *y)) {
            queue!(out, MoveTo(*x, *y))?;
        }
        if cell.modifier != modifier {
            // Resetting loses the colours too: they are set again below.
            queue!(out, SetAttribute(Attribute::Reset))?;
            colours = (ratatui::style::Color::Reset, ratatui::style::Color::Reset);
            modifier = cell.modifier;
            for (flag, attribute) in [
                (Modifier::BOLD, Attribute::Bold),
                (Modifier::UNDERLINED, Attribute::Underlined),
                (Modifier::REVERSED, Attribute::Reverse),
            ] {
                if modifier.contains(flag) {
                    queue!(out, SetAttribute(attribute))?;
                }
            }
        }
        if (cell.fg, cell.bg) != colours {
            let pair: (Color, Color) = (cell.fg.into_crossterm(), cell.bg.into_crossterm());
            queue!(out, SetColors(Colors::new(pair.0, pair.1)))?;
            colours = (cell.fg, cell.bg);
        }
        let symbol = cell.symbol();
        queue!(out, Print(symbol))?;
        expected = symbol.is_ascii().then_some((x + 1, *y));
    }
    queue!(out, SetAttribute(Attribute::Reset))
}

/// Title and progress.
fn say(presence: &Presence, manners: Manners) -> io::Result<()> {
    let mut bytes = Vec::new();
    if manners.title {
        if !TITLED.swap(true, Ordering::SeqCst) {
            bytes.extend_from_slice(b"\x1b[22;0t");
        }
        write!(bytes, "\x1b]0;{}\x1b\\", presence.title)?;
    }
    if manners.progress {
        let shown = presence.progress != Progress::None;
        if shown || PROGRESS.load(Ordering::SeqCst) {
            match presence.progress {
                Progress::None => bytes.extend_from_slice(NO_PROGRESS),
                Progress::Unknown => bytes.extend_from_slice(b"\x1b]9;4;3;0\x1b\\"),
                Progress::Percent(n) => write!(bytes, "\x1b]9;4;1;{n}\x1b\\")?,
            }
        }
        PROGRESS.store(shown, Ordering::SeqCst);
    }
    let mut out = io::stdout().lock();
    out.write_all(&bytes)?;
    out.flush()
}

const NO_PROGRESS: &[u8] = b"\x1b]9;4;0;0\x1b\\";

fn give_back() {
    let mut out = io::stdout().lock();
    if PROGRESS.swap(false, Ordering::SeqCst) {
        let _ = out.write_all(NO_PROGRESS);
    }
    if TITLED.swap(false, Ordering::SeqCst) {
        let _ = out.write_all(b"\x1b[23;0t");
    }
    let _ = execute!(
        out,
        DisableMouseCapture,
        DisableBracketedPaste,
        SetAttribute(Attribute::Reset),
        LeaveAlternateScreen,
        Show
    );
    let _ = disable_raw_mode();
}

/// Installed once: the loop's own panic gives the terminal back and is reported as ever; one of a
/// task goes to the log and not over the screen, the loop tells of it.
fn hook() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let owner = OWNER.lock().map_or(None, |slot| *slot);
            if owner == Some(std::thread::current().id()) {
                give_back();
                before(info);
            } else if owner.is_some() {
                tracing::error!("{info}");
            } else {
                before(info);
            }
        }));
    });
}
