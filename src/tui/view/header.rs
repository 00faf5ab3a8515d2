//! The lines above and below the body.

use ratatui::layout::Rect;

use super::super::app::{App, Pane};
use super::super::glyphs::health_role;
use super::super::groups::Grouping;
use super::super::layout;
use super::super::listing::health_text;
use super::super::text::Canvas;
use super::super::theme::Role;
use super::super::zone::Zone;
use crate::model::{ContextView, Health, State, shown_width};

/// Contexts without an answer that the title names for one cause; more are counted.
const NAMED: usize = 3;

/// Contexts with health and counts; problems and running tasks at the right.
pub(super) fn draw(app: &App, canvas: &mut Canvas) {
    let area = canvas.buf.area;
    let top = layout::top(area.height);
    if top == 0 {
        return;
    }
    let right = right_side(app);
    let right_width = right
        .iter()
        .map(|(t, ..)| shown_width(t) as u16)
        .sum::<u16>();
    let room = area.width.saturating_sub(right_width + 1);
    let mut x = 0;
    if area.width >= 60 {
        let name = if app.setup.demo {
            " corral demo "
        } else {
            " corral "
        };
        x += canvas.put(0, 0, room, name, Role::Title);
    }
    let all = app.inventory.context.is_none();
    x += tab(canvas, (x, room), 0, " 0 all ", all, Role::Text);
    // The chosen one is always on the screen, whatever stands before it.
    let at = app
        .fleet
        .contexts
        .iter()
        .position(|c| app.inventory.context.as_ref() == Some(&c.name))
        .unwrap_or(0);
    let skip = if at > 2 { at - 1 } else { 0 };
    if skip > 0 {
        x += canvas.put(x, 0, 1, canvas.glyphs.more(), Role::Muted);
    }
    for (n, context) in app.fleet.contexts.iter().enumerate().skip(skip) {
        let chosen = app.inventory.context.as_ref() == Some(&context.name);
        let mut text = format!(
            " {}{} {}",
            if n < 9 {
                format!("{} ", n + 1)
            } else {
                String::new()
            },
            context.name,
            canvas.glyphs.health(&context.health)
        );
        match &context.health {
            Health::Ok => text.push_str(&format!(
                " {}{}",
                context.count,
                if context.complete { "" } else { "+" }
            )),
            _ => text.push_str(&format!(" {}", health_text(app, context))),
        }
        if context.readonly {
            text.push_str(" RO");
        }
        if context.protected {
            text.push_str(" P");
        }
        text.push(' ');
        if x + shown_width(&text) as u16 > room {
            canvas.put(
                x,
                0,
                room.saturating_sub(x),
                canvas.glyphs.more(),
                Role::Muted,
            );
            break;
        }
        let role = health_role(&context.health);
        x += tab(canvas, (x, room), n + 1, &text, chosen, role);
    }
    let mut at = area.width.saturating_sub(right_width);
    for (text, role, leads) in &right {
        let used = canvas.put(at, 0, area.width - at, text, *role);
        if !leads.is_empty() {
            let zone = Zone::Run((*leads).to_owned());
            canvas.zone(Rect::new(at, 0, used, 1), zone);
        }
        at += used;
    }
    if top > 1 {
        title(app, canvas);
    }
}

/// A context, at a column, in what room there is; its number is what a click means.
fn tab(
    canvas: &mut Canvas,
    (x, room): (u16, u16),
    number: usize,
    text: &str,
    chosen: bool,
    role: Role,
) -> u16 {
    let role = if chosen { Role::Selected } else { role };
    let used = canvas.put(x, 0, room.saturating_sub(x), text, role);
    let zone = Zone::Run(format!("ui context {number}"));
    canvas.zone(Rect::new(x, 0, used, 1), zone);
    used
}

/// What is to be known of the whole: text, role, and where it leads.
fn right_side(app: &App) -> Vec<(String, Role, &'static str)> {
    let mut out = Vec::new();
    // First, since somebody waits for it.
    match app.questions.len() {
        0 => {}
        1 => out.push((" ? 1 question".to_owned(), Role::Accent, "ui question")),
        n => out.push((format!(" ? {n} questions"), Role::Accent, "ui question")),
    }
    let problems = super::super::listing::problem_count(app);
    if problems > 0 {
        out.push((format!(" !{problems}"), Role::Warn, "ui go problems"));
    }
    let others = app.other_tasks.iter().filter(|t| !t.state.is_final());
    let running = app.running_tasks().chain(others).count();
    if running > 0 {
        let word = if running == 1 { "task" } else { "tasks" };
        out.push((format!(" {running} {word}"), Role::Busy, "ui go tasks"));
    }
    if app.setup.readonly {
        out.push((" READ-ONLY".to_owned(), Role::Warn, ""));
    }
    if !out.is_empty() {
        out.push((" ".to_owned(), Role::Text, ""));
    }
    out
}

