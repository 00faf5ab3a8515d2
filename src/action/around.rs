//! Asks every context in scope for what stands around instances (hosts, storage, networks, images), and finds
//! what was named among the answers.

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};

use super::engine::Engine;
use crate::backend::contract::{Backend, ReadCx};
use crate::fleet::Member;
use crate::fleet::selector::check_scope;
use crate::model::{
    Action, Body, Data, Error, ErrorKind, InstanceId, Operation, Result, Scope, Selector, nearest,
    shown,
};

/// Something that a context has beside its instances.
pub(crate) trait Around {
    /// The context.
    fn context(&self) -> &str;
    /// Its name there.
    fn name(&self) -> &str;
}

macro_rules! around {
    ($($of:ty),*) => {
        $(impl Around for $of {
            fn context(&self) -> &str {
                &self.context
            }
            fn name(&self) -> &str {
                &self.name
            }
        })*
    };
}

around!(
    crate::model::Host,
    crate::model::StoragePool,
    crate::model::Network,
    crate::model::Image
);

/// How it is called in commands: `CONTEXT/NAME`.
pub(crate) fn id_of(thing: &impl Around) -> String {
    InstanceId::new(thing.context(), None, thing.name()).to_string()
}

/// What was found, and who could not be asked.
pub(super) struct Gathered<T> {
    pub(super) found: Vec<T>,
    pub(super) errors: Vec<Error>,
    pub(super) warnings: Vec<String>,
}

impl<T> Gathered<T> {
    /// The envelope. What failed makes it incomplete.
    pub(super) fn data(self, body: impl FnOnce(Vec<T>) -> Body) -> Data {
        let mut data = Data::new(body(self.found));
        data.complete = self.errors.iter().all(|e| e.kind == ErrorKind::NotFound);
        data.errors = self.errors;
        data.warnings = self.warnings;
        data
    }

    /// Other things for the same answer.
    pub(super) fn map<U>(self, change: impl FnOnce(Vec<T>) -> Vec<U>) -> Gathered<U> {
        Gathered {
            found: change(self.found),
            errors: self.errors,
            warnings: self.warnings,
        }
    }
}

/// What one context is asked.
pub(super) type Question<'q, T> = dyn for<'a> Fn(&'a dyn Backend, &'a ReadCx) -> Option<BoxFuture<'a, Result<Vec<T>>>>
    + Send
    + Sync
    + 'q;

/// The contexts that an action speaks of: those of its scope, and of what it names in full.
fn members(engine: &Engine, scope: &Scope, targets: &[Selector]) -> Result<Vec<Arc<Member>>> {
    check_scope(&engine.fleet().view(), scope)?;
    let all = engine.fleet().members();
    let names = || all.iter().map(|m| m.spec.name.as_str());
    let named: Vec<Option<&str>> = targets
        .iter()
        .map(|target| {
            let (context, _) = target.as_str().split_once('/')?;
            names().find(|name| *name == context)
        })
        .collect();
    let of_targets = |name: &str| {
        named.is_empty()
            || named
                .iter()
                .any(|context| context.is_none_or(|c| c == name))
    };
    Ok(all
        .iter()
        .filter(|m| scope.covers(&m.spec.name, m.spec.kind.as_str()))
        .filter(|m| of_targets(&m.spec.name))
        .cloned()
        .collect())
}

