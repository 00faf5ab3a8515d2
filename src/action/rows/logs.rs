//! `logs`: what guest and launcher wrote.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::super::engine::Engine;
use super::super::row::{Group, Row, Run, Targets};
use super::one::One;
use crate::backend::contract::Logs;
use crate::model::{
    Action, Body, Data, Error, Field, FieldKind, GroupNoun, LogLine, LogText, Operation, Result,
    nearest, shown,
};

pub(super) const ROWS: &[&Row] = &[&Row {
    examples: &[
        "logs local/web",
        "logs local/web --list",
        "logs local/web -f --tail 20",
        "logs local/web --source qemu",
    ],
    details: "The first of its logs, from the end. Control characters are shown, not sent; --raw sends them, to a pipe or a file only.",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    fields: &[
        Field::flag("follow", "Goes on as lines come").short('f'),
        Field::new("source", FieldKind::Name, "Which log; --list names them"),
        Field::new("tail", FieldKind::Count, "So many of the last lines").default("200"),
        Field::flag("list", "Lists the logs there are"),
        Field::flag("raw", "As written, control characters too"),
    ],
    operations: &[Operation::Logs],
    shapes: &[("follow", Run::Follow(follow))],
    ..Row::new(
        "logs",
        Group::Look,
        "Shows what guest and launcher wrote",
        Run::Read(|e, a| Box::pin(logs(e, a))),
    )
}];

/// More lines than this at once are the work of an editor: they are in memory.
const MOST: u64 = 1_000_000;

fn tail(action: &Action) -> usize {
    usize::try_from(action.args.count("tail").unwrap_or(200).min(MOST)).unwrap_or(usize::MAX)
}

/// The family, or why there is none.
fn family(one: &One) -> Result<&dyn Logs> {
    one.backend
        .families()
        .logs()
        .ok_or_else(|| one.cannot(Operation::Logs))
}

/// The log that is meant: the named one, or the first.
async fn source(one: &One, action: &Action) -> Result<String> {
    let (cx, on) = (&one.cx, &one.instance);
    let all = cx.within(&on.context, family(one)?.sources(cx, on)).await?;
    let names = || all.iter().map(|log| log.name.as_str());
    let Some(wanted) = action.args.text("source") else {
        return match all.first() {
            Some(first) => Ok(first.name.clone()),
            None => Err(Error::not_found(format!("{} has no logs", on.id))),
        };
    };
    if names().any(|name| name == wanted) {
        return Ok(wanted.to_owned());
    }
    let remedy = match nearest(wanted, names()) {
        Some(near) => format!("Did you mean --source {near}?"),
        None => format!("It has: {}", names().collect::<Vec<_>>().join(", ")),
    };
    let message = format!("{} has no log {:?}", on.id, shown(wanted));
    Err(Error::not_found(message).remedy(remedy))
}

async fn logs(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let one = One::of(&engine, &action).await?;
    let (cx, on) = (&one.cx, &one.instance);
    let family = family(&one)?;
    if action.args.flag("list") {
        let all = cx.within(&on.context, family.sources(cx, on)).await?;
        return Ok(Data::new(Body::LogSources(all)));
    }
    let source = source(&one, &action).await?;
    let read = family.read(cx, on, &source, tail(&action));
    let lines = cx.within(&on.context, read).await?;
    let lines = lines.into_iter().map(|line| LogLine {
        instance: on.id.clone(),
        source: source.clone(),
        line,
    });
    Ok(Data::new(Body::Log(LogText {
        lines: lines.collect(),
        raw: action.args.flag("raw"),
    })))
}

fn follow(engine: Arc<Engine>, action: Action) -> BoxStream<'static, Result<Data>> {
    futures::stream::once(async move {
        if action.args.flag("list") {
            let error = Error::invalid("--list and -f do not go together");
            return Err(error.remedy("Leave one of them out"));
        }
        let one = One::of(&engine, &action).await?;
        let source = source(&one, &action).await?;
        let lines = family(&one)?.follow(&one.instance, &source, tail(&action));
        let raw = action.args.flag("raw");
        Ok(lines.map(move |line| {
            let line = LogLine {
                instance: one.instance.id.clone(),
                source: source.clone(),
                line: line?,
            };
            Ok(Data::new(Body::Log(LogText {
                lines: vec![line],
                raw,
            })))
        }))
    })
    .flat_map(|opened: Result<_>| match opened {
        Ok(lines) => lines.boxed(),
        Err(error) => futures::stream::once(async { Err(error) }).boxed(),
    })
    .boxed()
}
