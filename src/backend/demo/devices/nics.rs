//! Network interfaces.

use super::super::act::Act;
use super::super::backend::Demo;
use super::super::changes::family;
use super::super::dialect::Dialect;
use super::super::guest::Guest;
use super::super::random::Random;
use super::super::work::Work;
use crate::backend::contract::{NicRequest, Prepared};
use crate::model::{Nic, Operation, shown};

family!(NicRequest, "nics.prepare", change_nics);

impl Demo {
    fn change_nics(&self, guest: &Guest, request: NicRequest) -> Prepared {
        let dialect = self.world.dialect;
        let (prepared, hot) = match request {
            NicRequest::Add {
                network,
                model,
                mac,
            } => (
                self.attach_nic(guest, network, model, mac),
                Operation::NicAdd,
            ),
            NicRequest::Remove { nic } => (self.detach_nic(guest, &nic), Operation::NicRemove),
        };
        let changes = prepared.refusals.is_empty() && !prepared.unchanged;
        if changes
            && dialect.needs_off(hot)
            && let Some(refused) = Self::must_be_off(guest)
        {
            return refused;
        }
        prepared
    }

    fn attach_nic(
        &self,
        guest: &Guest,
        network: Option<String>,
        model: Option<String>,
        mac: Option<String>,
    ) -> Prepared {
        let world = &self.world;
        let dialect = world.dialect;
        let id = guest.id();
        let kind = guest.base.kind;
        if let Some(network) = &network
            && let Some(which) = dialect.lacks_network(kind, network)
        {
            return Self::refuse(
                guest,
                format!("{} has no network {}", world.name(), shown(network)),
                which,
            );
        }
        let mac = match mac {
            None => {
                let seed = format!("nic {id} {}", guest.revision);
                Random::new(world.knobs.seed, &seed).mac(dialect.mac_prefix())
            }
            Some(mac) => match tidy(&mac) {
                Some(mac) => mac,
                None => {
                    return Self::refuse(
                        guest,
                        format!("{} is no MAC address of one machine", shown(&mac)),
                        "Write it like 52:54:00:12:34:56.",
                    );
                }
            },
        };
        if world.taken(|g| g.nics.iter().any(|n| n.mac.as_deref() == Some(&mac))) {
            return Self::refuse(
                guest,
                format!("another NIC has {mac} already"),
                "Choose another --mac, or leave it out.",
            );
        }
        let n = (0..1000)
            .find(|n| {
                let name = dialect.nic_at(kind, *n).0;
                guest.nics.iter().all(|nic| nic.name != name)
            })
            .unwrap_or(0);
        let (name, default, usual) = dialect.nic_at(kind, n);
        let nic = Nic {
            name: name.clone(),
            mac: Some(mac),
            network: Some(network.unwrap_or(default)),
            model: Some(model.unwrap_or(usual)),
            addresses: Vec::new(),
        };
        let act = Act::AddNic { nic: Box::new(nic) };
        let done = format!("{id} has NIC {}", shown(&name));
        let mut prepared = Work::new(vec![act], done).plan(world, guest);
        if dialect == Dialect::Kubevirt && guest.state().is_active() {
            prepared
                .notes
                .push("It is plugged by a live migration to another node".into());
        }
        prepared
    }

    fn detach_nic(&self, guest: &Guest, which: &str) -> Prepared {
        let id = guest.id();
        let wanted = which.to_lowercase();
        let found = guest
            .nics
            .iter()
            .find(|n| n.name == which || n.mac.as_deref() == Some(wanted.as_str()));
        let Some(nic) = found else {
            return Prepared::unchanged(guest.token(), format!("{id} has no NIC {}", shown(which)));
        };
        let act = Act::RemoveNic {
            slot: nic.name.clone(),
            mac: nic.mac.clone().unwrap_or_default(),
        };
        let done = format!("{id} has lost NIC {}", shown(&nic.name));
        let mut prepared = Work::new(vec![act], done).plan(&self.world, guest);
        if guest.nics.len() == 1 {
            prepared
                .notes
                .push("It is the last one: nothing reaches it by the network then".into());
        }
        prepared
    }
}

/// A MAC in lower case with colons; `None` for what is none, or names many machines.
fn tidy(mac: &str) -> Option<String> {
    let mac = mac.trim().to_lowercase().replace('-', ":");
    let parts: Vec<u8> = mac
        .split(':')
        .map(|part| {
            u8::from_str_radix(part, 16)
                .ok()
                .filter(|_| part.len() == 2)
        })
        .collect::<Option<_>>()?;
    let one = parts.len() == 6 && parts[0] & 1 == 0 && parts.iter().any(|b| *b != 0);
    one.then_some(mac)
}
