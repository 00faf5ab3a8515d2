//! Checks of corral itself, for doctor: its configuration, its files, what earlier corrals left.

use std::sync::Arc;

use jiff::Timestamp;

use super::contexts;
use super::engine::Engine;
use super::paths::at_home;
use crate::config::Loaded;
use crate::doctor::{clock, home};
use crate::model::{Action, Check, Error, Result, Secret, Step, counted, shown};

/// Checks of the configuration, the state folder and what an earlier corral left behind. Reads files.
pub fn checks(engine: &Arc<Engine>) -> Vec<Check> {
    let mut found = configuration(&engine.config());
    if engine.is_in_memory() {
        return found;
    }
    found.push(writable(engine));
    found.extend(engine.protection().fault().map(|error| {
        let check = Check::fail("corral.protection", error.message.clone());
        check.remedy(
            error
                .remedy
                .clone()
                .unwrap_or_else(|| "Make it readable".to_owned()),
        )
    }));
    found.extend(home::checks(&home_of(engine)));
    let history = engine.journal().read(1);
    found.push(match &history {
        Ok(history) if history.skipped > 0 => Check::warn(
            "corral.journal",
            format!("{} lines of the history are torn and were skipped", history.skipped),
        )
        .remedy("The rest is whole: corral history. A crash or a full disk tears lines; see corral.space"),
        Ok(_) => Check::ok("corral.journal", "the history is whole"),
        Err(error) => Check::fail("corral.journal", error.message.clone())
            .remedy(error.remedy.clone().unwrap_or_else(|| "Look at corral config path".to_owned())),
    });
    let mut noted: Vec<(Timestamp, &str)> = Vec::new();
    for entry in history.iter().flat_map(|history| &history.entries) {
        noted.push((
            entry.ended_at.unwrap_or(entry.at),
            "the last entry of the history",
        ));
    }
    for context in &engine.fleet().view().contexts {
        noted.extend(context.answered_at.map(|at| (at, "a cached list")));
    }
    found.push(clock::check(Timestamp::now(), &noted));
    found.extend(tasks(engine));
    found
}

/// Mends what one of [`checks`] found; what was done.
///
/// # Errors
/// `Unsupported` where only the user can.
pub fn repair(engine: &Arc<Engine>, check: &str) -> Result<String> {
    if engine.is_in_memory() {
        return Err(Error::unsupported("the simulated fleet has no files"));
    }
    match check {
        "corral.orphans" => Ok(format!("{} put in order", engine.board().clean()?)),
        _ => home::repair(&home_of(engine), check),
    }
}

fn configuration(config: &Loaded) -> Vec<Check> {
    if config.problems.is_empty() {
        return vec![Check::ok("corral.config", "the configuration is in order")];
    }
    let problems = config.problems.iter();
    problems
        .map(|problem| {
            let message = format!("{}: {}", problem.place(), problem.message);
            let check = if problem.warning {
                Check::warn("corral.config", message)
            } else {
                Check::fail("corral.config", message)
            };
            check.remedy("Mend that line; corral config check says whether it is right")
        })
        .collect()
}

fn home_of(engine: &Engine) -> home::Home {
    let config = engine.config();
    let env = engine.env();
    let mut names: Vec<String> = config.contexts.iter().map(|c| c.name.clone()).collect();
    // With --no-discover what is found here is still this machine's.
    names.extend(
        contexts::discovered(&config, env)
            .into_iter()
            .map(|spec| spec.name),
    );
    names.extend(
        engine
            .fleet()
            .view()
            .contexts
            .iter()
            .map(|c| c.name.clone()),
    );
    let references = || config.contexts.iter().filter_map(|c| c.secret.as_ref());
    home::Home {
        dirs: env.dirs.clone(),
        secrets: references()
            .filter_map(|secret| match secret {
                Secret::File(path) => Some(at_home(&env.home, path)),
                _ => None,
            })
            .collect(),
        literal: references().any(|secret| matches!(secret, Secret::Literal(_))),
        contexts: names,
    }
}

fn tasks(engine: &Engine) -> Vec<Check> {
    let mut found = Vec::new();
    let left = engine.board().leftovers();
    let orphans = left.tasks.len() + left.files.len();
    if orphans > 0 {
        let which = left.tasks.first().map_or_else(
            || counted(orphans, "lock"),
            |task| format!("{}, such as {}", counted(left.tasks.len(), "task"), task.id),
        );
        let fix = Action::new("doctor")
            .with("fix", true)
            .with("check", "corral.orphans");
        let ended = left.tasks.iter().map(|task| {
            let native = format!("{}.json: interrupted", task.id);
            Step::new(format!("Note that {} has ended", task.id), native)
        });
        let removed = left.files.iter().map(|file| {
            let native = format!("rm '{}'", shown(&file.display().to_string()));
            Step::new("Remove a lock or a note that nobody holds", native)
        });
        let repairs: Vec<Step> = ended.chain(removed).collect();
        found.push(
            Check::warn(
                "corral.orphans",
                format!("{which}: left by a corral that was killed"),
            )
            .remedy("Look at what they did: corral tasks list. Then: corral doctor --fix")
            .by(repairs)
            .fix(fix),
        );
    }
    let interrupted = engine.board().interrupted(None);
    if let Some(last) = interrupted.last() {
        found.push(
            Check::warn(
                "corral.tasks",
                format!(
                    "{} tasks were interrupted, the last is {}",
                    interrupted.len(),
                    last.id
                ),
            )
            .remedy(format!("corral tasks show {}", last.id)),
        );
    }
    found
}

fn writable(engine: &Engine) -> Check {
    let state = &engine.env().dirs.state;
    let tried = crate::link::files::make_dir(state).and_then(|()| {
        tempfile::tempfile_in(state).map_err(|e| crate::link::files::fault("write in", state, e))
    });
    match tried {
        Ok(_) => Check::ok("corral.state", format!("{} can be written", state.display())),
        Err(error) => Check::fail("corral.state", error.message)
            .remedy("Tasks, history and protection are kept there: give it back to this user, or free space"),
    }
}
