//! An answer as it comes in: what some contexts said is there before the slowest has said anything.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream, FuturesUnordered};

use super::engine::Engine;
use super::grammar;
use super::rows::doctor;
use crate::fleet::selector::check_scope;
use crate::model::{Action, Data, Result, Selector, Support};

/// What there is to say to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum SoFar {
    /// What is known by now; more follows.
    Part(Box<Data>),
    /// All of it.
    Whole(Result<Box<Data>>),
}

/// Asks what a row that lists asks, each context for itself: what is known is told whenever one has answered, and the
/// whole at the end.
pub fn in_parts(engine: Arc<Engine>, action: Action) -> BoxStream<'static, SoFar> {
    if action.verb == "doctor" {
        return doctor::in_parts(engine, action);
    }
    let asked = match each(&engine, &action) {
        Ok(asked) => asked,
        Err(error) => return stream::once(async { SoFar::Whole(Err(error)) }).boxed(),
    };
    // Where no context can be asked the row itself knows best what to say.
    if asked.is_empty() {
        let whole = async move { SoFar::Whole(engine.read(action).await.map(Box::new)) };
        return stream::once(whole).boxed();
    }
    let mut known: Vec<Option<Result<Data>>> = vec![None; asked.len()];
    let answers: FuturesUnordered<_> = asked
        .into_iter()
        .enumerate()
        .map(|(n, action)| {
            let engine = Arc::clone(&engine);
            async move { (n, engine.read(action).await) }
        })
        .collect();
    answers
        .filter_map(move |(n, answer)| {
            known[n] = Some(answer);
            let told = told(&known);
            async { told }
        })
        .boxed()
}

/// The question to each context that it concerns and that can be asked, in the order of the contexts.
fn each(engine: &Engine, action: &Action) -> Result<Vec<Action>> {
    let row = grammar::validate(action)?;
    check_scope(&engine.fleet().view(), &action.scope)?;
    let members = engine.fleet().members();
    let asked = members.iter().filter_map(|member| {
        let name = &member.spec.name;
        let able = row.operations.is_empty()
            || row
                .operations
                .iter()
                .any(|op| !matches!(member.backend.support(*op, None), Support::No(_)));
        if !able || !action.scope.covers(name, member.spec.kind.as_str()) {
            return None;
        }
        let mut own = action.clone();
        own.scope.contexts = vec![name.clone()];
        own.targets.retain(|target| is_of(target, name));
        (own.targets.is_empty() == action.targets.is_empty()).then_some(own)
    });
    Ok(asked.collect())
}

/// Names something of this context.
fn is_of(target: &Selector, context: &str) -> bool {
    let named = target.as_str().split_once('/');
    named.is_none_or(|(name, _)| name == context)
}

fn told(known: &[Option<Result<Data>>]) -> Option<SoFar> {
    let whole = known.iter().all(Option::is_some);
    match merged(known.iter().flatten())? {
        answer if whole => Some(SoFar::Whole(answer.map(Box::new))),
        // Nobody has said anything yet but why not; somebody still may.
        Err(_) => None,
        Ok(mut data) => {
            data.complete = false;
            Some(SoFar::Part(Box::new(data)))
        }
    }
}

/// One answer of many. It fails where all have.
fn merged<'a>(answers: impl Iterator<Item = &'a Result<Data>>) -> Option<Result<Data>> {
    let mut all: Option<Data> = None;
    let mut errors = Vec::new();
    for answer in answers {
        match (answer, &mut all) {
            (Err(error), _) => errors.push(error.clone()),
            (Ok(data), None) => all = Some(data.clone()),
            (Ok(data), Some(all)) => all.append(data.clone()),
        }
    }
    let Some(mut all) = all else {
        return errors.into_iter().next().map(Err);
    };
    all.complete &= errors.is_empty();
    all.errors.extend(errors);
    Some(Ok(all))
}
