//! Delete, rename, clone.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::call::{self, Call};
use super::ctx::Ctx;
use super::json::Look as _;
use super::power;
use super::seen::{Seen, snapshot_name};
use super::work::{self, Act, Todo, Work, plan};
use crate::backend::contract::{
    Changes, CloneRequest, Prepared, ReadCx, RemoveRequest, RenameRequest, TaskCx,
};
use crate::model::{Error, ErrorKind, Instance, Outcome, Result, State, shown};

/// The remove, rename and clone families.
#[derive(Clone, Debug)]
pub struct Life(pub Arc<Ctx>);

/// What an instance may be called: the server's own rule, which is that of host names.
///
/// # Errors
/// `Invalid` for anything else.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let good = (1..=63).contains(&name.len())
        && name.chars().all(plain)
        && !name.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && !name.ends_with('-');
    if good {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "\"{}\" cannot be the name of an instance",
        shown(name)
    ))
    .remedy("Use 1 to 63 letters, digits and dashes; the first is a letter, the last no dash"))
}

/// Why something new cannot have this name.
///
/// # Errors
/// As a read.
pub async fn name_taken(
    ctx: &Ctx,
    cx: &ReadCx,
    project: &str,
    name: &str,
) -> Result<Option<Error>> {
    if let Err(error) = check_name(name) {
        return Ok(Some(error));
    }
    match super::inventory::one(ctx, cx, project, name).await {
        Ok(_) => Ok(Some(
            Error::conflict(format!(
                "there is an instance {} already",
                ctx.id(project, name)
            ))
            .remedy("Choose another name."),
        )),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[async_trait]
impl Changes<RemoveRequest> for Life {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: RemoveRequest,
    ) -> Result<Prepared> {
        let seen = match Seen::now(&self.0, cx, &on.id).await {
            Ok(seen) => seen,
            Err(error) if error.kind == ErrorKind::NotFound => {
                return Ok(Prepared::unchanged("gone", "it is already gone"));
            }
            Err(error) => return Ok(Prepared::failed("", &error)),
        };
        let (id, token) = (&seen.id, seen.token());
        if on.uid.is_some() && seen.row.uid != on.uid {
            let error = Error::conflict(format!("{id} is another instance now. Nothing was done"));
            return Ok(Prepared::failed(
                token,
                &error.remedy("Look at it and ask again."),
            ));
        }
        if seen.row.protected {
            return Ok(Prepared::refused(
                token,
                format!("{id} is protected by its server: security.protection.delete"),
                Some(format!("Take the key away first: corral edit {id}")),
            ));
        }
        if request.keep_disks {
            return Ok(Prepared::refused(
                token,
                format!("the root disk of {id} goes with it: it is a part of the instance"),
                Some(format!(
                    "Export it first: corral export {id} --to FILE. Added volumes stay in any case."
                )),
            ));
        }
        // Not known whether it runs: what is deleted under a guest is gone for good.
        if seen.state() == State::Unknown
            && !request.force
            && let Some(refused) = seen.unclear()
        {
            return Ok(refused);
        }
        let off = matches!(
            seen.state(),
            State::Stopped | State::Hibernated | State::Broken
        );
        if !off && !request.force {
            return Ok(Prepared::refused(
                token,
                format!("{id} is {}", seen.state()),
                Some(format!("Stop it first: corral stop {id} (or add --force).")),
            ));
        }
        let mut todos = Vec::new();
        if !off {
            todos.push(Todo::new(format!("Power off {id}"), Act::PowerOff));
        }
        let delete = Call::new("DELETE", seen.path(&[]), Value::Null);
        todos.push(Todo::call(
            format!("Delete {id}, its disk and its snapshots"),
            delete,
        ));
        let mut prepared = plan(&seen, todos, format!("{id} is deleted"));
        prepared.losses.push("its root disk".to_owned());
        let snapshots: Vec<_> = seen
            .value
            .list("snapshots")
            .iter()
            .filter_map(snapshot_name)
            .map(shown)
            .collect();
        if !snapshots.is_empty() {
            prepared.losses.push(format!(
                "{} snapshots: {}",
                snapshots.len(),
                snapshots.join(", ")
            ));
        }
        let backups = seen.value.list("backups").len();
        if backups > 0 {
            prepared
                .losses
                .push(format!("{backups} backups that its server keeps"));
        }
        for (name, device) in seen.all_devices().into_iter().flatten() {
            if let (Some("disk"), Some(pool), Some(source)) = (
                device.text("type"),
                device.text("pool"),
                device.text("source"),
            ) {
                prepared.notes.push(format!(
                    "the volume {} of the pool {} ({}) stays",
                    shown(source),
                    shown(pool),
                    shown(name)
                ));
            }
        }
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

#[async_trait]
impl Changes<RenameRequest> for Life {
    async fn prepare(
        &self,
        cx: &ReadCx,
        on: &Instance,
        request: RenameRequest,
    ) -> Result<Prepared> {
        let ctx = &self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token, to) = (&seen.id, seen.token(), request.to);
        if to == seen.name {
            return Ok(Prepared::unchanged(
                token,
                format!("{id} is called so already"),
            ));
        }
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        if let Some(error) = name_taken(ctx, cx, &seen.project, &to).await? {
            return Ok(Prepared::failed(token, &error));
        }
        if seen.state().is_active() {
            return Ok(Prepared::refused(
                token,
                format!("{id} is {}", seen.state()),
                Some(format!("Stop it first: corral stop {id}")),
            ));
        }
        let new = ctx.id(&seen.project, &to);
        let todo = Todo::call(
            format!("Call it {}", shown(&to)),
            Call::new("POST", seen.path(&[]), json!({"name": to})),
        );
        let todo = todo.undo(format!("corral rename {new} --to {}", shown(&seen.name)));
        let mut work = Work::on(&seen, vec![todo], format!("{id} is {new} now"));
        work.id = Some(new.clone());
        let mut prepared = work.plan(token, &seen.path(&[]));
        prepared.notes.push(format!("its ID is {new} from now on"));
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

#[async_trait]
impl Changes<CloneRequest> for Life {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: CloneRequest) -> Result<Prepared> {
        let ctx = &self.0;
        let seen = match Seen::for_plan(ctx, cx, &on.id).await {
            Ok(seen) => seen,
            Err(refused) => return Ok(refused),
        };
        let (id, token) = (&seen.id, seen.token());
        if request.linked {
            return Ok(Prepared::refused(
                token,
                "there are no linked clones here: a copy shares blocks by itself where the pool can",
                Some(format!(
                    "Leave --linked out: corral clone {id} --name {}",
                    shown(&request.name)
                )),
            ));
        }
        if let Some(error) = name_taken(ctx, cx, &seen.project, &request.name).await? {
            return Ok(Prepared::failed(token, &error));
        }
        if let Some(refused) = seen.unclear() {
            return Ok(refused);
        }
        let source = match &request.snapshot {
            Some(snapshot) if seen.snapshot(snapshot).is_none() => {
                let error =
                    Error::not_found(format!("{id} has no snapshot \"{}\"", shown(snapshot)));
                return Ok(Prepared::failed(
                    token,
                    &error.remedy(format!("See corral snapshot list {id}")),
                ));
            }
            Some(snapshot) => format!("{}/{snapshot}", seen.name),
            None => seen.name.clone(),
        };
        let new = ctx.id(&seen.project, &request.name);
        let body = json!({
            "name": request.name,
            "type": seen.value["type"],
            "source": {
                "type": "copy",
                "source": source,
                "project": seen.project,
                "instance_only": true,
            },
        });
        let copy = Call::new("POST", call::at(&["instances"], &seen.project), body);
        let mut todos = vec![
            Todo::call(format!("Copy {id} to {new}"), copy).undo(format!("corral delete {new}")),
        ];
        let fresh = call::instance(&request.name, &seen.project, &[]);
        if seen.row.template {
            // A copy of a template is there to be started.
            let config = json!({"config": {super::row::TEMPLATE: ""}});
            let call = Call::new("PATCH", fresh.clone(), config);
            todos.push(Todo::call("Make the copy an ordinary instance", call));
        }
        if request.start {
            todos.push(Todo::call(
                format!("Start {new}"),
                power::call(&fresh, "start", json!({})),
            ));
        }
        let said = format!(
            "{new} is made{}",
            if request.start { ", running" } else { "" }
        );
        let mut work = Work::on(&seen, todos, said);
        work.id = Some(new);
        let mut prepared = work.plan(token, &seen.path(&[]));
        if seen.state().is_active() && request.snapshot.is_none() {
            prepared.notes.push(
                "it runs: its disk is copied as after a power cut, while the guest stands still"
                    .to_owned(),
            );
        }
        prepared.notes.push(
            "MAC addresses are new, and the host name where the image has a template for it; what the guest has made by itself (SSH host keys, machine ID) is the same"
                .to_owned(),
        );
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        work::run(&self.0, cx, prepared).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_hosts() {
        for bad in [
            "",
            "1a",
            "-a",
            "a-",
            "a.b",
            "a_b",
            "ä",
            "a b",
            &"x".repeat(64),
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "web-1", &"x".repeat(63)] {
            assert!(check_name(good).is_ok(), "{good:?}");
        }
    }
}
