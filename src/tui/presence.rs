//! What the terminal is told besides the screen: its title, a progress, that something long has ended. Everything
//! changes only with what is shown, so that an idle view sends nothing.

use std::collections::BTreeMap;

use super::app::App;
use crate::model::{Task, counted};

/// A task that took so long is worth a sign when it ends, seconds.
const LONG: i64 = 30;

/// What the configuration and the terminal allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manners {
    /// The window's title.
    pub title: bool,
    /// A progress in the taskbar or the tab (OSC 9;4).
    pub progress: bool,
    /// How the end of a long task is told.
    pub notify: Notify,
}

/// How the end of a long task is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// Not at all.
    #[default]
    Off,
    /// By the bell, which tmux shows beside the window's name.
    Bell,
    /// By a notice of the desktop (OSC 9).
    Desktop,
}

impl Manners {
    /// From `ui.title`, `ui.progress`, `ui.notify` and the environment. A terminal that is not known to understand an
    /// OSC 9;4 gets none: some show it as a notice.
    pub fn choose(
        title: Option<bool>,
        progress: Option<bool>,
        notify: Option<&str>,
        vars: &BTreeMap<String, String>,
    ) -> Self {
        let var = |name: &str| vars.get(name).map_or("", String::as_str);
        let plain = matches!(var("TERM"), "" | "dumb" | "linux" | "unknown");
        let knows = var("TMUX").is_empty()
            && (["WT_SESSION", "ConEmuPID"]
                .iter()
                .any(|v| !var(v).is_empty())
                || matches!(var("TERM_PROGRAM"), "ghostty" | "WezTerm"));
        Self {
            title: !plain && title.unwrap_or(true),
            progress: !plain && progress.unwrap_or(knows),
            notify: match notify {
                Some("off") => Notify::Off,
                Some("desktop") if !plain => Notify::Desktop,
                _ => Notify::Bell,
            },
        }
    }
}

/// What stands in the title and in the taskbar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// The title.
    pub title: String,
    /// The running tasks' progress.
    pub progress: Progress,
}

/// The running tasks' progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Nothing runs.
    #[default]
    None,
    /// Something runs; nobody knows how far it is.
    Unknown,
    /// Percent.
    Percent(u8),
}

impl Presence {
    /// Of a view as it is now.
    pub fn of(app: &App) -> Self {
        let running: Vec<&Task> = app.running_tasks().collect();
        let title = match running.as_slice() {
            [] => "corral".to_owned(),
            [one] => match one.targets.as_slice() {
                [target] => format!("corral: {} {}", one.verb, target.id.spoken()),
                many => format!("corral: {} {}", one.verb, counted(many.len(), "instance")),
            },
            many => format!("corral: {}", counted(many.len(), "task")),
        };
        Self {
            title: crate::model::shown(&title).into_owned(),
            progress: progress(&running),
        }
    }
}

fn progress(running: &[&Task]) -> Progress {
    if running.is_empty() {
        return Progress::None;
    }
    let targets = running.iter().flat_map(|task| &task.targets);
    let (mut parts, mut done, mut known) = (0.0_f64, 0.0_f64, false);
    for target in targets {
        parts += 1.0;
        match (&target.state, target.progress) {
            (crate::model::TargetState::Running, Some((now, all))) if all > 0 => {
                known = true;
                done += (now as f64 / all as f64).clamp(0.0, 1.0);
            }
            (crate::model::TargetState::Queued | crate::model::TargetState::Running, _) => {}
            _ => done += 1.0,
        }
    }
    if known || done > 0.0 {
        Progress::Percent((done / parts.max(1.0) * 100.0) as u8)
    } else {
        Progress::Unknown
    }
}

/// Whether a task that has just ended took long enough for a sign.
pub fn was_long(task: &Task) -> bool {
    task.ended_at
        .is_some_and(|end| end.as_second().saturating_sub(task.started_at.as_second()) >= LONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(vars: &[(&str, &str)], notify: Option<&str>) -> Manners {
        let vars = vars
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        Manners::choose(None, None, notify, &vars)
    }

    #[test]
    fn a_terminal_gets_only_what_it_understands() {
        let plain = choose(&[("TERM", "linux"), ("WT_SESSION", "x")], Some("desktop"));
        assert_eq!(
            (plain.title, plain.progress, plain.notify),
            (false, false, Notify::Bell)
        );
        let known = choose(&[("TERM", "xterm-256color"), ("WT_SESSION", "x")], None);
        assert_eq!(
            (known.title, known.progress, known.notify),
            (true, true, Notify::Bell)
        );
        let inside = choose(
            &[
                ("TERM", "tmux-256color"),
                ("TERM_PROGRAM", "ghostty"),
                ("TMUX", "x"),
            ],
            Some("off"),
        );
        assert_eq!(
            (inside.title, inside.progress, inside.notify),
            (true, false, Notify::Off)
        );
    }
}
