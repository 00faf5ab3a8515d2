//! Whether the plan that would run is the one that was shown.

use std::collections::HashMap;

use crate::model::{Error, Plan, Refusal, Result, Step, TargetPlan, shown};

/// Compares a plan that was shown with the one that would run now.
///
/// # Errors
/// `Conflict` that names what differs.
pub(super) fn same(before: &Plan, now: &Plan) -> Result<()> {
    let changed = |why: String| {
        Err(
            Error::conflict(format!("{why} since the plan was made. Nothing was done"))
                .remedy("Look at the new plan and ask again"),
        )
    };
    if before.gate != now.gate {
        return changed("what has to be confirmed has changed".to_owned());
    }
    let seen: HashMap<_, _> = before.targets.iter().map(|t| (&t.id, t)).collect();
    let mut gone = seen.clone();
    for target in &now.targets {
        gone.remove(&target.id);
        let Some(before) = seen.get(&target.id) else {
            return changed(format!("{} came in", target.id));
        };
        if before.uid.is_some() && before.uid != target.uid {
            return changed(format!("another machine has taken the ID {}", target.id));
        }
        // What forbids it now says more than that something changed.
        if let (true, Some(refusal)) = (before.refusals.is_empty(), target.refusals.first()) {
            let message = format!("{}: {}. Nothing was done", target.id, refusal.message);
            let mut error = Error::conflict(message).in_context(target.id.context());
            error.remedy.clone_from(&refusal.remedy);
            return Err(error);
        }
        if let Some(what) = difference(before, target) {
            return Err(Error::conflict(format!(
                "{} has changed since the plan was made: {what}. Nothing was done",
                target.id
            ))
            .remedy("Look at the new plan and ask again"));
        }
    }
    if let Some(id) = gone.keys().min() {
        return changed(format!("{id} went away"));
    }
    Ok(())
}

/// The first thing in which two plans for a target differ; `None`: they are one.
fn difference(before: &TargetPlan, now: &TargetPlan) -> Option<String> {
    if before.refusals != now.refusals {
        return Some(between(&before.refusals, &now.refusals, "reason", refusal));
    }
    if before.unchanged != now.unchanged {
        let what = if now.unchanged {
            "it is as wanted already"
        } else {
            "it is no longer as wanted"
        };
        return Some(what.to_owned());
    }
    if before.steps != now.steps {
        return Some(between(&before.steps, &now.steps, "step", step));
    }
    (before.token != now.token).then(|| {
        if before.state == now.state {
            "its definition or state is another".to_owned()
        } else {
            format!("it was {} and is {}", before.state, now.state)
        }
    })
}

/// Where two lists differ first.
fn between<T: PartialEq>(
    before: &[T],
    now: &[T],
    what: &str,
    words: impl Fn(&T, Option<&T>) -> String,
) -> String {
    let n = before.iter().zip(now).take_while(|(a, b)| a == b).count();
    let (old, new) = (before.get(n), now.get(n));
    let say = |item: Option<&T>, other| {
        item.map_or_else(
            || "none".to_owned(),
            |item| format!("\"{}\"", shown(&words(item, other))),
        )
    };
    format!(
        "{what} {} was {} and is {}",
        n + 1,
        say(old, new),
        say(new, old)
    )
}

fn refusal(it: &Refusal, other: Option<&Refusal>) -> String {
    match &it.remedy {
        Some(remedy) if other.is_some_and(|other| other.message == it.message) => remedy.clone(),
        _ => it.message.clone(),
    }
}

/// The part of a step that tells it from the other.
fn step(it: &Step, other: Option<&Step>) -> String {
    match other {
        Some(other) if other.title != it.title => it.title.clone(),
        Some(other) if other.native != it.native => it.native.clone(),
        Some(_) => format!("undo: {}", it.undo.as_deref().unwrap_or("none")),
        None => it.title.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::planner::target_of;
    use crate::model::{Instance, InstanceId, InstanceKind, Kind, State};

    fn target() -> TargetPlan {
        let id = InstanceId::new("local", None, "web");
        let mut target = target_of(&Instance::new(
            id,
            Kind::read("k"),
            InstanceKind::Vm,
            State::Running,
            jiff::Timestamp::UNIX_EPOCH,
        ));
        target.steps = vec![
            Step::new("Ask it", "ask 1").undo("ask 0"),
            Step::new("Write", "write"),
        ];
        target.token = "1".to_owned();
        target
    }

    #[test]
    fn a_conflict_names_what_differs() {
        let before = target();
        assert_eq!(difference(&before, &before), None);
        let differs = |change: &dyn Fn(&mut TargetPlan)| {
            let mut now = target();
            change(&mut now);
            difference(&before, &now).unwrap()
        };
        for (said, wanted) in [
            (
                differs(&|now| now.steps[0].title = "Tell it".to_owned()),
                "step 1 was \"Ask it\" and is \"Tell it\"",
            ),
            (
                differs(&|now| now.steps[0].native = "ask 2".to_owned()),
                "step 1 was \"ask 1\" and is \"ask 2\"",
            ),
            (
                differs(&|now| now.steps[0].undo = None),
                "step 1 was \"undo: ask 0\" and is \"undo: none\"",
            ),
            (
                differs(&|now| now.steps.truncate(1)),
                "step 2 was \"Write\" and is none",
            ),
            (
                differs(&|now| now.refusals.push(Refusal::new("it sleeps", None))),
                "reason 1 was none and is \"it sleeps\"",
            ),
            (
                differs(&|now| now.unchanged = true),
                "it is as wanted already",
            ),
            (
                differs(&|now| {
                    now.token = "2".to_owned();
                    now.state = State::Paused;
                }),
                "it was running and is paused",
            ),
            (
                differs(&|now| now.token = "2".to_owned()),
                "its definition or state is another",
            ),
        ] {
            assert_eq!(said, wanted);
        }
    }
}
