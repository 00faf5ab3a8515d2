//! What the user may have meant.

/// The candidate that `word` is most likely a misspelling of.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Quadratic in the length: nobody misspells a name into a novel.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let other = candidate.to_lowercase();
            (
                strsim::damerau_levenshtein(&lower, &other),
                strsim::jaro_winkler(&lower, &other),
                candidate,
            )
        })
        .filter(|(edits, alike, other)| *edits <= 2 && *edits * 2 < other.len() || *alike > 0.85)
        .max_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)))
        .map(|(_, _, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let words = ["readonly", "protected", "interval", "name"];
        assert_eq!(nearest("read-only", words), Some("readonly"));
        assert_eq!(nearest("protectd", words), Some("protected"));
        assert_eq!(nearest("Interval", words), Some("interval"));
        assert_eq!(nearest("zzz", words), None);
        assert_eq!(nearest(&"x".repeat(10_000), words), None);
    }
}
