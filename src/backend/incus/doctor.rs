//! What a context of this kind needs, and whether it has it.

use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::json;

use super::call::Call;
use super::ctx::Ctx;
use super::json::Look as _;
use super::server::Server;
use super::storage;
use crate::backend::contract::ReadCx;
use crate::link::http::{Body, Reach, Request};
use crate::link::trust::{Pin, PinKind, TrustStore};
use crate::link::x509::pem_fingerprint;
use crate::model::{Check, Error, ErrorKind, Result, shown};

/// A pool with less than this share of its space free is told of, percent.
const FULL: u64 = 10;
/// Letting this client in takes at most this.
const LIMIT: Duration = Duration::from_secs(10);

/// What a refusal means to a client that the server does not know.
pub fn stranger(ctx: &Ctx, error: Error) -> Error {
    let name = &ctx.spec.name;
    let reach = ctx.api().ok().map(|api| api.http.reach());
    match reach {
        Some(Reach::Socket(_)) => error.remedy("Join its group and log in again: sudo usermod -aG incus-admin $USER"),
        Some(Reach::Tls { identity: None, .. }) => Error::new(
            ErrorKind::Unauthorized,
            "the server wants a certificate, and this user has none",
        )
        .remedy(format!(
            "On the server: incus config trust add NAME; here: corral context set {name} --secret-stdin with its token"
        )),
        _ => {
            let message = match error.message.as_str() {
                "not authorized" | "Forbidden" => {
                    "the server does not know this client's certificate (or its trust has ended)".to_owned()
                }
                other => other.to_owned(),
            };
            Error::new(ErrorKind::Unauthorized, message).remedy(format!(
                "On the server: incus config trust add NAME; here: corral context set {name} --secret-stdin with its token"
            ))
        }
    }
    .in_context(name)
}

/// Lets this client in with its token, where it is not yet: asked before the first question.
///
/// # Errors
/// What the server says of the token.
pub async fn enter(ctx: &Ctx, cx: &ReadCx) -> Result<()> {
    let Some(token) = ctx.token() else {
        return Ok(());
    };
    let server = ctx.ask(cx).await?;
    if server.trusted {
        return Ok(());
    }
    let api = ctx.api()?;
    let mut body = json!({"type": "client", "trust_token": token.text.expose_secret()});
    if server.software == "lxd" && !server.can("explicit_trust_token") {
        body = json!({"type": "client", "password": token.text.expose_secret()});
    }
    let call = Call::new("POST", "/1.0/certificates", body);
    let bytes = call.body.to_string().into_bytes();
    let request = Request {
        method: call.method,
        path: &call.path,
        headers: &[("content-type", "application/json")],
        body: Body::Bytes(bytes),
    };
    let limit = cx.left().min(LIMIT);
    let entered = tokio::time::timeout(limit, api.exchange(request)).await;
    let entered = entered.unwrap_or_else(|_| {
        Err(Error::timed_out(
            "the server did not say whether it takes the token",
        ))
    });
    entered.map_err(|error| {
        Error::new(ErrorKind::Unauthorized, format!("the server does not take the token: {}", error.message))
            .remedy("A token is good for one client and some time. Make another on the server: incus config trust add NAME")
            .in_context(&ctx.spec.name)
    })?;
    pin(ctx)?;
    ctx.ask(cx).await.map(drop)
}

/// The token is spent: what it said of the server's certificate is kept.
fn pin(ctx: &Ctx) -> Result<()> {
    let Reach::Tls { host, port, .. } = ctx.api()?.http.reach() else {
        return Ok(());
    };
    let Some(fingerprint) = ctx.token().and_then(|token| token.fingerprint.clone()) else {
        return Ok(());
    };
    let store = TrustStore::new(&ctx.env.dirs);
    let pin = Pin {
        context: ctx.spec.name.clone(),
        endpoint: crate::link::tls::endpoint(host, *port),
        fingerprint,
        what: PinKind::Leaf,
        subject: "named by its trust token".to_owned(),
    };
    store.replace(pin).map(drop)
}

