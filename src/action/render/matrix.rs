//! The support matrix, for a terminal and as the page `docs/backends.md`.

use super::style::Role;
use super::table::cut;
use crate::model::{MatrixRow, Support, shown, shown_width};

fn role(support: &Support) -> Role {
    match support {
        Support::Native => Role::Ok,
        Support::No(_) => Role::Muted,
        _ => Role::Warn,
    }
}

/// Words in columns, reasons below.
pub(crate) fn table(rows: &[MatrixRow], width: Option<usize>, colour: bool) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let heads: Vec<String> = first
        .cells
        .iter()
        .map(|c| shown(&c.backend).into_owned())
        .collect();
    let titles = rows
        .iter()
        .map(|r| shown_width(&r.title))
        .max()
        .unwrap_or(0)
        .max(9);
    let mut out = format!("{:titles$}", "OPERATION");
    for head in &heads {
        out.push_str(&format!(
            "  {:>width$}",
            head.to_uppercase(),
            width = head.len().max(8)
        ));
    }
    out = format!("{}\n", out.trim_end());
    let mut reasons = Vec::new();
    for row in rows {
        let mut line = format!("{:titles$}", row.title);
        for (cell, head) in row.cells.iter().zip(&heads) {
            let word = cell.support.word();
            let pad = head.len().max(8).saturating_sub(word.len()) + 2;
            line.push_str(&" ".repeat(pad));
            line.push_str(&role(&cell.support).paint(word, colour));
            if let Some(why) = cell.support.reason() {
                reasons.push(format!("{} on {head}: {}", row.title, shown(why)));
            }
        }
        out.push_str(&line);
        out.push('\n');
    }
    if !reasons.is_empty() {
        out.push('\n');
        for reason in reasons {
            out.push_str(&match width {
                Some(width) => cut(&reason, width.max(60)),
                None => reason,
            });
            out.push('\n');
        }
    }
    out
}

/// A page of Markdown: the table, what the words mean, the gaps of each kind.
pub(crate) fn markdown(rows: &[MatrixRow]) -> String {
    let mut out = String::from(
        "# What each backend can\n\n\
         The output of `corral matrix -o markdown`. `yes`: the backend does it. `emulated`: corral does it by other means.\n\
         `when`: under a condition. `relayed`: another corral does it. `no`: not possible.\n\n",
    );
    let Some(first) = rows.first() else {
        return out;
    };
    let heads: Vec<&str> = first.cells.iter().map(|c| c.backend.as_str()).collect();
    out.push_str(&format!("| operation | {} |\n", heads.join(" | ")));
    out.push_str(&format!("|---|{}\n", "---|".repeat(heads.len())));
    for row in rows {
        let words: Vec<&str> = row.cells.iter().map(|c| c.support.word()).collect();
        out.push_str(&format!("| `{}` | {} |\n", row.title, words.join(" | ")));
    }
    for (title, wanted) in [("Conditions and other means", false), ("Gaps", true)] {
        out.push_str(&format!("\n## {title}\n"));
        for (at, head) in heads.iter().enumerate() {
            let lines: Vec<String> = rows
                .iter()
                .filter_map(|row| {
                    let support = &row.cells.get(at)?.support;
                    let is_gap = !support.is_possible();
                    let why = support.reason().filter(|_| is_gap == wanted)?;
                    Some(format!("- `{}`: {}\n", row.title, escape(&shown(why))))
                })
                .collect();
            if lines.is_empty() {
                out.push_str(&format!("\n### {head}\n\nNone.\n"));
            } else {
                out.push_str(&format!("\n### {head}\n\n{}", lines.concat()));
            }
        }
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
