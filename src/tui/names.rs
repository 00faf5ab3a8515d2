//! Names that the view knows, for completion.

use super::app::App;
use super::reading::Reading;
use crate::action::complete::{Candidates, Names, Seen};
use crate::action::fleet_api::filter::{Known, complete};
use crate::model::{Body, Detail};

/// What is on the screen or was, by name.
pub struct InView<'a>(pub &'a App);

impl InView<'_> {
    fn detail(&self, id: &str) -> Option<&Detail> {
        let (_, detail) = self.0.detail.detail.value.as_ref()?;
        (detail.instance.id.to_string() == id).then_some(detail)
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
        let all = self.detail(id).map(|d| d.snapshots.as_slice());
        let all = all.unwrap_or_default().iter();
        all.map(|snapshot| snapshot.name.clone()).collect()
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
