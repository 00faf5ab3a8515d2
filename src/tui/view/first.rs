//! What stands where no instance is listed: why, and what next. Nothing is said to be empty that
//! was not fully answered for.

use ratatui::layout::Rect;

use super::super::app::App;
use super::super::glyphs::health_role;
use super::super::listing::ENABLE;
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use super::header::is_complete;
use crate::model::Health;

pub(super) fn draw(app: &App, area: Rect, canvas: &mut Canvas) {
    let mut lines: Vec<(String, Role)> = vec![(String::new(), Role::Text)];
    let known = app.fleet.instances.len();
    if known > 0 {
        narrowed(app, known, &mut lines);
    } else {
        empty(app, &mut lines);
    }
    let mut y = area.y;
    for (text, role) in lines {
        // What is set in stays set in.
        let indent = text.len() - text.trim_start_matches(' ').len();
        let pad = " ".repeat(indent.min(usize::from(area.width / 4)));
        let room = usize::from(area.width.saturating_sub(4)).saturating_sub(pad.len());
        for line in wrap(text.trim_start_matches(' '), room.max(1)) {
            let line = format!("{pad}{line}");
            if y >= area.bottom() {
                return;
            }
            canvas.put(area.x + 2, y, area.width.saturating_sub(3), &line, role);
            y += 1;
        }
    }
}

fn narrowed(app: &App, known: usize, lines: &mut Vec<(String, Role)>) {
    let inventory = &app.inventory;
    let unknown = inventory.context.as_ref().filter(|name| {
        app.fleet
            .context(name)
            .is_some_and(|c| c.count == 0 && !c.complete)
    });
    lines.push((
        match unknown {
            Some(context) => format!("No instance of {context} is known:"),
            None => format!("None of {known} instances is shown:"),
        },
        Role::Title,
    ));
    if let Some(context) = &inventory.context {
        let silent = app.fleet.context(context).and_then(|c| {
            c.health
                .error()
                .map(|e| (e.message.clone(), e.remedy.clone()))
        });
        match silent {
            Some((why, remedy)) => {
                lines.push((format!("  {why}"), Role::Error));
                lines.extend(remedy.map(|r| (format!("  -> {r}"), Role::Accent)));
            }
            None if is_complete(app) => {
                lines.push((
                    format!("  only context {context}: it has answered; 0 shows all"),
                    Role::Text,
                ));
            }
            None => lines.push((
                format!("  only context {context}: its answer is not complete yet"),
                Role::Text,
            )),
        }
    }
    if inventory.problems {
        lines.push((
            "  only problems: none is known here; ! shows all".to_owned(),
            Role::Text,
        ));
    }
    if !inventory.filter_text.is_empty() {
        lines.push((
            format!("  the filter is: {}", inventory.filter_text),
            Role::Text,
        ));
        // Not found is not the same as not there.
        if let Some(gaps) = super::super::gaps::text(app) {
            lines.push((format!("  no match; {gaps}"), Role::Warn));
        }
        if let Some(meant) = inventory.meant() {
            lines.push((format!("  {meant}"), Role::Warn));
        }
        lines.push(("  Esc clears it".to_owned(), Role::Text));
    }
}

fn empty(app: &App, lines: &mut Vec<(String, Role)>) {
    let contexts = &app.fleet.contexts;
    let asking = contexts.iter().any(|c| c.health == Health::Connecting);
    let headline = if contexts.is_empty() && app.fleet.generation == 0 {
        "Starting …"
    } else if contexts.is_empty() {
        match (
            app.setup.beside.disabled.is_empty(),
            app.setup.absent.is_empty(),
        ) {
            (false, _) => "No context is connected:",
            (true, false) => "No context: there is nothing to look at yet. I looked for:",
            (true, true) => "No context: there is nothing to look at yet.",
        }
    } else if asking {
        "Asking …"
    } else if is_complete(app) {
        "No virtual machines yet. I looked for:"
    } else {
        "No instance is known, but not every context has answered:"
    };
    lines.push((headline.to_owned(), Role::Title));
    for context in contexts {
        let facts = context.facts.as_ref();
        let said = if context.health == Health::Connecting {
            "asking …".to_owned()
        } else if let Some(error) = context.health.error() {
            error.message.clone()
        } else {
            let known = facts.and_then(|f| f.summary.clone().or_else(|| f.version.clone()));
            format!("ready: {}", known.unwrap_or_default())
        };
        lines.push((
            format!(
                "  {} {:<14} {said}",
                app.setup.glyphs.health(&context.health),
                format!("{} ({})", context.name, context.kind)
            ),
            health_role(&context.health),
        ));
        let remedy = context.health.error().and_then(|e| e.remedy.as_ref());
        lines.extend(remedy.map(|r| (format!("      -> {r}"), Role::Accent)));
    }
    let sections = app.sections();
    let key = |run: &str| app.setup.keymap.key_of(&sections, run).unwrap_or_default();
    let on = app.setup.keymap.key_of(&["contexts"], ENABLE);
    for (name, kind) in &app.setup.beside.disabled {
        let what = format!("{name} ({kind})");
        let how = match &on {
            Some(on) => format!("{}, then {on}, connects it again", key("ui go contexts")),
            None => format!("corral context enable {name}"),
        };
        lines.push((format!("  - {what:<14} disabled: {how}"), Role::Text));
    }
    for (what, why, how) in &app.setup.absent {
        lines.push((format!("  - {what:<14} {why}   {how}"), Role::Muted));
    }
    lines.push((String::new(), Role::Text));
    lines.push(("What next?".to_owned(), Role::Title));
    for (run, says) in [
        ("ui form create", "make a VM from an image file or blank"),
        (
            "ui go contexts",
            "contexts: what is connected, what could be",
        ),
        ("ui go doctor", "doctor: what is missing and how to get it"),
    ] {
        lines.push((format!("  {:<5} {says}", key(run)), Role::Text));
    }
    lines.push((
        "  in a shell: corral --demo   a full fleet, touching nothing".to_owned(),
        Role::Muted,
    ));
}
