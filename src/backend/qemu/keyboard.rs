//! Keys for a guest's keyboard.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::change::Seen;
use super::ctx::Ctx;
use super::{locks, process};
use crate::backend::contract::{Changes, Prepared, ReadCx, SendKeyRequest, TaskCx};
use crate::model::{
    Error, Instance, InstanceId, Outcome, Refusal, Result, State, Step, counted, nearest, shown,
};

/// How long keys are held. The emulated keyboard keeps 16 bytes: what comes faster than the guest
/// reads is lost without a word.
const HELD: Duration = Duration::from_millis(40);
/// Between two chords, after the first was let go.
const BETWEEN: Duration = Duration::from_millis(60);
/// Keys that can be held together: more make no sense, and fill the keyboard's memory.
const TOGETHER: usize = 6;

/// The keyboard family.
#[derive(Clone, Debug)]
pub struct Keyboard(pub Arc<Ctx>);

struct Plan {
    id: InstanceId,
    chords: Vec<Vec<String>>,
}

#[async_trait]
impl Changes<SendKeyRequest> for Keyboard {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: SendKeyRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token());
        let mut plan = Prepared::new(token.as_str(), steps(id, &request));
        for key in request.chords.iter().flatten() {
            plan.refusals.extend(unknown(key));
        }
        if let Some(chord) = request.chords.iter().find(|chord| chord.len() > TOGETHER) {
            let message = format!("{} are too many keys at once", chord.len());
            let remedy = format!("Hold at most {TOGETHER} together");
            plan.refusals.push(Refusal::new(message, Some(remedy)));
        }
        if !plan.refusals.is_empty() {
            return Ok(plan);
        }
        if let Some(refused) = seen.unclear(&token) {
            return Ok(refused);
        }
        match seen.live.state {
            State::Running => {}
            State::Paused => {
                return Ok(Prepared::refused(
                    token,
                    format!("{id} is paused: no key reaches it"),
                    Some(format!("Let it go on: corral resume {id}")),
                ));
            }
            state => {
                return Ok(Prepared::refused(
                    token,
                    format!("{id} is {state}: no key reaches it"),
                    Some(format!("Start it: corral start {id}")),
                ));
            }
        }
        let (id, chords) = (on.id.clone(), request.chords);
        Ok(plan.with(Plan { id, chords }))
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let plan: Plan = prepared.take()?;
        let ctx = &self.0;
        let vm = super::inventory::load(ctx, &plan.id)?;
        let _lock = locks::vm(ctx, &vm.uuid, &vm.name).await?;
        let seen = Seen::now(ctx, &plan.id, process::MONITOR).await?;
        seen.still(&prepared.token)?;
        let total = plan.chords.len();
        cx.step(format!("Send {}", counted(total, "chord")));
        for (done, chord) in plan.chords.iter().enumerate() {
            cx.checkpoint()
                .map_err(|e| partly(&plan.id, done, total, e))?;
            // Connected anew each time: others may ask meanwhile, and a long text takes long.
            press(ctx, &seen, chord)
                .await
                .map_err(|e| partly(&plan.id, done, total, e))?;
            tokio::time::sleep(HELD + BETWEEN).await;
            cx.progress(done as u64 + 1, total as u64);
        }
        Ok(Outcome::changed(format!(
            "{}: {} sent; whether the guest took them only its screen tells",
            plan.id,
            counted(total, "chord")
        )))
    }
}

async fn press(ctx: &Ctx, seen: &Seen, chord: &[String]) -> Result<Value> {
    let Some(mut qmp) = process::connect(ctx, &seen.vm).await? else {
        return Err(Error::not_found(format!(
            "{} does not run any more",
            seen.id
        )));
    };
    let keys: Vec<Value> = chord
        .iter()
        .map(|key| json!({ "type": "qcode", "data": key }))
        .collect();
    let arguments = json!({ "keys": keys, "hold-time": HELD.as_millis() as u64 });
    qmp.execute("send-key", arguments, process::MONITOR).await
}

fn partly(id: &InstanceId, done: usize, total: usize, error: Error) -> Error {
    Error {
        message: format!(
            "{id}: {done} of {total} chords were sent: {}",
            error.message
        ),
        ..error
    }
}

/// One for each chord; a text is one, and its characters are not shown.
fn steps(id: &InstanceId, request: &SendKeyRequest) -> Vec<Step> {
    let (text, keys) = request
        .chords
        .split_at(request.typed.min(request.chords.len()));
    let mut steps = Vec::new();
    if !text.is_empty() {
        let count = counted(text.len(), "character");
        let native = format!("QMP send-key, {} times", text.len());
        steps.push(Step::new(format!("Type {count} at {id}"), native));
    }
    for chord in keys {
        let word = chord.join("-");
        let word = shown(&word);
        let native = format!("QMP send-key {}", word.replace('-', " "));
        steps.push(Step::new(format!("Press {word} at {id}"), native));
    }
    steps
}

fn unknown(key: &str) -> Option<Refusal> {
    let known = || QCODES.split_ascii_whitespace();
    if known().any(|code| code == key) {
        return None;
    }
    let remedy = match nearest(key, known()) {
        Some(near) => format!("Did you mean {near}?"),
        None => {
            "Keys are called a, 1, f1, ret, spc, esc, tab, delete, up, pgup, kp_1, meta_l, sysrq …"
                .to_owned()
        }
    };
    let message = format!("there is no key {:?}", shown(key));
    Some(Refusal::new(message, Some(remedy)))
}

/// QEMU's `QKeyCode`, the same from 6.0 to 10.
const QCODES: &str = "shift shift_r alt alt_r ctrl ctrl_r menu esc 1 2 3 4 5 6 7 8 9 0 minus equal \
backspace tab q w e r t y u i o p bracket_left bracket_right ret a s d f g h j k l semicolon apostrophe \
grave_accent backslash z x c v b n m comma dot slash asterisk spc caps_lock f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 \
num_lock scroll_lock kp_divide kp_multiply kp_subtract kp_add kp_enter kp_decimal sysrq kp_0 kp_1 kp_2 kp_3 \
kp_4 kp_5 kp_6 kp_7 kp_8 kp_9 less f11 f12 print home pgup pgdn end left up down right insert delete stop \
again props undo front copy open paste find cut lf help meta_l meta_r compose pause ro hiragana henkan yen \
muhenkan katakanahiragana kp_comma kp_equals power sleep wake audionext audioprev audiostop audioplay \
audiomute volumeup volumedown mediaselect mail calculator computer ac_home ac_back ac_forward ac_refresh \
ac_bookmarks lang1 lang2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_key_is_told_with_the_nearest() {
        assert!(unknown("ctrl").is_none());
        let refusal = unknown("delte").unwrap();
        assert_eq!(refusal.remedy.as_deref(), Some("Did you mean delete?"));
        assert!(!unknown("\u{1b}[2J").unwrap().message.contains('\u{1b}'));
    }

    #[test]
    fn a_text_is_not_shown() {
        let id = InstanceId::new("local", None, "web");
        let chord = |key: &str| vec![key.to_owned()];
        let request = SendKeyRequest {
            chords: vec![chord("x"), chord("y"), chord("ret")],
            typed: 2,
        };
        let steps = steps(&id, &request);
        let text = format!("{steps:?}");
        assert_eq!(steps.len(), 2);
        assert!(text.contains("2 characters") && text.contains("send-key ret"));
        assert!(!text.contains("send-key x"), "{text}");
    }
}
