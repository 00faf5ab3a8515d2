//! Network interfaces: more and fewer, live and in the definition.

use roxmltree::Node;

use super::change::{affects, not_hibernated, scripted, settled};
use super::ctx::{Ctx, Seen};
use super::power::same;
use super::script::{Act, Script};
use super::storage::definitions;
use super::wire::{Call, Thing};
use super::xml::{child, escaped, piece};
use crate::backend::contract::{NicRequest, Prepared, ReadCx};
use crate::model::{Error, Instance, Result, shown};

scripted!(NicRequest, nic);

async fn nic(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: NicRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    settled(&seen)?;
    match request {
        NicRequest::Add {
            network,
            model,
            mac,
        } => add(ctx, cx, &seen, network, model, mac).await,
        NicRequest::Remove { nic } => remove(ctx, cx, &seen, &nic).await,
    }
}

/// What a NIC is connected to: `user`, a network of libvirt, or a bridge of the host.
///
/// # Errors
/// `NotFound`, `Refused` with what to do.
pub async fn source(ctx: &Ctx, cx: &ReadCx, wanted: Option<&str>) -> Result<(String, String)> {
    if wanted == Some("user") {
        return Ok(("user".to_owned(), String::new()));
    }
    let all: Vec<Thing> = ctx.client.ask(cx, Call::Networks {}).await?;
    let network = |name: &str| {
        (
            "network".to_owned(),
            format!("<source network='{}'/>", escaped(name)),
        )
    };
    let Some(wanted) = wanted else {
        let usable = |thing: &&Thing| thing.active == Some(true);
        let first = all
            .iter()
            .filter(usable)
            .find(|thing| thing.name == "default")
            .or_else(|| all.iter().find(usable));
        return match first {
            Some(thing) => Ok(network(&thing.name)),
            None => Err(
                Error::refused(format!("{} has no network in use", ctx.spec.name)).remedy(
                    "Start one: virsh net-start default. Or name a bridge, or user: --network user",
                ),
            ),
        };
    };
    match all.iter().find(|thing| thing.name == wanted) {
        Some(thing) if thing.active == Some(false) => Err(Error::refused(format!(
            "network {} is not started",
            shown(wanted)
        ))
        .remedy(format!("Start it: virsh net-start {}", shown(wanted)))),
        Some(thing) => Ok(network(&thing.name)),
        // A bridge of the host is no network of libvirt's, and cannot be looked up.
        None if wanted.starts_with("br") || wanted.contains("br") => Ok((
            "bridge".to_owned(),
            format!("<source bridge='{}'/>", escaped(wanted)),
        )),
        None => {
            let names: Vec<_> = all.iter().map(|thing| shown(&thing.name)).collect();
            Err(Error::not_found(format!(
                "{} has no network {}",
                ctx.spec.name,
                shown(wanted)
            ))
            .remedy(format!(
                "It has: {}; a bridge of the host, or user",
                names.join(", ")
            )))
        }
    }
}

/// A NIC as an element.
pub fn element((kind, source): &(String, String), model: &str, mac: &str) -> String {
    format!(
        "<interface type='{kind}'><mac address='{mac}'/>{source}<model type='{}'/></interface>",
        escaped(model)
    )
}

/// An address of QEMU's own range.
pub fn new_mac() -> String {
    let [a, b, c, _] = rand::random::<u32>().to_be_bytes();
    format!("52:54:00:{a:02x}:{b:02x}:{c:02x}")
}

/// A MAC as it is written: six pairs of hex digits, of one card.
fn check_mac(mac: &str) -> Result<String> {
    let pairs: Vec<&str> = mac.split(':').collect();
    let hex = |pair: &&str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
    let first = pairs
        .first()
        .and_then(|pair| u8::from_str_radix(pair, 16).ok());
    if pairs.len() == 6 && pairs.iter().all(hex) && first.is_some_and(|byte| byte & 1 == 0) {
        return Ok(mac.to_lowercase());
    }
    Err(
        Error::invalid(format!("{:?} is no MAC of a card", shown(mac)))
            .remedy("Write it like 52:54:00:12:34:56, or leave it out."),
    )
}

