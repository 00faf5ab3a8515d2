//! Looks for the addresses of running guests, gently.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::hub::Fleet;
use crate::backend::contract::ReadCx;

/// At most four details a second and context.
const BETWEEN: Duration = Duration::from_millis(250);
/// One address may take this long: an agent that hangs must not hold up the others.
const ONE: Duration = Duration::from_secs(3);
/// The pause between two rounds.
const ROUND: Duration = Duration::from_secs(30);

/// One round over one context; rows on screen first.
pub(super) async fn sweep(fleet: &Arc<Fleet>, n: usize) {
    let member = Arc::clone(&fleet.workers[n].member);
    if !member.spec.addresses {
        return;
    }
    let visible = fleet.watched();
    let mut ids = fleet.with_state(|state| state.without_addresses(n));
    ids.sort_by_key(|id| !visible.contains(id));
    for id in ids {
        let cx = ReadCx::quiet(ONE);
        if let Ok(detail) = cx
            .within(&member.spec.name, member.backend.detail(&cx, &id))
            .await
        {
            fleet.note_detail(&detail);
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Rounds for as long as the fleet lives.
pub(super) async fn sweep_loop(fleet: Weak<Fleet>) {
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let Some(strong) = fleet.upgrade() else {
            return;
        };
        let count = strong.workers.len();
        futures::future::join_all((0..count).map(|n| sweep(&strong, n))).await;
        drop(strong);
        tokio::time::sleep(ROUND).await;
    }
}
