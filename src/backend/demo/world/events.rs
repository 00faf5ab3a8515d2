//! What a server recorded.

use super::World;
use crate::backend::contract::Change;
use crate::model::{Event, EventLevel, InstanceId, State, shown};

/// Events kept for `recorded`.
const KEPT_EVENTS: usize = 1000;

impl World {
    /// Writes an event down and tells the watchers.
    pub(crate) fn report(&self, id: &InstanceId, level: EventLevel, kind: &str, message: &str) {
        let event = Event {
            at: self.now(),
            context: self.name().to_owned(),
            instance: Some(id.clone()),
            level,
            kind: kind.to_owned(),
            message: message.to_owned(),
        };
        let mut inner = self.lock();
        if inner.events.len() >= KEPT_EVENTS {
            inner.events.remove(0);
        }
        inner.events.push(event.clone());
        drop(inner);
        self.tell(Change::Event(event));
    }

    pub(crate) fn events(&self, id: Option<&InstanceId>) -> Vec<Event> {
        self.lock()
            .events
            .iter()
            .filter(|e| id.is_none() || e.instance.as_ref() == id)
            .cloned()
            .collect()
    }

    /// What had happened before the context was opened.
    pub(super) fn remember_the_past(&self) {
        let now = self.now();
        let mut inner = self.lock();
        let mut past = Vec::new();
        for guest in inner.guests.values() {
            let event = |at, level, kind: &str, message: String| Event {
                at,
                context: self.spec.name.clone(),
                instance: Some(guest.id().clone()),
                level,
                kind: kind.to_owned(),
                message,
            };
            let name = shown(&guest.base.name);
            if let Some(at) = guest.started_at {
                past.push(event(
                    at,
                    EventLevel::Info,
                    "started",
                    format!("{name} was started"),
                ));
            }
            match (guest.state(), &guest.base.reason) {
                (State::Crashed | State::Broken, Some(why)) => {
                    past.push(event(now, EventLevel::Error, "failed", why.clone()));
                }
                (State::Paused, Some(why)) => {
                    past.push(event(now, EventLevel::Warn, "paused", why.clone()));
                }
                _ => {}
            }
        }
        past.sort_by_key(|e| e.at);
        let surplus = past.len().saturating_sub(KEPT_EVENTS);
        past.drain(..surplus);
        inner.events = past;
    }
}
