//! Says of an answer whether it is all there is, and why not.

use jiff::Timestamp;

use crate::model::{Body, Data, Error, FleetView, Health, Scope};

/// Wraps rows of a fleet: complete only if every context in scope gave a complete, fresh answer.
pub fn of_fleet(view: &FleetView, scope: &Scope, body: Body) -> Data {
    let mut data = Data::new(body);
    for context in view
        .contexts
        .iter()
        .filter(|c| scope.covers(&c.name, c.kind.as_str()))
    {
        let error = match &context.health {
            Health::Ok => None,
            Health::Connecting => Some(
                Error::timed_out(format!("{} has not answered yet", context.name))
                    .remedy(format!("Retry: corral context test {}", context.name)),
            ),
            Health::Stale(error) | Health::Failed(error) | Health::LoginNeeded(error) => {
                Some(error.clone())
            }
        };
        if let Some(error) = error {
            let error = error.in_context(&context.name);
            // Something that was only found, and never answered, is not this user's failure.
            if context.configured || context.answered_at.is_some() {
                data.complete = false;
                data.errors.push(error);
            } else {
                data.warnings.push(error.to_string());
            }
            if let Some(at) = context.answered_at {
                let age = Timestamp::now().duration_since(at).as_secs();
                data.ages
                    .push((context.name.clone(), u64::try_from(age).unwrap_or(0)));
            }
            continue;
        }
        if !context.complete {
            data.complete = false;
            data.warnings.push(match context.hidden {
                Some(n) => format!(
                    "{} hides {n} instances from these credentials",
                    context.name
                ),
                None => format!("{} gave only part of its instances", context.name),
            });
        }
        for problem in &context.problems {
            data.warnings.push(match &problem.instance {
                Some(id) => format!("{id}: {}", problem.message),
                None => format!("{}: {}", context.name, problem.message),
            });
        }
    }
    data
}
