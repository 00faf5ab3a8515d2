//! Exit codes: one place, one meaning.

use crate::model::{Body, CheckStatus, Data, Error, ErrorKind, Plan, TargetState, Task, TaskState};

/// All well, or already as wanted.
pub const OK: u8 = 0;
/// All failed.
pub const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
pub const USAGE: u8 = 2;
/// Some targets or contexts failed.
pub const PARTIAL: u8 = 3;
/// A change timed out; it may still finish.
pub const TIMED_OUT: u8 = 4;
/// Not found, ambiguous, or nothing matches.
pub const MISSING: u8 = 5;
/// Refused or unsupported.
pub const REFUSED: u8 = 6;
/// Ctrl-C.
pub const INTERRUPTED: u8 = 130;
/// SIGTERM.
pub const TERMINATED: u8 = 143;
/// corral's own failure where the remote's status is passed on.
pub const OWN_FAILURE: u8 = 255;

/// Of an answer. `answered`: at least one context in scope answered.
pub fn of_data(data: &Data, answered: bool) -> u8 {
    match &data.body {
        Body::Checks(checks) if checks.iter().any(|c| c.status == CheckStatus::Fail) => FAILED,
        Body::Problems(problems) if problems.iter().any(|p| !p.warning) => FAILED,
        Body::Waits(waits) if !waits.is_empty() && waits.iter().all(|w| !w.reached) => TIMED_OUT,
        Body::Waits(waits) if waits.iter().any(|w| !w.reached) => PARTIAL,
        Body::Plan(plan) => of_plan(plan),
        _ if data.faulty => FAILED,
        // Everybody was asked, and it is not there.
        _ if data.complete && !data.errors.is_empty() && data.errors.iter().all(is_missing) => {
            data.errors.first().map_or(OK, Error::exit_code)
        }
        _ if !data.errors.is_empty() && !answered => FAILED,
        _ if !data.errors.is_empty() || !data.complete => PARTIAL,
        _ => OK,
    }
}

fn is_missing(error: &Error) -> bool {
    error.kind == ErrorKind::NotFound
}

/// Of a dry run.
pub fn of_plan(plan: &Plan) -> u8 {
    let refused = plan.refused().count();
    if refused == 0 {
        if plan.left_out.is_empty() {
            OK
        } else {
            PARTIAL
        }
    } else if plan.runnable().next().is_none() {
        let mut all = plan.refused().flat_map(|target| &target.refusals);
        if all.all(|refusal| refusal.kind == ErrorKind::NotFound) {
            MISSING
        } else {
            REFUSED
        }
    } else {
        PARTIAL
    }
}

/// Of a change that has ended. `left_out`: something in scope was not even tried.
pub fn of_task(task: &Task, left_out: bool) -> u8 {
    match task.state {
        TaskState::Done if left_out => PARTIAL,
        TaskState::Done | TaskState::Queued | TaskState::Running => OK,
        TaskState::Partial => PARTIAL,
        TaskState::TimedOut => TIMED_OUT,
        TaskState::Interrupted => INTERRUPTED,
        TaskState::Cancelled => FAILED,
        TaskState::Failed => {
            let mut kinds = task
                .targets
                .iter()
                .filter_map(|target| match &target.state {
                    TargetState::Failed(error) => Some(of_failed_target(error)),
                    _ => None,
                });
            let first = kinds.next().unwrap_or(FAILED);
            // Unlike reasons have no common code but the general one.
            if kinds.all(|code| code == first) {
                first
            } else {
                FAILED
            }
        }
    }
}

fn of_failed_target(error: &Error) -> u8 {
    match error.kind {
        // The command line was right; the backend found the value bad.
        ErrorKind::Invalid => FAILED,
        _ => error.exit_code(),
    }
}

