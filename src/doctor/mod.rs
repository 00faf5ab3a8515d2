//! Checks of corral's own home and of every context: the generic ones here, the rest by each backend itself.

pub mod clock;
pub mod home;
mod servers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use jiff::Timestamp;

use crate::fleet::Fleet;
use crate::model::{Check, ContextView, Health, Scope, age, counted};

/// What was seen of one context.
pub struct Report {
    /// The context.
    pub context: ContextView,
    /// Its checks, generic ones first.
    pub checks: Vec<Check>,
    /// How long all that took.
    pub took: Duration,
}

/// Checks every context in scope at the same time, each within its own deadline. `seen` is told of each as soon as it is
/// known; none waits for another.
pub async fn run(
    fleet: &Arc<Fleet>,
    scope: &Scope,
    seen: &(dyn Fn(&Report) + Sync),
) -> Vec<Report> {
    let view = fleet.view();
    let in_scope = view.contexts.iter();
    let in_scope = in_scope.filter(|c| scope.covers(&c.name, c.kind.as_str()));
    let asked = in_scope.map(async |context| {
        let report = one(fleet, context).await;
        seen(&report);
        report
    });
    let mut reports = join_all(asked).await;
    // Which of them are the same server is known when all were asked.
    let view = fleet.view();
    for report in &mut reports {
        let twin = servers::twin(&report.context, &view.contexts);
        report.checks.splice(1..1, twin);
    }
    reports
}

async fn one(fleet: &Arc<Fleet>, context: &ContextView) -> Report {
    let begun = Instant::now();
    let alone = Scope {
        contexts: vec![context.name.clone()],
        ..Scope::default()
    };
    let settled = fleet.settle(&alone).await;
    let context = settled.context(&context.name).unwrap_or(context).clone();
    let mut checks = vec![answers(&context)];
    checks.extend(old_list(&context, Timestamp::now()));
    if let Some(member) = fleet.member(&context.name) {
        if member.spec.secret_is_literal() {
            checks.push(
                Check::warn("context.secret", "its secret stands in the configuration as plain text")
                    .remedy("Keep it elsewhere: secret = { command = [...] }, { file = \"...\" } or { env = \"...\" }"),
            );
        }
        let limit = Duration::from_secs(member.spec.read_timeout.unwrap_or(15));
        let cx = fleet.read_cx(&context.name);
        match tokio::time::timeout(limit, member.backend.doctor(&cx)).await {
            // A context that cannot be opened says why in its own checks too.
            Ok(found) => {
                let said = checks[0].message.clone();
                checks.extend(found.into_iter().filter(|check| check.message != said));
            }
            Err(_) if context.health.is_ok() => checks.push(Check::fail(
                "context.doctor",
                format!("its checks did not end within {} s", limit.as_secs()),
            )),
            // That it does not answer was said already.
            Err(_) => {}
        }
    }
    Report {
        context,
        checks,
        took: begun.elapsed(),
    }
}

/// A context that has been silent for longer than this is probably not coming back by itself.
const LONG_SILENT: i64 = 86400;

/// What is listed of a silent context is what it said last; names are resolved from it.
fn old_list(context: &ContextView, now: Timestamp) -> Option<Check> {
    let silent = now.duration_since(context.answered_at?).as_secs();
    if context.health.is_ok() || silent < LONG_SILENT {
        return None;
    }
    let ago = age(u64::try_from(silent).unwrap_or(0));
    let message = format!("its list is {ago} old: names are resolved from it, no state is known");
    let remedy = format!(
        "Mend the connection (corral context test {}), or: corral context disable {}",
        context.name, context.name
    );
    Some(Check::warn("context.cache", message).remedy(remedy))
}

/// Health only on positive evidence.
fn answers(context: &ContextView) -> Check {
    let fail = |message: String, remedy: &Option<String>, configured: bool| {
        let check = if configured {
            Check::fail("context.answers", message)
        } else {
            Check::warn("context.answers", message)
        };
        match remedy {
            Some(remedy) => check.remedy(remedy.clone()),
            None => check,
        }
    };
    match &context.health {
        Health::Ok if context.hidden.unwrap_or(0) > 0 => Check::fail(
            "context.answers",
            format!(
                "answers, but hides {} instances from these credentials",
                context.hidden.unwrap_or(0)
            ),
        ),
        Health::Ok if !context.complete => Check::warn(
            "context.answers",
            format!(
                "answers, but only in part: {}",
                counted(context.count, "instance")
            ),
        ),
        Health::Ok => {
            let took = context
                .latency_ms
                .map_or_else(String::new, |ms| format!(" in {ms} ms"));
            Check::ok(
                "context.answers",
                format!("answers{took}: {}", counted(context.count, "instance")),
            )
        }
        Health::Connecting => fail("has not answered".to_owned(), &None, context.configured),
        Health::Stale(e) | Health::Failed(e) | Health::LoginNeeded(e) => fail(
            e.message.clone(),
            &e.remedy,
            context.configured || context.answered_at.is_some(),
        ),
    }
}

#[cfg(test)]
mod tests;
