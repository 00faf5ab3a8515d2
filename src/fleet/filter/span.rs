//! Ranges of numbers: `4`, `4..`, `..8`, `4..8`, both ends included.

/// From here to there; `None` has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub from: Option<u64>,
    pub to: Option<u64>,
}

impl Span {
    /// Reads one; `read` reads a number.
    pub fn read(text: &str, read: impl Fn(&str) -> Result<u64, String>) -> Result<Self, String> {
        let span = match text.split_once("..") {
            None => {
                let n = read(text)?;
                Self {
                    from: Some(n),
                    to: Some(n),
                }
            }
            Some(("", "")) => return Err("a range needs a number: 4.. or ..8".to_owned()),
            Some((from, to)) => {
                let end = |text: &str| (!text.is_empty()).then(|| read(text)).transpose();
                Self {
                    from: end(from)?,
                    to: end(to)?,
                }
            }
        };
        match (span.from, span.to) {
            (Some(from), Some(to)) if from > to => Err(format!("{text:?} ends before it begins")),
            _ => Ok(span),
        }
    }

    /// It is in it.
    pub fn holds(self, n: u64) -> bool {
        self.from.is_none_or(|from| n >= from) && self.to.is_none_or(|to| n <= to)
    }

    /// As [`Span::read`] reads it.
    pub fn print(self, print: impl Fn(u64) -> String) -> String {
        match (self.from, self.to) {
            (Some(from), Some(to)) if from == to => print(from),
            (from, to) => {
                let end = |n: Option<u64>| n.map(&print).unwrap_or_default();
                format!("{}..{}", end(from), end(to))
            }
        }
    }
}
