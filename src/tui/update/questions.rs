//! Questions from below: when one opens, and what its keys do.

use super::super::app::{App, Overlay};
use super::super::edit::Line;
use super::super::input::{Code, Key};
use super::super::msg::Effect;
use super::super::question::{Given, Question};
use crate::model::{Prompt, SecretText};

/// A question came: it waits.
pub(super) fn put(app: &mut App, number: u64, prompt: Prompt) {
    app.questions.push_back(Question::new(number, prompt));
}

/// Whoever asked has given up.
pub(super) fn withdrawn(app: &mut App, number: u64) {
    app.questions.retain(|question| question.number != number);
    let before = app.overlays.len();
    app.overlays
        .retain(|overlay| !matches!(overlay, Overlay::Question(q) if q.number == number));
    if app.overlays.len() != before {
        app.say("the question was taken back");
    }
}

/// Opens the next one if nobody is in the middle of something else.
pub(super) fn open_when_free(app: &mut App) {
    let busy = !app.overlays.is_empty() || !app.keys.is_empty() || app.planning.is_some();
    if busy {
        return;
    }
    if let Some(n) = app.questions.iter().position(|q| !q.put_off) {
        open(app, n);
    }
}

/// Opens the first one, put off or not.
pub(super) fn open_first(app: &mut App) {
    if app.questions.is_empty() {
        app.say("nobody asks anything");
    } else {
        open(app, 0);
    }
}

fn open(app: &mut App, n: usize) {
    if let Some(mut question) = app.questions.remove(n) {
        question.guard = super::super::dialog::Guard::default();
        app.overlays.push(Overlay::Question(Box::new(question)));
    }
}

/// Ctrl-C: clears what is typed, then puts the question off.
pub(super) fn interrupt(app: &mut App) {
    let Some(Overlay::Question(question)) = app.overlays.last_mut() else {
        return;
    };
    if !question.typed.text().is_empty() {
        question.typed = Line::default();
        return;
    }
    if let Some(Overlay::Question(mut question)) = app.overlays.pop() {
        question.put_off = true;
        app.questions.push_back(*question);
        app.say("put off · g a answers it");
    }
}

pub(super) fn paste(app: &mut App, text: &str) {
    let ms = app.ms;
    if let Some(Overlay::Question(question)) = app.overlays.last_mut()
        && question.takes_text()
        && question.guard.admits(ms)
    {
        // The line end that comes with a copied line belongs to no secret.
        question.typed.insert(text.trim_end_matches(['\r', '\n']));
    }
}

pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    let ms = app.ms;
    let Some(Overlay::Question(question)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    // It opened by itself: not even Esc was meant for it before it was seen.
    if !question.guard.admits(ms) {
        return Vec::new();
    }
    let text = question.takes_text();
    match key.code {
        Code::Esc => return refuse(app),
        // No answer is empty: an Enter too many was meant for something else.
        Code::Enter if text && question.typed.text().is_empty() => {}
        Code::Enter if text => {
            let typed = std::mem::take(&mut question.typed);
            return answer(app, typed.into_text());
        }
        Code::Char('Y') if !text => return answer(app, Prompt::YES.to_owned()),
        Code::Char('N') if !text => return answer(app, Prompt::NO.to_owned()),
        _ if text => {
            question.typed.key(key);
        }
        _ => {}
    }
    Vec::new()
}

fn answer(app: &mut App, text: String) -> Vec<Effect> {
    match app.overlays.pop() {
        Some(Overlay::Question(question)) => {
            let given = Given(SecretText::from(text));
            vec![Effect::Answer(question.number, Some(given))]
        }
        _ => Vec::new(),
    }
}

fn refuse(app: &mut App) -> Vec<Effect> {
    match app.overlays.pop() {
        Some(Overlay::Question(question)) => {
            app.say(format!("not answered · {}", question.prompt.remedy));
            vec![Effect::Answer(question.number, None)]
        }
        _ => Vec::new(),
    }
}