/// Asks all contexts in scope at the same time; each has its own deadline, and one that fails hides no other.
///
/// # Errors
/// When none can answer: why the first cannot. A context that cannot be asked this at all is passed over, unless it
/// was asked for by name.
pub(super) async fn gather<T>(
    engine: &Arc<Engine>,
    action: &Action,
    operation: Operation,
    ask: &Question<'_, T>,
) -> Result<Gathered<T>> {
    let members = members(engine, &action.scope, &action.targets)?;
    let mut scope = action.scope.clone();
    scope.contexts = members.iter().map(|m| m.spec.name.clone()).collect();
    let settled = async {
        if !members.is_empty() {
            engine.fleet().settle(&scope).await;
        }
    };
    let asked = join_all(members.iter().map(|member| one(engine, member, ask)));
    let (answers, ()) = futures::future::join(asked, settled).await;
    let mut gathered = Gathered {
        found: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    let mut answered = false;
    for (member, answer) in members.iter().zip(answers) {
        let name = &member.spec.name;
        match answer {
            Some(Ok(found)) => {
                answered = true;
                gathered.found.extend(found);
            }
            // Something that was only found here, and is not there, is not this user's failure.
            Some(Err(error)) if !member.spec.configured && error.kind == ErrorKind::Unreachable => {
                gathered.warnings.push(error.in_context(name).to_string());
            }
            Some(Err(error)) => gathered.errors.push(error.in_context(name)),
            None if action.scope.contexts.contains(name) => gathered.errors.push(
                Error::unsupported(format!("{name}: {operation} is not there for it"))
                    .remedy("See corral matrix")
                    .in_context(name),
            ),
            None => {}
        }
    }
    if !answered && !gathered.errors.is_empty() {
        return Err(gathered.errors.swap_remove(0));
    }
    Ok(gathered)
}

async fn one<T>(
    engine: &Arc<Engine>,
    member: &Member,
    ask: &Question<'_, T>,
) -> Option<Result<Vec<T>>> {
    let name = &member.spec.name;
    let cx = engine.asking(engine.fleet().read_cx(name));
    if let Err(error) = cx.within(name, member.backend.ready(&cx)).await {
        return Some(Err(error));
    }
    let answer = ask(member.backend.as_ref(), &cx)?;
    Some(cx.within(name, answer).await)
}

/// Keeps what the action names; without names, everything.
///
/// # Errors
/// `Ambiguous` for a bare name that several contexts have.
pub(super) fn pick<T: Around + Clone>(
    gathered: Gathered<T>,
    targets: &[Selector],
    noun: &str,
) -> Result<Gathered<T>> {
    if targets.is_empty() {
        return Ok(gathered);
    }
    let Gathered {
        found: all,
        mut errors,
        warnings,
    } = gathered;
    let mut found: Vec<T> = Vec::new();
    for target in targets {
        let typed = target.as_str();
        let full = |thing: &T| {
            id_of(thing) == typed
                || typed
                    .strip_prefix(thing.context())
                    .and_then(|rest| rest.strip_prefix('/'))
                    == Some(thing.name())
        };
        let by_id: Vec<&T> = all.iter().filter(|thing| full(thing)).collect();
        let matches = if by_id.is_empty() {
            all.iter().filter(|thing| thing.name() == typed).collect()
        } else {
            by_id
        };
        match matches.as_slice() {
            [one] => {
                if !found.iter().any(|other| id_of(other) == id_of(*one)) {
                    found.push((*one).clone());
                }
            }
            [] => {
                let near = nearest(typed, all.iter().map(Around::name));
                let remedy = near.map_or_else(
                    || format!("See corral {noun} list"),
                    |near| format!("Did you mean {}?", shown(near)),
                );
                let why = format!("there is no {noun} {:?}", shown(typed));
                errors.push(Error::not_found(why).remedy(remedy));
            }
            several => {
                let ids: Vec<String> = several.iter().map(|thing| id_of(*thing)).collect();
                let why = format!("{:?} is in several contexts", shown(typed));
                return Err(Error::new(ErrorKind::Ambiguous, why)
                    .remedy(format!("Say which: {}", ids.join(", "))));
            }
        }
    }
    if found.is_empty() && !errors.is_empty() {
        return Err(errors.swap_remove(0));
    }
    Ok(Gathered {
        found,
        errors,
        warnings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Host;

    fn hosts(all: &[(&str, &str)]) -> Gathered<Host> {
        Gathered {
            found: all.iter().map(|(c, n)| Host::new(c, n)).collect(),
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn picked(all: &[(&str, &str)], wanted: &[&str]) -> Result<Vec<String>> {
        let targets: Vec<Selector> = wanted.iter().map(|t| t.parse().unwrap()).collect();
        let picked = pick(hosts(all), &targets, "host")?;
        Ok(picked.found.iter().map(id_of).collect())
    }

    #[test]
    fn a_name_is_found_however_it_is_written() {
        let all = [("a", "n1"), ("b", "n1"), ("b", "/srv/x"), ("a/b", "n2")];
        assert_eq!(picked(&all, &[]).unwrap().len(), 4);
        assert_eq!(picked(&all, &["b/n1", "b/n1"]).unwrap(), ["b/n1"]);
        for way in ["/srv/x", "b//srv/x", "b/%2Fsrv%2Fx"] {
            assert_eq!(picked(&all, &[way]).unwrap(), ["b/%2Fsrv%2Fx"], "{way}");
        }
        assert_eq!(picked(&all, &["n2"]).unwrap().len(), 1);
        let error = picked(&all, &["n1"]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Ambiguous);
        assert!(error.to_string().contains("a/n1, b/n1"), "{error}");
        assert_eq!(picked(&all, &["n3"]).unwrap_err().kind, ErrorKind::NotFound);
    }
}
