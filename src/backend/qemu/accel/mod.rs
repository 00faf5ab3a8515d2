//! KVM only where it is proven: a node that opens is no proof, and neither is real mode. Some hosts
//! run a guest through KVM one emulated instruction at a time, far slower than TCG.

mod hints;
pub(super) mod probe;
mod rom;

pub use hints::with_hints;

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ctx::Ctx;
use crate::link::files;
use crate::model::Result;

/// What guests are run with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accel {
    /// KVM works; else TCG.
    pub kvm: bool,
    /// How that is known, or why not.
    pub why: String,
    /// CPU properties that tell Windows it runs on a hypervisor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hints: Option<String>,
    /// Why a Windows guest gets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hintless: Option<String>,
}

impl Accel {
    fn new(kvm: bool, why: String) -> Self {
        Self {
            kvm,
            why,
            hints: None,
            hintless: None,
        }
    }

    /// TCG, and why.
    pub fn tcg(why: impl Into<String>) -> Self {
        Self::new(false, why.into())
    }

    /// What `-cpu` gets for a guest defined with `defined`.
    pub fn cpu(&self, defined: &str) -> String {
        let model = self.model_for(defined);
        match &self.hints {
            Some(hints) => format!("{model},{hints}"),
            None => model.to_owned(),
        }
    }

    /// QEMU's word.
    pub fn word(&self) -> &'static str {
        if self.kvm { "kvm" } else { "tcg" }
    }

    /// The CPU model that a new guest gets.
    pub fn cpu_model(&self) -> &'static str {
        if self.kvm { "host" } else { "qemu64" }
    }

    /// The CPU model that a guest defined with `defined` runs with: `host` needs KVM.
    pub fn model_for<'a>(&self, defined: &'a str) -> &'a str {
        if !self.kvm && defined == "host" {
            "qemu64"
        } else {
            defined
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Cached {
    boot: String,
    qemu: String,
    model: String,
    /// Seconds since the epoch.
    at: i64,
    accel: Accel,
}

/// A failed proof is believed this long, seconds: the machine may just have been too busy.
const DOUBT: i64 = 3600;

/// The accelerator for guests with this CPU model, proven once per boot and QEMU version.
///
/// # Errors
/// When QEMU is not there at all.
pub async fn prove(ctx: &Ctx, model: &str) -> Result<Accel> {
    let qemu = ctx.qemu()?;
    // A TCG model says nothing about KVM; `host` is what guests under KVM get.
    let model = if model.is_empty() { "host" } else { model };
    // Not kept: a group that was joined or a module that was loaded counts at once.
    if let Err(why) = node() {
        return Ok(Accel::tcg(why));
    }
    let version = fingerprint(&qemu);
    let now = jiff::Timestamp::now().as_second();
    let boot = boot_id();
    let file = ctx.state_dir().join("accel.json");
    let mut known: Vec<Cached> = std::fs::read(&file)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    known.retain(|c| {
        let fresh = c.accel.kvm || (c.at..c.at + DOUBT).contains(&now);
        c.boot == boot && c.qemu == version && fresh
    });
    if let Some(cached) = known.iter().find(|c| c.model == model) {
        return Ok(cached.accel.clone());
    }
    let accel = test(ctx, &qemu, model).await;
    known.push(Cached {
        boot,
        qemu: version,
        model: model.to_owned(),
        at: now,
        accel: accel.clone(),
    });
    // Without a cache the test is made again: no failure.
    if let Ok(bytes) = serde_json::to_vec(&known) {
        let _ = files::write_atomically(&file, &bytes);
    }
    Ok(accel)
}

/// Whether the node is there and ours to open; else why not.
fn node() -> Result<(), String> {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    match opened {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Err(
            "KVM is there, but /dev/kvm is not yours to open: sudo adduser $USER kvm, then log in again"
                .to_owned(),
        ),
        Err(_) => Err(
            "no /dev/kvm: virtualisation is off in the firmware, or this is a VM without nesting"
                .to_owned(),
        ),
    }
}

async fn test(ctx: &Ctx, qemu: &Path, model: &str) -> Accel {
    match probe::boot(ctx, qemu, "kvm", model).await {
        Ok(()) => Accel::new(
            true,
            format!("KVM boots a test guest with CPU model {model}"),
        ),
        Err(error) => Accel::tcg(format!("/dev/kvm opens, but {}", error.message)),
    }
}

/// Changes when another QEMU is installed, without running it.
pub(super) fn fingerprint(qemu: &Path) -> String {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(qemu).map_or_else(
        |_| String::new(),
        |meta| format!("{}:{}:{}", qemu.display(), meta.len(), meta.mtime()),
    )
}

/// This boot of this machine.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_needs_kvm_falls_back() {
        let tcg = Accel::tcg("");
        assert_eq!(tcg.model_for("host"), "qemu64");
        assert_eq!(tcg.model_for("max"), "max");
        assert_eq!(rom::image().len(), 65536);
    }

    #[tokio::test]
    async fn the_payload_boots_where_qemu_is() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = super::super::ctx::tests::context(dir.path());
        let Ok(qemu) = ctx.qemu() else {
            println!("skipped: no qemu-system-x86_64");
            return;
        };
        // A loaded machine may need more than the limit of one try.
        for _ in 0..5 {
            if probe::boot(&ctx, &qemu, "tcg", "qemu64").await.is_ok() {
                return;
            }
        }
        panic!("the payload does not boot under TCG");
    }
}
