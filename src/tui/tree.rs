//! Snapshots as a tree, in time order.

use std::collections::HashSet;

use crate::model::Snapshot;

/// Depth and snapshot, parents before children, siblings by age. A ring or a missing parent makes a
/// root: nothing is left out.
pub fn snapshots<'a>(all: impl IntoIterator<Item = &'a Snapshot>) -> Vec<(usize, &'a Snapshot)> {
    let mut order: Vec<&Snapshot> = all.into_iter().collect();
    order.sort_by(|a, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    let has = |name: &str| order.iter().any(|s| s.name == name);
    for root in order
        .iter()
        .copied()
        .filter(|s| s.parent.as_deref().is_none_or(|p| !has(p)))
    {
        walk(root, &order, &mut seen, &mut out);
    }
    for rest in &order {
        walk(rest, &order, &mut seen, &mut out);
    }
    out
}

fn walk<'a>(
    root: &'a Snapshot,
    order: &[&'a Snapshot],
    seen: &mut HashSet<&'a str>,
    out: &mut Vec<(usize, &'a Snapshot)>,
) {
    let mut stack = vec![(0, root)];
    while let Some((depth, snapshot)) = stack.pop() {
        if !seen.insert(&snapshot.name) {
            continue;
        }
        out.push((depth, snapshot));
        let children = order
            .iter()
            .rev()
            .filter(|s| s.parent.as_ref() == Some(&snapshot.name));
        stack.extend(children.map(|child| (depth + 1, *child)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::InstanceId;

    fn snapshot(name: &str, parent: Option<&str>) -> Snapshot {
        Snapshot {
            instance: InstanceId::new("x", None, "y"),
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            current: false,
            created_at: None,
            consistency: None,
            size_bytes: None,
            note: None,
            broken: None,
            expires_at: None,
            policy: None,
        }
    }

    #[test]
    fn nothing_is_lost_in_rings_and_orphans() {
        let all = [
            snapshot("b", Some("a")),
            snapshot("a", None),
            snapshot("c", Some("a")),
            snapshot("d", Some("b")),
            snapshot("orphan", Some("gone")),
            snapshot("r1", Some("r2")),
            snapshot("r2", Some("r1")),
        ];
        let tree: Vec<(usize, &str)> = snapshots(&all)
            .into_iter()
            .map(|(d, s)| (d, s.name.as_str()))
            .collect();
        assert_eq!(
            tree,
            [
                (0, "a"),
                (1, "b"),
                (2, "d"),
                (1, "c"),
                (0, "orphan"),
                (0, "r1"),
                (1, "r2")
            ]
        );
    }
}
