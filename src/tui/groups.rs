//! The inventory as a tree: what it is grouped by, and what stands in which line.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::glyphs::state_role;
use super::theme::Role;
use crate::action::fleet_api::filter::has_problem;
use crate::action::fleet_api::sort::natural;
use crate::model::{FleetView, Instance, State};

/// What the inventory is grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Nothing: a table.
    #[default]
    None,
    /// Context, then host.
    Host,
    /// Tag; an instance stands under each of its tags.
    Tag,
}

impl Grouping {
    /// The word that is kept.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Host => "host",
            Self::Tag => "tag",
        }
    }

    /// Reads it; what is not known is a table.
    pub fn read(word: &str) -> Self {
        match word {
            "host" => Self::Host,
            "tag" => Self::Tag,
            _ => Self::None,
        }
    }

    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::None => Self::Host,
            Self::Host => Self::Tag,
            Self::Tag => Self::None,
        }
    }
}

/// A group of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What the cursor and the fold hang on.
    pub key: String,
    /// As it is shown.
    pub title: String,
    /// 0, or 1 inside of another.
    pub depth: u16,
    /// Its rows stand in lines of their own.
    pub open: bool,
    /// Where its rows are among [`Tree::members`].
    pub range: Range<usize>,
    /// How many of them run.
    pub running: usize,
    /// How many of them have a problem.
    pub problems: usize,
    /// How many of them are marked.
    pub marked: usize,
    /// The worst state among them, and what that is.
    pub worst: Option<(State, Role)>,
}

impl Group {
    /// How many instances are in it.
    pub fn count(&self) -> usize {
        self.range.len()
    }
}

/// A line of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLine {
    /// The heading of this group.
    Group(usize),
    /// A row, and the group it stands in.
    Row(usize, usize),
}

/// The rows of the inventory in groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Groups in order, the outer before the inner.
    pub groups: Vec<Group>,
    /// Positions of rows, group by group.
    pub members: Vec<usize>,
    /// What can be seen, and be under the cursor.
    pub lines: Vec<TreeLine>,
}

/// Rows that belong together: heading, key, and where they are.
type Bucket<'a> = (Option<&'a str>, Vec<usize>);

impl Tree {
    /// Puts rows, which keep their order, into groups.
    pub fn of(
        by: Grouping,
        rows: &[Arc<Instance>],
        fleet: &FleetView,
        folded: &BTreeSet<String>,
    ) -> Self {
        let mut tree = Self::default();
        match by {
            Grouping::None => {}
            Grouping::Host => tree.by_host(rows, fleet, folded),
            Grouping::Tag => tree.by_tag(rows, folded),
        }
        tree
    }

    fn by_host(&mut self, rows: &[Arc<Instance>], fleet: &FleetView, folded: &BTreeSet<String>) {
        let mut contexts: HashMap<&str, HashMap<Option<&str>, Vec<usize>>> = HashMap::new();
        for (n, row) in rows.iter().enumerate() {
            let hosts = contexts.entry(row.context.as_str()).or_default();
            hosts.entry(row.host.as_deref()).or_default().push(n);
        }
        for context in &fleet.contexts {
            let Some(hosts) = contexts.remove(context.name.as_str()) else {
                continue;
            };
            let outer = self.begin(context.name.clone(), context.name.clone(), 0, folded);
            let plain = hosts.len() == 1 && hosts.contains_key(&None);
            for (host, members) in in_order(hosts) {
                let key = format!("{}\n{}", context.name, host.unwrap_or_default());
                let title = host.unwrap_or("no host is known").to_owned();
                if plain {
                    self.fill(outer, rows, members, self.groups[outer].open);
                } else {
                    let at = self.lines.len();
                    let inner = self.begin(key, title, 1, folded);
                    let open = self.groups[outer].open;
                    self.fill(inner, rows, members, open && self.groups[inner].open);
                    if !open {
                        self.lines.truncate(at);
                    }
                }
            }
            self.end(outer, rows);
        }
    }

    fn by_tag(&mut self, rows: &[Arc<Instance>], folded: &BTreeSet<String>) {
        let mut tags: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
        for (n, row) in rows.iter().enumerate() {
            for tag in &row.tags {
                tags.entry(Some(tag)).or_default().push(n);
            }
            if row.tags.is_empty() {
                tags.entry(None).or_default().push(n);
            }
        }
        for (tag, members) in in_order(tags) {
            let title = tag.unwrap_or("no tag").to_owned();
            let group = self.begin(tag.unwrap_or("\n").to_owned(), title, 0, folded);
            self.fill(group, rows, members, self.groups[group].open);
            self.end(group, rows);
        }
    }

    fn begin(
        &mut self,
        key: String,
        title: String,
        depth: u16,
        folded: &BTreeSet<String>,
    ) -> usize {
        let at = self.members.len();
        self.groups.push(Group {
            open: !folded.contains(&key),
            key,
            title,
            depth,
            range: at..at,
            running: 0,
            problems: 0,
            marked: 0,
            worst: None,
        });
        let group = self.groups.len() - 1;
        self.lines.push(TreeLine::Group(group));
        group
    }

    fn fill(&mut self, group: usize, rows: &[Arc<Instance>], members: Vec<usize>, open: bool) {
        if open {
            let lines = members.iter().map(|n| TreeLine::Row(*n, group));
            self.lines.extend(lines);
        }
        self.members.extend(members);
        self.end(group, rows);
    }

    /// Counts what is in a group from its begin to here.
    fn end(&mut self, group: usize, rows: &[Arc<Instance>]) {
        let end = self.members.len();
        let group = &mut self.groups[group];
        group.range.end = end;
        (group.running, group.problems, group.worst) = (0, 0, None);
        for n in &self.members[group.range.clone()] {
            let row = &rows[*n];
            group.running += usize::from(row.state == State::Running);
            group.problems += usize::from(has_problem(row));
            let role = state_role(row);
            if group
                .worst
                .is_none_or(|(_, worst)| weight(role) > weight(worst))
            {
                group.worst = Some((row.state, role));
            }
        }
    }

    /// Counts the rows of each group that are marked.
    pub fn count_marks(&mut self, is_marked: &[bool]) {
        for group in &mut self.groups {
            let members = &self.members[group.range.clone()];
            group.marked = members.iter().filter(|n| is_marked[**n]).count();
        }
    }

    /// Positions of the rows of a group.
    pub fn rows_of(&self, group: &Group) -> &[usize] {
        self.members.get(group.range.clone()).unwrap_or_default()
    }
}

/// By name; what has none stands last.
fn in_order(buckets: HashMap<Option<&str>, Vec<usize>>) -> Vec<Bucket<'_>> {
    let mut all: Vec<Bucket> = buckets.into_iter().collect();
    all.sort_by(|(a, _), (b, _)| match (a, b) {
        (Some(a), Some(b)) => natural(a, b),
        (a, b) => a.is_none().cmp(&b.is_none()),
    });
    all
}

/// How bad a state is.
fn weight(role: Role) -> u8 {
    match role {
        Role::Error => 4,
        Role::Warn => 3,
        Role::Busy => 2,
        Role::Ok => 1,
        _ => 0,
    }
}
