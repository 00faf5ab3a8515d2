//! CPUs and memory: `limits.cpu` and `limits.memory`, which a running instance follows.

use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::json::print_size;
use super::seen::Seen;
use super::work::{self, Act, Edit, LOOK, Todo, Work};
use crate::backend::contract::{Changes, Prepared, ReadCx, ResizeRequest, TaskCx};
use crate::model::{Bytes, Error, Instance, InstanceKind, Outcome, Result, State};

/// Least memory that a server takes.
const LEAST: Bytes = Bytes::mib(1);

/// The resize family.
#[derive(Clone, Debug)]
pub struct Resize(pub Arc<Ctx>);

struct Resizing {
    work: Work,
    cpus: Option<u32>,
    memory: Option<Bytes>,
}

/// The new sizes that differ from those there are.
fn wanted(seen: &Seen, request: &ResizeRequest) -> Result<(Option<u32>, Option<Bytes>)> {
    let row = &seen.row;
    if request.max_cpus.is_some() || request.max_memory.is_some() {
        return Err(Error::unsupported(
            "there is no headroom to set here: sizes are changed while it runs",
        )
        .remedy("Leave --max-cpus and --max-memory out"));
    }
    if request.cpus.is_some_and(|cpus| cpus == 0 || cpus > 1024) {
        return Err(Error::invalid("so many CPUs are not possible").remedy("1 to 1024"));
    }
    if request.memory.is_some_and(|memory| memory < LEAST) {
        return Err(Error::invalid("so little memory is not possible")
            .remedy("Sizes need a unit: 2G, 512M"));
    }
    Ok((
        request.cpus.filter(|cpus| row.cpus != Some(*cpus)),
        request
            .memory
            .filter(|memory| row.memory_bytes != Some(*memory)),
    ))
}

#[async_trait]
impl Changes<ResizeRequest> for Resize {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: ResizeRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::for_plan(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token());
        let (cpus, memory) = match wanted(&seen, &request) {
            Ok(wanted) => wanted,
            Err(error) => return Ok(Prepared::failed(token, &error)),
        };
        if cpus.is_none() && memory.is_none() {
            return Ok(Prepared::unchanged(
                token,
                format!("{id} has these sizes already"),
            ));
        }
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        if seen.state() == State::Hibernated {
            return Ok(Prepared::refused(
                token,
                format!("{id} is hibernated, and wakes up only with the sizes it had"),
                Some(format!("Start it first: corral start {id}")),
            ));
        }
        // A VM's memory grows and shrinks up to what it was started with.
        let vm = seen.row.kind == InstanceKind::Vm;
        let more = memory
            .zip(seen.row.memory_bytes)
            .is_some_and(|(new, old)| new > old);
        let needs_restart = vm && seen.state().is_active() && more;
        if needs_restart && !request.restart {
            return Ok(Prepared::refused(
                token,
                format!("{id} runs, and a VM gets no more memory than it was started with"),
                Some(format!(
                    "Let it restart: add --restart, or stop it first: corral stop {id}"
                )),
            ));
        }
        let mut edit = Edit::default();
        let mut undo = format!("corral resize {id}");
        let mut title = Vec::new();
        if let Some(cpus) = cpus {
            edit.config
                .push(("limits.cpu".to_owned(), Some(cpus.to_string())));
            title.push(format!("CPUs to {cpus}"));
            if let Some(old) = seen.row.cpus {
                undo.push_str(&format!(" --cpus {old}"));
            }
        }
        if let Some(memory) = memory {
            edit.config
                .push(("limits.memory".to_owned(), Some(print_size(memory.0))));
            title.push(format!("memory to {memory}"));
            if let Some(old) = seen.row.memory_bytes {
                undo.push_str(&format!(" --memory {}", old.exact()));
            }
        }
        let known = cpus.is_none_or(|_| seen.row.cpus.is_some())
            && memory.is_none_or(|_| seen.row.memory_bytes.is_some());
        let mut change = Todo::new(format!("Set {}", title.join(", ")), Act::Edit(edit));
        if known {
            change = change.undo(undo);
        }
        let mut todos = Vec::new();
        if needs_restart {
            todos.push(Todo::new(
                format!("Ask {id} to shut down, and wait"),
                Act::ShutDown(None),
            ));
        }
        todos.push(change);
        if needs_restart {
            let start = super::power::call(&seen.path(&[]), "start", serde_json::json!({}));
            todos.push(Todo::call(format!("Start {id}"), start));
        }
        let path = seen.path(&[]);
        let steps = todos.iter().map(|todo| todo.step(&path)).collect();
        let work = Work::on(&seen, todos, format!("{id} has its new sizes"));
        let mut prepared = Prepared::new(token, steps).with(Resizing { work, cpus, memory });
        if seen.state().is_active() && !needs_restart {
            prepared
                .notes
                .push("it takes effect while it runs".to_owned());
        }
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &self.0;
        let Resizing { work, cpus, memory } = prepared.take()?;
        let on = work.on.clone();
        let outcome = work::carry_out(ctx, cx, work, &prepared.token).await?;
        // Read back: the server may have taken it in another way.
        if let Some(id) = on {
            let seen = Seen::now(ctx, &cx.read(LOOK), &id).await?;
            let so = |wanted: bool| wanted.then_some(()).ok_or(());
            let cpus = cpus.map_or(Ok(()), |cpus| so(seen.row.cpus == Some(cpus)));
            let memory = memory.map_or(Ok(()), |memory| so(seen.row.memory_bytes == Some(memory)));
            if cpus.and(memory).is_err() {
                return Err(Error::backend(format!(
                    "the server took it, and {id} has other sizes all the same"
                ))
                .remedy(format!("Look at it: corral info {id}")));
            }
        }
        Ok(outcome)
    }
}
