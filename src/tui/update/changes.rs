//! From an action to a plan, to a question, to a task.

use super::super::app::{App, Overlay, Pane, Planning, Submitting};
use super::super::dialog::Dialog;
use super::super::msg::Effect;
use super::super::{since, typed};
use crate::action::by_hand::Opened;
use crate::action::grammar::Invocation;
use crate::action::{Row, Run};
use crate::model::{Action, Body, Consent, Error, Gate, GroupNoun, Plan, Selector, shown};

/// Carries out a parsed command line.
pub(super) fn carry_out(app: &mut App, invocation: Invocation, line: &str) -> Vec<Effect> {
    let Some(row) = invocation.row else {
        return Vec::new();
    };
    match row.shape(&invocation.action) {
        Run::Change(_) => {
            let hidden = hidden_for(app, row);
            let planning = Planning {
                request: 0,
                action: invocation.action,
                run: invocation.run,
                consent: invocation.consent,
                hidden,
                included: false,
                note: None,
            };
            if row.name == "edit" && !planning.action.args.has("file") {
                return open(app, planning);
            }
            plan(app, planning)
        }
        Run::Read(_) => super::front::question(app, invocation, line),
        Run::Follow(_) => {
            let request = app.number();
            super::front::show(app, super::super::app::Pane::Answer);
            app.answer = super::super::app::Answer {
                title: line.to_owned(),
                lines: Vec::new(),
                follows: Some(request),
                output: invocation.output,
            };
            vec![Effect::Unfollow, Effect::Follow(request, invocation.action)]
        }
        Run::Open(_) => {
            app.complain(
                &Error::unsupported(format!("{} needs standard input and output", row.name))
                    .remedy(app.in_shell(&format!("in a shell: corral {line}"))),
            );
            Vec::new()
        }
        Run::Front => {
            app.complain(
                &Error::unsupported(format!("{} belongs to the command line", row.name))
                    .remedy(app.in_shell(&format!("in a shell: corral {line}"))),
            );
            Vec::new()
        }
    }
}

/// Marks that an action on instances leaves out because the filter hides them.
pub(super) fn hidden_for(app: &App, row: &Row) -> Vec<String> {
    let marks_count = app.pane == Pane::Inventory && !app.inventory.visible_marks().is_empty();
    if row.noun != GroupNoun::Instances || !marks_count {
        return Vec::new();
    }
    let hidden = app.inventory.hidden_marks();
    hidden.iter().map(|row| row.id.to_string()).collect()
}

/// Asks for a definition in a file; the editor, and then the plan, follow.
fn open(app: &mut App, mut planning: Planning) -> Vec<Effect> {
    planning.request = app.number();
    let effect = Effect::Open(planning.request, planning.action.clone());
    app.say("opening the editor …");
    app.planning = Some(planning);
    vec![effect]
}

/// The editor has ended: what differs is planned.
pub(super) fn edited(
    app: &mut App,
    request: u64,
    opened: &Opened,
    ended: std::result::Result<(), Error>,
) -> Vec<Effect> {
    // Whatever comes of it, a file in which nothing was typed goes.
    let as_before = opened.is_as_before();
    let Some(mut planning) = app.planning.take_if(|p| p.request == request) else {
        if !as_before {
            app.say(opened.kept());
        }
        return Vec::new();
    };
    app.notice = None;
    match ended {
        Err(mut error) => {
            if !as_before {
                error.remedy = Some(opened.kept());
            }
            app.complain(&error);
            return Vec::new();
        }
        Ok(()) if as_before => {
            app.say("nothing was changed");
            return Vec::new();
        }
        Ok(()) => {}
    }
    // The command in the question names the file, so that what was typed is found again.
    planning.action = opened.action.clone();
    plan(app, planning)
}

/// Asks for a plan. A later one replaces it.
pub(super) fn plan(app: &mut App, mut planning: Planning) -> Vec<Effect> {
    planning.request = app.number();
    let effect = Effect::Plan(planning.request, planning.action.clone());
    app.say(format!("planning: corral {} …", planning.action.verb));
    app.planning = Some(planning);
    vec![effect]
}

