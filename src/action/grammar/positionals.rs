//! Positionals that say more than which instance: `sendkey web ctrl-alt-delete`, `cp web:/p .`.

use serde_json::Value;

use super::super::row::{Row, Words};
use super::values::read_value;
use crate::model::{Action, Args, Error, Result, shown};

/// Takes the words that are no target into `args`; gives back the targets.
///
/// # Errors
/// `Invalid`, with an example of how it is written.
pub(super) fn read(row: &Row, words: &[&str], args: &mut Args) -> Result<Vec<String>> {
    match (row.words, words) {
        (Words::None, _) | (_, []) => Ok(words.iter().map(|w| (*w).to_owned()).collect()),
        (Words::Rest(name), [target, rest @ ..]) => {
            if let Some(field) = row.field(name)
                && !rest.is_empty()
            {
                let mut all: Vec<Value> = Vec::new();
                for word in rest {
                    all.push(read_value(field, word)?);
                }
                // Those of the flag come after: they were typed to be more.
                if let Some(Value::Array(flagged)) = args.0.remove(name) {
                    all.extend(flagged);
                }
                args.set(name, Value::Array(all));
            }
            Ok(vec![(*target).to_owned()])
        }
        (Words::FromTo, [from, to, ..]) => {
            if args.has("from") || args.has("to") {
                return Err(example(row, "from and to are said twice"));
            }
            let (target, from, to) = match (inside(from), inside(to)) {
                (Some((target, path)), None) => (target, path, (*to).to_owned()),
                (None, Some((target, path))) => (target, (*from).to_owned(), path),
                (Some(_), Some(_)) => {
                    return Err(example(row, "both are in an instance; one has to be here"));
                }
                (None, None) => {
                    return Err(example(
                        row,
                        &format!(
                            "neither {:?} nor {:?} is INSTANCE:/PATH",
                            shown(from),
                            shown(to)
                        ),
                    ));
                }
            };
            args.set("from", from).set("to", to);
            Ok(vec![target])
        }
        (Words::FromTo, [target]) => {
            if !args.has("from") || !args.has("to") {
                return Err(example(row, "from where to where?"));
            }
            Ok(vec![(*target).to_owned()])
        }
    }
}

/// The words of an action whose positionals say more, and the fields that are in them.
pub(super) fn print(row: &Row, action: &Action) -> Option<(Vec<String>, Vec<&'static str>)> {
    let target = action.targets.first()?.as_str();
    match row.words {
        Words::None => None,
        Words::Rest(name) => {
            let mut words = vec![target.to_owned()];
            words.extend(action.args.many(name));
            // A word that begins so would be read as a flag.
            let plain = words.iter().all(|word| !word.starts_with('-'));
            plain.then(|| (words, vec![name]))
        }
        Words::FromTo => {
            let mut ends = Vec::new();
            for name in ["from", "to"] {
                let text = action.args.text(name)?;
                ends.push(match text.strip_prefix(':') {
                    Some(path) => {
                        let end = format!("{target}:{path}");
                        // A name may hold what parts it from its path.
                        if inside(&end) != Some((target.to_owned(), text.to_owned())) {
                            return None;
                        }
                        end
                    }
                    None if text.starts_with('-') || inside(text).is_some() => return None,
                    None => text.to_owned(),
                });
            }
            let there = ends.iter().filter(|end| inside(end).is_some()).count();
            (there == 1).then(|| (ends, vec!["from", "to"]))
        }
    }
}

/// `INSTANCE:/PATH` as the instance and `:/PATH`; `None` for a path on this machine. As with scp a
/// path that begins with `/` or `.` is one here, whatever follows.
fn inside(word: &str) -> Option<(String, String)> {
    if word.starts_with(['/', '.']) {
        return None;
    }
    let (target, path) = word.split_once(":/")?;
    (!target.is_empty()).then(|| (target.to_owned(), format!(":/{path}")))
}

fn example(row: &Row, why: &str) -> Error {
    let examples: Vec<String> = row.examples.iter().map(|e| format!("corral {e}")).collect();
    Error::invalid(format!("corral {}: {why}", row.name)).remedy(format!(
        "For example: {}; a path here may begin with ./",
        examples.join(", or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::inside;

    #[test]
    fn only_an_absolute_path_behind_a_name_is_in_an_instance() {
        for (word, target, path) in [
            ("web:/etc/x", "web", ":/etc/x"),
            ("local/web:/", "local/web", ":/"),
            ("name:web:/a:/b", "name:web", ":/a:/b"),
        ] {
            let found = inside(word);
            assert_eq!(found, Some((target.to_owned(), path.to_owned())), "{word}");
        }
        for word in ["x", "./web:/x", "/a:/b", ":/x", "web:x", "a/b"] {
            assert_eq!(inside(word), None, "{word}");
        }
    }
}
