//! Official cloud images, as data: where each is and where its checksums are. Asks nobody.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    image: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    title: String,
    arch: BTreeMap<String, String>,
    url: String,
    sums: String,
}

/// An image that can be pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudImage {
    /// Its name: `debian-13`, and `debian-13-arm64` for another architecture than most have.
    pub name: String,
    /// What it is.
    pub title: String,
    /// `amd64`, `arm64`.
    pub arch: String,
    /// Where it is.
    pub url: String,
    /// The list with its checksum.
    pub sums: String,
}

/// The architecture whose images have the plain name.
const PLAIN: &str = "amd64";

/// All of them, in the order of the file.
pub fn all() -> &'static [CloudImage] {
    static ALL: LazyLock<Vec<CloudImage>> = LazyLock::new(|| {
        // It is part of the program: a test reads it.
        let file: Result<File, _> = toml::from_str(include_str!("catalogue.toml"));
        let written = file.map(|file| file.image).unwrap_or_default();
        written.iter().flat_map(images).collect()
    });
    &ALL
}

fn images(written: &Written) -> Vec<CloudImage> {
    let filled = |text: &str, word: &str| text.replace("{arch}", word);
    written
        .arch
        .iter()
        .map(|(arch, word)| CloudImage {
            name: if arch == PLAIN {
                written.name.clone()
            } else {
                format!("{}-{arch}", written.name)
            },
            title: written.title.clone(),
            arch: arch.clone(),
            url: filled(&written.url, word),
            sums: filled(&written.sums, word),
        })
        .collect()
}

/// The image of this name.
pub fn find(name: &str) -> Option<&'static CloudImage> {
    all().iter().find(|image| image.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_whole_and_official() {
        let all = all();
        assert!(all.len() > 20, "{}", all.len());
        for image in all {
            for url in [&image.url, &image.sums] {
                assert!(url.starts_with("https://") && !url.contains('{'), "{url}");
            }
            assert_eq!(find(&image.name), Some(image), "a name is there twice");
            assert!(["amd64", "arm64"].contains(&image.arch.as_str()));
        }
        assert!(find("debian-13").unwrap().url.contains("amd64"));
        assert!(find("debian-13-arm64").unwrap().url.contains("arm64"));
        assert_eq!(find("nonsense"), None);
    }
}
