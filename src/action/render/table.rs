//! Tables: columns by key, cells that know how they sort, widths fitted to a terminal or free.

use std::cmp::Ordering;

use unicode_segmentation::UnicodeSegmentation as _;

use super::style::Role;
use crate::action::fleet_api::sort::natural;
use crate::model::{Bytes, Error, Result, age, shown, shown_width};

/// How a cell sorts. Unknown values come last in either direction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SortKey {
    /// Not known.
    None,
    /// By value.
    Number(f64),
    /// As people sort names: `web2` before `web10`.
    Text(String),
}

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) role: Role,
    pub(crate) sort: SortKey,
}

impl Cell {
    /// Text from outside, made harmless.
    pub(crate) fn text(text: &str) -> Self {
        Self {
            text: shown(text).into_owned(),
            role: Role::Plain,
            sort: SortKey::Text(text.to_owned()),
        }
    }

    /// Nothing known.
    pub(crate) fn unknown() -> Self {
        Self {
            text: "-".to_owned(),
            role: Role::Plain,
            sort: SortKey::None,
        }
    }

    /// A text that may be missing.
    pub(crate) fn maybe(text: Option<&str>) -> Self {
        text.map_or_else(Self::unknown, Self::text)
    }

    /// A number with its own look.
    pub(crate) fn number(value: f64, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            role: Role::Plain,
            sort: SortKey::Number(value),
        }
    }

    /// A size.
    pub(crate) fn bytes(bytes: Option<Bytes>) -> Self {
        bytes.map_or_else(Self::unknown, |b| Self::number(b.0 as f64, b.to_string()))
    }

    /// A span in one unit.
    pub(crate) fn age(seconds: Option<u64>) -> Self {
        seconds.map_or_else(Self::unknown, |s| Self::number(s as f64, age(s)))
    }

    /// Yes, no or not known.
    pub(crate) fn flag(value: Option<bool>) -> Self {
        match value {
            None => Self::unknown(),
            Some(on) => Self::number(f64::from(u8::from(on)), if on { "yes" } else { "no" }),
        }
    }

    /// In a role.
    #[must_use]
    pub(crate) fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Heading; in lower case also the word for `--columns` and `--sort`.
    pub(crate) title: &'static str,
    /// At least this wide.
    pub(crate) min: usize,
    /// May shrink to this on a narrow terminal; `None` never shrinks.
    pub(crate) shrink: Option<usize>,
    /// Shown without being asked for: 0 always, 1 with `wide`, 2 by `--columns` only.
    pub(crate) level: u8,
}

/// A column that is always shown and never shrinks.
pub(crate) const fn col(title: &'static str) -> Column {
    Column {
        title,
        min: 0,
        shrink: None,
        level: 0,
    }
}

impl Column {
    /// At least so wide.
    pub(crate) const fn min(mut self, min: usize) -> Self {
        self.min = min;
        self
    }

    /// May shrink to `least`.
    pub(crate) const fn shrink(mut self, least: usize) -> Self {
        self.shrink = Some(least);
        self
    }

    /// Only with `wide`.
    pub(crate) const fn wide(mut self) -> Self {
        self.level = 1;
        self
    }

    /// Only by name.
    pub(crate) const fn extra(mut self) -> Self {
        self.level = 2;
        self
    }
}

/// Rows under columns.
pub(crate) struct Table {
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Spaces between columns.
    pub(crate) gap: usize,
}

/// How a table is laid out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) wide: bool,
    pub(crate) columns: Option<String>,
    pub(crate) no_headers: bool,
    /// Columns of the terminal; `None` is a pipe or a file.
    pub(crate) width: Option<usize>,
    pub(crate) colour: bool,
}

impl Table {
    /// The permutation that sorts the rows by `--sort`.
    pub(crate) fn order(&self, by: &str) -> Result<Vec<usize>> {
        let (name, reverse) = match by.strip_prefix('-') {
            Some(name) => (name, true),
            None => (by, false),
        };
        let column = self.find(name)?;
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by(|a, b| {
            let (a, b) = (&self.rows[*a][column].sort, &self.rows[*b][column].sort);
            match (a, b) {
                (SortKey::None, SortKey::None) => Ordering::Equal,
                (SortKey::None, _) => Ordering::Greater,
                (_, SortKey::None) => Ordering::Less,
                _ if reverse => compare(b, a),
                _ => compare(a, b),
            }
        });
        Ok(order)
    }

    fn find(&self, name: &str) -> Result<usize> {
        let wanted = name.trim().to_uppercase().replace(['-', '_'], " ");
        self.columns
            .iter()
            .position(|c| c.title == wanted)
            .ok_or_else(|| {
                let known: Vec<String> = self.columns.iter().map(|c| key(c.title)).collect();
                Error::invalid(format!("there is no column {:?}", shown(name)))
                    .remedy(format!("Columns: {}", known.join(", ")))
            })
    }

    fn chosen(&self, layout: &Layout) -> Result<Vec<usize>> {
        match &layout.columns {
            Some(list) => list.split(',').map(|name| self.find(name)).collect(),
            None => Ok((0..self.columns.len())
                .filter(|i| self.columns[*i].level <= u8::from(layout.wide))
                .collect()),
        }
    }

