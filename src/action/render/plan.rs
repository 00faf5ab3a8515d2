//! A plan in words: what a dialog shows and `--dry-run` prints.

use jiff::Timestamp;

use super::listing::seconds_between;
use super::style::{Role, of_state};
use crate::action::guard;
use crate::model::{Gate, Plan, TargetPlan, age, shown};

/// Targets shown one by one; more are counted.
const SHOWN: usize = 20;

/// The plan, ending with the line of the same command.
pub(crate) fn text(plan: &Plan, now: Timestamp, colour: bool) -> String {
    let mut out = String::new();
    let role = if plan.danger {
        Role::Error
    } else {
        Role::Strong
    };
    out.push_str(&role.paint(&shown(&plan.question), colour));
    out.push('\n');
    let runnable: Vec<&TargetPlan> = plan.runnable().collect();
    let one = plan.targets.len() == 1;
    for target in runnable.iter().take(SHOWN) {
        target_lines(target, now, colour, one, &mut out);
    }
    if runnable.len() > SHOWN {
        out.push_str(&format!("  … and {} more\n", runnable.len() - SHOWN));
    }
    for target in plan.refused() {
        for refusal in &target.refusals {
            out.push_str(&format!(
                "{} {}: {}{}\n",
                Role::Error.paint("refused:", colour),
                target.id,
                shown(&refusal.message),
                remedy(refusal.remedy.as_deref())
            ));
        }
    }
    for left in &plan.left_out {
        out.push_str(&format!(
            "left out: {}: {}\n",
            shown(&left.what),
            shown(&left.why)
        ));
    }
    if runnable.len() > 1 {
        out.push_str(&format!(
            "{} at a time per context\n",
            plan.concurrency.max(1)
        ));
    }
    match &plan.gate {
        // Naming one target is the yes; what changes nothing asks for none.
        _ if plan.changing().next().is_none() || guard::implied_consent(plan).yes => {}
        Gate::Free => {}
        Gate::Confirm => out.push_str("Needs: yes (-y)\n"),
        Gate::Type { text } => {
            out.push_str(&format!("Needs: --confirm {}\n", quoted(text)));
        }
    }
    out.push_str(&format!("= {}\n", shown(&plan.command)));
    out
}

fn quoted(text: &str) -> String {
    let text = shown(text);
    if text.contains(' ') {
        format!("'{text}'")
    } else {
        text.into_owned()
    }
}

/// What helps, as the end of a sentence.
pub(crate) fn remedy(text: Option<&str>) -> String {
    text.map_or(String::new(), |text| format!(". {}", shown(text)))
}

fn target_lines(target: &TargetPlan, now: Timestamp, colour: bool, one: bool, out: &mut String) {
    if target.id.is_own() {
        out.push_str(&format!("{} · {}\n", target.id.spoken(), target.backend));
        target_work(target, colour, one, out);
        return;
    }
    let mut facts = vec![
        target.id.to_string(),
        target.backend.to_string(),
        format!("context {}", target.id.context()),
    ];
    if shown(&target.name) != target.id.key() {
        facts.insert(1, shown(&target.name).into_owned());
    }
    facts.extend(target.host.as_deref().map(|h| format!("host {}", shown(h))));
    facts.push(of_state(target.state).paint(target.state.as_str(), colour));
    if target.protected {
        facts.push("PROTECTED".to_owned());
    }
    facts.push(format!(
        "seen {} ago",
        age(seconds_between(target.observed_at, now))
    ));
    out.push_str(&facts.join(" · "));
    out.push('\n');
    target_work(target, colour, one, out);
}

fn target_work(target: &TargetPlan, colour: bool, one: bool, out: &mut String) {
    if target.unchanged {
        let why = target.notes.first().map_or("as wanted", String::as_str);
        out.push_str(&format!("  already so: {}\n", shown(why)));
        return;
    }
    for step in &target.steps {
        out.push_str(&format!("  - {}", shown(&step.title)));
        if !step.native.is_empty() {
            out.push_str(&format!("   [{}]", shown(&step.native)));
        }
        out.push('\n');
        if one && let Some(undo) = &step.undo {
            out.push_str(&format!("    undo: {}\n", shown(undo)));
        }
    }
    for loss in &target.losses {
        let label = Role::Error.paint("Lost:", colour);
        out.push_str(&format!("  {label} {}\n", shown(loss)));
    }
    for note in &target.notes {
        out.push_str(&format!("  {}\n", shown(note)));
    }
}
