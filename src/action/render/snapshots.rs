//! `snapshot list`: the tree, oldest first, with where the instance is now.

use std::collections::HashMap;

use jiff::Timestamp;

use super::listing::{minute, seconds_between};
use super::style::Role;
use super::table::{Cell, Column, SortKey, Table, col};
use crate::model::{Result, Snapshot, shown};

const COLUMNS: &[Column] = &[
    col("SNAPSHOT").min(16),
    col("TAKEN").min(16),
    col("AGE").min(3),
    col("CONSISTENCY"),
    col("SIZE").min(7),
    col("NOTE"),
];

/// The table in tree order, and the line that says where one is, per instance.
pub(crate) fn tree(snapshots: &[Snapshot], now: Timestamp) -> (Table, Vec<String>) {
    let mut groups: Vec<(String, Vec<&Snapshot>)> = Vec::new();
    for snapshot in snapshots {
        let id = snapshot.instance.to_string();
        match groups.iter_mut().find(|(known, _)| *known == id) {
            Some((_, list)) => list.push(snapshot),
            None => groups.push((id, vec![snapshot])),
        }
    }
    let several = groups.len() > 1;
    let mut rows = Vec::new();
    let mut here = Vec::new();
    for (id, mut list) in groups {
        list.sort_by_key(|s| (s.created_at, s.name.clone()));
        let names: HashMap<&str, usize> = list
            .iter()
            .enumerate()
            .map(|(i, s)| (s.name.as_str(), i))
            .collect();
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); list.len()];
        let mut roots = Vec::new();
        for (i, snapshot) in list.iter().enumerate() {
            match snapshot.parent.as_deref().and_then(|p| names.get(p)) {
                Some(&parent) if parent != i => children[parent].push(i),
                _ => roots.push(i),
            }
        }
        // A loop of parents (a backend may say anything) has no root: show its members flat.
        let mut seen = vec![false; list.len()];
        let mut stack: Vec<(usize, String, String)> = roots
            .iter()
            .rev()
            .map(|&i| (i, String::new(), String::new()))
            .collect();
        let mut place = |i: usize, lead: &str, rows: &mut Vec<Vec<Cell>>| {
            rows.push(cells(list[i], lead, several.then_some(id.as_str()), now));
            if list[i].current {
                here.push(if several {
                    format!("({id} is here, after {})", shown(&list[i].name))
                } else {
                    format!("(you are here, after {})", shown(&list[i].name))
                });
            }
        };
        while let Some((i, lead, below)) = stack.pop() {
            if std::mem::replace(&mut seen[i], true) {
                continue;
            }
            place(i, &lead, &mut rows);
            let count = children[i].len();
            for (n, &child) in children[i].iter().enumerate().rev() {
                let last = n + 1 == count;
                let lead = format!("{below}{}", if last { "└─ " } else { "├─ " });
                let deeper = format!("{below}{}", if last { "   " } else { "│  " });
                stack.push((child, lead, deeper));
            }
        }
        for i in (0..list.len()).filter(|&i| !seen[i]) {
            place(i, "", &mut rows);
        }
    }
    let table = Table {
        columns: COLUMNS,
        rows,
        gap: 2,
    };
    (table, here)
}

/// The permutation for `--sort`; the tree is then flat.
pub(crate) fn order(snapshots: &[Snapshot], by: &str, now: Timestamp) -> Result<Vec<usize>> {
    let table = Table {
        columns: COLUMNS,
        rows: snapshots.iter().map(|s| cells(s, "", None, now)).collect(),
        gap: 2,
    };
    table.order(by)
}

fn cells(snapshot: &Snapshot, lead: &str, of: Option<&str>, now: Timestamp) -> Vec<Cell> {
    let name = match of {
        Some(id) => format!("{lead}{id}@{}", snapshot.name),
        None => format!("{lead}{}", snapshot.name),
    };
    let mut first = Cell::text(&name);
    first.sort = SortKey::Text(snapshot.name.clone());
    let end = snapshot.expires_at.map(|at| {
        if at <= now {
            format!("expired {}", minute(at))
        } else {
            format!("expires {}", minute(at))
        }
    });
    let said: Vec<&str> = [snapshot.note.as_deref(), end.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    let note = match &snapshot.broken {
        Some(broken) => Cell::text(&format!("cannot be restored: {broken}")).role(Role::Warn),
        None => Cell::text(&said.join("; ")),
    };
    vec![
        first,
        snapshot.created_at.map_or_else(Cell::unknown, |at| {
            Cell::number(at.as_millisecond() as f64, minute(at))
        }),
        Cell::age(snapshot.created_at.map(|at| seconds_between(at, now))),
        Cell::maybe(snapshot.consistency.map(crate::model::Consistency::as_str)),
        Cell::bytes(snapshot.size_bytes),
        note,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::table::Layout;
    use super::*;
    use crate::model::{Consistency, InstanceId};

    fn snapshot(name: &str, parent: Option<&str>, at: &str) -> Snapshot {
        Snapshot {
            instance: InstanceId::new("hv1", None, "db"),
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            current: false,
            created_at: Some(at.parse().unwrap()),
            consistency: Some(Consistency::Offline),
            size_bytes: None,
            note: None,
            broken: None,
            expires_at: None,
            policy: None,
        }
    }

    #[test]
    fn a_chain_is_a_tree_in_time_order() {
        let mut all = vec![
            snapshot("post-patch", Some("pre-patch"), "2026-11-30T02:55:00Z"),
            snapshot("base", None, "2026-11-02T09:00:00Z"),
            snapshot("pre-patch", Some("base"), "2026-11-30T02:10:00Z"),
        ];
        all[0].current = true;
        let (table, here) = tree(&all, "2026-11-30T05:10:00Z".parse().unwrap());
        assert_eq!(
            table.print(&Layout::default()).unwrap(),
            "SNAPSHOT          TAKEN             AGE  CONSISTENCY  SIZE     NOTE\n\
             base              2026-11-02 09:00  27d  offline      -\n\
             └─ pre-patch      2026-11-30 02:10  3h   offline      -\n   \
             └─ post-patch  2026-11-30 02:55  2h   offline      -\n"
        );
        assert_eq!(here, ["(you are here, after post-patch)"]);
    }

    #[test]
    fn a_loop_of_parents_still_shows_everything() {
        let all = [
            snapshot("a", Some("b"), "2026-11-02T09:00:00Z"),
            snapshot("b", Some("a"), "2026-11-02T09:00:00Z"),
        ];
        let (table, _) = tree(&all, "2026-11-30T05:10:00Z".parse().unwrap());
        assert_eq!(table.rows.len(), 2);
    }
}
