//! What people and scripts read: tables, blocks, names, JSON, YAML, one path of it.

mod around;
mod doctor;
mod info;
mod jsonpath;
mod listing;
mod matrix;
mod plan;
mod snapshots;
mod style;
pub use style::has_colours;
mod summary;
mod table;
mod task;

use jiff::Timestamp;
use serde::Serialize;

pub use listing::columns;

use crate::action::Output;
use crate::action::around::id_of;
use crate::model::{Body, Data, Error, LogText, Plan, Result, Task, shown};
use table::Layout;

/// The form an answer is printed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Columns that fit.
    Table,
    /// All columns.
    Wide,
    /// One name per line.
    Name,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// What a path of the JSON selects, one result per line.
    JsonPath(String),
    /// A page; only `matrix`.
    Markdown,
}

impl Format {
    /// Reads `-o`.
    pub fn read(text: Option<&str>) -> Result<Self> {
        const WORDS: [&str; 6] = ["table", "wide", "name", "json", "yaml", "markdown"];
        Ok(match text {
            None | Some("table") => Self::Table,
            Some("wide") => Self::Wide,
            Some("name") => Self::Name,
            Some("json") => Self::Json,
            Some("yaml") => Self::Yaml,
            Some("markdown") => Self::Markdown,
            Some(other) => {
                if let Some(path) = other.strip_prefix("jsonpath=") {
                    // A bad path is a usage error, found before anything is asked.
                    jsonpath::select(&serde_json::Value::Null, path)?;
                    return Ok(Self::JsonPath(path.to_owned()));
                }
                let near = crate::model::nearest(other, WORDS);
                let error = Error::invalid(format!("{:?} is no output format", shown(other)));
                return Err(error.remedy(match near {
                    Some(near) => format!("Did you mean -o {near}?"),
                    None => "Formats: table, wide, name, json, yaml, jsonpath=…, markdown (matrix)"
                        .to_owned(),
                }));
            }
        })
    }

    /// Meant for programs: nothing is added, nothing shortened.
    pub fn is_machine(&self) -> bool {
        matches!(
            self,
            Self::Json | Self::Yaml | Self::JsonPath(_) | Self::Name
        )
    }
}

/// How and where to print.
#[derive(Clone, Debug)]
pub struct View {
    /// The form.
    pub format: Format,
    /// Columns, sorting, headings.
    pub output: Output,
    /// Columns of the terminal that standard output is; `None` is a pipe or a file.
    pub width: Option<usize>,
    /// Escape codes for colour are welcome.
    pub colour: bool,
    /// One line per document.
    pub stream: bool,
}

impl View {
    fn layout(&self) -> Layout {
        Layout {
            wide: self.format == Format::Wide,
            columns: self.output.columns.clone(),
            no_headers: self.output.no_headers,
            width: self.width,
            colour: self.colour,
        }
    }

    /// What goes to standard output.
    pub fn data(
        &self,
        data: &mut Data,
        kinds: &dyn Fn(&str) -> Option<String>,
        now: Timestamp,
    ) -> Result<String> {
        if let Some(by) = &self.output.sort {
            sort(&mut data.body, by, now)?;
        }
        match &self.format {
            Format::Json | Format::Yaml | Format::JsonPath(_) => {
                if let Body::Text(text) = &data.body {
                    return Ok(text.clone());
                }
                self.document(data)
            }
            Format::Name => Ok(names(&data.body, now)
                .into_iter()
                .map(|name| shown(&name).into_owned() + "\n")
                .collect()),
            Format::Markdown => match &data.body {
                Body::Matrix(rows) => Ok(matrix::markdown(rows)),
                _ => Err(Error::invalid(
                    "only corral matrix can be printed as markdown",
                )),
            },
            Format::Table | Format::Wide => self.people(&data.body, kinds, now),
        }
    }

