//! What this context needs.

use super::client::HELPER;
use super::ctx::Ctx;
use super::domain::Domain;
use super::host::{acceleration, version};
use super::storage::definitions;
use super::wire::{Call, Server, Thing};
use super::{accel, volumes};
use crate::backend::contract::ReadCx;
use crate::model::{Check, Error, counted, shown};

/// Oldest server whose calls are all there.
const OLDEST: u32 = 6_000_000;

/// All checks.
pub async fn checks(ctx: &Ctx, cx: &ReadCx) -> Vec<Check> {
    let mut all = Vec::new();
    match ctx.client.helper() {
        Ok(path) => all.push(Check::ok(
            "libvirt.helper",
            format!("{HELPER} is {}", path.display()),
        )),
        Err(error) => {
            all.push(failed("libvirt.helper", &error));
            return named(ctx, all);
        }
    }
    all.push(transport(ctx.client.uri()));
    let server = match ctx.client.ask::<Server>(cx, Call::Server {}).await {
        Ok(server) => server,
        Err(error) => {
            all.push(failed("libvirt.connect", &error));
            return named(ctx, all);
        }
    };
    let said = format!(
        "connected to {}, libvirt {}",
        ctx.client.uri(),
        version(server.version)
    );
    all.push(Check::ok("libvirt.connect", said));
    if server.version < OLDEST {
        let old = format!("libvirt {} is older than 6.0", version(server.version));
        all.push(Check::warn("libvirt.version", old).remedy("Update the server's libvirt"));
    }
    all.push(kvm(ctx, &server).await);
    let (pools, networks, domains) = tokio::join!(
        volumes::pools(ctx, cx),
        ctx.client.ask::<Vec<Thing>>(cx, Call::Networks {}),
        definitions(ctx, cx)
    );
    match pools {
        Ok(pools) => all.extend(pool_checks(&pools)),
        Err(error) => all.push(failed("libvirt.pools", &error)),
    }
    match networks {
        Ok(networks) => all.push(network_check(&networks)),
        Err(error) => all.push(failed("libvirt.networks", &error)),
    }
    match domains {
        Ok(domains) => all.extend(agents(ctx, &domains)),
        Err(error) => all.push(failed("libvirt.domains", &error)),
    }
    named(ctx, all)
}

fn named(ctx: &Ctx, mut all: Vec<Check>) -> Vec<Check> {
    for check in &mut all {
        check.context = Some(ctx.spec.name.clone());
    }
    all
}

fn failed(id: &str, error: &Error) -> Check {
    let check = Check::fail(id, error.message.clone());
    match &error.remedy {
        Some(remedy) => check.remedy(remedy.clone()),
        None => check,
    }
}

/// Plain TCP is open to everybody on the way.
fn transport(uri: &str) -> Check {
    let plain = uri.split_once("://").is_some_and(|(scheme, rest)| {
        scheme.ends_with("+tcp") && !rest.starts_with("127.") && !rest.starts_with("localhost")
    });
    if plain {
        return Check::warn(
            "libvirt.transport",
            format!("{uri} is neither encrypted nor sure of who is there"),
        )
        .remedy("Use qemu+ssh:// or qemu+tls://");
    }
    Check::ok(
        "libvirt.transport",
        format!("{uri} is no plain network connection"),
    )
}

async fn kvm(ctx: &Ctx, server: &Server) -> Check {
    let said = server.capabilities.as_deref().and_then(acceleration);
    match said.as_deref() {
        Some("kvm") if accel::kvm(ctx, server.capabilities.as_deref()).await => {
            Check::ok("libvirt.kvm", "KVM is there")
        }
        Some("kvm") => Check::warn(
            "libvirt.kvm",
            "the server offers KVM, and no guest runs with it here: new ones are emulated",
        )
        .remedy("Turn nested virtualisation on, or pay with time"),
        Some(other) => Check::warn("libvirt.kvm", other.to_owned())
            .remedy("Turn virtualisation on in the firmware, and load the module kvm"),
        None => Check::warn("libvirt.kvm", "the server does not say how guests are run"),
    }
}

fn pool_checks(pools: &[(String, crate::model::Result<volumes::Pool>)]) -> Vec<Check> {
    let active = pools
        .iter()
        .filter(|(_, pool)| pool.as_ref().is_ok_and(|pool| pool.active))
        .count();
    let mut all = Vec::new();
    if active == 0 {
        all.push(Check::fail("libvirt.pools", "no storage pool is in use: nothing can be made").remedy(
            "virsh pool-define-as default dir --target /var/lib/libvirt/images; virsh pool-start default; virsh pool-autostart default",
        ));
        return all;
    }
    let sleeping: Vec<_> = pools
        .iter()
        .filter(|(_, pool)| pool.as_ref().is_ok_and(|pool| !pool.active))
        .map(|(name, _)| shown(name))
        .collect();
    all.push(if sleeping.is_empty() {
        Check::ok(
            "libvirt.pools",
            format!("{} in use", counted(active, "pool")),
        )
    } else {
        Check::warn(
            "libvirt.pools",
            format!("not started: {}", sleeping.join(", ")),
        )
        .remedy(format!("virsh pool-start {}", sleeping[0]))
    });
    for (name, pool) in pools {
        let Ok(pool) = pool else { continue };
        let (Some(all_of_it), Some(left)) = (pool.capacity, pool.available) else {
            continue;
        };
        if pool.active && left.0 < all_of_it.0 / 20 {
            all.push(Check::warn(
                &format!("libvirt.space.{name}"),
                format!("pool {} has {left} left of {all_of_it}", shown(name)),
            ));
        }
    }
    all
}

fn network_check(networks: &[Thing]) -> Check {
    let down: Vec<_> = networks
        .iter()
        .filter(|thing| thing.active == Some(false))
        .map(|thing| shown(&thing.name))
        .collect();
    if networks.is_empty() {
        return Check::warn(
            "libvirt.networks",
            "there is no network: guests need a bridge of the host",
        );
    }
    if down.is_empty() {
        let up = counted(networks.len(), "network");
        return Check::ok("libvirt.networks", format!("{up} in use"));
    }
    Check::warn(
        "libvirt.networks",
        format!("not started: {}", down.join(", ")),
    )
    .remedy(format!(
        "virsh net-start {0}; virsh net-autostart {0}",
        down[0]
    ))
}

/// Without its channel an agent inside cannot be heard.
fn agents(ctx: &Ctx, domains: &[Domain]) -> Vec<Check> {
    let mut without: Vec<String> = domains
        .iter()
        .filter(|domain| domain.agent.is_none() && domain.virt.as_deref() != Some("test"))
        .map(|domain| ctx.id(&domain.name).to_string())
        .collect();
    without.sort();
    without.dedup();
    if without.is_empty() {
        return Vec::new();
    }
    let many = without.len();
    without.truncate(5);
    let more = if many > 5 { ", …" } else { "" };
    vec![
        Check::warn(
            "libvirt.agent",
            format!(
                "{} without a channel for a guest agent: {}{more}",
                counted(many, "domain"),
                without.join(", ")
            ),
        )
        .remedy(format!(
            "Add one: corral edit {}, <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>",
            without[0]
        )),
    ]
}
