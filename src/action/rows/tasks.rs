//! `tasks list|show|cancel|retry` and `history`.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;

use super::super::engine::Engine;
use super::super::journal::{error_of, left_of};
use super::super::planner::{LocalWork, Planned, Shape, plan_local};
use super::super::row::{Group, Risk, Row, Run, Targets};
use crate::backend::contract::{Prepared, TaskCx};
use crate::model::{
    Action, Body, Data, Error, Field, FieldKind, GroupNoun, Instance, InstanceId, InstanceKind,
    Kind, Outcome, Result, Selector, SnapshotRef, State, Step, TargetState, Task, TaskState,
};

const LIST: Row = Row {
    aliases: &["tasks ls"],
    examples: &["tasks list", "tasks list -f"],
    fields: &[
        Field::flag("follow", "Goes on as tasks move").short('f'),
        Field::flag("running", "Only what still runs"),
    ],
    shapes: &[("follow", Run::Follow(follow))],
    ..Row::new(
        "tasks list",
        Group::Work,
        "Lists the tasks of every corral of this user",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

const SHOW: Row = Row {
    examples: &["tasks show 20261130-051402-7f3a"],
    noun: GroupNoun::Tasks,
    targets: Targets::One,
    ..Row::new(
        "tasks show",
        Group::Work,
        "Shows one task with its log",
        Run::Read(|e, a| Box::pin(show(e, a))),
    )
};

const CANCEL: Row = Row {
    examples: &["tasks cancel 20261130-051402-7f3a"],
    noun: GroupNoun::Tasks,
    targets: Targets::One,
    risk: Risk::Confirm,
    ..Row::new(
        "tasks cancel",
        Group::Work,
        "Asks a task to stop at a safe point",
        Run::Change(|e, a| Box::pin(cancel(e, a))),
    )
};

const RETRY: Row = Row {
    examples: &["tasks retry 20261130-051402-7f3a --dry-run"],
    noun: GroupNoun::Tasks,
    targets: Targets::One,
    ..Row::new(
        "tasks retry",
        Group::Work,
        "Runs a task again for the targets that failed",
        Run::Change(|e, a| Box::pin(retry(e, a))),
    )
};

const HISTORY: Row = Row {
    examples: &["history", "history --last 5 -o json"],
    fields: &[Field::new("last", FieldKind::Count, "So many of the newest").default("50")],
    ..Row::new(
        "history",
        Group::Work,
        "Shows what corral changed",
        Run::Read(|e, a| Box::pin(history(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&LIST, &SHOW, &CANCEL, &RETRY, &HISTORY];

fn selected(engine: &Engine, action: &Action) -> Vec<Task> {
    let running = action.args.flag("running");
    engine
        .board()
        .all()
        .into_iter()
        .filter(|task| !running || !task.state.is_final())
        .collect()
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    engine.board().readable()?;
    Ok(Data::new(Body::Tasks(selected(&engine, &action))))
}

fn follow(engine: Arc<Engine>, action: Action) -> BoxStream<'static, Result<Data>> {
    // Other processes' files are looked at once a second; changes come out, repetitions do not.
    let ticks = futures::stream::unfold((), |()| async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        Some(((), ()))
    });
    futures::stream::once(async {})
        .chain(ticks)
        .scan(Vec::new(), move |last: &mut Vec<Task>, ()| {
            let now = selected(&engine, &action);
            let changed: Vec<Task> = now
                .iter()
                .filter(|task| !last.contains(task))
                .cloned()
                .collect();
            *last = now;
            futures::future::ready(Some(changed))
        })
        .filter(|changed| futures::future::ready(!changed.is_empty()))
        .map(|changed| Ok(Data::new(Body::Tasks(changed))))
        .boxed()
}

fn named(engine: &Engine, action: &Action) -> Result<Task> {
    let id = action.targets.first().map_or("", Selector::as_str);
    engine.board().find(id)
}

async fn show(engine: Arc<Engine>, action: Action) -> Result<Data> {
    Ok(Data::new(Body::Task(Box::new(named(&engine, &action)?))))
}

async fn history(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let last = usize::try_from(action.args.count("last").unwrap_or(50)).unwrap_or(usize::MAX);
    let history = engine.journal().read(last)?;
    let tasks = engine.board().all();
    let mut entries = history.entries;
    for entry in &mut entries {
        let task = tasks.iter().find(|task| task.id == entry.task);
        let runs = task.is_some_and(|task| !task.state.is_final());
        // It began, has no end, and no process holds it: corral was killed. How far it was stands in its file.
        if entry.ended_at.is_none() && !runs {
            TaskState::Interrupted.as_str().clone_into(&mut entry.state);
            entry.left = task.map(left_of).unwrap_or_default();
            entry.error = task.and_then(error_of);
        }
    }
    let mut data = Data::new(Body::History(entries));
    if history.skipped > 0 {
        data.warnings.push(format!(
            "{} unreadable lines of the journal were skipped",
            history.skipped
        ));
    }
    Ok(data)
}

/// A task as a target of a plan.
fn stub(task: &Task) -> Arc<Instance> {
    let id = InstanceId::new(".task", None, &task.id);
    Arc::new(Instance::new(
        id,
        Kind::new("corral"),
        InstanceKind::Vm,
        State::Running,
        Timestamp::now(),
    ))
}

struct Cancel {
    engine: Arc<Engine>,
    task: String,
}

#[async_trait]
impl LocalWork for Cancel {
    async fn run(&self, _: &TaskCx, _: Prepared) -> Result<Outcome> {
        self.engine.cancel(&self.task)?;
        Ok(Outcome::changed("asked to stop at a safe point"))
    }
}

async fn cancel(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let task = named(&engine, &action)?;
    let prepared = if task.state.is_final() {
        Prepared::unchanged(
            task.id.clone(),
            format!("has ended already: {}", task.state.as_str()),
        )
    } else {
        Prepared::new(
            task.id.clone(),
            vec![Step::new(
                "Asks it to stop at a safe point",
                format!("cancel {}", task.command),
            )],
        )
    };
    let work = Arc::new(Cancel {
        engine: Arc::clone(&engine),
        task: task.id.clone(),
    });
    let mut shape = Shape::of(&action)?;
    "Cancel".clone_into(&mut shape.ask);
    plan_local(&engine, action, shape, vec![(stub(&task), prepared, work)])
}

async fn retry(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let task = named(&engine, &action)?;
    let left: Vec<InstanceId> = task
        .targets
        .iter()
        .filter(|t| !matches!(t.state, TargetState::Done(_)))
        .map(|t| t.id.clone())
        .collect();
    if left.is_empty() {
        return Err(Error::refused(format!(
            "nothing of task {} failed",
            task.id
        )));
    }
    let again = on_what_is_left(&task.action, left);
    let row = super::super::grammar::validate(&again)?;
    match row.shape(&again) {
        Run::Change(change) if row.name != "tasks retry" => {
            let mut planned = change(Arc::clone(&engine), again).await?;
            // Submitting plans once more from this action; what it says then must be the same.
            planned.plan.action = action;
            Ok(planned)
        }
        _ => Err(Error::refused(format!(
            "task {} cannot be run again",
            task.id
        ))),
    }
}

/// The same again for the targets that are left.
fn on_what_is_left(action: &Action, left: Vec<InstanceId>) -> Action {
    let mut again = action.clone();
    // Of one target nothing else can be left; and what is only going to be has no ID to be found by.
    let as_typed = super::find(&again.verb).is_some_and(|row| {
        row.targets == Targets::One
            || matches!(
                row.noun,
                GroupNoun::NewInstance | GroupNoun::Source | GroupNoun::ImageSources
            )
    });
    if as_typed {
        return again;
    }
    // All of them were typed with the same `@SNAPSHOT`, if with any.
    let at = action
        .targets
        .iter()
        .find_map(|target| target.split_snapshot().ok()?.1);
    again.targets = left
        .into_iter()
        .filter_map(|instance| match &at {
            Some(name) => {
                let name = name.clone();
                SnapshotRef { instance, name }.to_string().parse().ok()
            }
            None => Some(Selector::id(&instance)),
        })
        .collect();
    again.scope.filter = None;
    again
}

#[cfg(test)]
mod tests {
    use super::super::super::grammar;
    use super::*;

    #[test]
    fn what_is_left_is_done_again_as_it_was_said() {
        for (line, left, again) in [
            ("stop web db", "local/db", "stop local/db"),
            ("stop --filter tag:x", "local/db", "stop local/db"),
            (
                "snapshot delete web@s1 db@s1",
                "local/db",
                "snapshot delete local/db@s1",
            ),
            (
                "snapshot restore web db --name s1",
                "local/db",
                "snapshot restore local/db --name s1",
            ),
            (
                "backup restore web@b1 --name web2",
                "local/web2",
                "backup restore web@b1 --name web2",
            ),
            ("clone web@s1 --name x", "local/x", "clone web@s1 --name x"),
            (
                "image pull debian-13",
                "local/debian-13",
                "image pull debian-13",
            ),
            ("image delete a b", "local/b", "image delete local/b"),
            ("create x --disk 1G", "local/x", "create x --disk 1G"),
        ] {
            let action = |line: &str| match grammar::parse(&grammar::tokenize(line).unwrap()) {
                Ok(invocation) => invocation.action,
                Err(_) => panic!("{line}"),
            };
            let told = on_what_is_left(&action(line), vec![left.parse().unwrap()]);
            assert_eq!(told, action(again), "{line}");
        }
    }
}
