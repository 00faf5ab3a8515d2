//! What all changes of this backend have in common: they are scripts.

use std::sync::Arc;

use super::ctx::{Ctx, Seen};
use super::wire::Call;
use crate::backend::contract::{Prepared, ReadCx};
use crate::model::{Error, ErrorKind, Result, State, shown};

/// Every family of changes that is a script.
pub struct Changing(pub Arc<Ctx>);

/// A family: `plan` says what would be done, as a [`super::script::Script`].
macro_rules! scripted {
    ($request:ty, $plan:path) => {
        #[async_trait::async_trait]
        impl crate::backend::contract::Changes<$request>
            for crate::backend::libvirt::change::Changing
        {
            async fn prepare(
                &self,
                cx: &crate::backend::contract::ReadCx,
                on: &crate::model::Instance,
                request: $request,
            ) -> crate::model::Result<crate::backend::contract::Prepared> {
                crate::backend::libvirt::change::or_refused($plan(&self.0, cx, on, request).await)
            }

            async fn run(
                &self,
                cx: &crate::backend::contract::TaskCx,
                mut prepared: crate::backend::contract::Prepared,
            ) -> crate::model::Result<crate::model::Outcome> {
                let script: crate::backend::libvirt::script::Script = prepared.take()?;
                script.run(&self.0, cx, &prepared.token).await
            }
        }
    };
}
pub(super) use scripted;

/// What forbids a change is part of its plan; what hinders from looking is an error.
pub fn or_refused(planned: Result<Prepared>) -> Result<Prepared> {
    match planned {
        Err(error)
            if matches!(
                error.kind,
                ErrorKind::Unreachable | ErrorKind::TimedOut | ErrorKind::Unauthorized
            ) =>
        {
            Err(error)
        }
        Err(error) => Ok(Prepared::failed("", &error)),
        Ok(prepared) => Ok(prepared),
    }
}

/// Where a change of a domain's definition applies: while it runs, and at its next start.
pub fn affects(seen: &Seen) -> (bool, bool) {
    (seen.is_active(), seen.listed.persistent)
}

/// A state in which nothing but power is possible.
///
/// # Errors
/// `Refused` with what helps.
pub fn settled(seen: &Seen) -> Result<()> {
    let (id, is) = (&seen.id, seen.is());
    match is.state {
        State::Migrating | State::Starting | State::Stopping | State::Unknown => {
            Err(Error::refused(format!("{id} is {}", is.state))
                .remedy(format!("Wait until that is done: corral info {id}")))
        }
        _ => Ok(()),
    }
}

/// It has to be off.
///
/// # Errors
/// `Refused` with how.
pub fn off(seen: &Seen) -> Result<()> {
    settled(seen)?;
    if seen.is_active() {
        return Err(
            Error::refused(format!("{} is {}", seen.id, seen.is().state))
                .remedy(format!("Stop it first: corral stop {}", seen.id)),
        );
    }
    Ok(())
}

/// Memory that is saved belongs to what the machine was made of then.
///
/// # Errors
/// `Refused` with how to give it up or use it.
pub fn not_hibernated(seen: &Seen) -> Result<()> {
    if seen.listed.saved {
        let id = &seen.id;
        return Err(Error::refused(format!(
            "{id} is hibernated: its saved memory fits only what it was"
        ))
        .remedy(format!(
            "Let it go on and shut it down: corral start {id}, corral stop {id}"
        )));
    }
    Ok(())
}

/// What only lives while it runs has no definition that could be changed.
///
/// # Errors
/// `Refused`.
pub fn persistent(seen: &Seen) -> Result<()> {
    if seen.listed.persistent {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} is transient: it has no definition that outlives it",
        seen.id
    ))
    .remedy(format!(
        "Give it one: virsh dumpxml {0} >{0}.xml, virsh define {0}.xml",
        shown(&seen.listed.name)
    )))
}

/// What a domain may be called.
///
/// # Errors
/// `Invalid`.
pub fn check_name(name: &str) -> Result<()> {
    let fine = !name.trim().is_empty()
        && name.trim() == name
        && name.len() <= 200
        && !name.contains('/')
        && !name.chars().any(char::is_control)
        && !matches!(name, "." | "..");
    if fine {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "\"{}\" cannot be the name of a domain",
        shown(name)
    ))
    .remedy("Use up to 200 letters, digits and signs; / and control characters are not possible."))
}

/// A name nobody has.
///
/// # Errors
/// `Refused` for one that is taken.
pub async fn free(ctx: &Ctx, cx: &ReadCx, name: &str) -> Result<()> {
    check_name(name)?;
    let key = name.to_owned();
    match ctx
        .client
        .ask::<super::wire::Looked>(cx, Call::Look { key })
        .await
    {
        Ok(found) if found.listed.name == name => Err(super::script::taken(ctx, name)),
        Ok(_) => Ok(()),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_libvirt_takes() {
        for good in ["web", "größe", "a b", "-x"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", " ", "a/b", "a\u{1b}[2J", "..", " a", &"x".repeat(201)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }
}
