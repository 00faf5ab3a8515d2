//! libvirt's events in words. The server keeps none: what is told while somebody watches is written down by the fleet.

use jiff::Timestamp;

use super::ctx::Ctx;
use super::wire::Happened;
use crate::model::{Event, EventLevel, shown};

/// An event of the fleet; `None` for what happens all the time and tells nothing.
pub fn translate(ctx: &Ctx, happened: &Happened) -> Option<Event> {
    let (level, kind, message) = words(happened)?;
    Some(Event {
        at: Timestamp::now(),
        context: ctx.spec.name.clone(),
        instance: Some(ctx.id(&happened.name)),
        level,
        kind: kind.to_owned(),
        message,
    })
}

fn words(happened: &Happened) -> Option<(EventLevel, &'static str, String)> {
    use EventLevel::{Error, Info, Warn};
    let text = |n: usize| {
        let text = happened.texts.get(n).map_or("?", String::as_str);
        shown(text).into_owned()
    };
    let said = match happened.kind.as_str() {
        "lifecycle" => return lifecycle(happened.what, happened.detail),
        "reboot" => (Info, "reboot", "the guest rebooted".to_owned()),
        "agent-lifecycle" => match happened.what {
            1 => (
                Info,
                "agent-connected",
                "the guest agent answers".to_owned(),
            ),
            _ => (
                Info,
                "agent-disconnected",
                "the guest agent is silent".to_owned(),
            ),
        },
        "device-added" => (Info, "device-added", format!("{} was added", text(0))),
        "device-removed" => (Info, "device-removed", format!("{} was removed", text(0))),
        "device-removal-failed" => (
            Warn,
            "device-removal-failed",
            format!("the guest does not let go of {}", text(0)),
        ),
        "io-error" => {
            let reason = match text(2).as_str() {
                "" => "the reason is not told".to_owned(),
                "enospc" => "no space".to_owned(),
                other => other.to_owned(),
            };
            let paused = if happened.what == 1 {
                "; the guest is paused"
            } else {
                ""
            };
            let message = format!("I/O error on {} ({}): {reason}{paused}", text(1), text(0));
            (Error, "io-error", message)
        }
        "watchdog" => (Warn, "watchdog", "the guest's watchdog fired".to_owned()),
        "control-error" => (Error, "control-error", "its monitor failed".to_owned()),
        "disk-change" => (
            Warn,
            "disk-change",
            format!("the medium of {} changed", text(0)),
        ),
        "metadata-change" => (
            Info,
            "metadata-change",
            "its description was changed".to_owned(),
        ),
        _ => return None,
    };
    Some(said)
}

/// `virDomainEventType` and its details.
fn lifecycle(what: i32, detail: i32) -> Option<(EventLevel, &'static str, String)> {
    use EventLevel::{Error, Info, Warn};
    let said = match (what, detail) {
        (0, 0) => (Info, "defined", "defined"),
        (0, 1) => (Info, "updated", "its definition was changed"),
        (0, 2) => (Info, "renamed", "renamed"),
        (0, _) => (Info, "defined", "defined anew"),
        (1, 1) => (Info, "undefined", "it is called otherwise now"),
        (1, _) => (Info, "undefined", "its definition was taken away"),
        (2, 1) => (Info, "started", "arrived by a migration"),
        (2, 2) => (Info, "started", "goes on from saved memory"),
        (2, 3) => (Info, "started", "started from a snapshot"),
        (2, 4) => (Info, "started", "woken"),
        (2, _) => (Info, "started", "started"),
        (3, 1) => (Info, "suspended", "paused by a migration"),
        (3, 2) => (Error, "suspended", "paused by an I/O error"),
        (3, 3) => (Warn, "suspended", "paused by its watchdog"),
        (3, _) => (Info, "suspended", "paused"),
        (4, 1) => (Info, "resumed", "goes on after a migration"),
        (4, 2) => (Info, "resumed", "goes on from a snapshot"),
        (4, _) => (Info, "resumed", "goes on"),
        (5, 0) => (Info, "stopped", "shut down"),
        (5, 1) => (Info, "stopped", "powered off"),
        (5, 2) => (Error, "stopped", "crashed"),
        (5, 3) => (Info, "stopped", "left by a migration"),
        (5, 4) => (Info, "stopped", "saved to disk"),
        (5, 5) => (Error, "stopped", "failed"),
        (5, 6) => (Info, "stopped", "stopped by a snapshot"),
        (5, _) => (Info, "stopped", "stopped"),
        (6, 1) => (Info, "shutdown", "the guest shuts down"),
        (6, 2) => (Info, "shutdown", "the host shuts it down"),
        (6, _) => (Info, "shutdown", "shuts down"),
        (7, _) => (Info, "sleeps", "the guest went to sleep"),
        (8, _) => (Error, "crashed", "the guest's kernel panicked"),
        _ => return None,
    };
    Some((said.0, said.1, said.2.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_no_event_and_texts_are_shown() {
        let happened = |kind: &str, what, texts: &[&str]| Happened {
            kind: kind.to_owned(),
            uuid: String::new(),
            name: "a".to_owned(),
            what,
            detail: 0,
            texts: texts.iter().map(|t| (*t).to_owned()).collect(),
        };
        assert!(words(&happened("balloon-change", 0, &[])).is_none());
        assert!(words(&happened("lifecycle", 99, &[])).is_none());
        let (level, _, message) = words(&happened(
            "io-error",
            1,
            &["/a\u{1b}[2J", "virtio-disk0", "enospc"],
        ))
        .unwrap();
        assert_eq!(level, EventLevel::Error);
        assert_eq!(
            message,
            "I/O error on virtio-disk0 (/a\\x1b[2J): no space; the guest is paused"
        );
        assert!(
            words(&happened("io-error", 1, &[]))
                .unwrap()
                .2
                .contains('?')
        );
    }
}
