//! CPUs and memory: live within the headroom the machine was started with, and in the definition.

use super::change::{affects, not_hibernated, scripted, settled};
use super::ctx::{Ctx, Seen};
use super::power::{same, start_act, startable, stop_act};
use super::script::{Act, Script};
use super::wire::Call;
use crate::backend::contract::{Prepared, ReadCx, ResizeRequest};
use crate::model::{Bytes, Error, Instance, Refusal, Result};

scripted!(ResizeRequest, resize);

/// Least memory: less boots nothing.
const LEAST: Bytes = Bytes::mib(16);

/// What is wanted, of the definition and of what runs.
struct Wanted {
    cpus: u32,
    max_cpus: u32,
    memory: Bytes,
    max_memory: Bytes,
}

fn wanted(seen: &Seen, request: &ResizeRequest) -> Result<Wanted> {
    let now = &seen.config;
    let unknown = || Error::backend(format!("the size of {} cannot be read", seen.id));
    let (cpus, max_cpus) = (
        now.cpus.ok_or_else(unknown)?,
        now.max_cpus.ok_or_else(unknown)?,
    );
    let memory = now.current_memory.ok_or_else(unknown)?;
    let max_memory = now.memory.ok_or_else(unknown)?;
    let new_cpus = request.cpus.unwrap_or(cpus);
    let new_memory = request.memory.unwrap_or(memory);
    // Without headroom before there is none afterwards, unless it is asked for.
    let most_cpus = match request.max_cpus {
        Some(most) => most,
        None if max_cpus == cpus => new_cpus,
        None => max_cpus.max(new_cpus),
    };
    let most_memory = match request.max_memory {
        Some(most) => most,
        None if max_memory == memory => new_memory,
        None => max_memory.max(new_memory),
    };
    if new_cpus == 0 || most_cpus == 0 {
        return Err(Error::invalid("a machine has at least one CPU"));
    }
    if new_memory < LEAST {
        return Err(
            Error::invalid(format!("{new_memory} of memory is too little"))
                .remedy(format!("Give it at least {LEAST}.")),
        );
    }
    if most_cpus < new_cpus || most_memory < new_memory {
        return Err(Error::invalid("the most is less than what it has now")
            .remedy("Raise --max-cpus and --max-memory, or ask for less."));
    }
    Ok(Wanted {
        cpus: new_cpus,
        max_cpus: most_cpus,
        memory: new_memory,
        max_memory: most_memory,
    })
}

async fn resize(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: ResizeRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    settled(&seen)?;
    let id = &seen.id;
    let wanted = wanted(&seen, &request)?;
    if is_so(&seen, &wanted, &request) {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{id} has this size already"),
        ));
    }
    not_hibernated(&seen)?;
    let (active, persistent) = affects(&seen);
    let needs = if active {
        beyond(&seen, &wanted, &request)
    } else {
        None
    };
    if let Some(why) = &needs
        && !request.restart
    {
        let mut plan = Prepared::new(seen.token(), Vec::new());
        let command = command(&seen, &request);
        let remedy = format!("Restart it for that: {command} --restart");
        plan.refusals.push(Refusal::new(why.clone(), Some(remedy)));
        return Ok(plan);
    }
    let live = active && needs.is_none();
    let undo = undo(&seen, &request);
    let mut script = Script::on(&seen, format!("{id} has its new size"));
    if persistent {
        script = script.acts(in_definition(&seen, &wanted, live));
    }
    script = script.acts(while_it_runs(&seen, &wanted, live, persistent, &undo));
    if needs.is_some() {
        super::change::persistent(&seen)?;
        startable(&seen)?;
        script = script
            .act(stop_act(&seen, None))
            .act(start_act(&seen, false));
    }
    let mut plan = script.prepared(ctx, cx).await?;
    if live && (request.max_cpus.is_some() || request.max_memory.is_some()) {
        plan.notes
            .push("the most it can have counts from its next start on".to_owned());
    }
    if live && request.memory.is_some() {
        plan.notes
            .push("the guest gives back and takes memory at its own pace".to_owned());
    }
    Ok(plan)
}

fn is_so(seen: &Seen, wanted: &Wanted, request: &ResizeRequest) -> bool {
    let config = &seen.config;
    let defined = config.cpus == Some(wanted.cpus)
        && config.max_cpus == Some(wanted.max_cpus)
        && config.current_memory == Some(wanted.memory)
        && config.memory == Some(wanted.max_memory);
    let runs = !seen.is_active()
        || (request.cpus.is_none_or(|cpus| seen.live.cpus == Some(cpus))
            && request
                .memory
                .is_none_or(|memory| seen.live.current_memory == Some(memory)));
    defined && runs
}

