//! Globs: `*` any run, `?` one character.

/// Whether a glob covers a text.
pub fn matches(glob: &str, text: &str) -> bool {
    let glob: Vec<char> = glob.chars().collect();
    let text: Vec<char> = text.chars().collect();
    wild(&glob, &text, |c| *c == '*', |c, t| *c == '?' || c == t)
}

/// Whether a pattern covers a text. Linear in both, however many stars: only the last star is ever
/// gone back to.
pub(super) fn wild<P, T>(
    pattern: &[P],
    text: &[T],
    is_star: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(c) if is_star(c) => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if fits(c, &text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    p = at + 1;
                    t = from + 1;
                    star = Some((at, t));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(is_star)
}

/// [`wild`] over plain characters.
pub(super) fn covers(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    wild(
        &pattern,
        &text,
        |c| *c == '*',
        |c, other| *c == '?' || c == other,
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, wanted) in [
            ("web*", "web", true),
            ("w?b", "web", true),
            ("w?b", "wb", false),
            ("*b*b", "abab", true),
            ("*b*b", "aba", false),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(covers(pattern, text), wanted, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn star_covers_everything(text in "\\PC{0,20}") {
            prop_assert!(covers("*", &text));
            prop_assert!(covers(&text, &text) || text.contains(['*', '?']));
        }
    }
}
