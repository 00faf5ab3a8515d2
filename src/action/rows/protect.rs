//! `protect`: what asks at all asks for the name.

use std::sync::Arc;

use async_trait::async_trait;

use super::super::engine::Engine;
use super::super::planner::{LocalWork, Planned, Shape, plan_local, resolve};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::setter;
use crate::backend::contract::{Prepared, TaskCx};
use crate::fleet::selector::Purpose;
use crate::model::{Action, GroupNoun, Instance, Outcome, Result, Step};

const PROTECT: Row = Row {
    examples: &[
        "protect local/web --on",
        "protect local/web --off --confirm web",
    ],
    details: "Asked for: stop, restart, resize, edit, disk and nic, snapshot restore and delete, delete, all \
that has to be confirmed, and a --keep that would delete. Never asked for, protected or not: what takes nothing \
away, as start, resume, snapshot create, backup create, export, ports publish, tag, note and autostart.",
    noun: GroupNoun::Instances,
    targets: Targets::Some,
    fields: &[setter::on("Protects (default)"), setter::off("Releases")],
    ..Row::new(
        "protect",
        Group::Life,
        "Makes an instance ask for its name where others ask for a yes",
        Run::Change(|e, a| Box::pin(plan(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&PROTECT];

struct Protect {
    engine: Arc<Engine>,
    instance: Arc<Instance>,
    on: bool,
}

async fn plan(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let off = !setter::is_on(&action)?;
    let resolved = resolve(&engine, &action, Purpose::Change).await?;
    let mut shape = Shape::of(&action)?;
    if off {
        shape.risk = Risk::TypeName;
        "Release from protection:".clone_into(&mut shape.ask);
    }
    let works = resolved
        .targets
        .into_iter()
        .map(|instance| {
            let token = format!("{}:{}", instance.identity(), instance.protected);
            let held = engine.protection().holds(&instance);
            let prepared = match (off, held) {
                (false, true) => Prepared::unchanged(token, "protected already"),
                (true, false) if instance.protected => Prepared::refused(
                    token,
                    format!(
                        "{} is protected by its context or its backend, not by corral",
                        instance.id
                    ),
                    Some("Look at corral context list, or change it there".to_owned()),
                ),
                (true, false) => Prepared::unchanged(token, "not protected"),
                (false, false) => Prepared::new(
                    token,
                    vec![
                        Step::new("Protects it", "protect.toml: add")
                            .undo(format!("corral protect {} --off", instance.id)),
                    ],
                ),
                (true, true) => Prepared::new(
                    token,
                    vec![
                        Step::new("Releases it", "protect.toml: remove")
                            .undo(format!("corral protect {}", instance.id)),
                    ],
                ),
            };
            let work = Protect {
                engine: Arc::clone(&engine),
                instance: Arc::clone(&instance),
                on: !off,
            };
            (instance, prepared, Arc::new(work) as Arc<dyn LocalWork>)
        })
        .collect();
    plan_local(&engine, action, shape, works)
}

#[async_trait]
impl LocalWork for Protect {
    async fn run(&self, _: &TaskCx, _: Prepared) -> Result<Outcome> {
        self.engine.protection().set(&self.instance, self.on)?;
        self.engine
            .fleet()
            .set_protected(self.engine.protection().identities());
        Ok(Outcome::changed(if self.on {
            "protected"
        } else {
            "released"
        }))
    }
}
