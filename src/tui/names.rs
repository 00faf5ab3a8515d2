//! Names that the view knows, for completion.

use super::app::App;
use super::reading::Reading;
use crate::action::complete::{Candidates, Names, Seen};
use crate::action::fleet_api::filter::{Known, complete};
use crate::model::{Body, Detail};

/// What is on the screen or was, by name.
pub struct InView<'a>(&'a App, Option<&'a Detail>);

impl<'a> InView<'a> {
    /// Of a view.
    pub fn of(app: &'a App) -> Self {
        Self(app, None)
    }

    /// With what is known besides of an instance.
    pub fn with(app: &'a App, detail: Option<&'a Detail>) -> Self {
        Self(app, detail)
    }

    fn detail(&self, id: &str) -> Option<&Detail> {
        let shown = self.0.detail.detail.value.as_ref();
        let shown = shown.map(|(_, detail)| detail.as_ref());
        let known = self.1.into_iter().chain(shown);
        known
            .into_iter()
            .find(|detail| detail.instance.id.to_string() == id)
    }

    fn body(&self, reading: Reading) -> Option<&Body> {
        self.0.readings.body(reading)
    }
}

/// What is said besides a name, as far as something is known.
fn about(parts: &[Option<&str>]) -> String {
    let parts: Vec<&str> = parts.iter().copied().flatten().collect();
    parts.join(" · ")
}

impl Names for InView<'_> {
    fn instances(&self) -> Vec<Seen> {
        let rows = self.0.fleet.instances.iter();
        rows.map(|row| Seen {
            id: row.id.to_string(),
            name: row.name.clone(),
            state: row.state.to_string(),
        })
        .collect()
    }

    fn contexts(&self) -> Vec<String> {
        let all = self.0.fleet.contexts.iter();
        let mut found: Vec<String> = all.map(|c| c.name.clone()).collect();
        found.extend(self.0.setup.beside.disabled.iter().map(|(n, _)| n.clone()));
        found
    }

    fn tasks(&self) -> Candidates {
        let all = self.0.all_tasks().into_iter();
        all.map(|task| {
            let about = format!("{} · {}", task.state.as_str(), task.command);
            (task.id.clone(), about)
        })
        .collect()
    }

    fn snapshots(&self, id: &str) -> Vec<String> {
        let all = match (self.detail(id), self.body(Reading::Snapshots)) {
            (Some(detail), _) => detail.snapshots.as_slice(),
            (None, Some(Body::Snapshots(all))) => all,
            _ => &[],
        };
        all.iter()
            .filter(|snapshot| snapshot.instance.to_string() == id)
            .map(|snapshot| snapshot.name.clone())
            .collect()
    }

    fn filter(&self, typed: &str) -> Candidates {
        let contexts = self.contexts();
        let known = Known {
            rows: self.0.fleet.instances.iter().map(AsRef::as_ref),
            contexts: &contexts,
        };
        complete(typed, known).wholes(typed)
    }

    fn images(&self) -> Candidates {
        let Some(Body::Images(all)) = self.body(Reading::Images) else {
            return Vec::new();
        };
        all.iter()
            .map(|image| {
                let about = about(&[Some(&image.context), image.title.as_deref()]);
                (image.name.clone(), about)
            })
            .collect()
    }

    fn networks(&self) -> Candidates {
        let Some(Body::Networks(all)) = self.body(Reading::Networks) else {
            return Vec::new();
        };
        all.iter()
            .map(|network| {
                let about = about(&[Some(&network.context), Some(&network.kind)]);
                (network.name.clone(), about)
            })
            .collect()
    }

    fn pools(&self) -> Candidates {
        let Some(Body::Pools(all)) = self.body(Reading::Pools) else {
            return Vec::new();
        };
        all.iter()
            .map(|pool| {
                let about = about(&[Some(&pool.context), Some(&pool.kind), pool.place.as_deref()]);
                (pool.name.clone(), about)
            })
            .collect()
    }

    fn hosts(&self) -> Candidates {
        let Some(Body::Hosts(all)) = self.body(Reading::Hosts) else {
            return Vec::new();
        };
        all.iter()
            .map(|host| (host.name.clone(), host.context.clone()))
            .collect()
    }

    fn disks(&self, id: &str) -> Candidates {
        let all = self.detail(id).map(|d| d.disks.as_slice());
        all.unwrap_or_default()
            .iter()
            .map(|disk| (disk.name.clone(), String::new()))
            .collect()
    }

    fn nics(&self, id: &str) -> Candidates {
        let all = self.detail(id).map(|d| d.nics.as_slice());
        all.unwrap_or_default()
            .iter()
            .map(|nic| (nic.name.clone(), nic.mac.clone().unwrap_or_default()))
            .collect()
    }

    // Both are searched.
    fn offers_names(&self) -> bool {
        false
    }
}
