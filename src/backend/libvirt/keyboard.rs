//! Keys for a guest's keyboard: QEMU's names, Linux's numbers.

use super::change::scripted;
use super::ctx::Ctx;
use super::power::same;
use super::script::{Act, Script};
use super::wire::Call;
use crate::backend::contract::{Prepared, ReadCx, SendKeyRequest};
use crate::model::{Error, Instance, Result, State, counted, nearest, shown};

scripted!(SendKeyRequest, send);

/// Keys that can be held together: more make no sense, and fill the keyboard's memory.
const TOGETHER: usize = 6;

/// `QKeyCode` and `KEY_…` of linux/input-event-codes.h.
const KEYS: &[(&str, u32)] = &[
    ("esc", 1),
    ("1", 2),
    ("2", 3),
    ("3", 4),
    ("4", 5),
    ("5", 6),
    ("6", 7),
    ("7", 8),
    ("8", 9),
    ("9", 10),
    ("0", 11),
    ("minus", 12),
    ("equal", 13),
    ("backspace", 14),
    ("tab", 15),
    ("q", 16),
    ("w", 17),
    ("e", 18),
    ("r", 19),
    ("t", 20),
    ("y", 21),
    ("u", 22),
    ("i", 23),
    ("o", 24),
    ("p", 25),
    ("bracket_left", 26),
    ("bracket_right", 27),
    ("ret", 28),
    ("ctrl", 29),
    ("a", 30),
    ("s", 31),
    ("d", 32),
    ("f", 33),
    ("g", 34),
    ("h", 35),
    ("j", 36),
    ("k", 37),
    ("l", 38),
    ("semicolon", 39),
    ("apostrophe", 40),
    ("grave_accent", 41),
    ("shift", 42),
    ("backslash", 43),
    ("z", 44),
    ("x", 45),
    ("c", 46),
    ("v", 47),
    ("b", 48),
    ("n", 49),
    ("m", 50),
    ("comma", 51),
    ("dot", 52),
    ("slash", 53),
    ("shift_r", 54),
    ("kp_multiply", 55),
    ("asterisk", 55),
    ("alt", 56),
    ("spc", 57),
    ("caps_lock", 58),
    ("f1", 59),
    ("f2", 60),
    ("f3", 61),
    ("f4", 62),
    ("f5", 63),
    ("f6", 64),
    ("f7", 65),
    ("f8", 66),
    ("f9", 67),
    ("f10", 68),
    ("num_lock", 69),
    ("scroll_lock", 70),
    ("kp_7", 71),
    ("kp_8", 72),
    ("kp_9", 73),
    ("kp_subtract", 74),
    ("kp_4", 75),
    ("kp_5", 76),
    ("kp_6", 77),
    ("kp_add", 78),
    ("kp_1", 79),
    ("kp_2", 80),
    ("kp_3", 81),
    ("kp_0", 82),
    ("kp_decimal", 83),
    ("less", 86),
    ("f11", 87),
    ("f12", 88),
    ("kp_enter", 96),
    ("ctrl_r", 97),
    ("kp_divide", 98),
    ("print", 99),
    ("sysrq", 99),
    ("alt_r", 100),
    ("home", 102),
    ("up", 103),
    ("pgup", 104),
    ("left", 105),
    ("right", 106),
    ("end", 107),
    ("down", 108),
    ("pgdn", 109),
    ("insert", 110),
    ("delete", 111),
    ("audiomute", 113),
    ("volumedown", 114),
    ("volumeup", 115),
    ("power", 116),
    ("kp_equals", 117),
    ("pause", 119),
    ("kp_comma", 121),
    ("meta_l", 125),
    ("meta_r", 126),
    ("compose", 127),
    ("menu", 139),
    ("sleep", 142),
    ("wake", 143),
    ("f13", 183),
    ("f14", 184),
    ("f15", 185),
    ("f16", 186),
    ("f17", 187),
    ("f18", 188),
    ("f19", 189),
    ("f20", 190),
    ("f21", 191),
    ("f22", 192),
    ("f23", 193),
    ("f24", 194),
];

fn number(key: &str) -> Result<u32> {
    if let Some((_, number)) = KEYS.iter().find(|(name, _)| *name == key) {
        return Ok(*number);
    }
    let error = Error::invalid(format!("there is no key {:?}", shown(key)));
    Err(error.remedy(match nearest(key, KEYS.iter().map(|(name, _)| *name)) {
        Some(near) => format!("Did you mean {near}?"),
        None => {
            "Keys are called a, 1, f1, ret, spc, esc, tab, delete, up, pgup, kp_1, meta_l, sysrq …"
                .to_owned()
        }
    }))
}

async fn send(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: SendKeyRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    let (id, is) = (&seen.id, seen.is().state);
    let mut chords = Vec::new();
    for chord in &request.chords {
        if chord.len() > TOGETHER {
            return Err(
                Error::invalid(format!("{} are too many keys at once", chord.len()))
                    .remedy(format!("Hold at most {TOGETHER} together")),
            );
        }
        let keys: Result<Vec<u32>> = chord.iter().map(|key| number(key)).collect();
        chords.push(keys?);
    }
    match is {
        State::Running => {}
        State::Paused => {
            return Err(Error::refused(format!("{id} is paused: no key reaches it"))
                .remedy(format!("Let it go on: corral resume {id}")));
        }
        state => {
            return Err(
                Error::refused(format!("{id} is {state}: no key reaches it"))
                    .remedy(format!("Start it: corral start {id}")),
            );
        }
    }
    let total = chords.len();
    let typed = request.typed.min(total);
    let pressed = chords.split_off(typed);
    let mut script = Script::on(
        &seen,
        format!(
            "{id}: {} sent; whether the guest took them only its screen tells",
            counted(total, "chord")
        ),
    );
    if !chords.is_empty() {
        let title = format!("Type {} at {id}", counted(typed, "character"));
        let call = Call::SendKey {
            dom: seen.dom(),
            // What is typed may be a password.
            shown: format!("of a text, {typed} times"),
            chords,
        };
        script = script.act(Act::call(title, call));
    }
    for (keys, chord) in pressed.into_iter().zip(&request.chords[typed..]) {
        let word = chord.join("-");
        let call = Call::SendKey {
            dom: seen.dom(),
            chords: vec![keys],
            shown: shown(&chord.join(" ")).into_owned(),
        };
        script = script.act(Act::call(format!("Press {} at {id}", shown(&word)), call));
    }
    script.prepared(ctx, cx).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_numbers_and_odd_ones_a_hint() {
        assert_eq!(number("delete").unwrap(), 111);
        let error = number("delet").unwrap_err();
        assert!(error.remedy.unwrap().contains("delete"));
        for letter in 'a'..='z' {
            assert!(number(&letter.to_string()).is_ok(), "{letter}");
        }
    }
}
