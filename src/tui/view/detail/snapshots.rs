//! Snapshots as a tree.

use crate::model::Detail;
use crate::tui::app::App;
use crate::tui::columns::{seconds_since, step_age};
use crate::tui::theme::Role;
use crate::tui::tree;

pub(super) fn snapshots(app: &App, detail: &Detail) -> Vec<(String, Role)> {
    if detail.snapshots.is_empty() {
        return vec![("No snapshots. S takes one.".to_owned(), Role::Muted)];
    }
    let mut out = vec![(
        format!(
            "{:<26} {:>4}  {:<11} {:>9}  NOTE",
            "SNAPSHOT", "AGE", "CONSISTENCY", "SIZE"
        ),
        Role::Muted,
    )];
    for (depth, snapshot) in tree::snapshots(&detail.snapshots) {
        let mut name = String::new();
        if depth > 0 {
            name.push_str(&"   ".repeat(depth.min(8) - 1));
            name.push_str(app.setup.glyphs.branch());
        }
        name.push_str(&crate::model::shown(&snapshot.name));
        let name = crate::tui::text::fit(&name, 26, app.setup.glyphs);
        let pad = 26usize.saturating_sub(crate::model::shown_width(&name));
        let old = snapshot
            .created_at
            .map_or_else(|| "-".to_owned(), |at| step_age(seconds_since(app.now, at)));
        let what = snapshot
            .consistency
            .map_or("-", crate::model::Consistency::as_str);
        let size = snapshot
            .size_bytes
            .map_or_else(|| "-".to_owned(), |b| b.to_string());
        let mut rest = String::new();
        if let Some(why) = &snapshot.broken {
            rest.push_str(&format!("broken: {why} "));
        }
        rest.push_str(snapshot.note.as_deref().unwrap_or_default());
        let role = if snapshot.broken.is_some() {
            Role::Error
        } else {
            Role::Text
        };
        out.push((
            format!(
                "{name}{} {old:>4}  {what:<11} {size:>9}  {rest}",
                " ".repeat(pad)
            ),
            role,
        ));
    }
    // Last, so that it is seen however narrow the pane is.
    if let Some(here) = detail.snapshots.iter().find(|s| s.current) {
        out.push((format!("(you are here, after {})", here.name), Role::Accent));
    }
    out
}
