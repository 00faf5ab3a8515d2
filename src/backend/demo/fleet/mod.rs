//! Which contexts there are and what is in them.

mod cast;
mod large;
mod small;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::backend::Demo;
use super::dialect::Dialect;
use super::knobs::{DemoSize, Knobs};
use super::world::{Mood, World};
use crate::model::{Bytes, ContextSpec, Host, Problem};

/// One simulated context.
struct Context {
    name: &'static str,
    dialect: Dialect,
    /// Field and value of where it is.
    endpoint: Option<(&'static str, &'static str)>,
    hosts: &'static [&'static str],
}

const fn context(
    name: &'static str,
    dialect: Dialect,
    endpoint: Option<(&'static str, &'static str)>,
    hosts: &'static [&'static str],
) -> Context {
    Context {
        name,
        dialect,
        endpoint,
        hosts,
    }
}

/// The context that never answers, in the small fleet.
pub(super) const SILENT: &str = "hv2";
/// The context whose login has expired, in the small fleet.
pub(super) const EXPIRED: &str = "vc-old";

#[rustfmt::skip]
const SMALL: &[Context] = &[
    context("local", Dialect::Qemu, None, &["laptop"]),
    context("hv1", Dialect::Libvirt, Some(("uri", "qemu+ssh://root@hv1.example/system")), &["hv1"]),
    context("lab", Dialect::Incus, Some(("url", "https://lab1.example:8443")), &["lab1", "lab2", "lab3"]),
    context("prod", Dialect::Kubevirt, Some(("url", "https://kube.example:6443")), &["node-a", "node-b", "node-c"]),
    context("pve", Dialect::Proxmox, Some(("url", "https://pve.example:8006")), &["pve1", "pve2", "pve3"]),
    context("vbox", Dialect::Virtualbox, None, &["laptop"]),
    context("vc", Dialect::Vsphere, Some(("url", "https://vcenter.example/sdk")), &["esx1", "esx2"]),
    context("xs", Dialect::Xen, Some(("url", "https://xs1.example")), &["xs1", "xs2"]),
    context("nx", Dialect::Nutanix, Some(("url", "https://prism.example:9440")), &["ahv1", "ahv2", "ahv3"]),
    context("site2", Dialect::Peer, Some(("url", "https://corral.site2.example")), &["s2-lab1"]),
    context(SILENT, Dialect::Libvirt, Some(("uri", "qemu+ssh://root@hv2.example/system")), &["hv2"]),
    context(EXPIRED, Dialect::Vsphere, Some(("url", "https://vcenter-old.example/sdk")), &["esx-old"]),
];

#[rustfmt::skip]
const LARGE: &[Context] = &[
    context("local", Dialect::Qemu, None, &["laptop"]),
    context("hv1", Dialect::Libvirt, Some(("uri", "qemu+ssh://root@hv1.example/system")), &["hv1"]),
    context("hv2", Dialect::Libvirt, Some(("uri", "qemu+ssh://root@hv2.example/system")), &["hv2"]),
    context("lab", Dialect::Incus, Some(("url", "https://lab1.example:8443")), &["lab1", "lab2", "lab3"]),
    context("prod", Dialect::Kubevirt, Some(("url", "https://kube.example:6443")), &["node-a", "node-b", "node-c"]),
    context("pve", Dialect::Proxmox, Some(("url", "https://pve.example:8006")), &["pve1", "pve2", "pve3", "pve4"]),
    context("pve-b", Dialect::Proxmox, Some(("url", "https://pve-b.example:8006")), &["pveb1", "pveb2"]),
    context("vbox", Dialect::Virtualbox, None, &["laptop"]),
    context("vc", Dialect::Vsphere, Some(("url", "https://vcenter.example/sdk")), &["esx1", "esx2", "esx3"]),
    context("xs", Dialect::Xen, Some(("url", "https://xs1.example")), &["xs1", "xs2"]),
    context("nx", Dialect::Nutanix, Some(("url", "https://prism.example:9440")), &["ahv1", "ahv2"]),
    context("site2", Dialect::Peer, Some(("url", "https://corral.site2.example")), &["s2-lab1"]),
];

fn contexts(size: DemoSize) -> &'static [Context] {
    match size {
        DemoSize::Small => SMALL,
        DemoSize::Large => LARGE,
    }
}

/// The names of all contexts, in their order.
pub fn context_names(size: DemoSize) -> Vec<&'static str> {
    contexts(size).iter().map(|c| c.name).collect()
}

/// The simulated fleet with its own type, for tests that count calls.
pub fn members(size: DemoSize, knobs: &Knobs) -> Vec<(ContextSpec, Arc<Demo>)> {
    contexts(size)
        .iter()
        .map(|context| {
            let spec = spec(context, size);
            let world = world(context, spec.clone(), size, knobs);
            let demo = Demo {
                world: Arc::new(world),
            };
            (spec, Arc::new(demo))
        })
        .collect()
}

fn spec(context: &Context, size: DemoSize) -> ContextSpec {
    let mut spec = ContextSpec::new(context.name, context.dialect.kind());
    spec.configured = true;
    if let Some((field, value)) = context.endpoint {
        spec.fields.insert(field.to_owned(), value.into());
    }
    if size == DemoSize::Small {
        spec.readonly = context.dialect == Dialect::Xen;
        spec.protected = context.dialect == Dialect::Kubevirt;
    }
    spec
}

fn mood(name: &str, size: DemoSize, knobs: &Knobs) -> Mood {
    let listed = |names: &[String]| names.iter().any(|n| n == name);
    let small = size == DemoSize::Small && !listed(&knobs.up);
    if listed(&knobs.refused) {
        Mood::Refuses
    } else if listed(&knobs.down) || (small && name == SILENT) {
        Mood::Silent
    } else if listed(&knobs.expired) || (small && name == EXPIRED) {
        Mood::Expired
    } else {
        Mood::Answers
    }
}

fn world(context: &Context, spec: ContextSpec, size: DemoSize, knobs: &Knobs) -> World {
    let mut cast = cast::Cast::new(
        context.name,
        context.dialect,
        context.hosts,
        knobs.seed,
        knobs.clock.now(),
    );
    match size {
        DemoSize::Small => small::fill(context.name, &mut cast),
        DemoSize::Large => large::fill(context.name, &mut cast),
    }
    let (offline, mut problems) = match (size, context.name) {
        (DemoSize::Small, "pve") => (Some("pve3"), Vec::new()),
        (DemoSize::Small, "hv1") => (
            None,
            vec![Problem {
                instance: None,
                message: "pool \"default\" is full: 0 B of 200 GiB left".into(),
                remedy: Some("Free some: corral list --context hv1".into()),
            }],
        ),
        _ => (None, Vec::new()),
    };
    if let Some(host) = offline {
        problems.push(Problem {
            instance: None,
            message: format!("node {host} is offline: its guests are unknown"),
            remedy: None,
        });
    }
    let hosts = context
        .hosts
        .iter()
        .map(|name| Host {
            cpus: Some(if context.dialect == Dialect::Qemu {
                8
            } else {
                32
            }),
            memory_bytes: Some(Bytes(256 << 30)),
            online: offline != Some(name),
            ..Host::new(context.name, name)
        })
        .collect();
    World::new(
        context.dialect,
        spec,
        knobs.clone(),
        mood(context.name, size, knobs),
        hosts,
        cast.guests,
        problems,
    )
}
