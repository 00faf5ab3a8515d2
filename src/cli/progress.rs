//! What a running task shows on standard error: one line on a terminal, JSON Lines for programs.

use std::io::Write as _;

use super::{Terminal, note};
use crate::action::render::json;
use crate::model::{TargetState, Task, TaskEvent, TaskTarget, age, shown};

/// Shows one task.
pub(super) struct Progress {
    /// Width of the terminal that standard error is.
    line: Option<usize>,
    json: bool,
    drawn: bool,
    before: Vec<TaskTarget>,
    logged: usize,
}

impl Progress {
    pub(super) fn new(terminal: &Terminal, format: Option<&str>) -> Self {
        let json = format == Some("json");
        Self {
            line: (terminal.stderr && !json).then(|| terminal.width.unwrap_or(80)),
            json,
            drawn: false,
            before: Vec::new(),
            logged: 0,
        }
    }

    /// The task as it is now.
    pub(super) fn show(&mut self, task: &Task) {
        if self.json {
            for event in self.events(task) {
                if let Ok(line) = json(&event, false) {
                    note(line.trim_end());
                }
            }
        } else if let Some(width) = self.line
            && !task.state.is_final()
        {
            let text = crate::action::render::cut(&line(task), width.saturating_sub(1));
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K{text}");
            let _ = stderr.flush();
            self.drawn = true;
        }
    }

    /// Gives the line back.
    pub(super) fn end(&mut self) {
        if self.drawn {
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K");
            let _ = stderr.flush();
            self.drawn = false;
        }
    }

    /// What has happened since the last look.
    fn events(&mut self, task: &Task) -> Vec<TaskEvent> {
        let mut events = Vec::new();
        for (at, target) in task.targets.iter().enumerate() {
            let before = self.before.get(at);
            let id = || target.id.clone();
            let was = before.map(|t| &t.state);
            let new_state = was != Some(&target.state);
            if new_state && target.state == TargetState::Running {
                events.push(TaskEvent::Started { id: id() });
            }
            if let Some(title) = &target.step
                && before.and_then(|t| t.step.as_ref()) != Some(title)
            {
                let title = title.clone();
                events.push(TaskEvent::Step { id: id(), title });
            }
            if let Some((done, total)) = target.progress
                && before.and_then(|t| t.progress) != target.progress
            {
                let id = id();
                events.push(TaskEvent::Progress { id, done, total });
            }
            if let Some(native) = &target.native_task
                && before.and_then(|t| t.native_task.as_ref()) != Some(native)
            {
                let task = native.clone();
                events.push(TaskEvent::Native { id: id(), task });
            }
            match &target.state {
                TargetState::Done(outcome) if new_state => {
                    let outcome = outcome.clone();
                    events.push(TaskEvent::Done { id: id(), outcome });
                }
                TargetState::Failed(error) if new_state => {
                    let error = error.clone();
                    events.push(TaskEvent::Failed { id: id(), error });
                }
                _ => {}
            }
        }
        if let [only] = task.targets.as_slice() {
            for line in task.log.iter().skip(self.logged) {
                events.push(TaskEvent::Log {
                    id: only.id.clone(),
                    line: line.clone(),
                });
            }
        }
        self.logged = task.log.len();
        self.before.clone_from(&task.targets);
        events
    }
}

fn line(task: &Task) -> String {
    let seconds = jiff::Timestamp::now().as_second() - task.started_at.as_second();
    let since = age(u64::try_from(seconds).unwrap_or(0));
    let running: Vec<&TaskTarget> = task
        .targets
        .iter()
        .filter(|t| t.state == TargetState::Running)
        .collect();
    let ended = task
        .targets
        .iter()
        .filter(|t| !matches!(t.state, TargetState::Queued | TargetState::Running))
        .count();
    let what = match running.as_slice() {
        [] => shown(&task.verb).into_owned(),
        [first, ..] => {
            let step = first.step.as_deref().unwrap_or(&task.verb);
            let percent = first.progress.filter(|(_, total)| *total > 0).map_or(
                String::new(),
                |(done, total)| {
                    format!(
                        " {}%",
                        (done.min(total) as f64 / total as f64 * 100.0).floor()
                    )
                },
            );
            format!("{}: {}{percent}", first.id, shown(step))
        }
    };
    let count = if task.targets.len() > 1 {
        format!("{ended}/{} ", task.targets.len())
    } else {
        String::new()
    };
    let text = format!("{count}{what}");
    format!("{text}  {since}")
}