/// Of several commands: batch lines.
pub fn of_many(codes: &[u8]) -> u8 {
    let bad = codes.iter().filter(|code| **code != OK).count();
    match bad {
        0 => OK,
        n if n == codes.len() => FAILED,
        _ => PARTIAL,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::model::{Check, Outcome, TaskTarget, WaitRow};

    fn task(state: TaskState, targets: Vec<TargetState>) -> Task {
        Task {
            id: "t".to_owned(),
            command: String::new(),
            verb: String::new(),
            action: crate::model::Action::default(),
            state,
            started_at: Timestamp::UNIX_EPOCH,
            ended_at: None,
            targets: targets
                .into_iter()
                .map(|state| TaskTarget {
                    id: crate::model::InstanceId::new("a", None, "b"),
                    uid: None,
                    state,
                    step: None,
                    progress: None,
                    native_task: None,
                })
                .collect(),
            log: Vec::new(),
            pid: 1,
            detachable: false,
        }
    }

    #[test]
    fn req_39_a_failed_change_never_exits_zero() {
        let timed_out = TargetState::Failed(Error::timed_out("x"));
        let refused = TargetState::Failed(Error::refused("x"));
        assert_eq!(
            of_task(
                &task(TaskState::Done, vec![TargetState::Done(Outcome::default())]),
                false
            ),
            OK
        );
        assert_eq!(
            of_task(&task(TaskState::Failed, vec![refused.clone()]), false),
            REFUSED
        );
        assert_eq!(
            of_task(&task(TaskState::Failed, vec![timed_out.clone()]), false),
            TIMED_OUT
        );
        assert_eq!(
            of_task(&task(TaskState::Failed, vec![timed_out, refused]), false),
            FAILED
        );
        assert_eq!(of_task(&task(TaskState::Failed, vec![]), false), FAILED);
        assert_eq!(of_task(&task(TaskState::Partial, vec![]), false), PARTIAL);
        assert_eq!(of_task(&task(TaskState::Done, vec![]), true), PARTIAL);
        assert_eq!(
            of_task(&task(TaskState::TimedOut, vec![]), false),
            TIMED_OUT
        );
    }

    #[test]
    fn req_04_an_incomplete_answer_never_exits_zero() {
        let mut data = Data::new(Body::Instances(Vec::new()));
        assert_eq!(of_data(&data, true), OK);
        data.complete = false;
        assert_eq!(of_data(&data, true), PARTIAL);
        data.errors.push(Error::unreachable("x"));
        assert_eq!(of_data(&data, true), PARTIAL);
        assert_eq!(of_data(&data, false), FAILED);
        let checks = vec![Check::warn("a", "b")];
        assert_eq!(of_data(&Data::new(Body::Checks(checks)), true), OK);
        let checks = vec![Check::ok("a", "b"), Check::fail("a", "b")];
        assert_eq!(of_data(&Data::new(Body::Checks(checks)), true), FAILED);
    }

    #[test]
    fn what_was_found_damaged_is_no_success() {
        let mut data = Data::new(Body::Backups(Vec::new()));
        assert_eq!(of_data(&data, true), OK);
        data.faulty = true;
        assert_eq!(of_data(&data, true), FAILED);
    }

    #[test]
    fn a_wait_in_vain_is_a_timeout() {
        let row = |reached| WaitRow {
            id: crate::model::InstanceId::new("a", None, "b"),
            wanted: "running".to_owned(),
            reached,
            seconds: 1.0,
        };
        assert_eq!(of_data(&Data::new(Body::Waits(vec![row(true)])), true), OK);
        assert_eq!(
            of_data(&Data::new(Body::Waits(vec![row(false)])), true),
            TIMED_OUT
        );
        assert_eq!(
            of_data(&Data::new(Body::Waits(vec![row(false), row(true)])), true),
            PARTIAL
        );
    }

    #[test]
    fn many_commands_sum_up() {
        assert_eq!(of_many(&[]), OK);
        assert_eq!(of_many(&[0, 0]), OK);
        assert_eq!(of_many(&[0, 5]), PARTIAL);
        assert_eq!(of_many(&[2, 5]), FAILED);
    }
}
