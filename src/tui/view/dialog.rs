//! Confirmations, as `ux` has them: what, where, how old that knowledge is, what is lost, what is
//! left out, and the headless command of the same.

use std::collections::BTreeMap;

use ratatui::layout::{Position, Rect};

use super::super::app::App;
use super::super::columns::{seconds_since, step_age};
use super::super::dialog::{Act, Button, Dialog, QuitDialog};
use super::super::text::{Canvas, wrap};
use super::super::theme::Role;
use super::super::zone::Zone;
use crate::model::{TargetPlan, TargetState, counted, shown, shown_width};

const WIDTH: u16 = 78;
/// So many machines that have changed meanwhile are named.
const TOLD: usize = 5;

/// Lines of what is asked about that are worth more than the command and what is told below them.
const KEPT: usize = 4;
/// A smaller screen shows what is lost first: columns and rows.
const TIGHT: (u16, u16) = (50, 16);
/// Lines of the headless command.
const COMMAND: usize = 3;

/// What a dialog says, as it stands on the screen.
struct Laid {
    /// What scrolls.
    body: Vec<(String, Role)>,
    /// The headless command below it.
    command: Vec<String>,
    /// The line that is typed has room.
    types: bool,
    /// So has how to go on.
    hints: bool,
    /// So has how much there is to scroll.
    tells: bool,
    /// Lines of the body that have room.
    rows: usize,
    /// Lines of the whole.
    height: u16,
}

fn lay(app: &App, dialog: &Dialog) -> Laid {
    let (columns, lines_there) = app.setup.size;
    let text_width = usize::from(WIDTH.min(columns).saturating_sub(4)).max(1);
    let mut said = lines(app, dialog);
    if !Dialog::has_room(app.setup.size) {
        let (columns, rows) = super::super::dialog::ROOM;
        let what = [
            (format!("Too small: {columns}x{rows}"), Role::Warn),
            (whose(dialog), Role::Title),
            ("A larger window asks; Esc leaves".to_owned(), Role::Warn),
        ];
        said.splice(0..0, what);
    }
    let body: Vec<(String, Role)> = said
        .into_iter()
        .flat_map(|(text, role)| hang(&text, text_width).into_iter().map(move |l| (l, role)))
        .collect();
    let mut command: Vec<String> = hang(&format!("= {}", dialog.command()), text_width);
    if command.len() > COMMAND {
        command.truncate(COMMAND);
        if let Some(line) = command.last_mut() {
            *line = super::super::text::fit(&format!("{line} …"), text_width, app.setup.glyphs);
        }
    }
    // Where nothing can be confirmed nothing is typed either.
    let types = dialog.to_type().is_some() && Dialog::has_room(app.setup.size);
    let asked = usize::from(types);
    let height = (body.len() + 2 * asked + command.len() + 4) as u16;
    // The buttons and what is typed stay; the rest below gives way to what is asked about.
    let inside = usize::from(super::inside(height.min(lines_there)));
    let room = inside.saturating_sub(1 + asked);
    let mut spare = room.saturating_sub((KEPT - asked).min(body.len()));
    let hints = types && spare > 0;
    spare -= usize::from(hints);
    let tells = spare > 0;
    spare -= usize::from(tells);
    command.truncate(spare);
    let rows = room - usize::from(hints) - usize::from(tells) - command.len();
    Laid {
        body,
        command,
        types,
        hints,
        tells,
        rows,
        height,
    }
}

/// What would be done with what, in one line.
fn whose(dialog: &Dialog) -> String {
    let verb = &dialog.plan.action.verb;
    match dialog.plan.targets.as_slice() {
        [one] => format!("{verb} {}", one.id),
        all => format!("{verb} {}", all.len()),
    }
}

/// Lines of a page.
pub fn page(app: &App, dialog: &Dialog) -> usize {
    lay(app, dialog).rows.max(1)
}

