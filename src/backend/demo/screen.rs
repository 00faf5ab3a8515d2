//! Keyboard and screen.

use async_trait::async_trait;

use super::act::Act;
use super::backend::Demo;
use super::changes::family;
use super::guest::Guest;
use super::png;
use super::random::Random;
use super::work::Work;
use crate::backend::contract::{Prepared, ReadCx, Screenshots, SendKeyRequest};
use crate::model::{Error, Instance, InstanceKind, Picture, Result, State, shown};

family!(SendKeyRequest, "sendkey.prepare", press);

/// Keys with a name of several letters, as QEMU's `QKeyCode` has them.
const NAMED: &str = "shift shift_r alt alt_r ctrl ctrl_r menu esc minus equal backspace tab \
bracket_left bracket_right ret semicolon apostrophe grave_accent backslash comma dot slash asterisk \
spc caps_lock num_lock scroll_lock kp_divide kp_multiply kp_subtract kp_add kp_enter kp_decimal sysrq \
less print home pgup pgdn end left up down right insert delete meta_l meta_r pause power sleep wake";

fn is_key(word: &str) -> bool {
    let mut letters = word.chars();
    match (letters.next(), letters.next()) {
        (Some(one), None) => one.is_ascii_lowercase() || one.is_ascii_digit(),
        (Some('f'), Some(_)) => word[1..].parse::<u8>().is_ok_and(|n| (1..=12).contains(&n)),
        _ => NAMED.split_ascii_whitespace().any(|name| name == word),
    }
}

/// Why it has no screen and no keyboard just now.
fn screenless(guest: &Guest) -> Option<(String, String)> {
    let id = guest.id();
    if guest.base.kind == InstanceKind::Ct {
        return Some((
            format!("{id} is a container: it has no screen and no keyboard"),
            format!("See its logs: corral logs {id}"),
        ));
    }
    (guest.state() != State::Running).then(|| {
        (
            format!("{id} is {}", guest.state()),
            format!("Start it: corral start {id}"),
        )
    })
}

impl Demo {
    fn press(&self, guest: &Guest, request: SendKeyRequest) -> Result<Prepared> {
        let id = guest.id();
        if let Some((why, remedy)) = screenless(guest) {
            return Ok(Self::refuse(guest, why, remedy));
        }
        if request.chords.is_empty() || request.chords.iter().any(Vec::is_empty) {
            return Err(Error::invalid("no key is named")
                .remedy("Write it like ctrl-alt-delete.")
                .in_context(self.world.name()));
        }
        if let Some(key) = request.chords.iter().flatten().find(|key| !is_key(key)) {
            return Ok(Self::refuse(
                guest,
                format!("there is no key {:?}", shown(key)),
                "Keys are called a, 1, f1, ret, spc, esc, tab, delete, up, pgup, meta_l, sysrq …",
            ));
        }
        let typed = request.typed.min(request.chords.len());
        // What is typed may be a password.
        let text = (typed > 0).then(|| vec![format!("{typed} keys, not shown")]);
        let acts = text
            .into_iter()
            .chain(request.chords.into_iter().skip(typed))
            .map(|chord| Act::Press { chord })
            .collect();
        Ok(Work::new(acts, format!("{id} got the keys")).plan(&self.world, guest))
    }
}

#[async_trait]
impl Screenshots for Demo {
    async fn screenshot(&self, cx: &ReadCx, on: &Instance) -> Result<Picture> {
        self.world.answer(cx, "screenshot").await?;
        let guest = self.world.guest_as(on)?;
        if let Some((why, remedy)) = screenless(&guest) {
            return Err(Error::refused(why)
                .remedy(remedy)
                .in_context(self.world.name()));
        }
        Ok(Picture {
            media_type: "image/png".into(),
            bytes: picture(&guest),
        })
    }
}

/// A text console with lines of the guest's own, and a cursor.
fn picture(guest: &Guest) -> Vec<u8> {
    const WIDTH: usize = 320;
    const HEIGHT: usize = 200;
    const ROW: usize = 10;
    let mut dots = vec![0_u8; WIDTH * HEIGHT];
    let mut random = Random::new(0, &guest.uid);
    let rows = 6 + random.below(10) as usize;
    for row in 0..rows {
        let words = 1 + random.below(5);
        let mut x = 8;
        for _ in 0..words {
            let letters = 2 + random.below(7) as usize;
            for letter in 0..letters {
                let shape = random.next();
                for (bit, (dx, dy)) in (0..5).flat_map(|x| (0..7).map(move |y| (x, y))).enumerate()
                {
                    let lit = shape >> bit & 1 == 1;
                    let at = (row * ROW + 4 + dy) * WIDTH + x + letter * 6 + dx;
                    if lit && let Some(dot) = dots.get_mut(at) {
                        *dot = 0xaa;
                    }
                }
            }
            x += (letters + 1) * 6;
            if x > WIDTH - 60 {
                break;
            }
        }
    }
    for dy in 0..8 {
        let from = (rows * ROW + 4 + dy) * WIDTH + 8;
        if let Some(cursor) = dots.get_mut(from..from + 5) {
            cursor.fill(0xff);
        }
    }
    png::grey(WIDTH, HEIGHT, &dots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names() {
        for key in ["a", "7", "f1", "f12", "ctrl", "delete", "ret", "minus"] {
            assert!(is_key(key), "{key}");
        }
        for word in ["", "f0", "f99", "foo", "\u{1b}", "ü", "CTRL"] {
            assert!(!is_key(word), "{word:?}");
        }
    }
}
