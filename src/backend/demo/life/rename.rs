//! Another name.

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::changes::family;
use super::super::dialect::Dialect;
use super::super::guest::Guest;
use super::super::work::Work;
use crate::backend::contract::{Prepared, RenameRequest};
use crate::model::{Error, Operation, Result, shown};

family!(RenameRequest, "rename.prepare", rename);

impl Demo {
    fn rename(&self, guest: &Guest, request: RenameRequest) -> Result<Prepared> {
        let world = &self.world;
        let id = guest.id();
        let to = request.to;
        if to == guest.base.name {
            return Ok(Prepared::unchanged(
                guest.token(),
                format!("{id} has this name already"),
            ));
        }
        if let Some(refused) = self.cannot_be_named(guest, &to)? {
            return Ok(refused);
        }
        if world.dialect.needs_off(Operation::Rename)
            && let Some(refused) = Self::must_be_off(guest)
        {
            return Ok(refused);
        }
        let new = if world.dialect.is_keyed_by_name() {
            self.new_id(id, &to)
        } else {
            id.clone()
        };
        let done = if new == *id {
            format!("{id} is named {}", shown(&to))
        } else {
            format!("{id} is {new} now")
        };
        let keyed = new != *id;
        let act = Act::Rename {
            to,
            id: new.clone(),
        };
        let mut prepared = Work::new(vec![act], done).plan(world, guest);
        if keyed {
            prepared.notes.push(format!("Its ID becomes {new}"));
        }
        Ok(prepared)
    }

    /// What speaks against `name` for a new or another instance.
    pub(super) fn cannot_be_named(&self, guest: &Guest, name: &str) -> Result<Option<Prepared>> {
        let world = &self.world;
        if let Some(why) = world.dialect.bad_name(name) {
            return Err(Error::invalid(format!("{:?}: {why}", shown(name)))
                .remedy("Choose another name.")
                .in_context(world.name()));
        }
        let id = self.new_id(guest.id(), name);
        let taken = world.taken(|g| {
            (world.dialect.is_keyed_by_name() && *g.id() == id)
                || (g.base.name == name && world.dialect.has_unique_names())
        });
        Ok(taken.then(|| {
            Self::refuse(
                guest,
                format!("{} has an instance {} already", world.name(), shown(name)),
                "Choose another name.",
            )
        }))
    }
}

impl Dialect {
    /// The ID follows the name.
    pub(crate) const fn is_keyed_by_name(self) -> bool {
        matches!(
            self,
            Self::Qemu | Self::Libvirt | Self::Incus | Self::Kubevirt | Self::Peer
        )
    }
}
