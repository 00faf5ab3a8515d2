//! Every instance in one call, and everything about one.

use jiff::Timestamp;
use serde_json::Value;

use super::call;
use super::ctx::{Ctx, DEFAULT};
use super::json::Look as _;
use super::row;
use crate::backend::contract::ReadCx;
use crate::model::{Host, Instance, Inventory, Problem, Result, State};

/// Everything of this context: one call, and one more for the members of a cluster.
///
/// # Errors
/// As a read.
pub async fn all(ctx: &Ctx, cx: &ReadCx) -> Result<Inventory> {
    let api = ctx.api()?;
    let path = format!("/1.0/instances?recursion=2&{}", ctx.scope());
    let reply = match api.get(cx, &path).await {
        Err(error) if error.kind == crate::model::ErrorKind::Unauthorized => {
            return Err(super::doctor::stranger(ctx, error));
        }
        other => other?,
    };
    let mut inventory = read(ctx, &reply.metadata, Timestamp::now());
    match ctx.known() {
        Some(server) if server.clustered => match super::host::members(ctx, cx).await {
            Ok(hosts) => inventory.hosts = hosts,
            Err(error) => inventory.problems.push(Problem {
                instance: None,
                message: format!("the members of the cluster cannot be listed: {error}"),
                remedy: None,
            }),
        },
        Some(server) => {
            let name = server.name.as_deref().unwrap_or(&ctx.spec.name);
            inventory.hosts = vec![Host::new(&ctx.spec.name, name)];
        }
        None => {}
    }
    Ok(inventory)
}

/// The rows of a list. An odd element hides no other.
pub fn read(ctx: &Ctx, list: &Value, at: Timestamp) -> Inventory {
    let mut inventory = Inventory::empty(at);
    let Some(elements) = list.as_array() else {
        inventory.complete = list.is_null();
        if !list.is_null() {
            inventory
                .problems
                .push(problem("the list of instances cannot be read".to_owned()));
        }
        return inventory;
    };
    for element in elements {
        match row::read(ctx, element, at) {
            Ok(row) => match inventory
                .instances
                .iter_mut()
                .find(|seen| seen.id == row.id)
            {
                // Said twice: once is enough, and it is a fault of the server.
                Some(_) => inventory.problems.push(Problem {
                    instance: Some(row.id.clone()),
                    message: format!("{} is listed twice", row.id),
                    remedy: None,
                }),
                None => inventory.instances.push(row),
            },
            Err(why) => {
                // Somebody is there who cannot be named.
                inventory.complete = false;
                inventory.problems.push(problem(why));
            }
        }
    }
    let unsure: Vec<Problem> = inventory
        .instances
        .iter()
        .filter(|row| matches!(row.state, State::Unknown | State::Broken))
        .map(|row| Problem {
            instance: Some(row.id.clone()),
            message: row.reason.clone().unwrap_or_default(),
            remedy: None,
        })
        .collect();
    inventory.problems.extend(unsure);
    inventory
}

fn problem(message: String) -> Problem {
    Problem {
        instance: None,
        message,
        remedy: None,
    }
}

/// One instance as the API has it, with state and snapshots, and the version that names it.
///
/// # Errors
/// `NotFound`, and as a read.
pub async fn one(
    ctx: &Ctx,
    cx: &ReadCx,
    project: &str,
    name: &str,
) -> Result<(Value, Option<String>)> {
    let path = format!("{}&recursion=1", call::instance(name, project, &[]));
    let reply = ctx.api()?.get(cx, &path).await.map_err(|mut error| {
        if error.kind == crate::model::ErrorKind::NotFound {
            error.message = format!("there is no instance {}", ctx.id(project, name));
            error.remedy = Some("See corral list".to_owned());
        }
        error
    })?;
    let mut value = reply.metadata;
    // An answer about nobody is none.
    if value.text("name").is_none() {
        return Err(crate::model::Error::backend(format!(
            "the server's answer about {} cannot be read",
            ctx.id(project, name)
        )));
    }
    if value.text("project").is_none()
        && let Some(map) = value.as_object_mut()
    {
        map.insert("project".to_owned(), project.into());
    }
    Ok((value, reply.etag))
}

/// The row of an answer about one.
pub fn row_of(ctx: &Ctx, value: &Value) -> Instance {
    let at = Timestamp::now();
    row::read(ctx, value, at).unwrap_or_else(|why| {
        let name = value.text("name").unwrap_or("?");
        let project = value.text("project").unwrap_or(DEFAULT);
        Instance::broken(ctx.id(project, name), super::ctx::KIND, why, at)
    })
}