/// What is lost stands on the screen, of several targets that of the first.
pub fn shows_losses(app: &App, dialog: &Dialog) -> bool {
    let laid = lay(app, dialog);
    let begins = |(text, role): &(String, Role)| {
        *role == Role::Error && text.trim_start().starts_with("Lost:")
    };
    let Some(first) = laid.body.iter().position(begins) else {
        return true;
    };
    let goes_on = |(_, role): &&(String, Role)| *role == Role::Error;
    let last = first + laid.body.iter().skip(first).take_while(goes_on).count();
    let scroll = dialog.scroll.min(laid.body.len().saturating_sub(laid.rows));
    last <= scroll + laid.rows
}

/// The line of a dialog that is the first on the screen when it is scrolled to its end.
pub fn last_scroll(app: &App, dialog: &Dialog) -> usize {
    let laid = lay(app, dialog);
    laid.body.len().saturating_sub(laid.rows)
}

pub(super) fn draw(app: &App, dialog: &Dialog, canvas: &mut Canvas) -> Option<Position> {
    let Laid {
        body,
        command,
        types,
        hints,
        tells,
        rows,
        height,
    } = lay(app, dialog);
    let typing = dialog.to_type().filter(|_| types);
    let title_role = if dialog.plan.danger {
        Role::Danger
    } else {
        Role::Title
    };
    let question = if dialog.is_refused() {
        format!("Refused: {}", dialog.plan.question)
    } else if dialog.is_dry() {
        format!("Dry run: {}", dialog.plan.question)
    } else {
        dialog.plan.question.clone()
    };
    let inner = super::boxed(canvas, WIDTH, height, &question, title_role);
    let scroll = dialog.scroll.min(body.len().saturating_sub(rows));
    for (n, (text, role)) in body.iter().skip(scroll).take(rows).enumerate() {
        canvas.put(inner.x, inner.y + n as u16, inner.width, text, *role);
    }
    let last = inner.bottom().saturating_sub(1);
    let mut y = inner.y + (rows as u16).min(inner.height);
    if tells && body.len() > rows && rows > 0 {
        let text = match (body.len() - rows - scroll, scroll) {
            (n, _) if !dialog.losses_seen => {
                format!("{} more, what is lost among them: PgDn", counted(n, "line"))
            }
            (0, n) => format!("{} above: Up", counted(n, "line")),
            (n, 0) => format!("{} more: Down", counted(n, "line")),
            (n, _) => format!("{} more: Up, Down", counted(n, "line")),
        };
        let role = if dialog.losses_seen {
            Role::Muted
        } else {
            Role::Warn
        };
        canvas.put(inner.x, y, inner.width, &text, role);
    }
    y += u16::from(tells);
    let mut cursor = None;
    if let Some(text) = typing
        && y < last
    {
        // What is typed must be seen: on a narrow screen the label gives way.
        let wanted = shown(text);
        let label = format!("Type {wanted} to go on: ");
        let label = if shown_width(&label) + shown_width(&wanted) < usize::from(inner.width) {
            label
        } else {
            format!("Type {wanted}: ")
        };
        let used = canvas.put(inner.x, y, inner.width, &label, Role::Title);
        cursor = super::bottom::type_line(
            canvas,
            &dialog.typed,
            inner.x + used,
            y,
            inner.width.saturating_sub(used),
        );
        y += 1;
    }
    if hints {
        let (text, role) = how(dialog);
        canvas.put(inner.x, y, inner.width, &text, role);
        y += 1;
    }
    for line in &command {
        if y < last {
            canvas.put(inner.x, y, inner.width, line, Role::Accent);
            y += 1;
        }
    }
    let open = dialog.guard.is_open(app.ms);
    buttons(
        canvas,
        inner.x,
        last,
        inner.width,
        &dialog.buttons(app.setup.size),
        dialog.focus,
        open,
    );
    cursor
}

