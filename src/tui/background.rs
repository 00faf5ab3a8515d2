//! Whether the terminal's background is light, asked of the terminal itself (OSC 11). Its answer comes among the keys, and
//! is taken out of them however late it is.

use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The question.
pub const ASK: &str = "\x1b]11;?\x1b\\";

/// How the answer begins, between an escape and the colour.
const HEAD: &str = "\x1b]11;rgb:";
/// Longer is no colour.
const LONGEST: usize = 40;
/// An Esc that nothing follows in this time was the user's.
const LONE: Duration = Duration::from_millis(50);
/// An answer that has begun and does not go on is given up after this.
const BROKEN: Duration = Duration::from_secs(1);
/// So long an Esc may be the first half of an answer.
const FRESH: Duration = Duration::from_secs(3);

/// Takes the answer out of what comes from the terminal.
#[derive(Debug, Default)]
pub struct Answer {
    asked: Option<Instant>,
    held: Vec<Event>,
    text: String,
    since: Option<Instant>,
}

/// How a text goes with the answer.
enum Fit {
    No,
    Begins,
    Whole(bool),
}

fn fit(text: &str) -> Fit {
    let Some(rest) = text.strip_prefix(HEAD) else {
        return if HEAD.starts_with(text) {
            Fit::Begins
        } else {
            Fit::No
        };
    };
    let end = rest.strip_suffix('\x07');
    if let Some(colour) = end.or_else(|| rest.strip_suffix("\x1b\\")) {
        return is_light(colour).map_or(Fit::No, Fit::Whole);
    }
    let colour = rest.strip_suffix('\x1b').unwrap_or(rest);
    let fits = |c: char| c.is_ascii_hexdigit() || c == '/';
    if text.len() <= LONGEST && colour.chars().all(fits) {
        Fit::Begins
    } else {
        Fit::No
    }
}

/// Of a colour in X11's words: `1e1e/1e1e/2e2e`.
fn is_light(colour: &str) -> Option<bool> {
    let part = |text: &str| {
        let most = 16_u32.checked_pow(u32::try_from(text.len()).ok()?)? - 1;
        let value = u32::from_str_radix(text, 16).ok()?;
        Some(f64::from(value) / f64::from(most))
    };
    let parts: Option<Vec<f64>> = colour.split('/').map(part).collect();
    match parts?.as_slice() {
        [red, green, blue] => Some(0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5),
        _ => None,
    }
}

/// The characters that a key stands for in the answer.
fn characters(key: &KeyEvent) -> Option<String> {
    Some(match key.code {
        KeyCode::Esc => "\x1b".to_owned(),
        KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::ALT) => format!("\x1b{c}"),
        KeyCode::Char('g') if key.modifiers.contains(KeyModifiers::CONTROL) => "\x07".to_owned(),
        KeyCode::Char(c) => c.to_string(),
        _ => return None,
    })
}

impl Answer {
    /// The question was put.
    pub fn asked(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// What is left of an event for others, and the answer once it is whole.
    pub fn take(&mut self, event: Event, now: Instant) -> (Vec<Event>, Option<bool>) {
        let (Some(asked), Event::Key(key)) = (self.asked, &event) else {
            return (vec![event], None);
        };
        if key.kind == KeyEventKind::Release {
            return (vec![event], None);
        }
        // Later, an escape alone is the user's key at once; the answer comes in one piece.
        let stale = now.duration_since(asked) > FRESH;
        if self.held.is_empty() && key.code == KeyCode::Esc && stale {
            return (vec![event], None);
        }
        let Some(more) = characters(key) else {
            let mut all = self.release();
            all.push(event);
            return (all, None);
        };
        self.text.push_str(&more);
        self.held.push(event);
        match fit(&self.text) {
            Fit::No => (self.release(), None),
            Fit::Begins => {
                self.since = Some(now);
                (Vec::new(), None)
            }
            Fit::Whole(light) => {
                *self = Self::default();
                (Vec::new(), Some(light))
            }
        }
    }

    fn release(&mut self) -> Vec<Event> {
        self.text.clear();
        self.since = None;
        std::mem::take(&mut self.held)
    }

    /// When [`Self::late`] has something to say.
    pub fn due(&self, now: Instant) -> Option<Duration> {
        let limit = if self.text.len() > 2 { BROKEN } else { LONE };
        Some(limit.saturating_sub(now.duration_since(self.since?)))
    }

    /// What was held back and did not become an answer in time. The pieces of a broken answer are no keys.
    pub fn late(&mut self, now: Instant) -> Vec<Event> {
        if self.due(now).is_none_or(|left| !left.is_zero()) {
            return Vec::new();
        }
        let broken = self.text.len() > HEAD.len();
        let held = self.release();
        if broken { Vec::new() } else { held }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(code, modifiers))
    }

    /// As crossterm reads it: an escape and a character at once are Alt.
    fn events(text: &str, apart: bool) -> Vec<Event> {
        let mut out = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            out.push(match c {
                '\x1b' if apart => key(KeyCode::Esc, KeyModifiers::NONE),
                '\x1b' => key(KeyCode::Char(chars.next().unwrap()), KeyModifiers::ALT),
                '\x07' => key(KeyCode::Char('g'), KeyModifiers::CONTROL),
                c => key(KeyCode::Char(c), KeyModifiers::NONE),
            });
        }
        out
    }

    fn all(text: &str, apart: bool) -> (usize, Option<bool>) {
        let now = Instant::now();
        let mut answer = Answer::default();
        answer.asked(now);
        let mut keys = 0;
        let mut light = None;
        for event in events(text, apart) {
            let (rest, told) = answer.take(event, now);
            keys += rest.len();
            light = light.or(told);
        }
        (keys, light)
    }

    #[test]
    fn an_answer_is_no_key_whole_or_apart() {
        for apart in [false, true] {
            let dark = "\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\";
            assert_eq!(all(dark, apart), (0, Some(false)));
            assert_eq!(all("\x1b]11;rgb:ff/fa/e0\x07", apart), (0, Some(true)));
        }
        // What only looks like one for a while is given back, every key of it.
        assert_eq!(all("\x1b]12jj", false), (5, None));
        assert_eq!(all("jk\x1bq", false), (3, None));
    }

    #[test]
    fn an_escape_waits_a_moment_and_a_broken_answer_is_dropped() {
        let now = Instant::now();
        let mut answer = Answer::default();
        let escape = || key(KeyCode::Esc, KeyModifiers::NONE);
        assert_eq!(answer.take(escape(), now).0.len(), 1, "nobody asked");
        answer.asked(now);
        assert!(answer.take(escape(), now).0.is_empty());
        assert!(answer.late(now).is_empty(), "not yet");
        assert_eq!(answer.late(now + LONE).len(), 1);
        assert_eq!(
            answer.take(escape(), now + FRESH * 2).0.len(),
            1,
            "too late to be one"
        );
        for event in events("\x1b]11;rgb:1e1e/1e", false) {
            assert!(answer.take(event, now).0.is_empty());
        }
        assert!(answer.late(now + BROKEN).is_empty());
        assert_eq!(
            answer
                .take(key(KeyCode::Char('j'), KeyModifiers::NONE), now)
                .0
                .len(),
            1
        );
    }
}
