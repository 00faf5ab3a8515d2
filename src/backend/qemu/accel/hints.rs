//! Enlightenments: what Windows asks of Hyper-V and gets from KVM, so that it does not spin on
//! locks, read emulated timers, or blame a busy host. Some kernels and QEMUs refuse some of them,
//! and a refused one ends QEMU, so a list is used only where a test guest boots with it.

use super::super::ctx::Ctx;
use super::{Accel, prove};
use crate::model::Result;

/// The best list first.
const LISTS: [&str; 2] = [
    "hv_relaxed,hv_vapic,hv_spinlocks=0x1fff,hv_time,hv_vpindex,hv_runtime,hv_synic,hv_stimer,\
     hv_reset,hv_frequencies,hv_tlbflush,hv_ipi",
    "hv_relaxed,hv_vapic,hv_spinlocks=0x1fff,hv_time",
];

/// `accel`, proven for guests of `model`, with the hints for Windows or the reason against them.
///
/// # Errors
/// As [`prove`].
pub async fn with_hints(ctx: &Ctx, model: &str, mut accel: Accel) -> Result<Accel> {
    if !accel.kvm {
        accel.hintless = Some("without KVM there are no Hyper-V hints for Windows".to_owned());
        return Ok(accel);
    }
    let mut why = String::new();
    for list in LISTS {
        let tried = prove(ctx, &format!("{model},{list}")).await?;
        if tried.kvm {
            accel.hints = Some(list.to_owned());
            return Ok(accel);
        }
        why = tried.why;
    }
    accel.hintless = Some(format!("no Hyper-V hints for Windows: {why}"));
    Ok(accel)
}

#[cfg(test)]
mod tests {
    use super::super::super::ctx::tests::context;
    use super::*;

    #[tokio::test]
    async fn hints_are_for_kvm_and_their_lack_has_a_reason() {
        let root = tempfile::tempdir().unwrap();
        let ctx = context(root.path());
        let tcg = with_hints(&ctx, "qemu64", Accel::tcg("test"))
            .await
            .unwrap();
        assert_eq!(tcg.cpu("qemu64"), "qemu64");
        assert!(tcg.hintless.unwrap().contains("without KVM"));
        let mut kvm = Accel::new(true, String::new());
        kvm.hints = Some(LISTS[1].to_owned());
        assert_eq!(
            kvm.cpu("host"),
            "host,hv_relaxed,hv_vapic,hv_spinlocks=0x1fff,hv_time"
        );
        assert!(LISTS.iter().all(|list| !list.contains(char::is_whitespace)));
    }
}
