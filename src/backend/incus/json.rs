//! What a server answers, read with patience: a key that is absent, null or of another type is not known.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Keys of an object of the API.
pub trait Look {
    /// A text that is not empty.
    fn text(&self, key: &str) -> Option<&str>;
    /// An object.
    fn object(&self, key: &str) -> Option<&Map<String, Value>>;
    /// The elements of a list; of anything else there are none.
    fn list(&self, key: &str) -> &[Value];
    /// A number that is not negative.
    fn number(&self, key: &str) -> Option<u64>;
    /// Yes or no.
    fn flag(&self, key: &str) -> Option<bool>;
    /// A moment; the zero of the server's clock is none.
    fn time(&self, key: &str) -> Option<Timestamp>;
}

impl Look for Value {
    fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str().filter(|text| !text.is_empty())
    }

    fn object(&self, key: &str) -> Option<&Map<String, Value>> {
        self.get(key)?.as_object()
    }

    fn list(&self, key: &str) -> &[Value] {
        match self.get(key) {
            Some(Value::Array(list)) => list,
            _ => &[],
        }
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    fn flag(&self, key: &str) -> Option<bool> {
        self.get(key)?.as_bool()
    }

    fn time(&self, key: &str) -> Option<Timestamp> {
        self.text(key)?
            .parse::<Timestamp>()
            .ok()
            .filter(|at| at.as_second() > 0)
    }
}

/// A text of a map of texts: `config`, a device.
pub fn entry<'a>(map: Option<&'a Map<String, Value>>, key: &str) -> Option<&'a str> {
    map?.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// What the server takes for yes.
pub fn is_true(text: Option<&str>) -> bool {
    text.is_some_and(|text| {
        let word = text.to_ascii_lowercase();
        matches!(word.as_str(), "true" | "1" | "yes" | "on")
    })
}

/// A size as the server writes it: `256MiB`, `10GB`, `1073741824`; a share (`50%`) is none.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit: u64 = match &text[digits.len()..] {
        "" | "B" => 1,
        "kB" => 1000,
        "MB" => 1000_u64.pow(2),
        "GB" => 1000_u64.pow(3),
        "TB" => 1000_u64.pow(4),
        "PB" => 1000_u64.pow(5),
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "PiB" => 1 << 50,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// A size as the server reads it.
pub fn print_size(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

/// One part of a path or of a query, so that the server reads it as one.
pub fn encoded(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The last part of a path of the API, its project, decoded: `/1.0/instances/x?project=p`.
pub fn named(url: &str) -> Option<(String, String)> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let name = crate::model::decode_segment(path.rsplit('/').next()?)?;
    let project = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("project="))
        .and_then(crate::model::decode_segment)
        .unwrap_or_else(|| "default".to_owned());
    (!name.is_empty()).then_some((name, project))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_as_the_server_does() {
        for (text, bytes) in [
            ("256MiB", 256 << 20),
            ("10GB", 10_000_000_000),
            ("7", 7),
            ("512B", 512),
            ("1kB", 1000),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for odd in ["50%", "", "MiB", "-1", "1e9", "99999999999PiB"] {
            assert_eq!(size(odd), None, "{odd}");
        }
        for bytes in [1, 1024, 64 << 20, 3 << 30, 1000] {
            assert_eq!(size(&print_size(bytes)), Some(bytes));
        }
    }

    #[test]
    fn names_go_there_and_back() {
        assert_eq!(encoded("a/b ü?"), "a%2Fb%20%C3%BC%3F");
        assert_eq!(
            named("/1.0/instances/a%20b?project=p%26q&x=1"),
            Some(("a b".to_owned(), "p&q".to_owned()))
        );
        assert_eq!(
            named("/1.0/instances/x"),
            Some(("x".to_owned(), "default".to_owned()))
        );
        assert_eq!(named("/1.0/instances/"), None);
    }

    #[test]
    fn odd_values_are_not_known() {
        let odd =
            serde_json::json!({"a": 1, "b": null, "c": "", "d": "0001-01-01T00:00:00Z", "e": {}});
        assert_eq!(odd.text("a"), None);
        assert_eq!(odd.text("b"), None);
        assert_eq!(odd.text("c"), None);
        assert_eq!(odd.time("d"), None);
        assert!(odd.list("e").is_empty() && Value::Null.list("x").is_empty());
        assert!(is_true(Some("True")) && !is_true(Some("no")) && !is_true(None));
    }
}