/// How to go on, where something has to be typed.
fn how(dialog: &Dialog) -> (String, Role) {
    let word = dialog.word();
    if !dialog.losses_seen {
        return ("See what is lost: PgDn".to_owned(), Role::Warn);
    }
    if !dialog.is_typed() {
        return if dialog.wrong {
            ("That is not what is asked for".to_owned(), Role::Error)
        } else if dialog.typed.text().is_empty() {
            (
                "Once typed, Enter goes on; now it cancels".to_owned(),
                Role::Muted,
            )
        } else {
            ("Not yet what is asked for".to_owned(), Role::Muted)
        };
    }
    let buttons = dialog.buttons(super::super::dialog::ROOM);
    let here = buttons.get(dialog.focus).map(|button| button.act);
    match here {
        Some(Act::Confirm) => (format!("Enter again: {word}"), Role::Warn),
        Some(Act::Cancel) if !dialog.chosen => (format!("Enter goes on to {word}"), Role::Accent),
        _ => (format!("Tab goes on to {word}"), Role::Muted),
    }
}

/// Wraps; what goes on is set in.
fn hang(text: &str, width: usize) -> Vec<String> {
    let indent = text.len() - text.trim_start_matches(' ').len();
    let pad = " ".repeat(indent.min(width / 2));
    wrap(
        text.trim_start_matches(' '),
        width.saturating_sub(pad.len()).max(1),
    )
    .into_iter()
    .map(|line| format!("{pad}{line}"))
    .collect()
}

fn buttons(
    canvas: &mut Canvas,
    x: u16,
    y: u16,
    width: u16,
    all: &[Button],
    focus: usize,
    open: bool,
) {
    let end = x + width;
    let mut x = x;
    let label = |button: &Button| match button.key {
        Some(key) if button.label.starts_with(key) => {
            format!("[{key}]{}", &button.label[key.len_utf8()..])
        }
        Some(key) => format!("[{key}] {}", button.label),
        None => format!("[{}]", button.label),
    };
    let wide: usize = all.iter().map(|b| shown_width(&label(b)) + 2).sum();
    // What changes nothing gives way to what decides.
    let is_short = wide > usize::from(width) + 2;
    for (n, button) in all.iter().enumerate() {
        let label = match button.key {
            Some(key) if is_short && matches!(button.act, Act::Natives | Act::Copy) => {
                format!("[{key}]")
            }
            _ => label(button),
        };
        let role = if n == focus {
            Role::Selected
        } else if button.live && open {
            Role::Button
        } else {
            Role::Muted
        };
        let used = canvas.put(x, y, end.saturating_sub(x), &label, role);
        canvas.zone(Rect::new(x, y, used, 1), Zone::Button(n));
        x += used + 2;
    }
    // Keys do not count yet: said, so that a lost key is no riddle.
    if !open {
        canvas.put(x, y, end.saturating_sub(x), "(wait)", Role::Muted);
    }
}

fn lines(app: &App, dialog: &Dialog) -> Vec<(String, Role)> {
    let mut out = Vec::new();
    let plan = &dialog.plan;
    if let Some(note) = &dialog.planning.note {
        out.push((format!("Asked again: {note}"), Role::Warn));
    }
    let changed = super::super::since::told(app, &dialog.seen);
    let more = changed.len().saturating_sub(TOLD);
    out.extend(changed.into_iter().take(TOLD).map(|t| (t, Role::Warn)));
    if more > 0 {
        out.push((
            format!("… and {more} more are not as they were"),
            Role::Warn,
        ));
    }
    match plan.targets.as_slice() {
        [] => out.push(("Nothing is concerned.".to_owned(), Role::Warn)),
        [one] => single(app, dialog, one, &mut out),
        many => bulk(app, dialog, many, &mut out),
    }
    if !plan.left_out.is_empty() {
        let count = plan.left_out.len();
        out.push((format!("Left out, {count}:"), Role::Warn));
        for left in plan.left_out.iter().take(20) {
            out.push((format!("  {}: {}", left.what, left.why), Role::Warn));
        }
    }
    let hidden = dialog.planning.hidden.len();
    if hidden > 0 {
        let text = if dialog.planning.included {
            format!("Marked but hidden by the filter: {hidden}, included")
        } else {
            format!("Marked but hidden by the filter: {hidden}, not included")
        };
        out.push((text, Role::Mark));
    }
    out
}

