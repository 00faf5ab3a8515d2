//! The inventory's rows: which, in which order, which one is under the cursor, which are marked.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::action::fleet_api::filter::{Asked, Filter, FilterCx, FilterError, Syntax, has_problem};
use crate::action::fleet_api::sort::{by_column, by_name};
use crate::model::{FleetView, Instance, InstanceId};

/// The inventory's own state.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// What the filter says, as typed.
    pub filter_text: String,
    filter: Filter,
    /// What is wrong with it; the last good one goes on holding.
    pub filter_error: Option<FilterError>,
    /// Only this context.
    pub context: Option<String>,
    /// Only problems.
    pub problems: bool,
    /// Sort column.
    pub sort: String,
    /// Turned round.
    pub reverse: bool,
    /// All columns, whatever the width.
    pub wide: bool,
    /// Columns scrolled away to the left.
    pub skip: usize,
    /// Rows that are shown.
    pub rows: Vec<Arc<Instance>>,
    /// Rows by context that the filter would perhaps find, if what it asks for were known of them.
    pub gaps: Vec<(String, usize)>,
    /// Row under the cursor.
    pub cursor: usize,
    /// First row on the screen.
    pub top: usize,
    selected: Option<(String, InstanceId)>,
    marks: BTreeSet<String>,
    /// Where a range began.
    pub range: Option<String>,
    /// All instances of the fleet that are marked, in the fleet's order.
    pub marked: Vec<Arc<Instance>>,
    /// The fleet that `order` is of.
    sorted: Vec<Arc<Instance>>,
    /// The column and the direction that `order` is in.
    sorted_by: Option<(String, bool)>,
    /// All instances in the order of the screen, as positions in the fleet: the next sort begins
    /// with it, and finds a fleet that is as it was sorted already.
    order: Vec<usize>,
}

impl Default for Inventory {
    fn default() -> Self {
        Self {
            filter_text: String::new(),
            filter: Filter::default(),
            filter_error: None,
            context: None,
            problems: false,
            sort: "name".to_owned(),
            reverse: false,
            wide: false,
            skip: 0,
            rows: Vec::new(),
            gaps: Vec::new(),
            cursor: 0,
            top: 0,
            selected: None,
            marks: BTreeSet::new(),
            range: None,
            marked: Vec::new(),
            sorted: Vec::new(),
            sorted_by: None,
            order: Vec::new(),
        }
    }
}

/// The filter without the words that are wrong.
fn without_fault(text: &str, error: &FilterError) -> Filter {
    let begin = text
        .get(..error.span.start)
        .map_or(0, |before| before.rfind(' ').map_or(0, |n| n + 1));
    let end = text
        .get(error.span.end..)
        .and_then(|after| after.find(' '))
        .map_or(text.len(), |n| error.span.end + n);
    let rest = format!(
        "{} {}",
        text.get(..begin).unwrap_or_default(),
        text.get(end..).unwrap_or_default()
    );
    Filter::parse_as(&rest, Syntax::View).unwrap_or_default()
}

impl Inventory {
    /// Sets the filter. Of a wrong one what can be understood is in force, and the rest is told.
    pub fn set_filter(&mut self, text: &str) {
        text.clone_into(&mut self.filter_text);
        match Filter::parse_as(text, Syntax::View) {
            Ok(filter) => {
                self.filter = filter;
                self.filter_error = None;
            }
            Err(error) => {
                self.filter = without_fault(text, &error);
                self.filter_error = Some(error);
            }
        }
    }

    /// Something hides rows.
    pub fn is_narrowed(&self) -> bool {
        !self.filter.is_empty() || self.problems || self.context.is_some()
    }

    /// Works the rows out anew. The cursor stays on the same instance.
    pub fn derive(&mut self, fleet: &FleetView, now: Timestamp) {
        self.follow_identities(fleet);
        self.sort_all(fleet);
        let cx = FilterCx { now };
        self.rows = self
            .order
            .iter()
            .map(|n| &fleet.instances[*n])
            .filter(|row| self.context.as_ref().is_none_or(|c| *c == row.context))
            .filter(|row| !self.problems || has_problem(row))
            .filter(|row| self.filter.matches(row, cx))
            .cloned()
            .collect();
        self.gaps = self.find_gaps(fleet, cx);
        if let Some((identity, id)) = &self.selected {
            // Nearly always it is where its ID is; only a machine that moved is looked for by uid.
            let by_id = self.rows.iter().position(|row| row.id == *id);
            let found = by_id
                .filter(|n| self.rows[*n].identity() == *identity)
                .or_else(|| self.rows.iter().position(|row| row.identity() == *identity));
            if let Some(n) = found {
                self.cursor = n;
            }
        }
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
        self.remember();
        self.marked = if self.marks.is_empty() {
            Vec::new()
        } else {
            let marked = |row: &&Arc<Instance>| self.marks.contains(&row.identity());
            fleet.instances.iter().filter(marked).cloned().collect()
        };
    }

    /// What the filter asks for and nobody knows of every instance.
    pub fn asks(&self) -> Option<Asked> {
        self.filter.asks()
    }

    fn find_gaps(&self, fleet: &FleetView, cx: FilterCx) -> Vec<(String, usize)> {
        if self.asks().is_none() {
            return Vec::new();
        }
        let mut gaps: Vec<(String, usize)> = Vec::new();
        let perhaps = fleet
            .instances
            .iter()
            .filter(|row| self.context.as_ref().is_none_or(|c| *c == row.context))
            .filter(|row| !self.problems || has_problem(row))
            .filter(|row| self.filter.might_match(row, cx));
        for row in perhaps {
            match gaps.iter_mut().find(|(name, _)| *name == row.context) {
                Some((_, count)) => *count += 1,
                None => gaps.push((row.context.clone(), 1)),
            }
        }
        gaps
    }

