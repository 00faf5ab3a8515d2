//! CPUs and memory.

use super::super::act::{Act, Sizes};
use super::super::backend::Demo;
use super::super::changes::family;
use super::super::dialect::Dialect;
use super::super::guest::Guest;
use super::super::work::Work;
use crate::backend::contract::{Prepared, ResizeRequest};
use crate::model::{Bytes, State};

family!(ResizeRequest, "resize.prepare", resize);

/// How a running guest takes new sizes.
enum Way {
    Live,
    /// Written down, true from the next start on.
    Pending,
    /// Not at all, and why.
    Restart(String),
}

impl Demo {
    fn resize(&self, guest: &Guest, request: ResizeRequest) -> Prepared {
        let world = &self.world;
        let dialect = world.dialect;
        let id = guest.id();
        let base = &guest.base;
        let mut sizes = Sizes {
            cpus: request.cpus.filter(|n| Some(*n) != base.cpus),
            memory: request.memory.filter(|n| Some(*n) != base.memory_bytes),
            max_cpus: request.max_cpus.filter(|n| Some(*n) != guest.room.cpus),
            max_memory: request.max_memory.filter(|n| Some(*n) != guest.room.memory),
            later: false,
        };
        if let Some(refused) = self.bad_sizes(guest, &request, &sizes) {
            return refused;
        }
        let as_is = Sizes::default();
        let waiting = guest.next.is_some_and(|next| {
            request.cpus.is_none_or(|n| next.cpus == Some(n))
                && request.memory.is_none_or(|n| next.memory == Some(n))
        });
        if sizes == as_is || (waiting && !request.restart) {
            let note = if waiting {
                format!("{id} has these sizes from its next start on")
            } else {
                format!("{id} has these sizes already")
            };
            return Prepared::unchanged(guest.token(), note);
        }
        let done = format!("{id} has {sizes}");
        let up = guest.state().is_active();
        let only_room = sizes.cpus.is_none() && sizes.memory.is_none();
        let way = if up && !only_room {
            dialect.takes(guest, &sizes)
        } else {
            Way::Live
        };
        let mut notes = Vec::new();
        let mut done = done;
        let acts = match way {
            Way::Live => vec![Act::Reconfigure(sizes)],
            Way::Pending if !request.restart => {
                sizes.later = true;
                done = format!("{id} has {sizes} from its next start on");
                notes.push(format!("Pending until: corral restart --cold {id}"));
                vec![Act::Reconfigure(sizes)]
            }
            Way::Pending | Way::Restart(_) if request.restart => {
                if guest.state() == State::Paused {
                    return Self::refuse(
                        guest,
                        format!("{id} is paused and cannot be restarted"),
                        format!("Resume it first: corral resume {id}"),
                    );
                }
                vec![Act::ShutDown, Act::Reconfigure(sizes), Act::Start]
            }
            Way::Pending => Vec::new(),
            Way::Restart(why) => {
                return Self::refuse(
                    guest,
                    format!("{id} is {}: {why}", guest.state()),
                    format!("stop it first: corral stop {id} (or add --restart)"),
                );
            }
        };
        let mut prepared = Work::new(acts, done).plan(world, guest);
        prepared.notes.extend(notes);
        if up && (sizes.max_cpus.is_some() || sizes.max_memory.is_some()) {
            prepared
                .notes
                .push("The headroom is there from its next start on".into());
        }
        prepared
    }

    fn bad_sizes(&self, guest: &Guest, request: &ResizeRequest, sizes: &Sizes) -> Option<Prepared> {
        let dialect = self.world.dialect;
        let id = guest.id();
        let refuse = |message: String, remedy: &str| Some(Self::refuse(guest, message, remedy));
        if request.cpus == Some(0) {
            return refuse(
                format!("{id}: no CPU is too few"),
                "Give at least --cpus 1.",
            );
        }
        if request.memory.is_some_and(|m| m < Bytes::mib(16)) {
            return refuse(
                format!("{id}: less than 16 MiB is too little"),
                "Give more --memory.",
            );
        }
        let over = |now: Option<u64>, most: Option<u64>| matches!((now, most), (Some(n), Some(m)) if n > m);
        let cpus = request.cpus.or(guest.base.cpus);
        let memory = request.memory.or(guest.base.memory_bytes);
        if over(cpus.map(u64::from), request.max_cpus.map(u64::from))
            || over(memory.map(|b| b.0), request.max_memory.map(|b| b.0))
        {
            return refuse(
                format!("{id}: the most is less than the present"),
                "Give a larger --max-cpus or --max-memory.",
            );
        }
        let headroom = sizes.max_cpus.is_some() || sizes.max_memory.is_some();
        if headroom && !dialect.has_headroom() {
            return refuse(
                format!("{id}: nothing is set aside here to grow into"),
                "Leave --max-cpus and --max-memory out.",
            );
        }
        None
    }
}

impl Dialect {
    /// Room to grow into is set aside at the start.
    const fn has_headroom(self) -> bool {
        matches!(
            self,
            Self::Qemu | Self::Libvirt | Self::Kubevirt | Self::Xen | Self::Peer
        )
    }

    fn takes(self, guest: &Guest, sizes: &Sizes) -> Way {
        let base = &guest.base;
        let grows = |new: Option<u64>, now: Option<u64>| match (new, now) {
            (Some(new), Some(now)) => new > now,
            _ => true,
        };
        let cpus = (sizes.cpus.map(u64::from), base.cpus.map(u64::from));
        let memory = (sizes.memory.map(|b| b.0), base.memory_bytes.map(|b| b.0));
        match self {
            Self::Incus | Self::Peer => Way::Live,
            Self::Proxmox => Way::Pending,
            Self::Virtualbox => Way::Restart("VirtualBox changes nothing while it runs".into()),
            Self::Vsphere | Self::Nutanix => {
                if grows(cpus.0, cpus.1) && grows(memory.0, memory.1) {
                    Way::Live
                } else {
                    Way::Restart("nothing is taken away while it runs".into())
                }
            }
            Self::Qemu | Self::Libvirt | Self::Kubevirt | Self::Xen => {
                let room = (
                    guest.room.cpus.map(u64::from).or(cpus.1),
                    guest.room.memory.map(|b| b.0).or(memory.1),
                );
                if grows(cpus.0, room.0) && cpus.0.is_some() {
                    Way::Restart("it has no room for more CPUs".into())
                } else if grows(memory.0, room.1) && memory.0.is_some() {
                    Way::Restart("it has no room for more memory".into())
                } else {
                    Way::Live
                }
            }
        }
    }
}
