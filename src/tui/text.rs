//! Text into cells: widths by grapheme, and nothing from outside reaches the terminal raw.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_segmentation::UnicodeSegmentation as _;

use super::glyphs::Glyphs;
use super::prose::find;
use super::theme::{Role, Theme};
use super::zone::{Zone, Zones};
use crate::model::{shown, shown_width};

/// Cells to draw into, with the look.
pub struct Canvas<'a> {
    /// The cells.
    pub buf: &'a mut Buffer,
    /// The styles.
    pub theme: &'a Theme,
    /// The glyphs.
    pub glyphs: Glyphs,
    /// What stands where.
    pub zones: Zones,
}

impl Canvas<'_> {
    /// Notes what a part of the screen means.
    pub fn zone(&mut self, area: Rect, zone: Zone) {
        self.zones.push((area, zone));
    }

    /// The style of a role.
    pub fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    /// Writes at most `width` columns at a place inside `area`; columns written.
    pub fn put(&mut self, x: u16, y: u16, width: u16, text: &str, role: Role) -> u16 {
        self.put_styled(x, y, width, text, self.style(role))
    }

    /// The same with a style of its own.
    pub fn put_styled(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let area = self.buf.area;
        if y < area.y || y >= area.bottom() || x < area.x || x >= area.right() {
            return 0;
        }
        let width = width.min(area.right() - x);
        let text = fit(text, usize::from(width), self.glyphs);
        let (end, _) = self.buf.set_stringn(x, y, &text, usize::from(width), style);
        end - x
    }

    /// The same, with what was searched for standing out.
    pub fn put_found(
        &mut self,
        x: u16,
        y: u16,
        width: u16,
        text: &str,
        style: Style,
        wanted: Option<&str>,
    ) -> u16 {
        let written = self.put_styled(x, y, width, text, style);
        let Some(wanted) = wanted else {
            return written;
        };
        let text = fit(text, usize::from(width), self.glyphs);
        let found = self
            .style(Role::Mark)
            .add_modifier(Modifier::REVERSED | Modifier::UNDERLINED);
        for hit in find(&text, &shown(wanted)) {
            let at = x + shown_width(&text[..hit.start]) as u16;
            let end = x + shown_width(&text[..hit.end]) as u16;
            let area = Rect::new(at, y, end - at, 1).intersection(self.buf.area);
            self.buf.set_style(area, found);
        }
        written
    }

    /// Writes and fills the rest of the width with the same style.
    pub fn cell(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        self.fill(Rect::new(x, y, width, 1), style);
        self.put_styled(x, y, width, text, style);
    }

    /// Blanks an area.
    pub fn fill(&mut self, area: Rect, style: Style) {
        let area = area.intersection(self.buf.area);
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                self.buf[(x, y)].reset();
                self.buf[(x, y)].set_style(style);
            }
        }
    }

    /// A horizontal line.
    pub fn rule(&mut self, area: Rect) {
        let area = area.intersection(self.buf.area);
        let style = self.style(Role::Rule);
        for x in area.left()..area.right() {
            self.buf[(x, area.y)]
                .set_symbol(self.glyphs.rule())
                .set_style(style);
        }
    }

    /// Spans after each other; columns written.
    pub fn spans(&mut self, x: u16, y: u16, width: u16, spans: &[(String, Role)]) -> u16 {
        let mut used = 0;
        for (text, role) in spans {
            if used >= width {
                break;
            }
            used += self.put(x + used, y, width - used, text, *role);
        }
        used
    }
}

/// Visible and no wider than `width`; what is cut ends with a sign.
pub fn fit(text: &str, width: usize, glyphs: Glyphs) -> String {
    let text = shown(text);
    let text = match glyphs {
        Glyphs::Unicode | Glyphs::Nerd => text.into_owned(),
        Glyphs::Ascii => text.graphemes(true).map(ascii).collect::<Vec<_>>().concat(),
    };
    if shown_width(&text) <= width {
        return text;
    }
    let more = glyphs.more();
    let room = width.saturating_sub(1);
    let mut out = String::new();
    let mut used = 0;
    for cluster in text.graphemes(true) {
        let w = shown_width(cluster);
        if used + w > room {
            break;
        }
        used += w;
        out.push_str(cluster);
    }
    if width > 0 {
        out.push_str(more);
    }
    out
}

/// corral's own signs have ASCII forms; what comes from outside stays as it is, where it can be
/// shown at all.
fn ascii(cluster: &str) -> &str {
    match cluster {
        "·" | "—" => "-",
        "…" => "~",
        "→" => ">",
        "↑" => "^",
        "↓" => "v",
        other => other,
    }
}

/// Breaks into lines of at most `width` columns, at spaces where there are any.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let text = shown(text);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let gap = usize::from(!line.is_empty());
        if shown_width(&line) + gap + shown_width(word) <= width {
            if gap == 1 {
                line.push(' ');
            }
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for cluster in word.graphemes(true) {
            if shown_width(&line) + shown_width(cluster) > width && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(cluster);
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cut_text_says_so() {
        assert_eq!(fit("abcdef", 4, Glyphs::Unicode), "abc…");
        assert_eq!(fit("abcdef", 4, Glyphs::Ascii), "abc~");
        assert_eq!(fit("日本語", 4, Glyphs::Unicode), "日…");
        assert_eq!(fit("a\x1b[31m", 20, Glyphs::Unicode), "a\\x1b[31m");
    }

    proptest! {
        #[test]
        fn req_27_never_wider(text in any::<String>(), width in 0usize..40) {
            prop_assert!(shown_width(&fit(&text, width, Glyphs::Unicode)) <= width);
            for line in wrap(&text, width.max(2)) {
                prop_assert!(shown_width(&line) <= width.max(2) || line.graphemes(true).count() == 1);
            }
        }
    }
}
