//! Keys and other input, in corral's own words. The only file that reads crossterm's events.

use std::fmt;

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};

/// What was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// A character, as it arrived: upper case is the Shift.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tab.
    Tab,
    /// Shift-Tab.
    BackTab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// A function key.
    F(u8),
}

/// A key with Ctrl or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Which.
    pub code: Code,
    /// With Ctrl.
    pub ctrl: bool,
}

impl Key {
    /// A key alone.
    pub const fn plain(code: Code) -> Self {
        Self { code, ctrl: false }
    }

    /// A character.
    pub const fn char(c: char) -> Self {
        Self::plain(Code::Char(c))
    }

    /// Ctrl and a letter.
    pub const fn ctrl(c: char) -> Self {
        Self {
            code: Code::Char(c),
            ctrl: true,
        }
    }

    /// Reads what [`fmt::Display`] prints: `a`, `Space`, `Ctrl-L`, `PgUp`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(letter) = text.strip_prefix("Ctrl-") {
            let mut chars = letter.chars();
            let c = chars.next()?.to_ascii_lowercase();
            return chars.next().is_none().then_some(Self::ctrl(c));
        }
        if let Some((_, code)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Some(Self::plain(*code));
        }
        if let Some(n) = text.strip_prefix('F').and_then(|n| n.parse().ok()) {
            return Some(Self::plain(Code::F(n)));
        }
        let mut chars = text.chars();
        let c = chars.next()?;
        chars.next().is_none().then_some(Self::char(c))
    }
}

const NAMES: &[(&str, Code)] = &[
    ("Space", Code::Char(' ')),
    ("Enter", Code::Enter),
    ("Esc", Code::Esc),
    ("Tab", Code::Tab),
    ("Shift-Tab", Code::BackTab),
    ("Backspace", Code::Backspace),
    ("Delete", Code::Delete),
    ("Up", Code::Up),
    ("Down", Code::Down),
    ("Left", Code::Left),
    ("Right", Code::Right),
    ("PgUp", Code::PageUp),
    ("PgDn", Code::PageDown),
    ("Home", Code::Home),
    ("End", Code::End),
];

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ctrl {
            return match self.code {
                Code::Char(c) => write!(f, "Ctrl-{}", c.to_ascii_uppercase()),
                code => write!(f, "Ctrl-{code:?}"),
            };
        }
        if let Some((name, _)) = NAMES.iter().find(|(_, code)| *code == self.code) {
            return f.write_str(name);
        }
        match self.code {
            Code::Char(c) => write!(f, "{c}"),
            Code::F(n) => write!(f, "F{n}"),
            code => write!(f, "{code:?}"),
        }
    }
}

/// One input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key.
    Key(Key),
    /// Text that was pasted, in one piece.
    Paste(String),
    /// The left button went down at a column and row.
    Click(u16, u16),
    /// The pointer is at a column and row, the left button down.
    Drag(u16, u16),
    /// The left button is up again.
    Release,
    /// The wheel was turned, over a column and row; down is true.
    Wheel(bool, u16, u16),
    /// The terminal has a new size.
    Resize(u16, u16),
}

/// Takes crossterm's word for it; nothing for what corral has no use for. Alt is never bound: on a
/// slow link Esc and a letter arrive as if it were Alt, so they are taken apart again.
pub fn read(event: Event) -> impl Iterator<Item = Input> {
    let escape = matches!(&event, Event::Key(key)
        if key.kind != KeyEventKind::Release && key.modifiers.contains(KeyModifiers::ALT));
    escape
        .then_some(Input::Key(Key::plain(Code::Esc)))
        .into_iter()
        .chain(one(event))
}

fn one(event: Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(Input::Key),
        Event::Paste(text) => Some(Input::Paste(text)),
        Event::Resize(width, height) => Some(Input::Resize(width, height)),
        Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => Some(Input::Click(mouse.column, mouse.row)),
            MouseEventKind::Drag(MouseButton::Left) => Some(Input::Drag(mouse.column, mouse.row)),
            MouseEventKind::Up(MouseButton::Left) => Some(Input::Release),
            MouseEventKind::ScrollDown => Some(Input::Wheel(true, mouse.column, mouse.row)),
            MouseEventKind::ScrollUp => Some(Input::Wheel(false, mouse.column, mouse.row)),
            _ => None,
        },
        _ => None,
    }
}

fn key_of(key: KeyEvent) -> Option<Key> {
    let code = match key.code {
        KeyCode::Char(c) => Code::Char(c),
        KeyCode::Enter => Code::Enter,
        KeyCode::Esc => Code::Esc,
        KeyCode::Tab => Code::Tab,
        KeyCode::BackTab => Code::BackTab,
        KeyCode::Backspace => Code::Backspace,
        KeyCode::Delete => Code::Delete,
        KeyCode::Up => Code::Up,
        KeyCode::Down => Code::Down,
        KeyCode::Left => Code::Left,
        KeyCode::Right => Code::Right,
        KeyCode::PageUp => Code::PageUp,
        KeyCode::PageDown => Code::PageDown,
        KeyCode::Home => Code::Home,
        KeyCode::End => Code::End,
        KeyCode::F(n) => Code::F(n),
        _ => return None,
    };
    Some(Key {
        code,
        ctrl: key.modifiers.contains(KeyModifiers::CONTROL),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        for key in [
            Key::char('a'),
            Key::char(' '),
            Key::char('S'),
            Key::ctrl('l'),
            Key::plain(Code::PageUp),
            Key::plain(Code::BackTab),
            Key::plain(Code::F(12)),
            Key::char('F'),
        ] {
            assert_eq!(Key::parse(&key.to_string()), Some(key), "{key}");
        }
        assert_eq!(Key::parse("Ctrl-"), None);
        assert_eq!(Key::parse("ab"), None);
        assert_eq!(Key::parse(""), None);
    }

    #[test]
    fn escape_and_a_letter_that_arrive_together_are_two_keys() {
        let event = Event::Key(KeyEvent::new(KeyCode::Char('j'), KeyModifiers::ALT));
        let keys: Vec<Input> = read(event).collect();
        assert_eq!(
            keys,
            [
                Input::Key(Key::plain(Code::Esc)),
                Input::Key(Key::char('j'))
            ]
        );
    }
}
