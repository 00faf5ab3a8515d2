//! Waiting for a state or a readiness, from the backend's own word and never from a cache.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::engine::Engine;
use super::row::WAITS;
use crate::model::{Error, ErrorKind, Instance, InstanceId, Result, State, print_duration};

/// What can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A state.
    State(State),
    /// An address is known.
    Address,
    /// The guest agent answers.
    Agent,
    /// It is no more.
    Gone,
}

impl FromStr for Wanted {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "running" => Ok(Self::State(State::Running)),
            "stopped" => Ok(Self::State(State::Stopped)),
            "paused" => Ok(Self::State(State::Paused)),
            "address" => Ok(Self::Address),
            "agent" => Ok(Self::Agent),
            "gone" => Ok(Self::Gone),
            _ => Err(
                Error::invalid(format!("cannot wait for {:?}", crate::model::shown(word)))
                    .remedy(format!("One of {}", WAITS.join(", "))),
            ),
        }
    }
}

impl Wanted {
    /// As `--for` takes it.
    fn word(self) -> &'static str {
        match self {
            Self::State(state) => state.as_str(),
            Self::Address => "address",
            Self::Agent => "agent",
            Self::Gone => "gone",
        }
    }
}

/// What to try when this was not enough.
fn longer(limit: Duration) -> Duration {
    Duration::from_secs(1800).max(limit * 2)
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(state) => write!(f, "{state}"),
            Self::Address => f.write_str("reachable at an address"),
            Self::Agent => f.write_str("answered for by its guest agent"),
            Self::Gone => f.write_str("gone"),
        }
    }
}

fn holds(wanted: Wanted, instance: &Instance) -> bool {
    match wanted {
        Wanted::State(state) => instance.state == state,
        Wanted::Address => {
            instance.addresses.as_ref().is_some_and(|a| !a.is_empty())
                || instance.way_in().is_some() && instance.state == State::Running
        }
        Wanted::Agent => instance.agent == Some(true),
        Wanted::Gone => false,
    }
}

/// Whether an instance whose state is left as it is can come to what is wanted.
///
/// # Errors
/// `Refused` where it is at rest in another state: the wait would be in vain.
pub fn within_reach(wanted: Wanted, instance: &Instance) -> Result<()> {
    let resting = matches!(
        instance.state,
        State::Running | State::Stopped | State::Paused | State::Hibernated
    );
    let there = match wanted {
        Wanted::State(state) => instance.state == state,
        Wanted::Address | Wanted::Agent => instance.state == State::Running,
        Wanted::Gone => false,
    };
    if there || !resting {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} is {} and stays so: it does not become {wanted}. Nothing was done",
        instance.id, instance.state
    ))
    .remedy("Leave --for out"))
}

/// Waits until it is so; how long that took. Asks the backend once a second, sooner after an event.
pub async fn until(
    engine: &Arc<Engine>,
    id: &InstanceId,
    wanted: Wanted,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<Duration> {
    let start = Instant::now();
    let member = engine
        .fleet()
        .member(id.context())
        .ok_or_else(|| Error::not_found(format!("there is no context {:?}", id.context())))?;
    let mut changed = engine.fleet().subscribe();
    let mut last = None;
    loop {
        let cx = engine.fleet().read_cx(id.context());
        match cx
            .within(id.context(), member.backend.detail(&cx, id))
            .await
        {
            Ok(detail) => {
                engine.fleet().note_detail(&detail);
                if holds(wanted, &detail.instance) {
                    return Ok(start.elapsed());
                }
                last = Some(detail.instance.state);
            }
            Err(error) if error.kind == ErrorKind::NotFound => {
                if wanted == Wanted::Gone {
                    return Ok(start.elapsed());
                }
                return Err(error);
            }
            Err(error) if error.is_temporary() => {}
            Err(error) => return Err(error),
        }
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            let now = last.map_or_else(String::new, |state| format!(", it is {state}"));
            return Err(Error::timed_out(format!(
                "{id} is not {wanted} after {}{now}",
                print_duration(limit)
            ))
            .remedy(format!(
                "Wait longer: corral wait {id} --for {} --timeout {}",
                wanted.word(),
                print_duration(longer(limit))
            )));
        }
        tokio::select! {
            () = cancel.cancelled() => return Err(Error::refused("cancelled")),
            () = tokio::time::sleep(left.min(Duration::from_secs(1))) => {}
            // An event may be the very thing; a busy fleet must not turn this into a busy loop.
            _ = changed.changed() => tokio::time::sleep(left.min(Duration::from_millis(100))).await,
        }
    }
}
