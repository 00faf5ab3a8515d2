//! A change: plan, question, task, result.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::progress::Progress;
use super::signals::{Interrupts, Signal};
use super::{Terminal, ask, edit, exit, note, out};
use crate::action::grammar::Invocation;
use crate::action::render::{self, Format, View};
use crate::action::task::WARNING;
use crate::action::{Engine, TaskHandle, guard};
use crate::model::{Body, Consent, Data, Gate, Plan, Result, TargetState, Task};

/// How long a step may go on after SIGTERM or SIGHUP.
const GRACE: Duration = Duration::from_secs(10);

pub(super) async fn change(
    engine: &Arc<Engine>,
    invocation: &Invocation,
    terminal: &Terminal,
    view: &View,
) -> Result<u8> {
    if invocation.row.is_some_and(|row| row.name == "edit") {
        return edit::edit(engine, invocation, terminal, view).await;
    }
    planned(engine, invocation, terminal, view).await
}

/// From the plan to the result.
pub(super) async fn planned(
    engine: &Arc<Engine>,
    invocation: &Invocation,
    terminal: &Terminal,
    view: &View,
) -> Result<u8> {
    let mut plan = engine.plan(&invocation.action).await?;
    if invocation.run.dry_run {
        let code = exit::of_plan(&plan);
        let mut data = Data::new(Body::Plan(Box::new(plan)));
        out(&view.data(&mut data, &|_| None, Timestamp::now())?);
        return Ok(code);
    }
    // Asked once more if the world moved while the question stood there.
    let mut attempt = 0;
    let mut asked = false;
    let mut task = loop {
        let consent = match consent(&plan, invocation) {
            Some(consent) => consent,
            None => match ask::about(&plan, invocation.globals.headless).await {
                ask::Answer::Given(consent) => {
                    asked = true;
                    consent
                }
                ask::Answer::Declined => {
                    note("Nothing was done.");
                    return Ok(exit::REFUSED);
                }
                ask::Answer::NobodyThere => {
                    note(render::plan_text(&plan, Timestamp::now(), false).trim_end());
                    Consent::default()
                }
            },
        };
        let again = consent != invocation.consent && !invocation.globals.headless;
        match engine.submit(&plan, &consent, &invocation.run).await {
            Ok(task) => break task,
            Err(error)
                if error.kind == crate::model::ErrorKind::Conflict && again && attempt < 3 =>
            {
                // Whom nobody asked is told once, how it ended.
                if asked {
                    note(&render::failure(&error));
                }
                attempt += 1;
                plan = engine.plan(&invocation.action).await?;
            }
            Err(error) => return Err(error),
        }
    };
    if invocation.run.no_wait {
        let accepted = task.task.borrow().clone();
        out(&match view.format {
            Format::Table | Format::Wide | Format::Name => format!("{}\n", accepted.id),
            _ => view.task(&accepted)?,
        });
        return Ok(exit::OK);
    }
    let mut progress = Progress::new(terminal, invocation.output.progress.as_deref());
    let outcome = watch(engine, &mut task, &mut progress).await?;
    progress.end();
    let ended = task.task.borrow().clone();
    report(&plan, &ended, view)?;
    Ok(match outcome {
        Some(signal) => signal.exit_code(),
        None => exit::of_task(&ended, !plan.left_out.is_empty()),
    })
}

/// What the command line itself answers; `None` where the question stays open.
fn consent(plan: &Plan, invocation: &Invocation) -> Option<Consent> {
    let said = &invocation.consent;
    let enough = match &plan.gate {
        Gate::Free => true,
        Gate::Confirm => said.yes || said.typed.is_some(),
        Gate::Type { .. } => said.typed.is_some(),
    };
    // A plan that nothing of would run has nothing to ask about.
    if enough || plan.runnable().all(|target| target.unchanged) {
        return Some(said.clone());
    }
    let implied = guard::implied_consent(plan);
    if implied.yes && plan.gate == Gate::Confirm {
        return Some(implied);
    }
    None
}

/// Follows the task to its end, or until a signal has ended it.
async fn watch(
    engine: &Arc<Engine>,
    task: &mut TaskHandle,
    progress: &mut Progress,
) -> Result<Option<Signal>> {
    let mut signals = Interrupts::watch()?;
    let mut came: Option<Signal> = None;
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        let now = task.task.borrow_and_update().clone();
        progress.show(&now);
        if now.state.is_final() {
            return Ok(came);
        }
        tokio::select! {
            changed = task.task.changed() => if changed.is_err() {
                return Ok(came);
            },
            _ = tick.tick() => {}
            signal = signals.next() => match (signal, came) {
                (Signal::Interrupt, None) => {
                    engine.board().stop_queueing();
                    progress.end();
                    note(&standing(&now));
                    came = Some(signal);
                }
                (Signal::Interrupt, Some(_)) => {
                    engine.shutdown(Duration::ZERO).await;
                    return Ok(Some(signal));
                }
                (_, _) => {
                    progress.end();
                    engine.shutdown(GRACE).await;
                    return Ok(Some(signal));
                }
            },
        }
    }
}

fn standing(task: &Task) -> String {
    let count = |f: fn(&TargetState) -> bool| task.targets.iter().filter(|t| f(&t.state)).count();
    let running: Vec<String> = task
        .targets
        .iter()
        .filter(|t| matches!(t.state, TargetState::Running))
        .map(|t| t.id.to_string())
        .collect();
    format!(
        "interrupted: {} done, {} failed, {} will not be started; still going on: {}. Ctrl-C again leaves at once.",
        count(|s| matches!(s, TargetState::Done(_))),
        count(|s| matches!(s, TargetState::Failed(_))),
        count(|s| matches!(s, TargetState::Queued)),
        if running.is_empty() {
            "nothing".to_owned()
        } else {
            format!("{}, waited for to its end", running.join(", "))
        }
    )
}

fn report(plan: &Plan, task: &Task, view: &View) -> Result<()> {
    out(&view.task(task)?);
    for target in &task.targets {
        if let TargetState::Failed(error) = &target.state {
            let line = render::failure(error);
            let id = target.id.spoken();
            // Most messages name their instance; the others are told apart by its ID.
            note(&if line.contains(&id) {
                line
            } else {
                line.replacen(": ", &format!(": {id}: "), 1)
            });
        }
    }
    for line in task.log.iter().filter(|line| line.starts_with(WARNING)) {
        note(&crate::model::shown(line));
    }
    for left in &plan.left_out {
        note(&format!(
            "left out: {}: {}",
            crate::model::shown(&left.what),
            crate::model::shown(&left.why)
        ));
    }
    if task.state == crate::model::TaskState::TimedOut && task.detachable {
        note(&format!("still going: corral tasks show {}", task.id));
    }
    Ok(())
}