    /// Sorts the whole fleet, beginning with the order it had.
    fn sort_all(&mut self, fleet: &FleetView) {
        let all = &fleet.instances;
        let by = (self.sort.clone(), self.reverse);
        let same = |(a, b): (&Arc<Instance>, &Arc<Instance>)| Arc::ptr_eq(a, b);
        if self.sorted_by.as_ref() == Some(&by)
            && self.sorted.len() == all.len()
            && self.sorted.iter().zip(all).all(same)
        {
            return;
        }
        let known = self.sorted_by.replace(by);
        let alike = |(a, b): (&Arc<Instance>, &Arc<Instance>)| Arc::ptr_eq(a, b) || a.id == b.id;
        let in_place = self.sorted.len() == all.len() && self.sorted.iter().zip(all).all(alike);
        let column = by_column(&self.sort).unwrap_or(by_name);
        let reverse = self.reverse;
        let order = |a: &Instance, b: &Instance| {
            let order = column(a, b);
            let order = if reverse { order.reverse() } else { order };
            // Templates stay last, whichever way round; equals stand by ID.
            a.template
                .cmp(&b.template)
                .then(order)
                .then_with(|| a.id.cmp(&b.id))
        };
        // A running fleet changes a few rows at a time, and most changes move no row: only where one
        // changed is it looked whether the order still holds.
        let holds = in_place && known == self.sorted_by && {
            let changed = |n: usize| !Arc::ptr_eq(&self.sorted[n], &all[n]);
            self.order.windows(2).all(|pair| {
                let (a, b) = (pair[0], pair[1]);
                !(changed(a) || changed(b)) || order(&all[a], &all[b]).is_le()
            })
        };
        if !in_place {
            self.order = (0..all.len()).collect();
        }
        self.sorted.clone_from(all);
        if !holds {
            self.order.sort_by(|a, b| order(&all[*a], &all[*b]));
        }
    }

    /// A uid that becomes known takes over what hung on the ID; what is gone is unmarked.
    fn follow_identities(&mut self, fleet: &FleetView) {
        if let Some((selected, id)) = &mut self.selected
            && *selected == id.to_string()
            && let Some(row) = fleet.instances.iter().find(|row| row.id == *id)
        {
            *selected = row.identity();
        }
        if self.marks.is_empty() {
            return;
        }
        let mut alive = BTreeSet::new();
        for row in &fleet.instances {
            let identity = row.identity();
            if self.marks.contains(&identity) || self.marks.contains(&row.id.to_string()) {
                alive.insert(identity);
            }
        }
        self.marks = alive;
    }

    fn remember(&mut self) {
        self.selected = self
            .rows
            .get(self.cursor)
            .map(|row| (row.identity(), row.id.clone()));
    }

    /// The instance under the cursor.
    pub fn selected(&self) -> Option<&Arc<Instance>> {
        self.rows.get(self.cursor)
    }

    /// Puts the cursor on a row.
    pub fn go(&mut self, row: usize) {
        self.cursor = row.min(self.rows.len().saturating_sub(1));
        self.remember();
    }

    /// Puts the cursor on an instance, if it is shown.
    pub fn go_to(&mut self, id: &InstanceId) -> bool {
        let found = self.rows.iter().position(|row| row.id == *id);
        if let Some(n) = found {
            self.go(n);
        }
        found.is_some()
    }

    /// Moves the cursor.
    pub fn step(&mut self, by: isize) {
        self.go(self.cursor.saturating_add_signed(by));
    }

    /// Whether a row is marked.
    pub fn is_marked(&self, row: &Instance) -> bool {
        !self.marks.is_empty() && self.marks.contains(&row.identity())
    }

    /// Marks or unmarks the row under the cursor and goes down.
    pub fn mark(&mut self) {
        if let Some(row) = self.selected() {
            let identity = row.identity();
            if !self.marks.remove(&identity) {
                self.marks.insert(identity);
            }
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
        let from = self.rows.iter().position(|row| row.identity() == start)?;
        let (low, high) = (from.min(self.cursor), from.max(self.cursor));
        let found: Vec<String> = self.rows[low..=high].iter().map(|r| r.identity()).collect();
        let count = found.len();
        self.marks.extend(found);
        Some(count)
    }

    /// Marks every row that is shown.
    pub fn mark_all(&mut self) {
        let all: Vec<String> = self.rows.iter().map(|row| row.identity()).collect();
        self.marks.extend(all);
    }

    /// Unmarks all; how many, and how many of them were hidden.
    pub fn unmark_all(&mut self) -> (usize, usize) {
        let counts = (self.marked.len(), self.hidden_marks().len());
        self.marks.clear();
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
    pub fn hidden_marks(&self) -> Vec<Arc<Instance>> {
        if self.marked.is_empty() {
            return Vec::new();
        }
        let shown: BTreeSet<&InstanceId> = self.rows.iter().map(|row| &row.id).collect();
        self.marked
            .iter()
            .filter(|row| !shown.contains(&row.id))
            .cloned()
            .collect()
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

    /// Keeps the cursor on a screen of `height` rows.
    pub fn keep_visible(&mut self, height: usize) {
        let height = height.max(1);
        if self.cursor < self.top {
            self.top = self.cursor;
        } else if self.cursor >= self.top + height {
            self.top = self.cursor + 1 - height;
        }
        self.top = self.top.min(self.rows.len().saturating_sub(height));
    }
}
