//! Which lines of a definition hold others: those set in deeper below them, or all up to the next `[section]`.

use std::collections::BTreeSet;

fn indent(line: &str) -> usize {
    line.chars()
        .take_while(|c| matches!(c, ' ' | '\t'))
        .map(|c| if c == '\t' { 4 } else { 1 })
        .sum()
}

fn is_section(line: &str) -> bool {
    line.starts_with('[') && line.trim_end().ends_with(']')
}

/// The end of what a line holds, which is the first line that is not of it; none where it holds nothing.
pub fn block(lines: &[&str], n: usize) -> Option<usize> {
    let head = lines.get(n).filter(|line| !line.trim().is_empty())?;
    let deep = indent(head);
    let section = is_section(head);
    // A list may stand no deeper than the key that it is the value of.
    let listed = head.trim_end().ends_with(':');
    let mut end = n + 1;
    for (at, line) in lines.iter().enumerate().skip(n + 1) {
        if line.trim().is_empty() {
            continue;
        }
        let item = listed && indent(line) == deep && line.trim_start().starts_with("- ");
        if indent(line) > deep || item || (section && !is_section(line)) {
            end = at + 1;
        } else {
            break;
        }
    }
    (end > n + 1).then_some(end)
}

/// Lines that are shown, where these are folded.
pub fn visible(lines: &[&str], folded: &BTreeSet<usize>) -> Vec<usize> {
    let mut out = Vec::new();
    let mut n = 0;
    while n < lines.len() {
        out.push(n);
        n = match block(lines, n).filter(|_| folded.contains(&n)) {
            Some(end) => end,
            None => n + 1,
        };
    }
    out
}

/// The line whose fold is meant where the cursor is: its own, or that of the nearest one that holds it.
pub fn holder(lines: &[&str], n: usize) -> Option<usize> {
    (0..=n)
        .rev()
        .find(|at| block(lines, *at).is_some_and(|end| *at == n || end > n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, folded: &[usize]) -> Vec<String> {
        let lines: Vec<&str> = text.lines().collect();
        let folded = folded.iter().copied().collect();
        let visible = visible(&lines, &folded).into_iter();
        visible.map(|n| lines[n].trim().to_owned()).collect()
    }

    #[test]
    fn braces_elements_keys_and_sections_fold() {
        let json = "{\n  \"a\": {\n    \"b\": 1\n  },\n  \"c\": 2\n}";
        assert_eq!(shown(json, &[1]), ["{", "\"a\": {", "},", "\"c\": 2", "}"]);
        assert_eq!(shown(json, &[0]), ["{", "}"]);
        let xml = "<d>\n\t<x>\n\t\t<y/>\n\t</x>\n</d>";
        assert_eq!(shown(xml, &[1]), ["<d>", "<x>", "</x>", "</d>"]);
        let yaml = "a:\n- 1\n- 2\nb: 3";
        assert_eq!(shown(yaml, &[0]), ["a:", "b: 3"]);
        let toml = "x = 1\n[a]\ny = 2\n\nz = 3\n[b]\nw = 4";
        assert_eq!(shown(toml, &[1]), ["x = 1", "[a]", "[b]", "w = 4"]);
    }

    #[test]
    fn the_nearest_that_holds_a_line_is_found() {
        let lines = ["{", "  \"a\": {", "    \"b\": 1", "  },", "}"];
        assert_eq!(holder(&lines, 2), Some(1));
        assert_eq!(holder(&lines, 1), Some(1));
        assert_eq!(holder(&lines, 3), Some(0));
        assert_eq!(holder(&["x = 1"], 0), None);
    }
}
