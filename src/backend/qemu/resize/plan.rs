//! What a resize comes to: now, at a restart, or not at all.

use super::super::argv::DIMMS;
use super::super::definition::{Definition, MOST_CPUS, MOST_MEMORY, sizes_fit};
use super::super::started::cpus;
use super::live::Now;
use crate::backend::contract::ResizeRequest;
use crate::model::{Bytes, Error, InstanceId, Result, Step};

/// A guest with less is killed by its own kernel sooner or later.
const FLOOR: Bytes = Bytes::mib(128);
/// Guests take memory in blocks of this size.
pub const MODULE: u64 = 128 << 20;

/// What is done to a running process, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// CPUs to plug in.
    pub add_cpus: u32,
    /// What the balloon is to leave to the guest.
    pub balloon: Option<Bytes>,
    /// A module of memory to plug in, and its number.
    pub module: Option<(usize, Bytes)>,
}

impl Steps {
    /// Nothing is done.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Checks the numbers and gives the definition as it is to be. Modules are gone where the size is
/// another one: at a start all memory is there from the beginning.
///
/// # Errors
/// `Invalid` for what no machine can have.
pub fn wanted(vm: &Definition, request: &ResizeRequest) -> Result<Definition> {
    let mut after = vm.clone();
    if let Some(n) = request.cpus {
        after.cpus = n;
    }
    if let Some(size) = request.memory
        && size != after.memory
    {
        after.memory = size;
        after.dimms.clear();
    }
    sizes_fit(after.cpus, after.memory).map_err(|(_, error)| error)?;
    let whole = |size: Bytes| size.0.is_multiple_of(1 << 20);
    if let Some(max) = request.max_cpus {
        if max > MOST_CPUS || max < after.cpus {
            return Err(Error::invalid(format!(
                "--max-cpus {max} is not between the {} it has and {MOST_CPUS}",
                after.cpus
            )));
        }
        after.max_cpus = (max > after.cpus).then_some(max);
    }
    if let Some(max) = request.max_memory {
        if max > MOST_MEMORY || max < after.memory || !whole(max) {
            return Err(Error::invalid(format!(
                "--max-memory {max} is less than the {} it has, too much, or no whole MiB",
                after.memory
            )));
        }
        after.max_memory = (max > after.memory).then_some(max);
    }
    if !whole(after.memory) {
        return Err(Error::invalid(format!(
            "{} of memory is no whole number of MiB",
            after.memory.exact()
        )));
    }
    // Room that was given once is kept.
    after.max_cpus = after.max_cpus.map(|max| max.max(after.cpus));
    after.max_memory = after.max_memory.map(|max| max.max(after.memory));
    Ok(after)
}

/// What can be done to a running process, and why the rest cannot.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// What is done now.
    pub steps: Steps,
    /// What needs a restart, each with its reason.
    pub restart: Vec<String>,
}