/// Why it cannot be done while it runs.
fn beyond(seen: &Seen, wanted: &Wanted, request: &ResizeRequest) -> Option<String> {
    let (id, live) = (&seen.id, &seen.live);
    if let Some(cpus) = request.cpus {
        let most = live.max_cpus.unwrap_or(0);
        if cpus > most {
            return Some(format!("{id} was started for at most {most} CPUs"));
        }
        // Without KVM the guest lets go, and QEMU does not take the CPU back.
        if live.cpus.is_some_and(|now| cpus < now) && live.virt.as_deref() == Some("qemu") {
            return Some(format!(
                "{id} is emulated: CPUs cannot be taken from it while it runs"
            ));
        }
    }
    if request.memory.is_some() && live.memory.is_some_and(|most| wanted.memory > most) {
        let most = live.memory.unwrap_or_default();
        return Some(format!("{id} was started for at most {most} of memory"));
    }
    None
}

/// The acts on the definition alone.
fn in_definition(seen: &Seen, wanted: &Wanted, live: bool) -> Vec<Act> {
    let (now, dom) = (&seen.config, seen.dom());
    let cpus = |count, maximum| Call::SetVcpus {
        dom: dom.clone(),
        count,
        maximum,
        live: false,
        config: true,
    };
    let memory = |bytes: Bytes, maximum| Call::SetMemory {
        dom: dom.clone(),
        kib: bytes.0 >> 10,
        maximum,
        live: false,
        config: true,
    };
    let mut acts = Vec::new();
    // Fewer at most than there are now: first fewer.
    let fewer_first = now.cpus.is_some_and(|cpus| cpus > wanted.max_cpus);
    if now.max_cpus != Some(wanted.max_cpus) {
        if fewer_first {
            acts.push(Act::call(
                format!("{} CPUs at its next start", wanted.cpus),
                cpus(wanted.cpus, false),
            ));
        }
        acts.push(Act::call(
            format!("At most {} CPUs from its next start on", wanted.max_cpus),
            cpus(wanted.max_cpus, true),
        ));
    }
    if now.cpus != Some(wanted.cpus) && !live && !fewer_first {
        acts.push(Act::call(
            format!("{} CPUs", wanted.cpus),
            cpus(wanted.cpus, false),
        ));
    }
    if now.memory != Some(wanted.max_memory) {
        acts.push(Act::call(
            format!(
                "At most {} of memory from its next start on",
                wanted.max_memory
            ),
            memory(wanted.max_memory, true),
        ));
    }
    // A lower most takes what it has down with it.
    let after = now.current_memory.map(|now| now.min(wanted.max_memory));
    if after != Some(wanted.memory) && !live {
        acts.push(Act::call(
            format!("{} of memory", wanted.memory),
            memory(wanted.memory, false),
        ));
    }
    acts
}

/// The acts on what runs, and with it on the definition.
fn while_it_runs(seen: &Seen, wanted: &Wanted, live: bool, config: bool, undo: &str) -> Vec<Act> {
    let mut acts = Vec::new();
    if !live {
        return acts;
    }
    let dom = seen.dom();
    if seen.live.cpus != Some(wanted.cpus) || seen.config.cpus != Some(wanted.cpus) {
        let call = Call::SetVcpus {
            dom: dom.clone(),
            count: wanted.cpus,
            maximum: false,
            live,
            config,
        };
        acts.push(Act::call(format!("{} CPUs, now", wanted.cpus), call).undo(undo));
    }
    if seen.live.current_memory != Some(wanted.memory)
        || seen.config.current_memory != Some(wanted.memory)
    {
        let call = Call::SetMemory {
            dom,
            kib: wanted.memory.0 >> 10,
            maximum: false,
            live,
            config,
        };
        acts.push(Act::call(format!("{} of memory, now", wanted.memory), call).undo(undo));
    }
    acts
}

fn command(seen: &Seen, request: &ResizeRequest) -> String {
    let mut words = format!("corral resize {}", seen.id);
    if let Some(cpus) = request.cpus {
        words.push_str(&format!(" --cpus {cpus}"));
    }
    if let Some(memory) = request.memory {
        words.push_str(&format!(" --memory {}", memory.exact()));
    }
    words
}

fn undo(seen: &Seen, request: &ResizeRequest) -> String {
    let before = ResizeRequest {
        cpus: request.cpus.and(seen.config.cpus),
        memory: request.memory.and(seen.config.current_memory),
        ..ResizeRequest::default()
    };
    command(seen, &before)
}