/// A plan came.
pub(super) fn planned(app: &mut App, planning: Planning, plan: Plan) -> Vec<Effect> {
    app.notice = None;
    let runs = plan.runnable().count();
    let free = plan.gate == Gate::Free
        && runs == plan.targets.len()
        && plan.left_out.is_empty()
        && planning.note.is_none();
    let said = match &plan.gate {
        Gate::Free => free,
        Gate::Confirm => planning.consent.yes && runs == plan.targets.len(),
        Gate::Type { text } => planning.consent.typed.as_ref() == Some(text),
    };
    let asks_about_hidden = !planning.hidden.is_empty() && !planning.included;
    if said && runs > 0 && !asks_about_hidden && !planning.run.dry_run {
        let consent = planning.consent.clone();
        return submit(app, planning, plan, consent);
    }
    app.overlays
        .retain(|o| !matches!(o, Overlay::Dialog(_) | Overlay::Actions(_)));
    let seen = since::seen(app, &plan);
    let mut dialog = Dialog::new(plan, planning);
    dialog.seen = seen;
    app.overlays.push(Overlay::Dialog(Box::new(dialog)));
    Vec::new()
}

/// Hands a plan over to be carried out; its targets are pending at once.
pub(super) fn submit(
    app: &mut App,
    planning: Planning,
    plan: Plan,
    consent: Consent,
) -> Vec<Effect> {
    let request = app.number();
    app.submitting.push(Submitting {
        request,
        verb: plan.action.verb.clone(),
        ids: plan.changing().map(|t| t.id.clone()).collect(),
        planning: planning.clone(),
        task: None,
    });
    app.say(format!("{} …", plan.command));
    // Forms whose command has gone out are done.
    app.overlays.retain(|o| !matches!(o, Overlay::Form(_)));
    vec![Effect::Submit(
        request,
        Box::new(plan),
        consent,
        planning.run,
    )]
}

/// A plan was submitted, or was not.
pub(super) fn submitted(app: &mut App, request: u64, result: Result<String, Error>) -> Vec<Effect> {
    let Some(n) = app.submitting.iter().position(|s| s.request == request) else {
        return Vec::new();
    };
    let mut submitting = app.submitting.remove(n);
    match result {
        Ok(task) => {
            typed::handed_over(app, &submitting.planning.action);
            let known = app.tasks.iter().find(|t| t.id == task);
            let known = known.map(|t| t.state.is_final());
            if known != Some(true) {
                app.say(format!("{}: task {task} (g t shows it)", submitting.verb));
            }
            if known.is_none() {
                submitting.task = Some(task);
                app.submitting.push(submitting);
            }
            Vec::new()
        }
        Err(error) if error.kind == crate::model::ErrorKind::Conflict => {
            // What was confirmed is not what would happen now: ask again, nothing is carried over.
            let planning = Planning {
                consent: Consent::default(),
                note: Some(error.message),
                ..submitting.planning
            };
            plan(app, planning)
        }
        Err(error) => {
            app.complain(&error);
            Vec::new()
        }
    }
}

/// A question was answered with no. A text that was typed for it is not lost.
pub(super) fn given_up(app: &mut App, action: &Action) {
    match action.args.text("file").filter(|_| action.verb == "edit") {
        Some(file) => app.say(format!("nothing was done; the text is in {}", shown(file))),
        None => app.say("nothing was done"),
    }
}

/// Plans again with the hidden marks among the targets.
pub(super) fn include_hidden(app: &mut App, mut planning: Planning) -> Vec<Effect> {
    for id in &planning.hidden {
        if let Ok(selector) = id.parse::<Selector>() {
            planning.action.targets.push(selector);
        }
    }
    planning.included = true;
    planning.consent = Consent::default();
    plan(app, planning)
}

/// Instances an answer is about, to open the one that was asked for.
pub(super) fn first_detail(body: &Body) -> Option<&crate::model::Detail> {
    match body {
        Body::Details(details) => details.first(),
        _ => None,
    }
}
