//! Where in a text a key or an element stands.

use toml_edit::{Document, Item, TableLike};

/// Line and column of `path` (`disks.0.bus`) in a TOML text; the nearest place above where it is not
/// there itself.
pub(super) fn place(text: &str, path: &str) -> (usize, usize) {
    let offset = offset(text, path).unwrap_or(0);
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

fn offset(text: &str, path: &str) -> Option<usize> {
    let document = Document::parse(text).ok()?;
    let mut found = None;
    let mut table: Option<&dyn TableLike> = Some(document.as_table());
    let mut list: Option<&Item> = None;
    for part in path.split('.') {
        if let Some(item) = list.take() {
            let Ok(n) = part.parse::<usize>() else { break };
            if let Some(element) = item.as_array_of_tables().and_then(|all| all.get(n)) {
                found = element.span().or(found);
                table = Some(element);
            } else if let Some(value) = item.as_array().and_then(|all| all.get(n)) {
                found = value.span().or(found);
                table = value
                    .as_inline_table()
                    .map(|inline| inline as &dyn TableLike);
            } else {
                break;
            }
            continue;
        }
        let Some((key, item)) = table.and_then(|table| table.get_key_value(part)) else {
            break;
        };
        found = key.span().or_else(|| item.span()).or(found);
        table = item.as_table_like();
        if table.is_none() {
            list = Some(item);
        }
    }
    found.map(|span| span.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_elements_are_found() {
        let text = "a = 1\n\n[f]\nkind = \"x\"\n\n[[disks]]\nname = \"d\"\n[[disks]]\n  bus = 3\nnics = [{ m = 1 }]\n";
        assert_eq!(place(text, "a"), (1, 1));
        assert_eq!(place(text, "f.kind"), (4, 1));
        assert_eq!(place(text, "disks.1.bus"), (9, 3));
        assert_eq!(place(text, "disks.1.none").0, 8);
        assert_eq!(place(text, "nowhere"), (1, 1));
        assert_eq!(place("x = [", "x"), (1, 1));
    }
}
