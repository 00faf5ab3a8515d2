//! libvirt's XML, read as a tree and changed as text: what corral does not touch stays as it is, byte for byte.

use std::ops::Range;

use roxmltree::{Document, Node, ParsingOptions};

use crate::model::{Error, Result};

/// Larger than any definition; a text of this size is not read.
const MOST: usize = 8 << 20;

/// Reads a text as a tree.
///
/// # Errors
/// `Backend` for what is no XML.
pub fn parse(text: &str) -> Result<Document<'_>> {
    if text.len() > MOST {
        return Err(Error::backend("the XML is larger than 8 MiB"));
    }
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: 200_000,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options)
        .map_err(|e| Error::backend(format!("the XML cannot be read: {e}")))
}

/// The first child element of this name.
pub fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children()
        .find(|child| child.is_element() && child.tag_name().name() == name)
}

/// All child elements of this name.
pub fn children<'a, 'i: 'a>(
    node: Node<'a, 'i>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'i>> + 'a {
    node.children()
        .filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// Goes down by names.
pub fn at<'a, 'i>(node: Node<'a, 'i>, path: &[&str]) -> Option<Node<'a, 'i>> {
    path.iter().try_fold(node, |node, name| child(node, name))
}

/// All text of an element, CDATA included; `None` for nothing but space.
pub fn text(node: Node<'_, '_>) -> Option<String> {
    let all: String = node
        .children()
        .filter(Node::is_text)
        .filter_map(|part| part.text())
        .collect();
    let all = all.trim();
    (!all.is_empty()).then(|| all.to_owned())
}

/// The text at a path.
pub fn text_at(node: Node<'_, '_>, path: &[&str]) -> Option<String> {
    text(at(node, path)?)
}

/// An attribute at a path.
pub fn attr_at(node: Node<'_, '_>, path: &[&str], name: &str) -> Option<String> {
    at(node, path)?.attribute(name).map(str::to_owned)
}

/// A size with libvirt's unit (`KiB` where there is none), in bytes.
pub fn size(node: Node<'_, '_>) -> Option<u64> {
    let number: u64 = text(node)?.parse().ok()?;
    let unit: u64 = match node.attribute("unit").unwrap_or("KiB") {
        "b" | "bytes" => 1,
        "KB" => 1000,
        "k" | "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "G" | "GiB" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "T" | "TiB" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// A text as content or value of an attribute.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&apos;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A text that is changed piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    text: String,
}

impl Edit {
    /// Begins with a text.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn new(text: &str) -> Result<Self> {
        parse(text)?;
        Ok(Self {
            text: text.to_owned(),
        })
    }

    /// As it is now.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The end.
    pub fn into_text(self) -> String {
        self.text
    }

    fn splice(&mut self, range: Range<usize>, with: &str) {
        self.text.replace_range(range, with);
    }

    /// Finds the place of an element; `None` where `find` does.
    fn place(
        &self,
        find: impl FnOnce(Node<'_, '_>) -> Option<Range<usize>>,
    ) -> Option<Range<usize>> {
        find(parse(&self.text).ok()?.root_element())
    }

    /// Sets the text of a child of the root; it is made where it is not there. `None` takes it away.
    pub fn set_text(&mut self, name: &str, value: Option<&str>) {
        let found = self.place(|root| child(root, name).map(|node| node.range()));
        match (found, value) {
            (Some(range), None) => self.cut(range),
            (Some(_), Some(value)) => {
                let value = escaped(value);
                self.set_content(&[name], &value);
            }
            (None, Some(value)) => {
                let element = format!("<{name}>{}</{name}>", escaped(value));
                // Behind the name, where libvirt has titles and descriptions.
                let behind = self.place(|root| child(root, "name").map(|node| node.range()));
                match behind {
                    Some(range) => self.splice(range.end..range.end, &format!("\n  {element}")),
                    None => self.append(&[], &element),
                }
            }
            (None, None) => {}
        }
    }

    /// Replaces all that is inside an element, as XML.
    pub fn set_content(&mut self, path: &[&str], content: &str) {
        let Some(range) = self.place(|root| at(root, path).map(|node| node.range())) else {
            return;
        };
        let element = &self.text[range.clone()];
        let Some(open) = end_of_tag(element) else {
            return;
        };
        let tag = &element[..open];
        let new = if let Some(start) = tag.strip_suffix("/>") {
            let name = path.last().copied().unwrap_or_default();
            format!("{start}>{content}</{name}>")
        } else {
            let close = element.rfind("</").unwrap_or(element.len());
            format!("{tag}{content}{}", &element[close..])
        };
        self.splice(range, &new);
    }

    /// Sets an attribute of the element at a path; `None` takes it away. Nothing where the element is not.
    pub fn set_attr(&mut self, path: &[&str], name: &str, value: Option<&str>) {
        self.set_attr_of(|root| at(root, path), name, value);
    }

    /// Sets an attribute of the element that `find` finds.
    pub fn set_attr_of(
        &mut self,
        find: impl for<'a, 'i> FnOnce(Node<'a, 'i>) -> Option<Node<'a, 'i>>,
        name: &str,
        value: Option<&str>,
    ) {
        let place = self.place(|root| {
            let node = find(root)?;
            match node.attribute_node(name) {
                Some(attribute) => Some(attribute.range()),
                None => {
                    let start = node.range().start;
                    Some(start..start)
                }
            }
        });
        let Some(place) = place else { return };
        if place.is_empty() {
            let Some(value) = value else { return };
            let Some(open) = end_of_tag(&self.text[place.start..]) else {
                return;
            };
            let tag = &self.text[place.start..place.start + open];
            let inside = if tag.ends_with("/>") {
                open - 2
            } else {
                open - 1
            };
            let end = place.start + tag[..inside].trim_end().len();
            self.splice(end..end, &format!(" {name}='{}'", escaped(value)));
            return;
        }
        match value {
            Some(value) => self.splice(place, &format!("{name}='{}'", escaped(value))),
            None => {
                // The space before it goes too.
                let before = self.text[..place.start].trim_end().len();
                self.splice(before..place.end, "");
            }
        }
    }

    /// Puts an element at the end of the one at a path.
    pub fn append(&mut self, path: &[&str], element: &str) {
        let Some(range) = self.place(|root| at(root, path).map(|node| node.range())) else {
            return;
        };
        let whole = &self.text[range.clone()];
        if let Some(open) = end_of_tag(whole)
            && whole[..open].ends_with("/>")
        {
            let root = self.place(|root| {
                let at = root.range().start + 1;
                Some(at..at + root.tag_name().name().len())
            });
            let name = match (path.last(), root) {
                (Some(name), _) => (*name).to_owned(),
                (None, Some(root)) => self.text[root].to_owned(),
                (None, None) => return,
            };
            let new = format!("{}>\n  {element}\n</{name}>", &whole[..open - 2]);
            self.splice(range, &new);
            return;
        }
        let close = range.start + whole.rfind("</").unwrap_or(whole.len());
        // Before the indentation of the closing tag.
        let end = self.text[..close].trim_end_matches([' ', '\t']).len();
        let indent = "  ".repeat(path.len() + 1);
        self.splice(end..end, &format!("{indent}{element}\n"));
    }

    /// Takes away all elements that `find` gives.
    pub fn remove(&mut self, find: impl for<'a, 'i> Fn(Node<'a, 'i>) -> Vec<Node<'a, 'i>>) {
        let mut ranges: Vec<Range<usize>> = match parse(&self.text) {
            Ok(document) => find(document.root_element())
                .into_iter()
                .map(|node| node.range())
                .collect(),
            Err(_) => return,
        };
        ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
        for range in ranges {
            self.cut(range);
        }
    }

    /// Replaces the first element that `find` finds.
    pub fn replace(
        &mut self,
        find: impl for<'a, 'i> FnOnce(Node<'a, 'i>) -> Option<Node<'a, 'i>>,
        element: &str,
    ) {
        if let Some(range) = self.place(|root| find(root).map(|node| node.range())) {
            self.splice(range, element);
        }
    }

    /// Takes a piece away, and the line it stood alone on.
    fn cut(&mut self, range: Range<usize>) {
        let before = &self.text[..range.start];
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        let alone = before[line..].trim().is_empty() && self.text[range.end..].starts_with('\n');
        if alone {
            self.splice(line..range.end + 1, "");
        } else {
            self.splice(range, "");
        }
    }
}

/// The text of the element that `find` finds, as it stands.
pub fn piece(
    text: &str,
    find: impl for<'a, 'i> FnOnce(Node<'a, 'i>) -> Option<Node<'a, 'i>>,
) -> Option<String> {
    let document = parse(text).ok()?;
    let range = find(document.root_element())?.range();
    text.get(range).map(str::to_owned)
}

/// Where the first tag of `element` ends, quotes respected.
fn end_of_tag(element: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in element.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, '>') => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ODD: &str = "<domain type='qemu' xmlns:q='urn:q'>\n  <name>a</name>\n  <metadata>\n    <o:x xmlns:o=\"urn:o\"  b = '>' ><![CDATA[ <&> ]]></o:x>\n  </metadata>\n  <vcpu placement='static' current=\"1\">4</vcpu>\n  <devices>\n    <!-- mine -->\n    <disk type='file'><target dev='vda'/></disk>\n    <odd/>\n  </devices>\n  <q:cmd><q:arg value='&apos;'/></q:cmd>\n</domain>\n";

    #[test]
    fn what_is_not_touched_stays_byte_for_byte() {
        let mut edit = Edit::new(ODD).unwrap();
        edit.set_text("description", Some("a < b"));
        edit.set_attr(&["vcpu"], "current", Some("2"));
        edit.append(&["devices"], "<disk type='block'/>");
        edit.append(&["devices", "odd"], "<in/>");
        let text = edit.text().to_owned();
        parse(&text).unwrap();
        assert!(
            text.contains("<description>a &lt; b</description>"),
            "{text}"
        );
        assert!(text.contains("current='2'>4</vcpu>") && text.contains("<odd>\n  <in/>\n</odd>"));
        // Back again: every other byte is where it was.
        edit.set_text("description", None);
        edit.set_attr_of(|root| child(root, "vcpu"), "current", Some("1"));
        edit.remove(|root| {
            let devices = child(root, "devices");
            devices
                .into_iter()
                .flat_map(|d| d.children())
                .filter(|n| n.attribute("type") == Some("block"))
                .collect()
        });
        edit.replace(|root| at(root, &["devices", "odd"]), "<odd/>");
        assert_eq!(edit.text(), ODD.replace("current=\"1\"", "current='1'"));
        edit.set_attr(&["vcpu"], "current", None);
        assert!(edit.text().contains("<vcpu placement='static'>4</vcpu>"));
        edit.set_content(&["vcpu"], "8");
        assert!(edit.text().contains("<vcpu placement='static'>8</vcpu>"));
    }

    #[test]
    fn odd_texts_are_errors() {
        assert!(Edit::new("<a><b></a>").is_err());
        assert!(Edit::new("<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>").is_err());
        assert!(Edit::new(&format!("<a>{}</a>", " ".repeat(MOST))).is_err());
    }

    proptest! {
        #[test]
        fn any_text_comes_back(value in "[^\\x00-\\x08\\x0b-\\x1f\\x{fffe}\\x{ffff}]*") {
            let mut edit = Edit::new("<a><name>x</name></a>").unwrap();
            edit.set_text("title", Some(&value));
            let document = parse(edit.text()).unwrap();
            let back = text_at(document.root_element(), &["title"]).unwrap_or_default();
            let lines = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n").trim().to_owned();
            prop_assert_eq!(lines(&back), lines(&value));
        }
    }
}
