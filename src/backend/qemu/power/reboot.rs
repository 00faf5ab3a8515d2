//! A reboot by the guest itself, asked of its agent.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::super::change::Seen;
use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::{events, locks};
use super::{PATIENCE, Power};
use crate::backend::contract::TaskCx;
use crate::link::qga::Agent;
use crate::model::{Error, Outcome, Result};

/// An agent that is there answers within this.
const AGENT: Duration = Duration::from_secs(2);

impl Power {
    pub(super) async fn reboot(&self, cx: &TaskCx, seen: &Seen) -> Result<Outcome> {
        let ctx = &self.0;
        let paths = ctx.paths(&seen.vm.uuid)?;
        let since = jiff::Timestamp::now();
        cx.checkpoint()?;
        cx.step(format!("Ask the guest agent of {} to reboot", seen.id));
        {
            let _lock = locks::agent(ctx, &seen.vm.uuid).await?;
            let mut agent = Agent::connect(&paths.agent, AGENT).await?;
            agent
                .tell("guest-shutdown", &json!({"mode": "reboot"}), AGENT)
                .await?;
        }
        let until = Instant::now() + cx.timeout.unwrap_or(PATIENCE);
        loop {
            // Whoever holds the event socket writes it down, and if nobody else does, this change.
            tokio::time::sleep(Duration::from_millis(250)).await;
            let seen_reset = events::journal(&paths)
                .iter()
                .rev()
                .take_while(|event| event.at >= since)
                .any(|event| event.kind == "RESET");
            if seen_reset {
                return Ok(Outcome::changed(format!("{} reboots", seen.id)));
            }
            if cx.cancel.is_cancelled() {
                return Err(Error::refused(format!(
                    "too late to cancel: the guest of {} was asked to reboot and will",
                    seen.id
                ))
                .remedy(format!("See what it does: corral info {}", seen.id)));
            }
            if Instant::now() >= until {
                return Err(Error::timed_out(format!(
                    "{} has not rebooted; the agent took the request",
                    seen.id
                ))
                .remedy(format!("Force: corral restart --force {}", seen.id)));
            }
        }
    }
}

/// Whether the guest agent answers now.
pub(super) async fn answers(ctx: &Ctx, vm: &Definition) -> bool {
    let Ok(paths) = ctx.paths(&vm.uuid) else {
        return false;
    };
    let Ok(_lock) = locks::agent(ctx, &vm.uuid).await else {
        return false;
    };
    Agent::connect(&paths.agent, AGENT).await.is_ok()
}
