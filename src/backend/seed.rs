//! The `NoCloud` seed: a small FAT image labelled CIDATA that cloud-init reads at first boot.

use std::fs;
use std::io::{Cursor, Read as _, Write as _};
use std::path::Path;

use secrecy::ExposeSecret as _;

use crate::backend::contract::CloudInit;
use crate::link::files::write_atomically;
use crate::model::{Error, Result, shown};

/// Longest user-data: what fits the seed with room, and far more than any cloud takes (16 KiB).
const LONGEST: usize = 1 << 20;

/// The file that says which instance it is.
const META: &str = "meta-data";

/// Largest seed that is read: two files of the longest, and room.
const LARGEST: u64 = 8 << 20;

/// The files of a seed: name and content.
pub struct Seed {
    files: Vec<(String, String)>,
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
        let mut files = vec![("meta-data".to_owned(), meta)];
        let generated = generated(cloud)?;
        match &cloud.user_data {
            Some(given) => {
                let given = given.expose_secret();
                check_user_data(given)?;
                files.push(("user-data".to_owned(), given.to_owned()));
                if let Some(generated) = generated {
                    files.push(("vendor-data".to_owned(), generated));
                }
            }
            None => files.push((
                "user-data".to_owned(),
                generated.unwrap_or_else(|| "#cloud-config\n{}\n".to_owned()),
            )),
        }
        Ok(Self { files })
    }

    /// Reads one that was written.
    ///
    /// # Errors
    /// `Invalid` for what is no seed of corral's making.
    pub fn read(from: &Path) -> Result<Self> {
        let odd = |e: std::io::Error| Error::invalid(format!("{}: {e}", from.display())).because(e);
        let mut files = Vec::new();
        // In memory: opened as a file it would be written to, if only its dirty mark.
        let meta = fs::metadata(from).map_err(odd)?;
        if !meta.is_file() || meta.len() > LARGEST {
            return Err(Error::invalid(format!("{} is no seed", from.display())));
        }
        let bytes = fs::read(from).map_err(odd)?;
        let volume =
            fatfs::FileSystem::new(Cursor::new(bytes), fatfs::FsOptions::new()).map_err(odd)?;
        for entry in volume.root_dir().iter() {
            let entry = entry.map_err(odd)?;
            if entry.is_file() && entry.len() <= LONGEST as u64 {
                let mut text = String::new();
                entry.to_file().read_to_string(&mut text).map_err(odd)?;
                files.push((entry.file_name(), text));
            }
        }
        if !files.iter().any(|(name, _)| name == META) {
            return Err(Error::invalid(format!(
                "{} holds no {META}",
                from.display()
            )));
        }
        Ok(Self { files })
    }

    /// The same for another VM: cloud-init takes it for a new one, and does again what it does once
    /// for each, such as SSH host keys.
    #[must_use]
    pub fn again(mut self, uuid: &uuid::Uuid, name: &str) -> Self {
        for (_, text) in self.files.iter_mut().filter(|(file, _)| file == META) {
            let others = text.lines().filter(|line| {
                !["instance-id:", "local-hostname:"]
                    .iter()
                    .any(|key| line.starts_with(key))
            });
            let others: String = others.map(|line| format!("{line}\n")).collect();
            *text = format!(
                "instance-id: {uuid}\nlocal-hostname: {}\n{others}",
                hostname_from(name)
            );
        }
        self
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

    /// One of its files: `user-data`, `vendor-data`, `meta-data`.
    pub fn file(&self, name: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|(n, _)| n == name)
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
pub fn hostname_from(name: &str) -> String {
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

        let other = uuid::Uuid::new_v4();
        let again = Seed::read(&file).unwrap().again(&other, "Copy of it");
        assert_eq!(again.file("user-data"), seed.file("user-data"));
        assert_eq!(
            again.file("meta-data").unwrap(),
            format!("instance-id: {other}\nlocal-hostname: copy-of-it\n")
        );
        fs::write(&file, "no seed").unwrap();
        assert!(Seed::read(&file).is_err());
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
