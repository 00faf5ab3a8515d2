//! What is to be pulled: a name of the catalogue, a URL or a file becomes a place and an expected checksum.

use std::path::PathBuf;

use super::shelf::{check_name, split};
use crate::backend::catalogue;
use crate::link::download::Place;
use crate::model::{Error, Result, Sum, nearest, shown};

/// What must come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Exactly this.
    Sum(Sum),
    /// What this list says when it is fetched.
    List(String),
    /// Nobody knows.
    Anything,
}

/// What is to be pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Name to keep it under.
    pub name: String,
    /// As it was written, to be recorded.
    pub from: String,
    /// Where it is.
    pub place: Place,
    /// The file's name there, by which lists of checksums call it.
    pub file: String,
    /// What must come.
    pub expected: Expected,
    /// What it is.
    pub title: Option<String>,
    /// Its architecture.
    pub arch: Option<String>,
}

impl Wanted {
    /// Reads a request. Asks nobody.
    ///
    /// # Errors
    /// `NotFound` for a name that is not in the catalogue, `Invalid` for URLs, names and checksums that are none,
    /// `Refused` for what somebody on the way could change unseen.
    pub fn read(source: &str, checksum: Option<&str>, name: Option<&str>) -> Result<Self> {
        let mut wanted = match Place::read(source)? {
            Some(place) => Self::at(place, source)?,
            None if source.contains('/') => {
                let path = std::path::absolute(source).unwrap_or_else(|_| PathBuf::from(source));
                Self::at(Place::File(path), source)?
            }
            None => Self::named(source)?,
        };
        if let Some(text) = checksum {
            wanted.expected = if text.contains("://") {
                Expected::List(text.to_owned())
            } else {
                Expected::Sum(Sum::read(text)?)
            };
        }
        if let Expected::List(url) = &wanted.expected {
            let safe = match Place::read(url)? {
                Some(place @ Place::Web(_)) => place.is_safe(),
                _ => {
                    return Err(Error::invalid(format!(
                        "{}: a list of checksums is fetched by https",
                        shown(url)
                    )));
                }
            };
            if !safe {
                return Err(tamperable(url, "Use https for the list of checksums"));
            }
        }
        if wanted.expected == Expected::Anything && !wanted.place.is_safe() {
            return Err(tamperable(
                source,
                "Use https, or say what must come: --checksum sha256:…",
            ));
        }
        if let Some(name) = name {
            name.clone_into(&mut wanted.name);
        }
        check_name(&wanted.name)?;
        Ok(wanted)
    }

    fn at(place: Place, source: &str) -> Result<Self> {
        let file = place.file_name().ok_or_else(|| {
            Error::invalid(format!("{} names no file", shown(source)))
                .remedy("Give the URL of the image itself")
        })?;
        let name = split(&file)
            .map_or(file.as_str(), |(name, _)| name)
            .to_owned();
        Ok(Self {
            name,
            from: match &place {
                Place::Web(url) => url.clone(),
                Place::File(path) => path.display().to_string(),
            },
            file,
            place,
            expected: Expected::Anything,
            title: None,
            arch: None,
        })
    }

    fn named(source: &str) -> Result<Self> {
        let Some(image) = catalogue::find(source) else {
            let all = catalogue::all().iter().map(|image| image.name.as_str());
            let remedy = nearest(source, all).map_or_else(
                || "See corral image search, or give a URL or ./FILE".to_owned(),
                |near| format!("Did you mean {near}?"),
            );
            return Err(Error::not_found(format!(
                "the catalogue has no image \"{}\"",
                shown(source)
            ))
            .remedy(remedy));
        };
        let place = Place::read(&image.url)?
            .ok_or_else(|| Error::backend(format!("internal: {} is no URL", image.url)))?;
        Ok(Self {
            name: image.name.clone(),
            expected: Expected::List(image.sums.clone()),
            title: Some(image.title.clone()),
            arch: Some(image.arch.clone()),
            ..Self::at(place, &image.url)?
        })
    }
}

fn tamperable(url: &str, remedy: &str) -> Error {
    Error::refused(format!(
        "{}: plain http, so anybody on the way could put another image in its place",
        shown(url)
    ))
    .remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorKind;

    #[test]
    fn sources_are_told_apart() {
        let read = |source: &str| Wanted::read(source, None, None);
        let debian = read("debian-13").unwrap();
        assert_eq!(debian.name, "debian-13");
        assert_eq!(debian.file, "debian-13-genericcloud-amd64.qcow2");
        assert!(matches!(debian.expected, Expected::List(_)));
        let file = read("file:///srv/my%20image.qcow2").unwrap_err();
        assert!(file.to_string().contains("--name"), "{file}");
        assert_eq!(read("./disk.img").unwrap().name, "disk");
        assert_eq!(read("https://h/a-1.2.iso?x").unwrap().name, "a-1.2");
        assert_eq!(read("debian-31").unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(read("http://h/a.img").unwrap_err().kind, ErrorKind::Refused);
        assert_eq!(read("https://h/").unwrap_err().kind, ErrorKind::Invalid);
        let hex = "a".repeat(64);
        assert!(Wanted::read("http://h/a.img", Some(&hex), None).is_ok());
        assert!(Wanted::read("https://h/a.img", Some("http://h/SUMS"), None).is_err());
        assert!(Wanted::read("https://h/a.img", Some("file:///x"), None).is_err());
        assert!(Wanted::read("https://h/a.img", None, Some("../x")).is_err());
    }
}
