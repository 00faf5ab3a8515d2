//! Values that are not for everybody who looks at the screen, found by the names they stand under.

/// What such a name says, in lower case.
const NAMES: [&str; 7] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "private_key",
];

/// So long a value seems, however long it is.
const LONG: usize = 6;

/// The lines of a definition, with `dot` for each character of what is secret.
pub fn masked(lines: &[&str], dot: &str) -> Vec<String> {
    let dots = dot.repeat(LONG);
    // Deeper than this everything belongs to a secret; or all up to a line that ends it.
    let mut deeper = None;
    let mut key = false;
    let mut out = Vec::new();
    for line in lines {
        let deep = line.len() - line.trim_start().len();
        let inside = deeper.is_some_and(|than| deep > than || line.trim().is_empty());
        if key || inside {
            key &= !line.contains("-----END");
            out.push(format!("{}{dots}", &line[..deep]));
            continue;
        }
        deeper = None;
        if line.contains("-----BEGIN") && line.contains("PRIVATE KEY") {
            key = !line.contains("-----END");
            out.push(format!("{}{dots}", &line[..deep]));
            continue;
        }
        let (text, goes_on) = one(line, &dots);
        if goes_on {
            deeper = Some(deep);
        }
        out.push(text);
    }
    out
}

/// One line; whether its secret goes on in deeper lines.
fn one(line: &str, dots: &str) -> (String, bool) {
    let mut out = String::new();
    let mut rest = line;
    while let Some((value, end)) = value(rest) {
        if matches!(rest[value..end].trim_end(), "|" | "|-" | ">" | ">-") {
            out.push_str(rest);
            return (out, true);
        }
        out.push_str(&rest[..value]);
        out.push_str(dots);
        rest = &rest[end..];
    }
    out.push_str(rest);
    (out, false)
}

/// Begin and end of the first value that stands under such a name.
fn value(line: &str) -> Option<(usize, usize)> {
    let lower = line.to_ascii_lowercase();
    let mut from = 0;
    loop {
        let ends = NAMES
            .iter()
            .filter_map(|name| Some(lower[from..].find(name)? + from + name.len()));
        let name_end = ends.min()?;
        from = name_end;
        let rest = &line[name_end..];
        let tail = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')))
            .unwrap_or(rest.len());
        let after = &rest[tail..];
        let sign = after.trim_start_matches(['"', '\'', ' ']);
        let Some(open) = sign.strip_prefix(['=', ':', '>']) else {
            continue;
        };
        let text = open.trim_start_matches(' ');
        let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
        let text = quote.map_or(text, |_| &text[1..]);
        let begin = line.len() - text.len();
        let end = match quote {
            Some(quote) => text.find(quote),
            None => text.find(['<', ',', ' ', ';']),
        };
        let end = end.unwrap_or(text.len());
        if end > 0 && !text.starts_with(['{', '[']) {
            return Some((begin, begin + end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(text: &str) -> String {
        let lines: Vec<&str> = text.lines().collect();
        masked(&lines, "*").join("\n")
    }

    #[test]
    fn values_under_such_names_are_hidden_and_nothing_else() {
        for (plain, hidden) in [
            ("password = \"hunter2\"", "password = \"******\""),
            ("cipassword: hunter2", "cipassword: ******"),
            (
                "<graphics passwd='hunter2' port='1'/>",
                "<graphics passwd='******' port='1'/>",
            ),
            ("<secret>hunter2</secret>", "<secret>******</secret>"),
            (
                "\"api_token\": \"hunter2\", \"x\": 1",
                "\"api_token\": \"******\", \"x\": 1",
            ),
            ("root-password-hash: hunter2", "root-password-hash: ******"),
            ("a: |\n  text", "a: |\n  text"),
            (
                "secret: |\n  hunter2\n  hunter2\nb: 1",
                "secret: |\n  ******\n  ******\nb: 1",
            ),
            ("memory = 4", "memory = 4"),
            ("tokens are nice", "tokens are nice"),
            ("password = \"\"", "password = \"\""),
        ] {
            assert_eq!(mask(plain), hidden);
        }
        let key = "x:\n  -----BEGIN PRIVATE KEY-----\n  hunter2\n  -----END PRIVATE KEY-----\ny: 1";
        let text = mask(key);
        assert!(
            !text.contains("hunter2") && text.ends_with("y: 1"),
            "{text}"
        );
    }
}
