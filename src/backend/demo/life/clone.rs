//! Another instance like this one.

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::changes::family;
use super::super::dialect::Dialect;
use super::super::guest::{Guest, Room};
use super::super::random::Random;
use super::super::work::Work;
use crate::backend::contract::{CloneRequest, Prepared};
use crate::model::{Error, InstanceId, Operation, Result, State, Support, shown};

family!(CloneRequest, "clone.prepare", clone_of);

impl Demo {
    fn clone_of(&self, guest: &Guest, request: CloneRequest) -> Result<Prepared> {
        let world = &self.world;
        let dialect = world.dialect;
        let id = guest.id();
        if let Some(refused) = self.cannot_be_named(guest, &request.name)? {
            return Ok(refused);
        }
        if let Some(name) = &request.snapshot
            && guest.snapshot(name).is_none()
        {
            return Err(
                Error::not_found(format!("{id} has no snapshot {}", shown(name)))
                    .remedy(format!("See: corral snapshot list {id}"))
                    .in_context(world.name()),
            );
        }
        if request.linked
            && let Some(refused) = self.cannot_be_linked(guest, request.snapshot.as_deref())
        {
            return Ok(refused);
        }
        let from_present = request.snapshot.is_none();
        if from_present
            && dialect.needs_off(Operation::Clone)
            && let Some(mut refused) = Self::must_be_off(guest)
        {
            for refusal in &mut refused.refusals {
                if let Some(remedy) = &mut refusal.remedy {
                    remedy.push_str(", or clone a snapshot of it: --snapshot NAME");
                }
            }
            return Ok(refused);
        }
        let new = self.new_id(id, &request.name);
        let draft = self.copy(guest, &new, &request.name, request.linked);
        let mut acts = vec![Act::Clone {
            to: new.clone(),
            name: request.name,
            linked: request.linked,
            snapshot: request.snapshot,
        }];
        if request.start {
            acts.push(Act::Start);
        }
        let mut work = Work::new(acts, format!("{new} is made"));
        work.draft = Some(draft);
        let mut prepared = work.plan(world, guest);
        prepared
            .notes
            .push("It gets MAC addresses of its own".into());
        prepared.notes.push(if request.keep_identity {
            "Machine ID, SSH host keys and host name stay those of the original".into()
        } else {
            "Machine ID, SSH host keys and host name are made anew at its first start".into()
        });
        if request.linked {
            prepared.notes.push(format!(
                "{id} has to stay: the new disks are overlays of its own"
            ));
        }
        if from_present && guest.state() == State::Running {
            prepared
                .notes
                .push("It runs: the copy is as after a power cut".into());
        }
        Ok(prepared)
    }

    fn cannot_be_linked(&self, guest: &Guest, snapshot: Option<&str>) -> Option<Prepared> {
        let dialect = self.world.dialect;
        let id = guest.id();
        let row = guest.row(dialect, self.world.now(), self.world.knobs.seed);
        if matches!(dialect, Dialect::Virtualbox | Dialect::Vsphere) {
            return snapshot.is_none().then(|| {
                Self::refuse(
                    guest,
                    format!("{id}: a linked clone stands on a snapshot here"),
                    "Add --snapshot NAME, or leave --linked out.",
                )
            });
        }
        let why = match dialect.support(Operation::LinkedClone, Some(&row)) {
            Support::Conditional(why) if !guest.state().is_active() => why,
            _ => return None,
        };
        Some(Self::refuse(
            guest,
            format!("{id}: no linked clone: {why}"),
            "Leave --linked out.",
        ))
    }

    /// The guest as another one, off.
    pub(crate) fn copy(&self, guest: &Guest, id: &InstanceId, name: &str, linked: bool) -> Guest {
        let world = &self.world;
        let now = world.now();
        let mut random = Random::new(world.knobs.seed, &format!("copy {id}"));
        let mut made = guest.clone();
        made.uid = world.with_random(Random::uuid);
        made.uid_known = world.dialect.lists_uid();
        made.revision = 1;
        made.snapshots.clear();
        made.settle();
        made.room = Room::default();
        let (old, new) = (guest.id().key(), id.key());
        for disk in made.disks.iter_mut().filter(|d| d.owned) {
            let own = disk.source.as_ref().map(|source| source.replace(old, new));
            disk.backing = if linked { disk.source.clone() } else { None };
            disk.source = own;
        }
        for nic in &mut made.nics {
            nic.mac = Some(random.mac(world.dialect.mac_prefix()));
        }
        for (n, address) in made.addresses.iter_mut().enumerate() {
            address.ip = format!("10.78.{}.{}", random.below(250), 2 + n);
        }
        let base = &mut made.base;
        base.id = id.clone();
        name.clone_into(&mut base.name);
        base.namespace = id.namespace();
        base.reason = None;
        base.locked = None;
        base.template = false;
        base.protected = false;
        base.created_at = Some(now);
        base.native_state = None;
        // Two cannot listen at one port.
        if let Some(ports) = &mut base.ports {
            ports.clear();
        }
        made.enter(State::Stopped, now);
        made.sum_up();
        made
    }
}
