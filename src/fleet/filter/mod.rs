//! The filter language: `state:running,paused -template cpu:4.. ip:10.0.3.0/24 web`.
//!
//! Words are separated by blanks and all must hold; `,` is "or" within a field, a leading `-` is
//! "not". Nothing in it needs quoting in a shell but the blanks themselves. In the full-screen view
//! ([`Syntax::View`]) also `!` for "not", and `<` and `>`.

mod complete;
mod fields;
mod gaps;
mod net;
mod pattern;
mod problem;
mod span;
mod test;
mod words;

use std::fmt;
use std::ops::Range;

use jiff::Timestamp;

use crate::model::Instance;
pub use complete::{Completion, Known, common, complete};
pub use fields::{FIELDS, FilterField};
use fields::{Value, looks_like_field};
pub use gaps::Asked;
use pattern::Pattern;
pub use problem::{has_problem, problem};
use span::Span;
use test::{Test, print_number, read_number};
use words::{Char, Word, text, words};

/// Where a filter is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// What is wrong and what is allowed.
    pub message: String,
    /// Bytes of the text it concerns.
    pub span: Range<usize>,
}

/// What a filter needs besides the row.
#[derive(Clone, Copy, Debug)]
pub struct FilterCx {
    /// The time now.
    pub now: Timestamp,
}

/// Where a filter is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// On a command line: nothing that a shell gives a meaning to.
    Shell,
    /// In the full-screen view: also `!tag:prod`, `mem>8G`, `cpu<=4`.
    View,
}

/// A parsed filter: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    not: bool,
    any: Vec<Test>,
}

impl Filter {
    /// Reads a filter of a command line.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Self::parse_as(text, Syntax::Shell)
    }

    /// Reads a filter.
    pub fn parse_as(text: &str, syntax: Syntax) -> Result<Self, FilterError> {
        let mut terms = Vec::new();
        for word in words(text)? {
            let term = term(&word, syntax).map_err(|message| FilterError {
                message,
                span: word.span,
            })?;
            terms.extend(term);
        }
        Ok(Self { terms })
    }

    /// How to write what a word between others was probably meant for: `or` and `and` are texts like any other.
    pub fn meant(&self) -> Option<&'static str> {
        let words = self.terms.iter().flat_map(|term| &term.any);
        let mut words = words.filter_map(|test| match test {
            Test::Anywhere(Pattern::Text(word)) => Some(word.as_str()),
            _ => None,
        });
        words.find_map(|word| match word {
            "or" | "||" | "|" => Some(
                "or is a text like any other here; write this or that with a comma, within one field: state:paused,running",
            ),
            "and" | "&&" | "&" => Some(
                "and is a text like any other here; words that must all hold are written with a blank: state:running tag:prod",
            ),
            _ => None,
        })
    }

    /// Nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether a context can hold a row that is wanted.
    pub fn reaches(&self, context: &str, backend: &str) -> bool {
        self.terms.iter().all(|term| {
            let said: Option<Vec<bool>> = term
                .any
                .iter()
                .map(|test| test.of_context(context, backend))
                .collect();
            said.is_none_or(|said| said.contains(&true) != term.not)
        })
    }

    /// Whether a row is wanted.
    pub fn matches(&self, row: &Instance, cx: FilterCx) -> bool {
        self.terms
            .iter()
            .all(|term| term.any.iter().any(|test| test.holds(row, cx)) != term.not)
    }
}

impl fmt::Display for Filter {
    /// As a command line takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, term) in self.terms.iter().enumerate() {
            if n > 0 {
                f.write_str(" ")?;
            }
            if term.not {
                f.write_str("-")?;
            }
            for (n, test) in term.any.iter().enumerate() {
                match (n, test.field()) {
                    (0, Some(field)) => write!(f, "{field}:{test}")?,
                    // Bare and negated, the name of a fact would be the fact.
                    (0, None) if term.not && is_fact(&test.to_string()) => write!(f, "\"{test}\"")?,
                    (0, None) => write!(f, "{test}")?,
                    _ => write!(f, ",{test}")?,
                }
            }
        }
        Ok(())
    }
}

fn is_fact(word: &str) -> bool {
    fields::named(word).is_some_and(|field| matches!(field.value, Value::Fact(_)))
}

fn term(word: &Word, syntax: Syntax) -> Result<Option<Term>, String> {
    let (not, body) = match word.chars.as_slice() {
        [first, rest @ ..] if first.is('!') && !rest.is_empty() => {
            if syntax == Syntax::Shell {
                let rest = text(rest);
                return Err(format!("! is not for command lines; write -{rest}"));
            }
            (true, rest)
        }
        [first, rest @ ..] if first.is('-') && !rest.is_empty() => (true, rest),
        all => (false, all),
    };
    if body.is_empty() {
        return Ok(None);
    }
    let any = match body
        .iter()
        .position(|c| [':', '<', '>'].iter().any(|sign| c.is(*sign)))
    {
        Some(at) => {
            let name = text(&body[..at]);
            match fields::named(&name) {
                Some(field) if body[at].is(':') => body[at + 1..]
                    .split(|c| c.is(','))
                    .map(|value| Test::read(field, value))
                    .collect::<Result<_, _>>()?,
                Some(field) => vec![compared(field, &body[at..], syntax)?],
                // `a:b` and `a<b` are texts, too.
                None if looks_like_field(&name) => return Err(fields::unknown(&name)),
                None => vec![Test::Anywhere(Pattern::read(body))],
            }
        }
        // A bare word that names a fact, negated: `-template`.
        None => match fields::named(&text(body)).map(|field| field.value) {
            Some(Value::Fact(fact)) if not && body.iter().all(|c| !c.quoted) => {
                vec![Test::Is(fact, true)]
            }
            _ => vec![Test::Anywhere(Pattern::read(body))],
        },
    };
    Ok(Some(Term { not, any }))
}

/// `>8G`, `>=8G`, `<8G`, `<=8G` after a field's name.
fn compared(field: &FilterField, rest: &[Char], syntax: Syntax) -> Result<Test, String> {
    let sign = rest[0].c;
    let Value::Number(number) = field.value else {
        return Err(format!(
            "{} cannot be more or less; it takes {}",
            field.name, field.takes
        ));
    };
    let equal = rest.get(1).is_some_and(|c| c.is('='));
    let value = text(&rest[if equal { 2 } else { 1 }..]).to_lowercase();
    if value.is_empty() {
        return Err(format!("{}: takes {}", field.name, field.takes));
    }
    let n = read_number(number, &value).map_err(|why| format!("{}: {why}", field.name))?;
    if syntax == Syntax::Shell {
        let range = if sign == '>' {
            format!("{}..", print_number(number, n))
        } else {
            format!("..{}", print_number(number, n))
        };
        return Err(format!(
            "{sign} is not for command lines; write {}:{range}",
            field.name
        ));
    }
    let span = match (sign, equal) {
        ('>', true) => Some((Some(n), None)),
        ('>', false) => n.checked_add(1).map(|n| (Some(n), None)),
        (_, true) => Some((None, Some(n))),
        (_, false) => n.checked_sub(1).map(|n| (None, Some(n))),
    };
    match span {
        Some((from, to)) => Ok(Test::Number(number, Span { from, to })),
        None => Err(format!("{}{sign}{value}: nothing is", field.name)),
    }
}

#[cfg(test)]
mod tests;
