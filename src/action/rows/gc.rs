//! `gc`: what was to be kept for a time only, and whose time is over.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use jiff::Timestamp;

use super::super::engine::Engine;
use super::super::planner::{LocalWork, Planned, Shape, finish, plan_local, prepare_all, resolve};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::info::details_of;
use super::naming::moment;
use crate::backend::contract::{Prepared, Request, SnapshotRequest, TaskCx};
use crate::fleet::selector::Purpose;
use crate::model::{
    Action, ErrorKind, Field, FieldKind, GroupNoun, Instance, InstanceId, InstanceKind, Kind,
    LeftOut, Operation, Outcome, Result, Selector, Snapshot, State, Support, counted,
};

const GC: Row = Row {
    examples: &["gc --dry-run", "gc -y", "gc --filter tag:test -y"],
    details: "Removes the snapshots whose --expires is over, everywhere in scope, and nothing else.",
    noun: GroupNoun::Instances,
    targets: Targets::Any,
    fields: &[Field::new(
        "at",
        FieldKind::Text,
        "What has expired by then [default: now]",
    )],
    risk: Risk::Confirm,
    heavy: true,
    operations: &[Operation::SnapshotDelete],
    ..Row::new(
        "gc",
        Group::Snapshots,
        "Removes what has expired",
        Run::Change(|e, a| Box::pin(gc(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&GC];

async fn gc(engine: Arc<Engine>, mut action: Action) -> Result<Planned> {
    let now = moment(&mut action)?;
    let (targets, mut left_out) = everyone(&engine, &action).await?;
    let able = targets.into_iter().filter(|instance| {
        let support = engine.support(Operation::SnapshotDelete, &instance.id);
        !matches!(support, Support::No(_)) || engine.readonly_reason(&instance.context).is_some()
    });
    let able: Vec<Arc<Instance>> = able.collect();
    let mut wanted = Vec::new();
    let mut known: HashMap<InstanceId, Arc<Instance>> = HashMap::new();
    for instance in &able {
        known.insert(instance.id.clone(), Arc::clone(instance));
    }
    let mut answers = details_of(&engine, able);
    while let Some((id, answer)) = answers.next().await {
        match answer {
            Ok(detail) => {
                // What it could not list it says, and may hold something.
                left_out.extend(
                    detail
                        .problems
                        .iter()
                        .filter(|p| p.contains("snapshot"))
                        .map(|why| LeftOut {
                            what: id.to_string(),
                            why: why.clone(),
                        }),
                );
                let names = expired(&detail.snapshots, now);
                if let (false, Some(instance)) = (names.is_empty(), known.remove(&id)) {
                    let request = Request::Snapshot(SnapshotRequest::Delete { names });
                    wanted.push((instance, request));
                }
            }
            Err(error) => left_out.push(LeftOut {
                what: id.to_string(),
                why: error.message,
            }),
        }
    }
    drop(answers);
    let mut shape = Shape::of(&action)?;
    if wanted.is_empty() {
        return nothing(&engine, action, shape, left_out);
    }
    let count: usize = wanted
        .iter()
        .map(|(_, request)| match request {
            Request::Snapshot(SnapshotRequest::Delete { names }) => names.len(),
            _ => 0,
        })
        .sum();
    shape.ask = format!("Remove {} of", counted(count, "expired snapshot"));
    let jobs = prepare_all(&engine, wanted).await?;
    finish(&engine, action, shape, jobs, left_out)
}

/// Who is looked at. Without a selector a context that does not answer holds up no other.
async fn everyone(
    engine: &Arc<Engine>,
    action: &Action,
) -> Result<(Vec<Arc<Instance>>, Vec<LeftOut>)> {
    let mut asked = action.clone();
    let all = asked.targets.is_empty() && asked.scope.filter.is_none();
    if all {
        asked.targets.push("*".parse::<Selector>()?);
        asked.scope.allow_partial = true;
    }
    match resolve(engine, &asked, Purpose::Change).await {
        Ok(resolved) => Ok((resolved.targets, resolved.left_out)),
        Err(error) if all && error.kind == ErrorKind::NotFound => Ok((Vec::new(), Vec::new())),
        Err(error) => Err(error),
    }
}

fn expired(snapshots: &[Snapshot], now: Timestamp) -> Vec<String> {
    let over = |s: &&Snapshot| s.expires_at.is_some_and(|end| end <= now);
    let mut all: Vec<&Snapshot> = snapshots.iter().filter(over).collect();
    all.sort_by_key(|s| (s.created_at, s.name.as_str()));
    all.into_iter().map(|s| s.name.clone()).collect()
}

/// A task that finds nothing to do is done.
fn nothing(
    engine: &Arc<Engine>,
    action: Action,
    shape: Shape,
    left_out: Vec<LeftOut>,
) -> Result<Planned> {
    let id = InstanceId::new(".corral", Some("gc"), "corral");
    let kind = Kind::new("corral");
    let stub = Instance::new(id, kind, InstanceKind::Vm, State::Unknown, Timestamp::now());
    let prepared = Prepared::unchanged("", "nothing has expired");
    let works: Vec<(Arc<Instance>, Prepared, Arc<dyn LocalWork>)> =
        vec![(Arc::new(stub), prepared, Arc::new(Nothing))];
    let mut planned = plan_local(engine, action, shape, works)?;
    planned.plan.left_out = left_out;
    Ok(planned)
}

struct Nothing;

#[async_trait]
impl LocalWork for Nothing {
    async fn run(&self, _: &TaskCx, _: Prepared) -> Result<Outcome> {
        Ok(Outcome::unchanged("nothing has expired"))
    }
}
