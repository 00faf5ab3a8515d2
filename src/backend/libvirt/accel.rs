//! Whether a new guest is run with KVM: the server says that it can, and where the server is this machine, that is
//! tried. A node that opens is no proof.

use std::sync::Arc;

use super::ctx::Ctx;
use crate::backend::qemu;
use crate::model::ContextSpec;

/// Whether KVM is to be used.
pub async fn kvm(ctx: &Ctx, capabilities: Option<&str>) -> bool {
    if !capabilities.is_some_and(super::create::offers_kvm) {
        return false;
    }
    if !is_here(ctx.client.uri()) {
        return true;
    }
    let spec = ContextSpec::new("local", qemu::ctx::KIND);
    let local = qemu::ctx::Ctx::new(spec, Arc::clone(&ctx.env));
    match qemu::accel::prove(&local, "host").await {
        Ok(accel) => accel.kvm,
        // Nothing here to try it with: what the server says holds.
        Err(_) => true,
    }
}

/// A URI of this machine: `qemu:///system`, or one of its sockets.
pub fn is_here(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return false;
    };
    let transport = scheme.split_once('+').map_or("unix", |(_, t)| t);
    transport == "unix" && rest.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_one_without_a_host() {
        assert!(is_here("qemu:///system") && is_here("qemu+unix:///system?socket=/a"));
        for uri in [
            "qemu+ssh://hv/system",
            "qemu+tcp://127.0.0.1/system",
            "qemu://hv/system",
            "x",
        ] {
            assert!(!is_here(uri), "{uri}");
        }
    }
}
