//! What has become of machines since something was asked about them.

use std::collections::HashMap;
use std::sync::Arc;

use super::app::App;
use super::command::Under;
use crate::model::{Instance, InstanceId, Plan};

/// Of so many each is looked for; of more, all are sorted in first.
const FEW: usize = 8;

/// Finds rows of the fleet by ID.
struct Rows<'a> {
    app: &'a App,
    by_id: HashMap<&'a InstanceId, &'a Arc<Instance>>,
}

impl<'a> Rows<'a> {
    fn of(app: &'a App, wanted: usize) -> Self {
        let all = app.fleet.instances.iter().filter(|_| wanted > FEW);
        Self {
            app,
            by_id: all.map(|row| (&row.id, row)).collect(),
        }
    }

    fn get(&self, id: &InstanceId) -> Option<&'a Arc<Instance>> {
        if self.by_id.is_empty() {
            self.app.fleet.get(id)
        } else {
            self.by_id.get(id).copied()
        }
    }
}

/// The rows of a plan's targets as they are now; what is to be made has none.
pub fn seen(app: &App, plan: &Plan) -> Vec<Arc<Instance>> {
    let rows = Rows::of(app, plan.targets.len());
    let found = plan.targets.iter().filter_map(|t| rows.get(&t.id));
    found.cloned().collect()
}

/// What is not as it was when these were seen.
pub fn told(app: &App, seen: &[Arc<Instance>]) -> Vec<String> {
    let rows = Rows::of(app, seen.len());
    let told = seen.iter();
    told.filter_map(|old| of_one(app, rows.get(&old.id), old))
        .collect()
}

fn of_one(app: &App, now: Option<&Arc<Instance>>, old: &Instance) -> Option<String> {
    let id = &old.id;
    let Some(context) = app.fleet.context(id.context()) else {
        return Some(format!("{id}: its context is gone by now"));
    };
    let Some(row) = now else {
        return Some(format!("{id} is gone by now"));
    };
    if old.uid.is_some() && row.identity() != old.identity() {
        return Some(format!("{id} is another machine by now"));
    }
    if context.health.error().is_some() && !old.stale {
        return Some(format!("{id}: its context does not answer any more"));
    }
    let (was, is) = (old.state, row.state);
    (was != is).then(|| format!("{id} is {is} by now, it was {was}"))
}

/// What a menu or a line with `{…}` in it was opened for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    under: Under,
    machines: Vec<String>,
}

impl Aim {
    /// What is under the cursor and marked now.
    pub fn at(app: &App, under: Under) -> Self {
        let ids = under.ids.iter().chain(&under.id);
        let rows = Rows::of(app, under.ids.len());
        let machine = |id: &String| {
            let id: InstanceId = id.parse().ok()?;
            Some(rows.get(&id)?.identity())
        };
        Self {
            machines: ids.filter_map(machine).collect(),
            under,
        }
    }

    /// Why a line must not be carried out on what is there now: it would be done with something else.
    pub fn missed(&self, app: &App, now: Under) -> Option<String> {
        let now = Self::at(app, now);
        if now == *self {
            return None;
        }
        let ids = self.under.ids.iter().chain(&self.under.id);
        let rows = Rows::of(app, self.under.ids.len());
        let mut ids = ids;
        let gone = ids.find(|id| {
            let id = id.parse::<InstanceId>().ok();
            id.is_some_and(|id| rows.get(&id).is_none())
        });
        Some(match gone {
            Some(id) => format!("{id} is gone; nothing was done"),
            None if now.under == self.under => {
                let id = self.under.id.clone().unwrap_or_default();
                format!("{id} is another machine now; nothing was done")
            }
            None => "what is under the cursor is not what it was; nothing was done".to_owned(),
        })
    }
}
