//! The lines beside an answer: how many there are, what is wrong, who did not answer.

use super::{Format, View};
use crate::model::{Body, Data, Error, ErrorKind, Instance, State, age, shown};

/// Lines for standard error. Programs get only what failed.
pub(crate) fn notes(data: &Data, view: &View) -> Vec<String> {
    let mut lines = Vec::new();
    let people = matches!(view.format, Format::Table | Format::Wide);
    if let (Body::Instances(rows), true) = (&data.body, people) {
        if let Some(line) = count(rows, data) {
            lines.push(line);
        }
        lines.extend(reasons(rows));
    } else if people
        && data.complete
        && let Some(line) = nothing(&data.body)
    {
        // Of what there is not is only spoken when everybody answered.
        lines.push(data.nothing.unwrap_or(line).to_owned());
    }
    for warning in &data.warnings {
        lines.push(format!("warning: {}", shown(warning)));
    }
    for error in &data.errors {
        lines.push(silent(error, data));
    }
    lines
}

fn count(rows: &[Instance], data: &Data) -> Option<String> {
    if rows.is_empty() {
        // "0 instances" is only said when everybody answered.
        return data.complete.then(|| "0 instances".to_owned());
    }
    let parts: Vec<String> = State::ALL
        .into_iter()
        .filter_map(|state| {
            let n = rows.iter().filter(|row| row.state == state).count();
            (n > 0).then(|| format!("{n} {state}"))
        })
        .collect();
    let noun = if rows.len() == 1 {
        "instance"
    } else {
        "instances"
    };
    Some(format!("{} {noun}: {}", rows.len(), parts.join(", ")))
}

fn reasons(rows: &[Instance]) -> impl Iterator<Item = String> {
    rows.iter().filter_map(|row| {
        let why = row.reason.as_deref().or(row.locked.as_deref())?;
        Some(format!("! {} is {}: {}", row.id, row.state, shown(why)))
    })
}

fn nothing(body: &Body) -> Option<&'static str> {
    let (empty, what) = match body {
        Body::Snapshots(all) => (all.is_empty(), "no snapshots"),
        Body::Nics(all) => (all.is_empty(), "no network interfaces"),
        Body::Ports(all) => (all.is_empty(), "no published ports"),
        Body::Events(all) => (all.is_empty(), "no events"),
        Body::Metrics(all) => (all.is_empty(), "no metrics"),
        Body::Hosts(all) => (all.is_empty(), "no hosts"),
        Body::Pools(all) => (all.is_empty(), "no storage"),
        Body::Networks(all) => (all.is_empty(), "no networks"),
        Body::Images(all) => (
            all.is_empty(),
            "no images: corral image search, then corral image pull NAME",
        ),
        Body::Backups(all) => (all.is_empty(), "no backups"),
        Body::LogSources(all) => (all.is_empty(), "no logs"),
        Body::Contexts(all) => (all.is_empty(), "no contexts: corral context add"),
        Body::History(all) => (all.is_empty(), "nothing was changed yet"),
        Body::Tasks(all) => (all.is_empty(), "no tasks"),
        Body::Problems(all) => (all.is_empty(), "the configuration is good"),
        Body::Log(log) => (log.lines.is_empty(), "the log is empty"),
        Body::Disks(all) => (all.is_empty(), "no disks"),
        Body::Pins(all) => (all.is_empty(), "no certificates are pinned"),
        _ => return None,
    };
    empty.then_some(what)
}

fn silent(error: &Error, data: &Data) -> String {
    let Some(context) = &error.context else {
        return super::failure(error);
    };
    let name = shown(context);
    let mut line = match error.kind {
        ErrorKind::Unreachable | ErrorKind::TimedOut if !error.message.contains(&**context) => {
            format!("warning: {name} did not answer ({})", shown(&error.message))
        }
        _ if error.message.starts_with(&**context) => format!("warning: {}", shown(&error.message)),
        _ => format!("warning: {name}: {}", shown(&error.message)),
    };
    let rows = match &data.body {
        Body::Instances(rows) => rows.iter().filter(|row| row.context == *context).count(),
        _ => 0,
    };
    if rows > 0 {
        let (noun, verb) = if rows == 1 {
            ("row", "is")
        } else {
            ("rows", "are")
        };
        let old = data
            .ages
            .iter()
            .find(|(of, _)| of == context)
            .map_or_else(|| "old".to_owned(), |(_, s)| format!("{} old", age(*s)));
        line.push_str(&format!("; {rows} {noun} {verb} {old}"));
    }
    if let Some(remedy) = &error.remedy {
        line.push_str(&format!(". {}", shown(remedy)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(data: &Data) -> Vec<String> {
        let view = View {
            format: Format::Table,
            output: crate::action::Output::default(),
            width: None,
            colour: false,
            stream: false,
        };
        notes(data, &view)
    }

    #[test]
    fn req_04_of_what_there_is_not_is_only_spoken_when_everybody_answered() {
        let bodies = [
            Body::Instances(Vec::new()),
            Body::Snapshots(Vec::new()),
            Body::Nics(Vec::new()),
            Body::Hosts(Vec::new()),
            Body::Pools(Vec::new()),
            Body::Networks(Vec::new()),
            Body::Images(Vec::new()),
            Body::Backups(Vec::new()),
            Body::LogSources(Vec::new()),
            Body::Events(Vec::new()),
        ];
        for body in bodies {
            let mut data = Data::new(body);
            assert_eq!(said(&data).len(), 1, "{:?}", data.body);
            data.complete = false;
            assert!(said(&data).is_empty(), "{:?}", said(&data));
            data.errors
                .push(Error::unreachable("no answer").in_context("pve"));
            let lines = said(&data);
            assert!(lines.len() == 1 && lines[0].contains("pve"), "{lines:?}");
        }
    }

    #[test]
    fn what_was_left_out_is_not_called_none() {
        let mut data = Data::new(Body::Images(Vec::new()));
        data.nothing = Some("no unused images");
        assert_eq!(said(&data), ["no unused images"]);
    }
}
