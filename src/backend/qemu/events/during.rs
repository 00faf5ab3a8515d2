//! A change is short-lived, but what happens meanwhile is recorded all the same.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::{follow, record, translate};
use crate::link::qmp::Qmp;

/// What QEMU sends right after its answer is still taken.
const LAST: Duration = Duration::from_millis(150);

/// Reads the events of a VM as long as it lives, where no other corral does.
#[derive(Debug)]
pub struct During {
    end: CancellationToken,
    task: Option<JoinHandle<()>>,
}

/// Begins. The socket is held once this returns, so nothing that follows is missed.
pub async fn during(ctx: &Ctx, vm: &Definition) -> During {
    let end = CancellationToken::new();
    // A VM that cannot be followed can still be changed.
    let task = match follow(ctx, vm).await {
        Ok(Some(qmp)) => Some(tokio::spawn(read(
            ctx.clone(),
            vm.clone(),
            qmp,
            end.clone(),
        ))),
        _ => None,
    };
    During { end, task }
}

impl During {
    /// Takes what is still under way, and gives the socket back.
    pub async fn end(mut self) {
        self.end.cancel();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

impl Drop for During {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

async fn read(ctx: Ctx, vm: Definition, mut qmp: Qmp, end: CancellationToken) {
    let Ok(paths) = ctx.paths(&vm.uuid) else {
        return;
    };
    loop {
        let next = tokio::select! {
            next = qmp.next_event() => next.map(Some),
            () = end.cancelled() => qmp.event(LAST).await,
        };
        let Ok(Some(event)) = next else { return };
        if let Some(event) = translate(&ctx, &vm, &event) {
            record(&paths, &event);
        }
    }
}