/// What the body shows: pane, counts, filter, order, marks.
fn title(app: &App, canvas: &mut Canvas) {
    let area = canvas.buf.area;
    canvas.rule(Rect::new(0, 1, area.width, 1));
    let dot = canvas.glyphs.dot();
    let mut spans = vec![(format!(" {} ", app.pane.title()), Role::Title)];
    if app.pane == Pane::Inventory {
        let inventory = &app.inventory;
        spans.push((format!("{} ", counts(app, true)), Role::Text));
        // First what a change would concern: it must not be what is cut away.
        let marked = inventory.marked.len();
        if marked > 0 {
            let hidden = inventory.hidden_marks().len();
            let text = if hidden > 0 {
                format!("{dot} {marked} marked, {hidden} of them hidden ")
            } else {
                format!("{dot} {marked} marked ")
            };
            spans.push((text, Role::Mark));
        }
        let filter = (!inventory.filter_text.is_empty()).then(|| {
            let role = if inventory.filter_error.is_some() {
                Role::Error
            } else {
                Role::Accent
            };
            (format!("{dot} / {} ", inventory.filter_text), role)
        });
        let said = |text: String| (format!("{dot} {text} "), Role::Error);
        let room = usize::from(area.width.saturating_sub(2));
        let width = |spans: &[(String, Role)]| -> usize {
            spans.iter().map(|(text, _)| shown_width(text)).sum()
        };
        let whole: Vec<_> = silent(app)
            .map(said)
            .into_iter()
            .chain(filter.clone())
            .collect();
        if filter.is_none() || width(&spans) + width(&whole) <= room {
            spans.extend(whole);
        } else {
            // What hides rows stays in sight: who gives no answer is only counted, and how many run
            // stands in the rows.
            let needs = filter
                .iter()
                .map(|(text, _)| shown_width(text))
                .sum::<usize>();
            if width(&spans) + needs > room {
                spans[1].0 = format!("{} ", counts(app, false));
            }
            spans.extend(filter);
            let number = without_answer(app).count();
            spans.extend((number > 0).then(|| said(format!("{number} silent"))));
        }
        if let Some(gaps) = super::super::gaps::text(app) {
            spans.push((format!("{dot} {gaps} "), Role::Warn));
        }
        if inventory.problems {
            spans.push((format!("{dot} problems only "), Role::Warn));
        }
        if inventory.sort != "name" || inventory.reverse {
            let way = if inventory.reverse { " reversed" } else { "" };
            spans.push((format!("{dot} by {}{way} ", inventory.sort), Role::Muted));
        }
        let grouped = match inventory.grouping {
            Grouping::None => "",
            Grouping::Host => "by context and host ",
            Grouping::Tag => "by tag ",
        };
        if inventory.is_tree() {
            spans.push((format!("{dot} {grouped}"), Role::Muted));
        }
        if inventory.range.is_some() {
            spans.push((format!("{dot} range "), Role::Mark));
        }
    } else {
        let list = super::super::listing::of(app, app.pane);
        if !list.rows.is_empty() {
            let count = list.rows.iter().filter(|row| !row.heads).count();
            spans.push((format!("{count} "), Role::Text));
        }
        if let Some((text, role)) = list.note {
            spans.push((format!("{dot} {text} "), role));
        }
    }
    canvas.spans(1, 1, area.width.saturating_sub(2), &spans);
}

/// Contexts on the screen that gave no answer.
fn without_answer(app: &App) -> impl Iterator<Item = &ContextView> {
    let chosen = app.inventory.context.as_ref();
    app.fleet.contexts.iter().filter(move |context| {
        context.health.error().is_some() && chosen.is_none_or(|name| *name == context.name)
    })
}

/// Contexts that gave no answer, by name: tabs may have no room for them.
fn silent(app: &App) -> Option<String> {
    let mut by_cause: Vec<(String, Vec<&str>)> = Vec::new();
    for context in without_answer(app) {
        let cause = match context.health {
            Health::Stale(_) => "stale".to_owned(),
            _ => health_text(app, context),
        };
        match by_cause.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, names)) => names.push(&context.name),
            None => by_cause.push((cause, vec![&context.name])),
        }
    }
    let parts: Vec<String> = by_cause
        .iter()
        .map(|(cause, names)| {
            let more = names.len().saturating_sub(NAMED);
            let named = names[..names.len() - more].join(", ");
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("{cause}: {named}{more}")
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Instances on the screen and in the fleet. Never a total that was not answered for.
fn counts(app: &App, with_running: bool) -> String {
    let inventory = &app.inventory;
    let known: usize = app
        .fleet
        .contexts
        .iter()
        .filter(|c| inventory.context.as_ref().is_none_or(|n| *n == c.name))
        .map(|c| c.count)
        .sum();
    let complete = is_complete(app);
    let mut text = if inventory.is_narrowed() && inventory.rows.len() != known {
        format!("{} of {known}", inventory.rows.len())
    } else {
        known.to_string()
    };
    if !complete {
        text.push_str(" known");
    }
    let running = inventory
        .rows
        .iter()
        .filter(|r| r.state == State::Running)
        .count();
    if running > 0 && with_running {
        text.push_str(&format!(", {running} running"));
    }
    text
}

/// Every context in scope has given a complete answer.
pub(super) fn is_complete(app: &App) -> bool {
    app.fleet
        .contexts
        .iter()
        .filter(|c| app.inventory.context.as_ref().is_none_or(|n| *n == c.name))
        .all(|c| c.complete && c.health.is_ok())
}