/// What is changed are no instances but what doctor has found.
fn is_about_faults(dialog: &Dialog) -> bool {
    dialog.plan.action.verb == "doctor"
}

/// `hv1/db · libvirt · context hv1 (PROTECTED) · host hv1 · running · seen 2s ago`.
fn whom(app: &App, dialog: &Dialog, target: &TargetPlan) -> String {
    let dot = "·";
    if is_about_faults(dialog) {
        let what = target.steps.first();
        let what = what.map_or_else(String::new, |step| format!(" {dot} {}", step.title));
        let whose = if target.id.is_own() {
            "corral".to_owned()
        } else {
            format!("context {}", target.id.context())
        };
        return format!("{whose}{what}");
    }
    if target.id.is_own() {
        return format!("{} {dot} {}", target.id.spoken(), target.backend);
    }
    let context = target.id.context();
    let guarded = app.fleet.context(context).is_some_and(|c| c.protected);
    let mut text = format!(
        "{} {dot} {} {dot} context {context}{} {dot} name {}",
        target.id,
        target.backend,
        if guarded { " (PROTECTED)" } else { "" },
        shown(&target.name),
    );
    if target.protected && !guarded {
        text.push_str(&format!(" {dot} PROTECTED"));
    }
    if let Some(host) = &target.host {
        text.push_str(&format!(" {dot} host {host}"));
    }
    let seen = step_age(seconds_since(app.now, target.observed_at));
    let seen = if seen == "now" {
        "just now".to_owned()
    } else {
        format!("{seen} ago")
    };
    text.push_str(&format!(" {dot} {} {dot} seen {seen}", target.state));
    text
}

fn single(app: &App, dialog: &Dialog, target: &TargetPlan, out: &mut Vec<(String, Role)>) {
    // Where little has room what is lost stands before all that is known of it.
    let is_tight = app.setup.size.0 < TIGHT.0 || app.setup.size.1 < TIGHT.1;
    let losses = target.losses.iter();
    let losses = losses.map(|loss| (format!("Lost: {loss}"), Role::Error));
    if is_tight && !target.id.is_own() {
        out.push((target.id.to_string(), Role::Title));
        out.extend(losses.clone());
    }
    out.push((whom(app, dialog, target), Role::Text));
    if target.unchanged {
        out.push((
            "Already as wanted: nothing would change.".to_owned(),
            Role::Ok,
        ));
    }
    refusals(target, "", out);
    if !is_tight || target.id.is_own() {
        out.extend(losses);
    }
    for note in &target.notes {
        out.push((note.clone(), Role::Text));
    }
    steps(dialog, target, out);
    if target.detachable {
        out.push((
            "Goes on at its server when corral leaves.".to_owned(),
            Role::Muted,
        ));
    }
}

fn steps(dialog: &Dialog, target: &TargetPlan, out: &mut Vec<(String, Role)>) {
    for (n, step) in target.steps.iter().enumerate() {
        out.push((format!("{}. {}", n + 1, step.title), Role::Text));
        if dialog.natives {
            out.push((format!("   {}", step.native), Role::Muted));
        }
    }
}

fn refusals(target: &TargetPlan, indent: &str, out: &mut Vec<(String, Role)>) {
    for refusal in &target.refusals {
        out.push((format!("{indent}Refused: {}", refusal.message), Role::Error));
        if let Some(remedy) = &refusal.remedy {
            out.push((format!("{indent}  -> {remedy}"), Role::Accent));
        }
    }
}