    /// The lines, each with a newline.
    pub(crate) fn print(&self, layout: &Layout) -> Result<String> {
        let chosen = self.chosen(layout)?;
        let mut widths: Vec<usize> = chosen
            .iter()
            .map(|&i| {
                let heading = if layout.no_headers {
                    0
                } else {
                    self.columns[i].title.len()
                };
                self.rows
                    .iter()
                    .map(|row| shown_width(&row[i].text))
                    .max()
                    .unwrap_or(0)
                    .max(heading)
                    .max(self.columns[i].min)
            })
            .collect();
        if let Some(width) = layout.width {
            self.fit(&chosen, &mut widths, width);
        }
        let mut out = String::new();
        if !layout.no_headers && !chosen.is_empty() {
            let cells: Vec<(String, Role)> = chosen
                .iter()
                .map(|&i| (self.columns[i].title.to_owned(), Role::Strong))
                .collect();
            self.line(&chosen, &cells, &widths, layout.colour, &mut out);
        }
        for row in &self.rows {
            let cells: Vec<(String, Role)> = chosen
                .iter()
                .map(|&i| (row[i].text.clone(), row[i].role))
                .collect();
            self.line(&chosen, &cells, &widths, layout.colour, &mut out);
        }
        Ok(out)
    }

    /// Takes columns from those that may shrink, the last of them first; the first column last.
    fn fit(&self, chosen: &[usize], widths: &mut [usize], width: usize) {
        let gaps = self.gap * widths.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
        for (at, &i) in chosen.iter().enumerate().rev() {
            if let Some(least) = self.columns[i].shrink {
                let give = widths[at].saturating_sub(least).min(over);
                widths[at] -= give;
                over -= give;
            }
        }
    }

    fn line(
        &self,
        chosen: &[usize],
        cells: &[(String, Role)],
        widths: &[usize],
        colour: bool,
        out: &mut String,
    ) {
        let mut pending = 0;
        let last = cells.len().saturating_sub(1);
        for (at, ((text, role), width)) in cells.iter().zip(widths).enumerate() {
            // The last column may run over; the others are cut so that what follows stays under
            // its heading.
            let runs_over = at == last && self.columns[chosen[at]].shrink.is_none();
            let text = if runs_over {
                text.clone()
            } else {
                cut(text, *width)
            };
            if !text.is_empty() {
                out.push_str(&" ".repeat(pending));
                out.push_str(&role.paint(&text, colour));
                pending = 0;
            }
            pending += width.saturating_sub(shown_width(&text)) + self.gap;
        }
        out.push('\n');
    }
}

/// The word for a column.
pub(crate) fn key(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

/// At most `width` columns, an ellipsis where something was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if shown_width(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for cluster in text.graphemes(true) {
        let next = shown_width(cluster);
        if used + next + 1 > width {
            break;
        }
        used += next;
        out.push_str(cluster);
    }
    if width > 0 {
        out.push('…');
    }
    out
}

fn compare(a: &SortKey, b: &SortKey) -> Ordering {
    match (a, b) {
        (SortKey::Number(a), SortKey::Number(b)) => a.total_cmp(b),
        (SortKey::Text(a), SortKey::Text(b)) => natural(a, b),
        (SortKey::Number(_), _) => Ordering::Less,
        (_, SortKey::Number(_)) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: &[Column] = &[
        col("NAME").shrink(4),
        col("SIZE"),
        col("NOTE").wide(),
        col("ID"),
    ];

    fn table(rows: &[(&str, Option<u64>, &str)]) -> Table {
        Table {
            columns: COLUMNS,
            gap: 1,
            rows: rows
                .iter()
                .map(|(name, size, id)| {
                    vec![
                        Cell::text(name),
                        Cell::bytes(size.map(Bytes)),
                        Cell::text("n"),
                        Cell::text(id),
                    ]
                })
                .collect(),
        }
    }

    #[test]
    fn columns_stay_under_their_headings() {
        let table = table(&[("a", Some(1), "x/a"), ("a-long-name", None, "x/b")]);
        let text = table.print(&Layout::default()).unwrap();
        assert_eq!(
            text,
            "NAME        SIZE ID\na           1 B  x/a\na-long-name -    x/b\n"
        );
        let narrow = Layout {
            width: Some(16),
            ..Layout::default()
        };
        let text = table.print(&narrow).unwrap();
        assert_eq!(
            text,
            "NAME    SIZE ID\na       1 B  x/a\na-long… -    x/b\n"
        );
    }

    #[test]
    fn columns_are_chosen_by_name() {
        let table = table(&[("a", None, "x/a")]);
        let layout = Layout {
            columns: Some("id,note".to_owned()),
            no_headers: true,
            ..Layout::default()
        };
        assert_eq!(table.print(&layout).unwrap(), "x/a n\n");
        let layout = Layout {
            columns: Some("id,nonsense".to_owned()),
            ..Layout::default()
        };
        let error = table.print(&layout).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.to_string().contains("name, size, note, id"),
            "{error}"
        );
    }

    #[test]
    fn sorts_by_value_with_unknown_last() {
        let table = table(&[
            ("web10", Some(9 << 20), "1"),
            ("Web2", None, "2"),
            ("web1", Some(1 << 30), "3"),
        ]);
        assert_eq!(table.order("name").unwrap(), [2, 1, 0]);
        assert_eq!(table.order("size").unwrap(), [0, 2, 1]);
        assert_eq!(table.order("-size").unwrap(), [2, 0, 1]);
        assert!(table.order("colour").is_err());
    }

    #[test]
    fn req_20_cells_never_carry_control_characters() {
        let table = table(&[("\x1b[2Jevil\u{9b}31m", None, "x/e")]);
        let text = table.print(&Layout::default()).unwrap();
        assert!(text.contains("\\x1b[2Jevil\\x9b31m"), "{text}");
    }

    proptest! {
        #[test]
        fn cut_text_is_never_wider(text in "\\PC{0,20}", width in 0usize..12) {
            prop_assert!(shown_width(&cut(&text, width)) <= width);
        }
    }
}