/// All checks, each by itself.
pub async fn checks(ctx: &Ctx, cx: &ReadCx) -> Vec<Check> {
    let mut checks = Vec::new();
    let server = match ctx.ask(cx).await {
        Ok(server) => server,
        Err(error) => {
            let mut check = Check::fail("incus.connect", error.message.clone());
            check.remedy = error.remedy;
            return vec![check];
        }
    };
    let version = server.version.as_deref().unwrap_or("of no version");
    let place = ctx.api().map(|api| api.http.called()).unwrap_or_default();
    checks.push(Check::ok(
        "incus.connect",
        format!("{} {version} answers at {place}", server.title()),
    ));
    if !server.trusted {
        let error = stranger(ctx, Error::new(ErrorKind::Unauthorized, "not authorized"));
        let mut check = Check::fail("incus.trust", error.message.clone());
        check.remedy = error.remedy;
        checks.push(check);
        return checks;
    }
    checks.push(trust(ctx, cx, &server).await);
    checks.push(drivers(&server));
    checks.extend(pools(ctx, cx).await);
    checks.extend(networks(ctx, cx).await);
    if server.clustered {
        checks.extend(members(ctx, cx).await);
    }
    checks.extend(certificate(ctx));
    checks
}

async fn trust(ctx: &Ctx, cx: &ReadCx, server: &Server) -> Check {
    let by = server.method.as_deref().unwrap_or("an unknown way");
    let known = match (by, &server.user) {
        ("unix", _) => "this user of the machine".to_owned(),
        (_, Some(user)) => shown(&user.chars().take(16).collect::<String>()).into_owned(),
        (_, None) => "a client without a name".to_owned(),
    };
    // Only one who may see the server's settings may do everything.
    let asked = async { ctx.api()?.get(cx, "/1.0/certificates?recursion=1").await };
    match asked.await {
        Ok(reply) => {
            let own = server.user.as_deref();
            let list = reply.metadata.as_array().cloned().unwrap_or_default();
            let mine = list
                .iter()
                .find(|c| own.is_some() && c.text("fingerprint") == own);
            match mine {
                Some(mine) if mine.flag("restricted") == Some(true) => {
                    let projects: Vec<&str> = mine
                        .list("projects")
                        .iter()
                        .filter_map(serde_json::Value::as_str)
                        .collect();
                    Check::warn(
                        "incus.trust",
                        format!(
                            "known by {by} as {known}, restricted to: {}",
                            shown(&projects.join(", "))
                        ),
                    )
                }
                _ => Check::ok("incus.trust", format!("known by {by} as {known}")),
            }
        }
        Err(error) if error.kind == ErrorKind::Unauthorized => Check::warn(
            "incus.trust",
            format!("known by {by} as {known}, with restricted rights"),
        )
        .remedy("Where more is wanted, on the server: incus config trust edit FINGERPRINT"),
        Err(error) => Check::warn("incus.trust", format!("rights cannot be read: {error}")),
    }
}

fn drivers(server: &Server) -> Check {
    if server.drivers.is_empty() {
        return Check::warn("incus.drivers", "the server does not say what it runs");
    }
    let all = server.drivers.join(", ");
    if server.runs_vms() {
        return Check::ok("incus.drivers", format!("VMs and containers ({all})"));
    }
    Check::warn("incus.drivers", format!("containers only ({all}): VMs cannot be made"))
        .remedy("On the server: install QEMU and OVMF, and see that /dev/kvm and vhost_vsock are there; incus warning list says more")
}

