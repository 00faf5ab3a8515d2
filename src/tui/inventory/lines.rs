//! The lines of the list, and the one under the cursor: rows, and in a tree the headings of groups.

use std::sync::Arc;

use super::Inventory;
use crate::model::{Instance, InstanceId};
use crate::tui::groups::{Group, Grouping, TreeLine};

/// What was under the cursor: an instance, or a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    selected: Option<(String, InstanceId)>,
    group: Option<String>,
}

/// What stands in a line.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// The heading of a group.
    Group(&'a Group),
    /// An instance, and how far it is set in.
    Row(&'a Arc<Instance>, u16),
}

impl Inventory {
    /// It is a tree.
    pub fn is_tree(&self) -> bool {
        self.grouping != Grouping::None
    }

    /// Lines of the list.
    pub fn len(&self) -> usize {
        if self.is_tree() {
            self.tree.lines.len()
        } else {
            self.rows.len()
        }
    }

    /// No line at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What stands in a line.
    pub fn entry(&self, line: usize) -> Option<Entry<'_>> {
        if !self.is_tree() {
            return self.rows.get(line).map(|row| Entry::Row(row, 0));
        }
        match self.tree.lines.get(line)? {
            TreeLine::Group(group) => self.tree.groups.get(*group).map(Entry::Group),
            TreeLine::Row(row, group) => {
                let depth = self.tree.groups.get(*group).map_or(0, |group| group.depth);
                self.rows.get(*row).map(|row| Entry::Row(row, depth + 1))
            }
        }
    }

    /// Lines of a screen of this height.
    pub fn on_screen(&self, height: usize) -> impl Iterator<Item = (usize, Entry<'_>)> {
        let lines = self.top..self.len().min(self.top.saturating_add(height));
        lines.filter_map(|line| Some((line, self.entry(line)?)))
    }

    /// The instance under the cursor.
    pub fn selected(&self) -> Option<&Arc<Instance>> {
        match self.entry(self.cursor)? {
            Entry::Row(row, _) => Some(row),
            Entry::Group(_) => None,
        }
    }

    /// The group whose heading is under the cursor.
    pub fn selected_group(&self) -> Option<&Group> {
        match self.entry(self.cursor)? {
            Entry::Group(group) => Some(group),
            Entry::Row(..) => None,
        }
    }

    /// Puts the cursor on a line.
    pub fn go(&mut self, line: usize) {
        self.cursor = line.min(self.len().saturating_sub(1));
        self.remember();
    }

    /// Moves the cursor.
    pub fn step(&mut self, by: isize) {
        self.go(self.cursor.saturating_add_signed(by));
    }

    /// What is under the cursor.
    pub fn spot(&self) -> Spot {
        Spot {
            selected: self.selected.clone(),
            group: self.group.clone(),
        }
    }

    /// Puts the cursor where it was, if that is still there.
    pub fn return_to(&mut self, spot: Spot) {
        (self.selected, self.group) = (spot.selected, spot.group);
        self.find_cursor();
    }

    /// Puts the cursor on an instance as soon as it is there.
    pub(super) fn seek(&mut self, id: InstanceId) {
        self.selected = Some((id.to_string(), id));
    }

    /// Puts the cursor on an instance, if it is shown.
    pub fn go_to(&mut self, id: &InstanceId) -> bool {
        let is_it = |line: &usize| match self.entry(*line) {
            Some(Entry::Row(row, _)) => row.id == *id,
            _ => false,
        };
        let found = (0..self.len()).find(is_it);
        if let Some(line) = found {
            self.go(line);
        }
        found.is_some()
    }

    /// Folds the group that the cursor is in, or goes from a folded one to the one around it.
    pub fn fold(&mut self) -> bool {
        match self.tree.lines.get(self.cursor).copied() {
            Some(TreeLine::Row(_, group)) => self.go_to_group(group),
            Some(TreeLine::Group(n)) => {
                let Some(group) = self.tree.groups.get(n) else {
                    return false;
                };
                if group.open {
                    let key = group.key.clone();
                    return self.folded.insert(key);
                }
                let depth = group.depth;
                let outer = self.tree.groups[..n].iter();
                match outer.rev().position(|group| group.depth < depth) {
                    Some(before) => self.go_to_group(n - 1 - before),
                    None => false,
                }
            }
            None => false,
        }
    }

    /// Unfolds the group under the cursor, or goes into it.
    pub fn unfold(&mut self) -> bool {
        let Some(group) = self.selected_group() else {
            return false;
        };
        if group.open {
            self.step(1);
            return true;
        }
        let key = group.key.clone();
        self.folded.remove(&key)
    }

    fn go_to_group(&mut self, group: usize) -> bool {
        let heading = TreeLine::Group(group);
        let found = self.tree.lines.iter().position(|line| *line == heading);
        if let Some(line) = found {
            self.go(line);
        }
        found.is_some()
    }

    /// Notes what is under the cursor.
    fn remember(&mut self) {
        let row = self.selected().map(|row| (row.identity(), row.id.clone()));
        let group = match self.tree.lines.get(self.cursor).filter(|_| self.is_tree()) {
            Some(TreeLine::Group(group) | TreeLine::Row(_, group)) => {
                self.tree.groups.get(*group).map(|group| group.key.clone())
            }
            None => None,
        };
        // In an empty list nothing is under the cursor; what was is looked for when it fills again.
        if !self.is_empty() {
            self.selected = row;
            self.group = group;
        }
    }

    /// Puts the cursor on what it was on, wherever that is now.
    pub(super) fn find_cursor(&mut self) {
        if let Some(line) = self.place() {
            self.cursor = line;
        }
        self.cursor = self.cursor.min(self.len().saturating_sub(1));
        self.remember();
    }

    fn place(&self) -> Option<usize> {
        let Some((identity, id)) = &self.selected else {
            return self.heading(self.group.as_ref()?);
        };
        // Nearly always it is where its ID is; only a machine that moved is looked for by uid.
        let by_id = self.rows.iter().position(|row| row.id == *id);
        let row = by_id
            .filter(|n| self.rows[*n].identity() == *identity)
            .or_else(|| self.rows.iter().position(|row| row.identity() == *identity));
        let row = row.filter(|_| self.is_tree()).map_or(row, |row| {
            let lines = self.tree.lines.iter().enumerate();
            let mut found = lines.filter_map(|(line, entry)| match entry {
                TreeLine::Row(n, group) if *n == row => Some((line, *group)),
                _ => None,
            });
            let first = found.next()?;
            // It stands in several groups: in the same one as before, if it can be.
            let same = |(_, group): &(usize, usize)| {
                self.tree.groups.get(*group).map(|group| &group.key) == self.group.as_ref()
            };
            let line = if same(&first) {
                first
            } else {
                found.find(same).unwrap_or(first)
            };
            Some(line.0)
        });
        row.or_else(|| self.heading(self.group.as_ref()?))
    }

    /// The line of a group's heading, or of the one around it.
    fn heading(&self, key: &str) -> Option<usize> {
        let line = |key: &str| {
            self.tree.lines.iter().position(|line| match line {
                TreeLine::Group(group) => {
                    self.tree.groups.get(*group).is_some_and(|g| g.key == key)
                }
                TreeLine::Row(..) => false,
            })
        };
        line(key).or_else(|| line(key.split('\n').next()?))
    }
}