    fn people(
        &self,
        body: &Body,
        kinds: &dyn Fn(&str) -> Option<String>,
        now: Timestamp,
    ) -> Result<String> {
        let layout = self.layout();
        if let Some(listing) = listing::listing(body, now) {
            // An empty table is no table; the summary says what there is not.
            if listing.table.rows.is_empty() {
                return Ok(String::new());
            }
            return listing.table.print(&layout);
        }
        Ok(match body {
            Body::Details(all) => all
                .iter()
                .map(|detail| info::block(detail, now, self.colour))
                .collect::<Vec<_>>()
                .join("\n"),
            Body::HostDetails(all) => around::joined(all, |host| around::host(host, self.colour)),
            Body::NetworkDetails(all) => {
                around::joined(all, |network| around::network(network, self.colour))
            }
            Body::PoolDetails(all) => around::pools(all, &layout)?,
            Body::Snapshots(all) => {
                let (table, here) = snapshots::tree(all, now);
                if table.rows.is_empty() {
                    return Ok(String::new());
                }
                let mut out = table.print(&layout)?;
                if !self.output.no_headers && self.output.columns.is_none() {
                    for line in here {
                        out.push_str(&format!("   {line}\n"));
                    }
                }
                out
            }
            Body::Checks(checks) => doctor::blocks(checks, kinds, self.colour),
            Body::Matrix(rows) => matrix::table(rows, self.width, self.colour),
            Body::Task(task) => task::block(task, self.colour),
            Body::Plan(plan) => plan::text(plan, now, self.colour),
            Body::Text(text) => text.clone(),
            Body::Log(log) => self.log(log)?,
            _ => String::new(),
        })
    }

    /// Lines as a guest wrote them. A terminal is never handed what could steer it.
    fn log(&self, log: &LogText) -> Result<String> {
        if log.raw && self.width.is_some() {
            return Err(Error::refused(
                "--raw hands on control characters, which could steer this terminal",
            )
            .remedy("Send it elsewhere: corral logs … --raw > FILE; or leave --raw out"));
        }
        let mut out = String::new();
        for line in &log.lines {
            if log.raw {
                out.push_str(&line.line);
            } else {
                out.push_str(&shown(&line.line));
            }
            out.push('\n');
        }
        Ok(out)
    }

    /// What a change prints when it has ended.
    pub fn task(&self, task: &Task) -> Result<String> {
        match self.format {
            Format::Table | Format::Wide => Ok(task::results(task, self.colour, false)),
            Format::Name => Ok(task
                .targets
                .iter()
                .map(|target| match &target.state {
                    crate::model::TargetState::Done(outcome) => {
                        format!("{}\n", outcome.id.as_ref().unwrap_or(&target.id))
                    }
                    _ => format!("{}\n", target.id),
                })
                .collect()),
            _ => self.document(&Data::new(Body::Task(Box::new(task.clone())))),
        }
    }

    fn document(&self, data: &Data) -> Result<String> {
        let failed = |e: &dyn std::fmt::Display| Error::backend(format!("cannot print this: {e}"));
        match &self.format {
            Format::Yaml => {
                let text = serde_saphyr::to_string(data).map_err(|e| failed(&e))?;
                let lead = if self.stream { "---\n" } else { "" };
                Ok(format!("{lead}{}\n", text.trim_end()))
            }
            Format::JsonPath(path) => {
                let value = serde_json::to_value(data).map_err(|e| failed(&e))?;
                let lines = jsonpath::select(&value, path)?;
                Ok(lines
                    .into_iter()
                    .map(|line| match self.width {
                        // A terminal gets no control characters, a pipe gets every byte.
                        Some(_) => shown(&line).into_owned() + "\n",
                        None => line + "\n",
                    })
                    .collect())
            }
            _ => json(data, !self.stream).map_err(|e| failed(&e)),
        }
    }
}

/// A JSON document and a newline. Characters that a terminal could obey are escaped, which
/// changes no value: outside of strings there are none.
pub fn json(value: &impl Serialize, pretty: bool) -> serde_json::Result<String> {
    let text = if pretty {
        serde_json::to_string_pretty(value)?
    } else {
        serde_json::to_string(value)?
    };
    let mut out = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        let mut buffer = [0; 4];
        if c != '\n' && shown(c.encode_utf8(&mut buffer)).starts_with('\\') && c != '\\' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out.push('\n');
    Ok(out)
}