async fn pools(ctx: &Ctx, cx: &ReadCx) -> Vec<Check> {
    let pools = match storage::pools(ctx, cx).await {
        Ok(pools) => pools,
        Err(error) => {
            return vec![Check::warn(
                "incus.storage",
                format!("pools cannot be listed: {error}"),
            )];
        }
    };
    if pools.is_empty() {
        return vec![
            Check::fail(
                "incus.storage",
                "there is no storage pool: nothing can be made",
            )
            .remedy("On the server: incus admin init --minimal"),
        ];
    }
    pools
        .iter()
        .map(|pool| {
            let name = shown(&pool.name);
            let id = format!("incus.storage.{name}");
            if let Some(fault) = &pool.fault {
                return Check::fail(&id, format!("the pool {name}: {fault}"));
            }
            match (pool.size_bytes, pool.used_bytes) {
                (Some(size), Some(used)) => {
                    let free = size.0.saturating_sub(used.0);
                    let told = format!("the pool {name} ({}) has {} of {size} free", shown(&pool.kind), crate::model::Bytes(free));
                    if free.saturating_mul(100) < size.0.saturating_mul(FULL) {
                        Check::warn(&id, told).remedy("Make room: corral image list, corral snapshot list, corral storage info")
                    } else {
                        Check::ok(&id, told)
                    }
                }
                _ => Check::warn(&id, format!("the pool {name} does not say how full it is")),
            }
        })
        .collect()
}

async fn networks(ctx: &Ctx, cx: &ReadCx) -> Vec<Check> {
    let project = ctx.project().unwrap_or(super::ctx::DEFAULT);
    match super::devices::networks(ctx, cx, project).await {
        Ok(all) => {
            let managed: Vec<&str> = all
                .iter()
                .filter(|network| network.flag("managed") == Some(true))
                .filter_map(|network| network.text("name"))
                .collect();
            if managed.is_empty() {
                vec![
                    Check::warn(
                        "incus.network",
                        "the server manages no network: instances get no address by themselves",
                    )
                    .remedy("On the server: incus network create incusbr0"),
                ]
            } else {
                vec![Check::ok(
                    "incus.network",
                    format!("networks: {}", shown(&managed.join(", "))),
                )]
            }
        }
        Err(error) => vec![Check::warn(
            "incus.network",
            format!("networks cannot be listed: {error}"),
        )],
    }
}

async fn members(ctx: &Ctx, cx: &ReadCx) -> Vec<Check> {
    match super::host::members(ctx, cx).await {
        Ok(hosts) => hosts
            .iter()
            .map(|host| {
                let name = shown(&host.name);
                let id = format!("incus.member.{name}");
                let status = host.facts.iter().find(|(label, _)| label == "Status");
                let status = status.map_or("unknown", |(_, status)| status.as_str());
                if host.online {
                    Check::ok(&id, format!("the member {name} is {status}"))
                } else {
                    Check::fail(
                        &id,
                        format!("the member {name} is {status}: its instances are not known"),
                    )
                }
            })
            .collect(),
        Err(error) => vec![Check::warn(
            "incus.cluster",
            format!("members cannot be listed: {error}"),
        )],
    }
}

/// The client's own certificate, where one is shown: how long it is good.
fn certificate(ctx: &Ctx) -> Option<Check> {
    let Reach::Tls {
        identity: Some(identity),
        ..
    } = ctx.api().ok()?.http.reach()
    else {
        return None;
    };
    let end = crate::link::x509::pem_expiry(&identity.certificates)?;
    let fingerprint = pem_fingerprint(&identity.certificates)?;
    let short = &fingerprint[..11];
    let days = (end.as_second() - jiff::Timestamp::now().as_second()) / 86_400;
    let date = end.strftime("%Y-%m-%d");
    Some(if days < 0 {
        Check::fail(
            "incus.certificate",
            format!("this client's certificate {short}… expired on {date}"),
        )
        .remedy("Make another, and trust it on the server: incus config trust add-certificate FILE")
    } else if days < 30 {
        Check::warn(
            "incus.certificate",
            format!("this client's certificate {short}… expires on {date}"),
        )
    } else {
        Check::ok(
            "incus.certificate",
            format!("this client's certificate {short}… is good until {date}"),
        )
    })
}