/// How a running process comes to the wanted size. `running` is the definition as it has it.
///
/// # Errors
/// `Refused` for what would kill the guest.
pub fn way(now: &Now, running: &Definition, after: &Definition) -> Result<Way> {
    let mut way = Way::default();
    if after.cpus < now.cpus {
        way.restart.push(format!(
            "CPUs cannot be taken from a running guest (it has {})",
            now.cpus
        ));
    } else {
        let more = after.cpus - now.cpus;
        if more as usize <= now.free.len() {
            way.steps.add_cpus = more;
        } else {
            way.restart.push(format!(
                "it was started with room for {}",
                cpus(now.cpus + u32::try_from(now.free.len()).unwrap_or_default())
            ));
        }
    }
    let total = now.total();
    if after.memory <= total {
        if now.usable() != after.memory {
            if now.balloon.is_none() {
                way.restart.push("it has no balloon".to_owned());
                return Ok(way);
            }
            if after.memory < FLOOR {
                return Err(Error::refused(format!(
                    "{} is too little for a guest that runs: its kernel would kill programs, or itself",
                    after.memory
                ))
                .remedy(format!("Take {FLOOR} or more, or stop it first")));
            }
            way.steps.balloon = Some(after.memory);
        }
        return Ok(way);
    }
    let more = after.memory.0 - total.0;
    let room = running
        .max_memory
        .is_some_and(|max| max >= after.memory && max > running.base_memory().0);
    if !room {
        way.restart.push(match running.max_memory {
            Some(max) => format!("it was started with room for {max} of memory"),
            None => format!("it was started with {total} of memory and no room for more"),
        });
    } else if running.dimms.len() >= DIMMS {
        way.restart
            .push(format!("all of its {DIMMS} memory slots are taken"));
    } else if !more.is_multiple_of(MODULE) {
        let less = Bytes(total.0 + more / MODULE * MODULE);
        let next = Bytes(total.0 + more.div_ceil(MODULE) * MODULE);
        let near = match (
            less > total,
            running.max_memory.is_some_and(|max| next <= max),
        ) {
            (true, true) => format!("{} or {}", less.exact(), next.exact()),
            (true, false) => less.exact(),
            (false, true) => next.exact(),
            (false, false) => "nothing".to_owned(),
        };
        way.restart.push(format!(
            "memory is added in blocks of {}: {near} is possible now",
            Bytes(MODULE)
        ));
    } else {
        // A guest gets back what it gave before it gets more.
        if now.balloon.is_some() && now.usable() < total {
            way.steps.balloon = Some(total);
        }
        way.steps.module = Some((running.dimms.len(), Bytes(more)));
    }
    Ok(way)
}

/// The definition after the steps were done: memory that was plugged in stays where it is.
pub fn settled(running: &Definition, after: &Definition, steps: &Steps) -> Definition {
    let mut vm = after.clone();
    if let Some((_, size)) = steps.module {
        vm.dimms.clone_from(&running.dimms);
        vm.dimms.push(size);
    } else if vm.memory == running.memory {
        vm.dimms.clone_from(&running.dimms);
    }
    vm
}

