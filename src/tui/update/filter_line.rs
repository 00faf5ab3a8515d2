//! Keys while the filter is typed: the list follows each of them.

use super::super::app::{App, Overlay};
use super::super::filter_line::{self, FilterLine};
use super::super::input::{Code, Key};
use super::super::layout;
use super::super::msg::Effect;
use super::super::places;
use super::front;
use crate::model::Error;

/// Opens the line with the filter that holds now.
pub(super) fn open(app: &mut App) {
    let line = FilterLine::new(app);
    app.overlays.push(Overlay::Filter(Box::new(line)));
}

pub(super) fn key(app: &mut App, key: Key) -> Vec<Effect> {
    let history = std::sync::Arc::clone(&app.filters);
    let page = isize::try_from(layout::body(app).rows).unwrap_or(1);
    let Some(Overlay::Filter(filter)) = app.overlays.last_mut() else {
        return Vec::new();
    };
    let last = filter.offers.words.len().checked_sub(1);
    match key.code {
        // One layer back: the choice, then the filter.
        Code::Esc if filter.chosen.is_some() => filter.chosen = None,
        Code::Esc => {
            let before = filter.before.clone();
            app.overlays.pop();
            front::set_filter(app, &before);
        }
        Code::Enter | Code::Tab if filter.chosen.is_some() => take(app),
        Code::Enter => enter(app),
        Code::Tab => complete(app),
        Code::Down if filter.recalled.is_some() => recall(app, &history, false),
        Code::Down => match (filter.chosen, last) {
            (_, None) => app.say("nothing completes that"),
            (None, Some(_)) => filter.chosen = Some(0),
            (Some(n), Some(last)) => filter.chosen = Some((n + 1).min(last)),
        },
        Code::Up if filter.chosen.is_some() => {
            filter.chosen = filter.chosen.and_then(|n| n.checked_sub(1));
        }
        Code::Up => recall(app, &history, true),
        // The list can be looked through while the filter is open.
        Code::PageUp => app.inventory.step(-page),
        Code::PageDown => app.inventory.step(page),
        _ => {
            if filter.line.key(key) {
                filter.recalled = None;
                app.notice = None;
                typed(app);
            }
        }
    }
    Vec::new()
}

/// What is typed holds from now on.
pub(super) fn typed(app: &mut App) {
    let Some(Overlay::Filter(filter)) = app.overlays.last() else {
        return;
    };
    let text = filter.line.text().to_owned();
    let offers = filter_line::offers(app, &filter.line);
    if let Some(Overlay::Filter(filter)) = app.overlays.last_mut() {
        filter.look(offers);
    }
    if text != app.inventory.filter_text {
        front::set_filter(app, &text);
    }
}

fn enter(app: &mut App) {
    if let Some(error) = &app.inventory.filter_error {
        let text = error.message.clone();
        app.complain(&Error::invalid(text));
        return;
    }
    let Some(Overlay::Filter(filter)) = app.overlays.pop() else {
        return;
    };
    let text = app.inventory.filter_text.clone();
    if text != filter.before {
        places::leave(app, filter.from);
    }
    filter_line::note(app, &text);
}

fn recall(app: &mut App, history: &[String], back: bool) {
    let Some(Overlay::Filter(filter)) = app.overlays.last_mut() else {
        return;
    };
    if filter.recall(history, back) {
        app.notice = None;
        typed(app);
    } else {
        app.say("no filter was typed before this");
    }
}

/// Puts what is chosen in the place of the word before the cursor.
fn take(app: &mut App) {
    let Some(Overlay::Filter(filter)) = app.overlays.last_mut() else {
        return;
    };
    let chosen = filter.chosen.and_then(|n| filter.offers.words.get(n));
    if let Some((word, _)) = chosen {
        let word = whole(word);
        filter.line.replace_before(filter.offers.from, &word);
    }
    filter.recalled = None;
    app.notice = None;
    typed(app);
}

/// Completes the word before the cursor as far as it is certain; then the first of many is chosen.
fn complete(app: &mut App) {
    let Some(Overlay::Filter(filter)) = app.overlays.last_mut() else {
        return;
    };
    let offers = &filter.offers;
    let typed_so_far = filter.line.before()[offers.from..].to_owned();
    let common = match offers.words.as_slice() {
        [] => {
            app.say("nothing completes that");
            return;
        }
        [(one, _)] => whole(one),
        _ => offers.common().to_owned(),
    };
    filter.recalled = None;
    // What was typed in another case or without its quotes is replaced as a whole.
    if common.len() >= typed_so_far.len() && common != typed_so_far {
        let from = offers.from;
        filter.line.replace_before(from, &common);
        app.notice = None;
        typed(app);
    } else {
        filter.chosen = Some(0);
    }
    if let Some(Overlay::Filter(filter)) = app.overlays.last()
        && filter.offers.words.len() > 1
    {
        let list = filter.offers.words.iter().map(|(word, _)| word.as_str());
        let list: Vec<&str> = list.collect();
        app.say(list.join("  "));
    }
}

/// A value that is whole is followed by the next word.
fn whole(word: &str) -> String {
    if word.ends_with(':') {
        word.to_owned()
    } else {
        format!("{word} ")
    }
}
