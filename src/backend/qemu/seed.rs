//! The `NoCloud` seed: a small FAT image labelled CIDATA that cloud-init reads at first boot.

use std::fs;
use std::io::{Cursor, Write as _};
use std::path::Path;

use secrecy::ExposeSecret as _;

use crate::backend::contract::CloudInit;
use crate::link::files::write_atomically;
use crate::model::{Error, Result, shown};

/// Longest user-data: what fits the seed with room, and far more than any cloud takes (16 KiB).
const LONGEST: usize = 1 << 20;

/// The files of a seed: name and content.
pub struct Seed {
    files: Vec<(&'static str, String)>,
}

impl Seed {
    /// Composes a seed. Keys, user and password become the user-data, or the vendor-data beside
    /// user-data that was given: cloud-init lets the latter win.
    ///
    /// # Errors
    /// `Invalid` for user-data that is no YAML, keys that are none, a user that cannot be one.
    pub fn compose(cloud: &CloudInit, uuid: &uuid::Uuid, name: &str) -> Result<Self> {
        let hostname = match &cloud.hostname {
            Some(wanted) => checked_hostname(wanted)?,
            None => hostname_from(name),
        };
        let meta = format!("instance-id: {uuid}\nlocal-hostname: {hostname}\n");
        let mut files = vec![("meta-data", meta)];
        let generated = generated(cloud)?;
        match &cloud.user_data {
            Some(given) => {
                let given = given.expose_secret();
                check_user_data(given)?;
                files.push(("user-data", given.to_owned()));
                if let Some(generated) = generated {
                    files.push(("vendor-data", generated));
                }
            }
            None => files.push((
                "user-data",
                generated.unwrap_or_else(|| "#cloud-config\n{}\n".to_owned()),
            )),
        }
        Ok(Self { files })
    }

    /// Writes the image (0600: it may hold a password).
    pub fn write(&self, to: &Path) -> Result<()> {
        let content: usize = self.files.iter().map(|(_, text)| text.len()).sum();
        let mut disk = Cursor::new(vec![0; (content * 2 + (1 << 20)).next_multiple_of(1 << 20)]);
        let failed = |e: std::io::Error| Error::backend(format!("the seed image: {e}"));
        fatfs::format_volume(
            &mut disk,
            fatfs::FormatVolumeOptions::new().volume_label(*b"CIDATA     "),
        )
        .map_err(failed)?;
        {
            let volume =
                fatfs::FileSystem::new(&mut disk, fatfs::FsOptions::new()).map_err(failed)?;
            let root = volume.root_dir();
            for (name, text) in &self.files {
                let mut file = root.create_file(name).map_err(failed)?;
                file.write_all(text.as_bytes()).map_err(failed)?;
                file.flush().map_err(failed)?;
            }
        }
        write_atomically(to, &disk.into_inner())?;
        fs::File::open(to).map(drop).map_err(failed)
    }

    #[cfg(test)]
    fn file(&self, name: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, text)| text.as_str())
    }
}

fn generated(cloud: &CloudInit) -> Result<Option<String>> {
    let mut text = String::from("#cloud-config\n");
    let head = text.len();
    if let Some(user) = &cloud.user {
        let good = user.len() <= 32
            && user.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && user
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c));
        if !good {
            return Err(
                Error::invalid(format!("\"{}\" cannot be a user name", shown(user)))
                    .remedy("Use small letters, digits, _ and -, 32 at most."),
            );
        }
        text.push_str(&format!("user:\n  name: {user}\n"));
    }
    if let Some(password) = &cloud.password {
        let password = password.expose_secret();
        if password.is_empty() || password.chars().any(char::is_control) {
            return Err(Error::invalid(
                "the password is empty or holds control characters",
            ));
        }
        text.push_str(&format!(
            "password: {}\nchpasswd:\n  expire: false\nssh_pwauth: true\n",
            scalar(password)
        ));
    }
    if !cloud.ssh_keys.is_empty() {
        text.push_str("ssh_authorized_keys:\n");
        for key in cloud.ssh_keys.iter().map(|key| key.trim()) {
            let kind = key.split(' ').next().unwrap_or("");
            let good = ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"]
                .iter()
                .any(|p| kind.starts_with(p))
                && key.split(' ').nth(1).is_some_and(|data| data.len() > 16)
                && !key.chars().any(char::is_control);
            if !good {
                let start: String = key.chars().take(20).collect();
                return Err(
                    Error::invalid(format!("\"{}…\" is no SSH public key", shown(&start)))
                        .remedy("Give the .pub file: ssh-keygen makes one."),
                );
            }
            text.push_str(&format!("  - {}\n", scalar(key)));
        }
    }
    Ok((text.len() > head).then_some(text))
}

