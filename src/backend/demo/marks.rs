//! Tags, the note and autostart.

use super::act::Act;
use super::backend::Demo;
use super::changes::family;
use super::dialect::Dialect;
use super::guest::Guest;
use super::work::Work;
use crate::backend::contract::{AutostartRequest, NoteRequest, Prepared, TagsRequest};
use crate::model::shown;

family!(TagsRequest, "tags.prepare", set_tags);
family!(NoteRequest, "notes.prepare", set_note);
family!(AutostartRequest, "autostart.prepare", set_autostart);

impl Demo {
    fn set_tags(&self, guest: &Guest, request: TagsRequest) -> Prepared {
        let id = guest.id();
        for tag in &request.add {
            if let Some(why) = self.world.dialect.bad_tag(tag) {
                return Self::refuse(
                    guest,
                    format!("tag {}: {why}", shown(tag)),
                    "Choose another tag.",
                );
            }
        }
        let mut tags = guest.base.tags.clone();
        tags.retain(|tag| !request.remove.contains(tag));
        for tag in request.add {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        if tags == guest.base.tags {
            return Prepared::unchanged(guest.token(), format!("{id} has these tags already"));
        }
        let done = if tags.is_empty() {
            format!("{id} has no tags")
        } else {
            format!("{id} has the tags {}", shown(&tags.join(" ")))
        };
        Work::new(vec![Act::SetTags { tags }], done).plan(&self.world, guest)
    }

    fn set_note(&self, guest: &Guest, request: NoteRequest) -> Prepared {
        let id = guest.id();
        let text = request.text.filter(|text| !text.is_empty());
        if text == guest.base.note {
            let what = text.map_or("has no note", |_| "has this note already");
            return Prepared::unchanged(guest.token(), format!("{id} {what}"));
        }
        let done = match &text {
            Some(_) => format!("{id} has another note"),
            None => format!("{id} has no note"),
        };
        let mut prepared = Work::new(vec![Act::SetNote { text }], done).plan(&self.world, guest);
        if let Some(old) = &guest.base.note {
            prepared.notes.push(format!("It was: {}", shown(old)));
        }
        prepared
    }

    fn set_autostart(&self, guest: &Guest, request: AutostartRequest) -> Prepared {
        let id = guest.id();
        let on = request.on;
        let how = if on { "starts" } else { "does not start" };
        if guest.base.autostart == Some(on) {
            return Prepared::unchanged(guest.token(), format!("{id} {how} with its host already"));
        }
        if on && guest.base.template {
            return Self::refuse(
                guest,
                format!("{id} is a template: it is not started"),
                format!("Make an instance from it: corral clone {id} NAME"),
            );
        }
        let done = format!("{id} {how} with its host");
        let mut prepared = Work::new(vec![Act::SetAutostart { on }], done).plan(&self.world, guest);
        if on && self.world.dialect == Dialect::Xen {
            prepared.notes.push(
                "Its pool has to have auto_poweron too: xe pool-param-set other-config:auto_poweron=true"
                    .into(),
            );
        }
        prepared
    }
}

impl Dialect {
    /// Why `tag` cannot be a tag.
    fn bad_tag(self, tag: &str) -> Option<&'static str> {
        let all = |fine: fn(char) -> bool| tag.chars().all(fine);
        match self {
            _ if tag.trim().is_empty() => Some("a tag cannot be empty"),
            Self::Kubevirt
                if tag.len() > 63 || !all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) =>
            {
                Some("a label is made of up to 63 letters, digits, - _ and .")
            }
            Self::Proxmox
                if !all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_+.".contains(c)) =>
            {
                Some("a tag is made of a-z, digits, - _ + and . here")
            }
            _ if !all(|c| !c.is_control() && !c.is_whitespace() && c != ',') => {
                Some("a tag holds no spaces, commas and control characters")
            }
            _ => None,
        }
    }
}
