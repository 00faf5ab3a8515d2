//! The inventory's rows: which, in which order, which one is under the cursor, which are marked.

mod lines;
mod marks;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::action::fleet_api::filter::{Asked, Filter, FilterCx, FilterError, Syntax, has_problem};
use crate::action::fleet_api::sort::{by_column, by_name, is_known};
use crate::model::{FleetView, Instance, InstanceId};
use crate::tui::groups::{Grouping, Tree};
use crate::tui::own_columns::Own;

pub use lines::{Entry, Spot};

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
    /// Columns that were chosen here, by the class of their width.
    pub columns: Arc<Own>,
    /// What it is grouped by.
    pub grouping: Grouping,
    /// Groups whose rows are folded away.
    pub folded: BTreeSet<String>,
    /// The rows in groups, where they are grouped.
    pub tree: Tree,
    /// Rows that are shown, or would be if their group were not folded.
    pub rows: Vec<Arc<Instance>>,
    /// Rows by context that the filter would perhaps find, if what it asks for were known of them.
    pub gaps: Vec<(String, usize)>,
    /// Line under the cursor.
    pub cursor: usize,
    /// First line on the screen.
    pub top: usize,
    selected: Option<(String, InstanceId)>,
    /// The group that the line under the cursor is of.
    group: Option<String>,
    marks: BTreeSet<String>,
    /// Marked in a view before this one, and not among what is known yet.
    returning: BTreeSet<String>,
    /// Where a range began.
    pub range: Option<String>,
    /// All instances of the fleet that are marked, in the fleet's order.
    pub marked: Vec<Arc<Instance>>,
    /// Those of them that are not among the rows.
    hidden: Vec<Arc<Instance>>,
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
            columns: Arc::default(),
            grouping: Grouping::None,
            folded: BTreeSet::new(),
            tree: Tree::default(),
            rows: Vec::new(),
            gaps: Vec::new(),
            cursor: 0,
            top: 0,
            selected: None,
            group: None,
            marks: BTreeSet::new(),
            returning: BTreeSet::new(),
            range: None,
            marked: Vec::new(),
            hidden: Vec::new(),
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
        self.tree = Tree::of(self.grouping, &self.rows, fleet, &self.folded);
        self.find_cursor();
        self.count_marks(fleet);
    }

    /// Some rows have one name.
    pub fn has_namesakes(&self) -> bool {
        let mut names = std::collections::HashSet::with_capacity(self.rows.len());
        let mut all = self.rows.iter();
        all.any(|row| !names.insert(row.name.as_str()))
    }

    /// What the filter was probably meant to say.
    pub fn meant(&self) -> Option<&'static str> {
        self.filter.meant()
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
            // Templates, and what is not known, stay last, whichever way round; equals stand by ID.
            let known = |row| !reverse || is_known(&self.sort, row);
            a.template
                .cmp(&b.template)
                .then_with(|| known(b).cmp(&known(a)))
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
        if self.marks.is_empty() && self.returning.is_empty() {
            return;
        }
        let mut alive = BTreeSet::new();
        for row in &fleet.instances {
            let identity = row.identity();
            let id = row.id.to_string();
            let is_in = |marks: &BTreeSet<String>| marks.contains(&identity) || marks.contains(&id);
            if is_in(&self.marks) || is_in(&self.returning) {
                alive.insert(identity);
            }
        }
        self.marks = alive;
        let is_awaited = |mark: &String| {
            let of = |name: &str| {
                let rest = mark.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with(['#', '/']))
            };
            let mut all = fleet.contexts.iter();
            all.any(|context| of(&context.name) && (context.from_cache || !context.complete))
        };
        self.returning.retain(is_awaited);
    }

    /// Keeps the cursor on a screen of `height` rows.
    pub fn keep_visible(&mut self, height: usize) {
        let height = height.max(1);
        if self.cursor < self.top {
            self.top = self.cursor;
        } else if self.cursor >= self.top + height {
            self.top = self.cursor + 1 - height;
        }
        self.top = self.top.min(self.len().saturating_sub(height));
    }
}