/// A YAML scalar: plain where nothing in it could mean something else, else quoted as JSON.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.contains(' ')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " +/=@._-".contains(c));
    if plain {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

fn check_user_data(text: &str) -> Result<()> {
    if text.len() > LONGEST {
        return Err(Error::invalid("the user-data is longer than 1 MiB"));
    }
    let first = text.lines().next().unwrap_or("").trim_end();
    if first == "#cloud-config" {
        let parsed: std::result::Result<serde_json::Value, _> = serde_saphyr::from_str(text);
        return match parsed {
            Ok(serde_json::Value::Object(_) | serde_json::Value::Null) => Ok(()),
            Ok(_) => Err(
                Error::invalid("the user-data is YAML, but no list of settings")
                    .remedy("Write KEY: VALUE lines below #cloud-config."),
            ),
            Err(e) => {
                let why = e.to_string();
                let why = why.lines().next().unwrap_or("").to_owned();
                Err(
                    Error::invalid(format!("the user-data is no YAML: {}", shown(&why)))
                        .remedy("Check it: cloud-init schema -c FILE"),
                )
            }
        };
    }
    let other = [
        "#!",
        "#include",
        "#cloud-boothook",
        "#cloud-config-archive",
        "## template:",
        "Content-Type:",
        "MIME-Version:",
    ];
    if other.iter().any(|start| first.starts_with(start)) {
        return Ok(());
    }
    Err(
        Error::invalid("the user-data begins with nothing that cloud-init knows")
            .remedy("Its first line must be #cloud-config, or #! of a script."),
    )
}

fn checked_hostname(name: &str) -> Result<String> {
    let good = name.len() <= 253
        && name.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        });
    if good {
        return Ok(name.to_owned());
    }
    Err(
        Error::invalid(format!("\"{}\" cannot be a host name", shown(name)))
            .remedy("Use letters, digits and -."),
    )
}

/// What is nearest to the VM's name.
fn hostname_from(name: &str) -> String {
    let mut label: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .take(63)
        .collect();
    while label.contains("--") {
        label = label.replace("--", "-");
    }
    let label = label.trim_matches('-');
    if label.is_empty() {
        "vm".to_owned()
    } else {
        label.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn cloud() -> CloudInit {
        CloudInit {
            user: Some("admin".into()),
            password: Some("a: \"b\" #c".to_owned().into()),
            ssh_keys: vec!["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me@x".into()],
            ..CloudInit::default()
        }
    }

    #[test]
    fn is_read_back_from_the_image() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seed.img");
        let seed = Seed::compose(&cloud(), &uuid::Uuid::nil(), "My VM 🐄").unwrap();
        seed.write(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let disk = fs::File::options()
            .read(true)
            .write(true)
            .open(&file)
            .unwrap();
        let volume = fatfs::FileSystem::new(disk, fatfs::FsOptions::new()).unwrap();
        assert_eq!(volume.volume_label(), "CIDATA");
        let read = |name: &str| {
            let mut text = String::new();
            volume
                .root_dir()
                .open_file(name)
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            text
        };
        assert!(read("meta-data").contains("local-hostname: my-vm\n"));
        let user: serde_json::Value = serde_saphyr::from_str(&read("user-data")).unwrap();
        assert_eq!(user["password"], "a: \"b\" #c");
        assert_eq!(user["user"]["name"], "admin");
        assert!(read("user-data").contains("\n  - ssh-ed25519 AAAA"));
    }

    #[test]
    fn given_user_data_stays_as_it_is() {
        let mut cloud = cloud();
        cloud.user_data = Some("#cloud-config\npackages: [vim]\n".to_owned().into());
        let seed = Seed::compose(&cloud, &uuid::Uuid::nil(), "x").unwrap();
        assert_eq!(
            seed.file("user-data"),
            Some("#cloud-config\npackages: [vim]\n")
        );
        assert!(
            seed.file("vendor-data")
                .unwrap()
                .contains("ssh_authorized_keys")
        );
        for bad in [
            "packages: [vim]",
            "#cloud-config\na: [",
            "#cloud-config\n- a\n",
            "",
            "\u{1b}[2J",
        ] {
            cloud.user_data = Some(bad.to_owned().into());
            assert!(
                Seed::compose(&cloud, &uuid::Uuid::nil(), "x").is_err(),
                "{bad}"
            );
        }
        for good in ["#!/bin/sh\ntrue\n", "#cloud-config\n"] {
            cloud.user_data = Some(good.to_owned().into());
            assert!(
                Seed::compose(&cloud, &uuid::Uuid::nil(), "x").is_ok(),
                "{good}"
            );
        }
    }

    #[test]
    fn odd_input_is_refused() {
        for (user, key, host) in [
            (Some("ro ot"), None, None),
            (None, Some("hello"), None),
            (None, Some("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA\nx"), None),
            (None, None, Some("a b")),
            (None, None, Some("-a")),
        ] {
            let cloud = CloudInit {
                user: user.map(str::to_owned),
                ssh_keys: key.map(str::to_owned).into_iter().collect(),
                hostname: host.map(str::to_owned),
                ..CloudInit::default()
            };
            assert!(Seed::compose(&cloud, &uuid::Uuid::nil(), "x").is_err());
        }
        assert_eq!(hostname_from("🐄"), "vm");
    }
}