/// The calls, in words that stay while the guest still moves its balloon: a plan is made again
/// before it runs, and has to be the same.
pub fn calls(id: &InstanceId, vm: &Definition, now: &Now, steps: &Steps) -> Vec<Step> {
    let mut out = Vec::new();
    if let Some(to) = steps.balloon {
        let had = vm.memory.exact();
        out.push(
            Step::new(
                format!("Ask the guest of {id} to keep {to}, and wait"),
                format!("QMP balloon {{\"value\": {}}}", to.0),
            )
            .undo(format!("corral resize {id} --memory {had}")),
        );
    }
    if let Some((number, size)) = steps.module {
        out.push(Step::new(
            format!("Make {size} of memory"),
            format!(
                "QMP object-add memory-backend-ram id=mem{number} size={}",
                size.0
            ),
        ));
        out.push(Step::new(
            "Plug it in",
            format!("QMP device_add pc-dimm id=dimm{number} memdev=mem{number}"),
        ));
    }
    for (n, place) in now.free.iter().enumerate().take(steps.add_cpus as usize) {
        let place = serde_json::Value::Object(place.clone());
        out.push(Step::new(
            format!("Plug CPU {} in", now.cpus as usize + n + 1),
            format!("QMP device_add {place}"),
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::super::definition::tests::sample;
    use super::*;

    fn now(cpus: u32, free: usize) -> Now {
        Now {
            cpus,
            free: vec![serde_json::Map::new(); free],
            base: Bytes::mib(256),
            plugged: Bytes(0),
            balloon: Some(Bytes::mib(256)),
        }
    }

    fn ask(cpus: Option<u32>, memory: Option<u64>) -> ResizeRequest {
        ResizeRequest {
            cpus,
            memory: memory.map(Bytes::mib),
            ..ResizeRequest::default()
        }
    }

    fn vm() -> Definition {
        let mut vm = sample("a", Path::new("/d"));
        vm.max_cpus = Some(4);
        vm.max_memory = Some(Bytes::gib(1));
        vm
    }

    #[test]
    fn what_goes_now_and_what_needs_a_restart() {
        let vm = vm();
        let to = |cpus, memory| {
            let after = wanted(&vm, &ask(cpus, memory)).unwrap();
            way(&now(1, 3), &vm, &after)
        };
        assert!(to(Some(1), Some(256)).unwrap().steps.is_empty());
        let up = to(Some(3), Some(512)).unwrap();
        assert_eq!(up.steps.add_cpus, 2);
        assert_eq!(up.steps.module, Some((0, Bytes::mib(256))));
        assert!(up.restart.is_empty());
        let down = to(None, Some(200)).unwrap();
        assert_eq!(down.steps.balloon, Some(Bytes::mib(200)));
        for (cpus, memory, why) in [
            (Some(5), None, "room for 4 CPUs"),
            (None, Some(2048), "room for 1.0 GiB"),
            (None, Some(300), "blocks of 128 MiB: 384M is possible"),
            (None, Some(700), "640M or 768M"),
        ] {
            let way = to(cpus, memory).unwrap();
            assert!(way.steps.is_empty(), "{way:?}");
            assert!(way.restart[0].contains(why), "{way:?}");
        }
        let after = wanted(&vm, &ask(Some(1), None)).unwrap();
        let fewer = way(&now(2, 2), &vm, &after).unwrap();
        assert!(fewer.restart[0].contains("cannot be taken"));
        assert!(to(None, Some(64)).is_err());
    }

    #[test]
    fn modules_stay_where_they_are_until_the_size_is_another() {
        let mut running = vm();
        let grown = wanted(&running, &ask(None, Some(512))).unwrap();
        let first = way(&now(1, 3), &running, &grown).unwrap();
        let vm = settled(&running, &grown, &first.steps);
        assert_eq!(vm.dimms, [Bytes::mib(256)]);
        assert_eq!(vm.base_memory().0, Bytes::mib(256));
        running = vm.clone();
        let mut now = now(1, 3);
        now.plugged = Bytes::mib(256);
        now.balloon = Some(Bytes::mib(512));
        let less = wanted(&vm, &ask(None, Some(400))).unwrap();
        let steps = way(&now, &running, &less).unwrap().steps;
        assert_eq!(steps.balloon, Some(Bytes::mib(400)));
        let small = settled(&running, &less, &steps);
        assert!(small.dimms.is_empty());
        now.balloon = Some(Bytes::mib(400));
        let back = wanted(&small, &ask(None, Some(512))).unwrap();
        let steps = way(&now, &running, &back).unwrap().steps;
        assert_eq!(steps.balloon, Some(Bytes::mib(512)));
        assert_eq!(settled(&running, &back, &steps).dimms, [Bytes::mib(256)]);
    }

    #[test]
    fn a_plan_stays_the_same_while_the_balloon_moves() {
        let vm = vm();
        let id = InstanceId::new("local", None, "a");
        let plan = |left| {
            let mut now = now(1, 3);
            now.balloon = Some(Bytes::mib(left));
            let after = wanted(&vm, &ask(None, Some(160))).unwrap();
            calls(&id, &vm, &now, &way(&now, &vm, &after).unwrap().steps)
        };
        let begun = plan(256);
        assert_eq!(begun.len(), 1);
        assert_eq!(
            begun[0].undo.as_deref(),
            Some("corral resize local/a --memory 256M")
        );
        for left in [200, 161, 150] {
            assert_eq!(plan(left), begun, "{left}");
        }
    }

    #[test]
    fn numbers_that_no_machine_has_are_refused() {
        let vm = vm();
        for request in [
            ask(Some(0), None),
            ask(Some(256), None),
            ask(None, Some(1)),
            ResizeRequest {
                memory: Some(Bytes((1 << 30) + 512)),
                ..ResizeRequest::default()
            },
            ResizeRequest {
                cpus: Some(4),
                max_cpus: Some(2),
                ..ResizeRequest::default()
            },
            ResizeRequest {
                max_memory: Some(Bytes::mib(128)),
                ..ResizeRequest::default()
            },
        ] {
            assert!(wanted(&vm, &request).is_err(), "{request:?}");
        }
        let more = wanted(&vm, &ask(Some(8), Some(2048))).unwrap();
        assert_eq!(
            (more.max_cpus, more.max_memory),
            (Some(8), Some(Bytes::gib(2)))
        );
    }
}
