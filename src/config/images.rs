//! The `[[image]]` entries: images that can be pulled by name, besides the built-in ones.

use toml_edit::{Item, TableLike};

use super::check::{Checker, cut, key_span, value};
use super::schema::value_of;
use crate::model::{Field, FieldKind, Sum, is_image_name};

/// One `[[image]]`, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageEntry {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// `sha256:…`, `sha512:…`, or the URL of a list with its checksum.
    pub checksum: Option<String>,
    /// What it is, in words.
    pub title: Option<String>,
    /// Its architecture.
    pub arch: Option<String>,
}

const KEYS: &[Field] = &[
    Field::new("name", FieldKind::Name, "the image's name").required(),
    Field::new("url", FieldKind::Url, "where it is").required(),
    Field::new(
        "checksum",
        FieldKind::Text,
        "sha256:…, sha512:… or the URL of a list",
    ),
    Field::new("title", FieldKind::Text, "what it is"),
    Field::new(
        "arch",
        FieldKind::Choice(&["amd64", "arm64"]),
        "its architecture",
    ),
];

/// Reads all entries, in file order. A faulty one is left out and told.
pub(super) fn read(check: &mut Checker<'_>, item: &Item) -> Vec<ImageEntry> {
    let Some(list) = item.as_array_of_tables() else {
        check.say(
            item.span(),
            "images are written [[image]], each with a name and a url",
        );
        return Vec::new();
    };
    let mut found: Vec<ImageEntry> = Vec::new();
    for table in list {
        let Some(entry) = entry(check, table, table.span()) else {
            continue;
        };
        if found.iter().any(|known| known.name == entry.name) {
            let why = format!(
                "image {:?} is there already; this one is left out",
                cut(&entry.name)
            );
            check.say(table.span(), why);
        } else {
            found.push(entry);
        }
    }
    found
}

fn entry(
    check: &mut Checker<'_>,
    table: &dyn TableLike,
    span: Option<std::ops::Range<usize>>,
) -> Option<ImageEntry> {
    let mut texts: [Option<String>; KEYS.len()] = Default::default();
    let mut good = true;
    for (key, item) in table.iter() {
        let Some(at) = KEYS.iter().position(|field| field.name == key) else {
            let all = KEYS.iter().map(|field| field.name);
            check.unknown(key_span(table, key), key, " in an [[image]]", all);
            continue;
        };
        let found = value(item)
            .ok_or_else(|| "must be a plain value".to_owned())
            .and_then(|written| value_of(&KEYS[at], &written))
            .and_then(|value| checked(key, value.as_str().unwrap_or_default()));
        match found {
            Ok(text) => texts[at] = Some(text),
            Err(why) => {
                good = false;
                let at = item.span().or(key_span(table, key));
                check.say(at, format!("{key} {why}; this image is left out"));
            }
        }
    }
    for (field, text) in KEYS.iter().zip(&texts) {
        if field.required && text.is_none() && good {
            good = false;
            let why = format!(
                "this image has no {} ({}); it is left out",
                field.name, field.doc
            );
            check.say(span.clone(), why);
        }
    }
    let [name, url, checksum, title, arch] = texts;
    good.then_some(())?;
    Some(ImageEntry {
        name: name?,
        url: url?,
        checksum,
        title,
        arch,
    })
}

/// What can be known to be wrong without asking anybody.
fn checked(key: &str, text: &str) -> Result<String, String> {
    match key {
        "name" if !is_image_name(text) => Err(format!(
            "{:?} is no name: letters, digits and . _ + -, at most 100, the first a letter or a digit",
            cut(text)
        )),
        "url"
            if !["https://", "http://", "file://"]
                .iter()
                .any(|s| text.starts_with(s)) =>
        {
            Err("must be a URL with https, http or file".to_owned())
        }
        "checksum" if Sum::read(text).is_err() && !text.starts_with("https://") => Err(
            "must be sha256:… with 64 digits, sha512:… with 128, or the https URL of a list"
                .to_owned(),
        ),
        _ => Ok(text.to_owned()),
    }
}