/// A plan for standard error: what would have been done.
pub fn plan_text(plan: &Plan, now: Timestamp, colour: bool) -> String {
    plan::text(plan, now, colour)
}

/// What people are told on standard error beside the answer.
pub fn notes(data: &Data, view: &View) -> Vec<String> {
    summary::notes(data, view)
}

/// One failure, as printed on standard error.
pub fn failure(error: &Error) -> String {
    format!("{}: {}", error.label(), shown(&error.to_string()))
}

fn names(body: &Body, now: Timestamp) -> Vec<String> {
    if let Body::Contexts(rows) = body {
        // What is only offered has no name that a command takes.
        let there = rows.iter().filter(|row| row.health != "not-added");
        return there.map(|row| row.name.clone()).collect();
    }
    if let Some(listing) = listing::listing(body, now) {
        return listing.names;
    }
    match body {
        Body::Details(all) => all.iter().map(|d| d.instance.id.to_string()).collect(),
        Body::HostDetails(all) => all.iter().map(id_of).collect(),
        Body::PoolDetails(all) => all.iter().map(|detail| id_of(&detail.pool)).collect(),
        Body::NetworkDetails(all) => all.iter().map(id_of).collect(),
        Body::Snapshots(all) => all.iter().map(listing::snapshot_name).collect(),
        Body::Checks(all) => all.iter().map(|c| c.id.clone()).collect(),
        Body::Matrix(rows) => rows.iter().map(|r| r.title.clone()).collect(),
        Body::Task(task) => vec![task.id.clone()],
        Body::Plan(plan) => plan.targets.iter().map(|t| t.id.to_string()).collect(),
        Body::Text(text) => text.lines().map(str::to_owned).collect(),
        Body::Log(log) => log.lines.iter().map(|line| line.line.clone()).collect(),
        _ => Vec::new(),
    }
}

fn sort(body: &mut Body, by: &str, now: Timestamp) -> Result<()> {
    let order = match &*body {
        Body::Snapshots(all) => snapshots::order(all, by, now)?,
        other => match listing::listing(other, now) {
            Some(listing) => listing.table.order(by)?,
            None => return Err(Error::invalid("there is nothing to sort here")),
        },
    };
    match body {
        Body::Instances(rows) => reorder(rows, &order),
        Body::Snapshots(rows) => reorder(rows, &order),
        Body::Nics(rows) => reorder(rows, &order),
        Body::Ports(rows) => reorder(rows, &order),
        Body::Hosts(rows) => reorder(rows, &order),
        Body::Pools(rows) => reorder(rows, &order),
        Body::Networks(rows) => reorder(rows, &order),
        Body::Images(rows) => reorder(rows, &order),
        Body::Backups(rows) => reorder(rows, &order),
        Body::Disks(rows) => reorder(rows, &order),
        Body::Events(rows) => reorder(rows, &order),
        Body::Metrics(rows) => reorder(rows, &order),
        Body::Contexts(rows) => reorder(rows, &order),
        Body::History(rows) => reorder(rows, &order),
        Body::Tasks(rows) => reorder(rows, &order),
        Body::Waits(rows) => reorder(rows, &order),
        Body::Settings(rows) => reorder(rows, &order),
        Body::Problems(rows) => reorder(rows, &order),
        Body::Paths(rows) => reorder(rows, &order),
        Body::Pins(rows) => reorder(rows, &order),
        Body::LogSources(rows) => reorder(rows, &order),
        Body::Screenshots(rows) => reorder(rows, &order),
        _ => {}
    }
    Ok(())
}

fn reorder<T: Clone>(rows: &mut Vec<T>, order: &[usize]) {
    *rows = order.iter().filter_map(|&i| rows.get(i).cloned()).collect();
}

/// At most `width` columns of `text`.
pub fn cut(text: &str, width: usize) -> String {
    table::cut(text, width)
}
