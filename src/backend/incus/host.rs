//! The machines that run instances: the server, or the members of its cluster.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use serde_json::Value;

use super::ctx::Ctx;
use super::json::{Look as _, encoded};
use super::server::Server;
use crate::backend::contract::{Hosts, ReadCx};
use crate::model::{Bytes, Host, Result, State, shown};

/// Members asked at once.
const AT_ONCE: usize = 8;

/// The hosts family.
#[derive(Clone, Debug)]
pub struct Machines(pub Arc<Ctx>);

/// CPUs of a host, by what it says of its resources.
pub fn cpus(resources: &Value) -> Option<u32> {
    let total = resources.get("cpu")?.number("total")?;
    u32::try_from(total).ok().filter(|total| *total > 0)
}

/// The members of a cluster: one call.
///
/// # Errors
/// As a read.
pub async fn members(ctx: &Ctx, cx: &ReadCx) -> Result<Vec<Host>> {
    let reply = ctx
        .api()?
        .get(cx, "/1.0/cluster/members?recursion=1")
        .await?;
    let members = reply.metadata.as_array().cloned().unwrap_or_default();
    Ok(members
        .iter()
        .filter_map(|member| read(ctx, member))
        .collect())
}

fn read(ctx: &Ctx, member: &Value) -> Option<Host> {
    let mut host = Host::new(&ctx.spec.name, member.text("server_name")?);
    let status = member.text("status").unwrap_or("unknown");
    // An evacuated one answers, and runs nothing.
    host.online = matches!(status, "Online" | "Evacuated");
    let roles: Vec<&str> = member
        .list("roles")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let mut fact = |label: &str, text: Option<String>| {
        host.facts.extend(text.map(|text| (label.to_owned(), text)));
    };
    fact("Status", Some(status.to_owned()));
    fact("Message", member.text("message").map(str::to_owned));
    fact("Roles", (!roles.is_empty()).then(|| roles.join(", ")));
    fact("URL", member.text("url").map(str::to_owned));
    fact("Group", {
        let groups: Vec<&str> = member
            .list("groups")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        (!groups.is_empty()).then(|| groups.join(", "))
    });
    Some(host)
}

/// What a host says of its resources, filled in.
fn fill(host: &mut Host, resources: &Value) {
    host.cpus = cpus(resources);
    let memory = resources.get("memory");
    host.memory_bytes = memory.and_then(|memory| memory.number("total")).map(Bytes);
    host.memory_used_bytes = memory.and_then(|memory| memory.number("used")).map(Bytes);
    if let Some(load) = resources.get("load") {
        let of = |key: &str| load.get(key).and_then(Value::as_f64);
        host.load = (|| Some([of("Average1Min")?, of("Average5Min")?, of("Average10Min")?]))();
    }
    let model = resources
        .get("cpu")
        .and_then(|cpu| cpu.list("sockets").first())
        .and_then(|socket| socket.text("name"));
    if let Some(model) = model {
        host.facts.push(("CPU".to_owned(), model.to_owned()));
    }
}

/// What is the same for every host of a server.
fn common(host: &mut Host, server: &Server) {
    host.kernel.clone_from(&server.kernel);
    let drivers = server.drivers.iter().zip(
        server
            .driver_versions
            .iter()
            .map(Some)
            .chain(std::iter::repeat(None)),
    );
    let drivers: Vec<String> = drivers
        .map(|(driver, version)| match version {
            Some(version) => format!("{driver} {version}"),
            None => driver.clone(),
        })
        .collect();
    let mut fact = |label: &str, text: Option<String>| {
        host.facts.extend(text.map(|text| (label.to_owned(), text)));
    };
    fact("OS", server.os.clone());
    fact(&server.title(), server.version.clone());
    fact("Drivers", (!drivers.is_empty()).then(|| drivers.join(", ")));
    host.acceleration = Some(if server.runs_vms() {
        "VMs and containers".to_owned()
    } else if server.drivers.is_empty() {
        "not known".to_owned()
    } else {
        "containers only".to_owned()
    });
}

#[async_trait]
impl Hosts for Machines {
    async fn hosts(&self, cx: &ReadCx) -> Result<Vec<Host>> {
        let ctx = &*self.0;
        let server = ctx.server(cx).await?;
        let mut hosts = if server.clustered {
            members(ctx, cx).await?
        } else {
            let name = server.name.as_deref().unwrap_or(&ctx.spec.name);
            vec![Host::new(&ctx.spec.name, name)]
        };
        let clustered = server.clustered;
        let running = super::inventory::all(ctx, cx).await.ok();
        hosts = futures::stream::iter(hosts)
            .map(|mut host| async move {
                let path = if clustered {
                    format!("/1.0/resources?target={}", encoded(&host.name))
                } else {
                    "/1.0/resources".to_owned()
                };
                let asked = async { ctx.api()?.get(cx, &path).await };
                match asked.await {
                    _ if !host.online => {}
                    Ok(reply) => fill(&mut host, &reply.metadata),
                    // What cannot be asked is not known, and hides nothing else of it.
                    Err(error) => host.facts.push((
                        "Resources".to_owned(),
                        shown(&error.to_string()).into_owned(),
                    )),
                }
                host
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        for host in &mut hosts {
            common(host, &server);
            host.running = running.as_ref().map(|all| {
                let here = |at: &Option<String>| !clustered || at.as_deref() == Some(&host.name);
                let up = |state: State| matches!(state, State::Running | State::Paused);
                let rows = all.instances.iter();
                rows.filter(|row| up(row.state) && here(&row.host)).count() as u64
            });
        }
        Ok(hosts)
    }
}
