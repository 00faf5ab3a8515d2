//! Answers, each under the number it was asked with. A stale one changes nothing.

use super::super::answer;
use super::super::app::{ANSWER_LINES, App, Overlay, Pane};
use super::super::msg::{Effect, Reply};
use super::super::theme::Role;
use super::{changes, forms, front};
use crate::action::Output;
use crate::model::{Body, Data, Error, TargetState, Task, TaskState};

pub(super) fn reply(app: &mut App, request: u64, reply: Reply) -> Vec<Effect> {
    match reply {
        Reply::Planned(result) => {
            let Some(planning) = app.planning.take_if(|p| p.request == request) else {
                return Vec::new();
            };
            match result {
                Ok(plan) => changes::planned(app, planning, *plan),
                Err(error) => {
                    if let Some(Overlay::Form(form)) = app.overlays.last_mut() {
                        form.error = Some(answer::error_line(&error));
                        app.notice = None;
                    } else {
                        app.complain(&error);
                    }
                    Vec::new()
                }
            }
        }
        Reply::Kept(result) => forms::kept(app, request, result),
        Reply::Opened(result) => match result {
            Ok(opened) if app.planning.as_ref().is_some_and(|p| p.request == request) => {
                vec![Effect::Edit(request, opened)]
            }
            Ok(opened) => {
                opened.done();
                Vec::new()
            }
            Err(error) => {
                app.planning.take_if(|p| p.request == request);
                app.complain(&error);
                Vec::new()
            }
        },
        Reply::Edited(opened, ended) => changes::edited(app, request, &opened, ended),
        Reply::Submitted(result) => changes::submitted(app, request, result),
        Reply::Support(cells) => {
            for overlay in &mut app.overlays {
                if let Overlay::Actions(actions) = overlay
                    && actions.asked == request
                {
                    actions.support = Some(cells);
                    break;
                }
            }
            Vec::new()
        }
        Reply::Samples(samples) => {
            if app.detail.sampled == Some(request) {
                app.detail.sampled = None;
                app.detail.samples = samples;
            }
            Vec::new()
        }
        Reply::Ended => {
            if app.answer.follows == Some(request) {
                app.answer.follows = None;
            }
            Vec::new()
        }
        Reply::Part(data) => {
            // An answer that is whole, if older, says more than a part of the next.
            if let Some(loaded) = app.readings.asked(request)
                && (loaded.part || loaded.value.is_none())
            {
                loaded.value = Some(data);
                loaded.part = true;
            }
            Vec::new()
        }
        Reply::Read(result) => read(app, request, result),
    }
}

fn read(app: &mut App, request: u64, result: Result<Box<Data>, Error>) -> Vec<Effect> {
    let asked = Some(request);
    for overlay in &mut app.overlays {
        if let Overlay::Form(form) = overlay
            && form.asked == asked
        {
            form.asked = None;
            // Without an answer its fields are typed as before.
            let detail = result
                .ok()
                .and_then(|data| changes::first_detail(&data.body).cloned());
            form.detail = detail.map(Box::new);
            return Vec::new();
        }
    }
    if app.detail.detail.asked == asked {
        app.detail.detail.asked = None;
        match result {
            Ok(data) => {
                if let Some(detail) = changes::first_detail(&data.body) {
                    let of = detail.instance.identity();
                    app.detail.detail.value = Some((of, Box::new(detail.clone())));
                } else if let Some(error) = data.errors.first() {
                    app.detail.detail.error = Some(error.clone());
                }
            }
            Err(error) => app.detail.detail.error = Some(error),
        }
        return Vec::new();
    }
    let events = &mut app.detail.events;
    let open = Some(events).filter(|events| events.asked == asked);
    if let Some(loaded) = open.or_else(|| app.readings.asked(request)) {
        loaded.asked = None;
        match result {
            Ok(data) => {
                loaded.value = Some(data);
                loaded.part = false;
                loaded.error = None;
            }
            Err(error) => loaded.error = Some(error),
        }
        return Vec::new();
    }
    if app.answer.follows == asked {
        match result {
            Ok(data) => {
                let lines = answer::lines(app, *data, &app.answer.output, true);
                app.answer.lines.extend(lines);
            }
            Err(error) => app.answer.lines.push(answer::error_line(&error)),
        }
        let extra = app.answer.lines.len().saturating_sub(ANSWER_LINES);
        app.answer.lines.drain(..extra);
        return Vec::new();
    }
    if let Some(n) = app.asked.iter().position(|(number, ..)| *number == request) {
        let (_, line, output) = app.asked.remove(n);
        match result {
            Ok(data) => answered(app, line, *data, &output),
            Err(error) => app.complain(&error),
        }
    }
    Vec::new()
}

fn answered(app: &mut App, line: String, data: Data, output: &Output) {
    app.notice = None;
    app.answer.title = line;
    if let Body::Details(all) = &data.body
        && all.len() == 1
        && *output == Output::default()
        && let Some(detail) = changes::first_detail(&data.body)
        && app.inventory.go_to(&detail.instance.id)
    {
        front::show(app, Pane::Inventory);
        app.detail.open = true;
        return;
    }
    app.answer.lines = answer::lines(app, data, output, false);
    app.cursors.remove(&Pane::Answer);
    front::show(app, Pane::Answer);
}

/// How a task ended, in a line.
pub fn outcome(task: &Task) -> (String, Role) {
    let done = task
        .targets
        .iter()
        .filter(|t| matches!(t.state, TargetState::Done(_)))
        .count();
    let total = task.targets.len();
    let failure = task.targets.iter().find_map(|t| match &t.state {
        TargetState::Failed(error) => Some((t, error)),
        _ => None,
    });
    let message = task.targets.iter().find_map(|t| match &t.state {
        TargetState::Done(outcome) => outcome.message.as_ref().map(|m| (t, m)),
        _ => None,
    });
    let what = match task.targets.as_slice() {
        [one] if one.id.is_own() => one.id.key().to_owned(),
        [one] => one.id.to_string(),
        _ => format!("{done} of {total}"),
    };
    let head = format!("{} {what}: {}", task.verb, task.state.as_str());
    match (task.state, failure, message) {
        (_, Some((target, error)), _) => {
            let remedy = error.remedy.as_deref().unwrap_or("g t shows it");
            (
                format!(
                    "{head} · {}: {} · {remedy}",
                    target.id.spoken(),
                    error.message
                ),
                Role::Error,
            )
        }
        (TaskState::Done, None, Some((_, message))) if total == 1 => {
            (format!("{head} · {message}"), Role::Ok)
        }
        (TaskState::Done, None, _) => (head, Role::Ok),
        _ => (head, Role::Warn),
    }
}
