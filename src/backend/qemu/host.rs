//! This machine, as the one host of this backend.

use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::{accel, firmware, inventory, machine, proc, tpm};
use crate::backend::contract::{Hosts, ReadCx};
use crate::model::{Error, Host, Result};

/// The hosts family.
#[derive(Clone, Debug)]
pub struct Machine(pub Arc<Ctx>);

#[async_trait]
impl Hosts for Machine {
    async fn hosts(&self, cx: &ReadCx) -> Result<Vec<Host>> {
        let ctx = &self.0;
        let mut host = row(ctx);
        let (proven, version, tool, all) = tokio::join!(
            accel::prove(ctx, "host"),
            machine::version(ctx),
            machine::tool_version(ctx),
            inventory::all(ctx, cx)
        );
        host.memory_used_bytes = proc::memory_used();
        host.load = proc::load();
        host.kernel = proc::kernel();
        host.uptime_seconds = proc::uptime();
        // What cannot be counted is not known, and hides nothing else of the machine.
        host.running = all.ok().map(|all| {
            let active = all.instances.iter().filter(|row| row.state.is_active());
            active.count() as u64
        });
        host.acceleration = Some(match proven {
            Ok(accel) => format!("{}: {}", accel.word(), accel.why),
            Err(error) => format!("none: {}", told(&error)),
        });
        let uefi = |secure| match firmware::find(&firmware::descriptor_dirs(&ctx.env), secure) {
            Ok(found) => found.code.display().to_string(),
            Err(error) => format!("none: {}", told(&error)),
        };
        let or_why = |version: Result<String>| version.unwrap_or_else(|e| told(&e));
        let facts = [
            ("CPU", proc::cpu_model()),
            ("OS", proc::os_name()),
            ("QEMU", Some(or_why(version))),
            ("qemu-img", Some(or_why(tool))),
            ("UEFI", Some(uefi(false))),
            ("Secure Boot", Some(uefi(true))),
            (
                "TPM",
                Some(tpm::tool(&ctx.env).map_or_else(|e| told(&e), |p| p.display().to_string())),
            ),
        ];
        host.facts = facts
            .into_iter()
            .filter_map(|(label, text)| Some((label.to_owned(), text?)))
            .collect();
        Ok(vec![host])
    }
}

/// What every list says of this machine: cheap, and starts nothing.
pub fn row(ctx: &Ctx) -> Host {
    let cpus = std::thread::available_parallelism();
    Host {
        cpus: cpus.ok().and_then(|n| u32::try_from(n.get()).ok()),
        memory_bytes: proc::memory_total(),
        ..Host::new(&ctx.spec.name, &proc::host_name())
    }
}

fn told(error: &Error) -> String {
    error.to_string()
}