async fn add(
    ctx: &Ctx,
    cx: &ReadCx,
    seen: &Seen,
    network: Option<String>,
    model: Option<String>,
    mac: Option<String>,
) -> Result<Prepared> {
    let id = &seen.id;
    not_hibernated(seen)?;
    let source = source(ctx, cx, network.as_deref()).await?;
    let mac = match &mac {
        Some(mac) => check_mac(mac)?,
        None => new_mac(),
    };
    let all = definitions(ctx, cx).await?;
    let user = all.iter().find(|domain| {
        domain
            .nics
            .iter()
            .any(|nic| nic.mac.as_deref() == Some(&mac))
    });
    if let Some(user) = user {
        return Err(
            Error::refused(format!("{} has the MAC {mac}", ctx.id(&user.name)))
                .remedy("Use another one, or leave it out."),
        );
    }
    let (live, config) = affects(seen);
    let call = Call::Attach {
        dom: seen.dom(),
        what: format!("interface {mac}"),
        xml: element(&source, model.as_deref().unwrap_or("virtio"), &mac),
        live,
        config,
    };
    let act = Act::call(format!("Attach a network interface, {mac}"), call)
        .undo(format!("corral nic remove {id} --nic {mac}"));
    let script = Script::on(seen, format!("{id} has a network interface more: {mac}"));
    script.act(act).prepared(ctx, cx).await
}

/// The NIC with a MAC.
fn find<'a, 'i>(root: Node<'a, 'i>, mac: &str) -> Option<Node<'a, 'i>> {
    child(root, "devices")?.children().find(|nic| {
        nic.is_element()
            && nic.tag_name().name() == "interface"
            && child(*nic, "mac")
                .and_then(|node| node.attribute("address"))
                .is_some_and(|address| address.eq_ignore_ascii_case(mac))
    })
}

async fn remove(ctx: &Ctx, cx: &ReadCx, seen: &Seen, wanted: &str) -> Result<Prepared> {
    let id = &seen.id;
    not_hibernated(seen)?;
    let nics = &seen.live.nics;
    let by_mac = |nic: &&super::domain::NicDef| {
        nic.mac
            .as_deref()
            .is_some_and(|mac| mac.eq_ignore_ascii_case(wanted))
            || nic.target.as_deref() == Some(wanted)
    };
    let by_number = || {
        let n: usize = wanted.strip_prefix("net")?.parse().ok()?;
        nics.get(n)
    };
    let nic = nics
        .iter()
        .find(by_mac)
        .or_else(by_number)
        .or_else(|| seen.config.nics.iter().find(by_mac));
    let Some(mac) = nic.and_then(|nic| nic.mac.clone()) else {
        let all: Vec<_> = nics.iter().filter_map(|nic| nic.mac.as_deref()).collect();
        return Err(
            Error::not_found(format!("{id} has no network interface {}", shown(wanted)))
                .remedy(format!("It has: {}", all.join(", "))),
        );
    };
    let of = |xml: &str| piece(xml, |root| find(root, &mac));
    let (live_xml, config_xml) = (of(&seen.live_xml), of(&seen.config_xml));
    let live = seen.is_active() && live_xml.is_some();
    let config = seen.listed.persistent && config_xml.is_some();
    // As it is defined: what only the running one knows of it is no part of the definition.
    let xml = config_xml
        .filter(|_| config)
        .or(live_xml)
        .ok_or_else(|| Error::backend(format!("the interface {mac} of {id} cannot be read")))?;
    let call = Call::Detach {
        dom: seen.dom(),
        what: format!("interface {mac}"),
        xml,
        live,
        config,
    };
    let act = Act::detached(
        format!("Detach the network interface {mac}"),
        call,
        seen.dom(),
        &mac,
    );
    let script = Script::on(
        seen,
        format!("{id} has no network interface {mac} any more"),
    );
    script.act(act).prepared(ctx, cx).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_of_cards() {
        assert_eq!(check_mac("52:54:00:AA:00:01").unwrap(), "52:54:00:aa:00:01");
        for bad in [
            "",
            "nonsense",
            "52:54:00:aa:00",
            "53:54:00:aa:00:01",
            "52:54:00:aa:00:0g",
        ] {
            assert!(check_mac(bad).is_err(), "{bad}");
        }
        assert!(check_mac(&new_mac()).is_ok());
    }
}