fn bulk(app: &App, dialog: &Dialog, targets: &[TargetPlan], out: &mut Vec<(String, Role)>) {
    let mut contexts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for target in dialog.plan.changing() {
        *contexts.entry(target.id.context()).or_default() += 1;
        *states.entry(target.state.as_str()).or_default() += 1;
    }
    let counted = |map: &BTreeMap<&str, usize>, sep: &str| {
        let parts: Vec<String> = map.iter().map(|(name, n)| format!("{name} {n}")).collect();
        parts.join(sep)
    };
    let kinds: std::collections::BTreeSet<&str> =
        targets.iter().map(|t| t.backend.as_str()).collect();
    // Faults have no kind and no state.
    if !is_about_faults(dialog) {
        out.push((
            format!(
                "{} ({}) — {}",
                counted(&contexts, " · "),
                kinds.into_iter().collect::<Vec<_>>().join(", "),
                counted(&states, ", ")
            ),
            Role::Text,
        ));
    }
    let refused = dialog.plan.refused().count();
    if refused > 0 {
        out.push((
            format!("Refused, {refused} of {}:", targets.len()),
            Role::Error,
        ));
        for target in dialog.plan.refused() {
            out.push((format!("  {}", target.id), Role::Text));
            refusals(target, "    ", out);
        }
    }
    let unchanged = targets.iter().filter(|t| t.unchanged).count();
    if unchanged > 0 {
        out.push((format!("Already as wanted: {unchanged}"), Role::Muted));
    }
    out.push((
        format!("{} at a time per context", dialog.plan.concurrency),
        Role::Muted,
    ));
    for target in dialog.plan.changing() {
        out.push((format!("  {}", whom(app, dialog, target)), Role::Text));
        for loss in &target.losses {
            out.push((format!("    Lost: {loss}"), Role::Error));
        }
        if dialog.natives {
            for step in &target.steps {
                out.push((format!("    {}: {}", step.title, step.native), Role::Muted));
            }
        }
    }
}

pub(super) fn draw_quit(app: &App, quit: &QuitDialog, canvas: &mut Canvas) {
    let running: Vec<_> = app.running_tasks().collect();
    // Counted by target: of a long task a few are under way, and the rest has been sent nowhere.
    let count = |detachable: bool, state: &TargetState| {
        let tasks = running.iter().filter(|task| task.detachable == detachable);
        let targets = tasks.flat_map(|task| &task.targets);
        targets.filter(|target| target.state == *state).count()
    };
    let detachable = count(true, &TargetState::Running);
    let own = count(false, &TargetState::Running);
    let queued = count(true, &TargetState::Queued) + count(false, &TargetState::Queued);
    let mut lines = Vec::new();
    if detachable > 0 {
        lines.push((
            format!("Running at their servers, will go on: {detachable}"),
            Role::Text,
        ));
    }
    if own > 0 {
        lines.push((
            format!("Running in corral, the step under way is finished: {own}"),
            Role::Warn,
        ));
    }
    let unsent: usize = app.submitting.iter().map(|s| s.ids.len().max(1)).sum();
    if queued + unsent > 0 {
        lines.push((
            format!("Not begun, dropped by Quit now: {}", queued + unsent),
            Role::Warn,
        ));
    }
    for task in running.iter().take(8) {
        lines.push((format!("  {}", task.command), Role::Muted));
    }
    if quit.waiting {
        lines.push(("Waiting for them to end …".to_owned(), Role::Busy));
    }
    let inner = super::boxed(
        canvas,
        70,
        lines.len() as u16 + 4,
        "Leave corral?",
        Role::Title,
    );
    let rows = usize::from(inner.height.saturating_sub(1));
    for (n, (text, role)) in lines.iter().take(rows).enumerate() {
        canvas.put(inner.x, inner.y + n as u16, inner.width, text, *role);
    }
    let button = |label: &str, key| Button {
        label: label.to_owned(),
        key,
        act: Act::Cancel,
        live: true,
    };
    let all = [
        button("Stay", None),
        button("Wait then quit", Some('W')),
        button("Quit now", Some('Q')),
    ];
    let open = quit.guard.is_open(app.ms);
    let last = inner.bottom().saturating_sub(1);
    buttons(canvas, inner.x, last, inner.width, &all, quit.focus, open);
}
