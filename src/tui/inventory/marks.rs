//! Which instances are marked: by identity, whatever is shown of them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::{Entry, Inventory};
use crate::model::{FleetView, Instance, InstanceId};

impl Inventory {
    /// Whether a row is marked.
    pub fn is_marked(&self, row: &Instance) -> bool {
        !self.marks.is_empty() && self.marks.contains(&row.identity())
    }

    /// Marks or unmarks the row under the cursor and goes down.
    pub fn mark(&mut self) {
        let here: Vec<String> = match self.entry(self.cursor) {
            Some(Entry::Row(row, _)) => vec![row.identity()],
            Some(Entry::Group(group)) => {
                let rows = self.tree.rows_of(group).iter();
                rows.map(|n| self.rows[*n].identity()).collect()
            }
            None => Vec::new(),
        };
        if here.iter().all(|identity| self.marks.contains(identity)) {
            self.marks.retain(|identity| !here.contains(identity));
        } else {
            self.marks.extend(here);
        }
        self.step(1);
    }

    /// Begins a range, or marks from its begin to here; how many were marked.
    pub fn mark_range(&mut self) -> Option<usize> {
        let here = self.selected()?.identity();
        let Some(start) = self.range.take() else {
            self.range = Some(here);
            return None;
        };
        let identity = |n: usize| match self.entry(n) {
            Some(Entry::Row(row, _)) => Some(row.identity()),
            _ => None,
        };
        let from = (0..self.len()).find(|n| identity(*n).as_ref() == Some(&start))?;
        let (low, high) = (from.min(self.cursor), from.max(self.cursor));
        let found: BTreeSet<String> = (low..=high).filter_map(identity).collect();
        let count = found.len();
        self.marks.extend(found);
        Some(count)
    }

    /// Marks every row that is shown.
    pub fn mark_all(&mut self) {
        let all: Vec<String> = self.rows.iter().map(|row| row.identity()).collect();
        self.marks.extend(all);
    }

    /// All that is marked, by identity.
    pub fn marks(&self) -> Vec<String> {
        self.marks.union(&self.returning).cloned().collect()
    }

    /// Marks what was marked in a view before this one as soon as it is known, and goes back to where the cursor was.
    pub fn bring_back(&mut self, marks: Vec<String>, selected: Option<InstanceId>) {
        self.returning.extend(marks);
        if let Some(id) = selected {
            self.seek(id);
        }
    }

    /// Unmarks all; how many, and how many of them were hidden.
    pub fn unmark_all(&mut self) -> (usize, usize) {
        let counts = (self.marked.len(), self.hidden_marks().len());
        self.marks.clear();
        self.returning.clear();
        self.range = None;
        counts
    }

    /// Marked and shown, in the order of the screen.
    pub fn visible_marks(&self) -> Vec<Arc<Instance>> {
        if self.marks.is_empty() {
            return Vec::new();
        }
        self.rows
            .iter()
            .filter(|row| self.is_marked(row))
            .cloned()
            .collect()
    }

    /// Marked, but not shown.
    pub fn hidden_marks(&self) -> &[Arc<Instance>] {
        &self.hidden
    }

    /// Works out what is marked, where, and what of it is hidden: once, not for every frame.
    pub(super) fn count_marks(&mut self, fleet: &FleetView) {
        self.marked.clear();
        self.hidden.clear();
        if self.marks.is_empty() {
            return;
        }
        let shown: HashSet<&InstanceId> = self.rows.iter().map(|row| &row.id).collect();
        let marked = fleet.instances.iter().filter(|row| self.is_marked(row));
        let marked: Vec<Arc<Instance>> = marked.cloned().collect();
        let hidden = marked.iter().filter(|row| !shown.contains(&row.id));
        self.hidden = hidden.cloned().collect();
        self.marked = marked;
        if self.is_tree() {
            let is_marked: Vec<bool> = self.rows.iter().map(|row| self.is_marked(row)).collect();
            self.tree.count_marks(&is_marked);
        }
    }

    /// What an action would act on: visible marks, else the row under the cursor.
    pub fn targets(&self) -> Vec<Arc<Instance>> {
        let marks = self.visible_marks();
        if marks.is_empty() {
            self.selected().cloned().into_iter().collect()
        } else {
            marks
        }
    }
}
