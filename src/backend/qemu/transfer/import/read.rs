//! Images from anywhere as `qemu-img` may open them: the driver is named, and nothing else is.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::super::super::image::{self, Image};
use super::guard::{Slice, cut};
use crate::backend::contract::{Env, TaskCx};
use crate::link::child::{Cmd, run_cancellable};
use crate::model::{Bytes, Error, ErrorKind, Result, shown};

/// How long a tool that reads all of an image may take: a plan has little time, and a large image
/// has as long as it takes once it is taken in.
#[derive(Clone, Debug)]
pub struct Patience {
    limit: Option<Duration>,
    cancel: CancellationToken,
}

impl Patience {
    /// So long.
    pub fn at_most(limit: Duration) -> Self {
        Self {
            limit: Some(limit),
            cancel: CancellationToken::new(),
        }
    }

    /// Until the user cancels.
    pub fn of(cx: &TaskCx) -> Self {
        Self {
            limit: None,
            cancel: cx.cancel.clone(),
        }
    }
}

/// An image in a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Where.
    pub slice: Slice,
    /// Its format, by QEMU's word.
    pub driver: String,
}

impl Source {
    /// The name that `qemu-img` takes. A base that a header names is not opened, whatever it is.
    pub fn spec(&self) -> String {
        let file = json!({"driver": "file", "filename": self.slice.path.to_string_lossy()});
        let file = if self.slice.inner {
            json!({"driver": "raw", "offset": self.slice.offset, "size": self.slice.size, "file": file})
        } else {
            file
        };
        let mut node = json!({"driver": self.driver, "file": file});
        if matches!(self.driver.as_str(), "qcow" | "qcow2" | "qed" | "vmdk") {
            node["backing"] = Value::Null;
        }
        format!("json:{node}")
    }

    /// The command that copies it into a new qcow2.
    pub fn copy(&self, tool: &std::path::Path, to: &std::path::Path, format: &str) -> Cmd {
        Cmd::new(tool)
            .args(["convert", "-p", "-O", format])
            .arg(self.spec())
            .arg(to)
    }

    async fn ask(
        &self,
        env: &Env,
        words: &[&str],
        patience: &Patience,
    ) -> Result<(Value, crate::link::child::Output)> {
        let cmd = Cmd::new(image::tool(env)?).args(words).arg(self.spec());
        let output = run_cancellable(&cmd, patience.limit, &patience.cancel).await?;
        let value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Ok((value, output))
    }

    /// Size that a guest sees.
    pub async fn size(&self, env: &Env) -> Result<Bytes> {
        let (value, output) = self
            .ask(
                env,
                &["info", "--output=json"],
                &Patience::at_most(image::CHECK),
            )
            .await?;
        let found = Image::from_json(&value).filter(|_| output.status.success());
        let Some(found) = found else {
            return Err(self.unreadable(&output.complaint()));
        };
        // The guard looked at the headers; this is what QEMU made of them.
        if found.encrypted || found.backing.is_some() || found.data_file.is_some() {
            return Err(Error::refused(format!(
                "{} is encrypted or needs another file",
                shown(&self.slice.name)
            )));
        }
        if found.size > super::guard::LARGEST || found.size.0 == 0 {
            return Err(Error::invalid(format!(
                "{} says that its disk is {} large, which no disk is",
                shown(&self.slice.name),
                found.size
            )));
        }
        Ok(found.size)
    }

    fn unreadable(&self, said: &str) -> Error {
        Error::invalid(format!(
            "{} cannot be read as {}: {}",
            shown(&self.slice.name),
            self.driver,
            without_spec(said)
        ))
        .remedy("It is damaged or no such image: get it again.")
    }

    /// Refuses an image with errors, or one that ends too early. False: the time was too short.
    pub async fn check(&self, env: &Env, patience: &Patience) -> Result<bool> {
        if self.driver == "raw" {
            return Ok(true);
        }
        let asked = self.ask(env, &["check", "--output=json"], patience).await;
        let (value, output) = match asked {
            Ok(answer) => answer,
            Err(e) if e.kind == ErrorKind::TimedOut => return Ok(false),
            Err(e) => return Err(e),
        };
        // 63: no checks for this format.
        if output.status.code() == Some(63) {
            return Ok(true);
        }
        let count = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
        let end = count("image-end-offset");
        // The last cluster may be written in part.
        if end.saturating_sub(self.slice.size) >= 64 << 10 {
            return Err(cut(&shown(&self.slice.name)));
        }
        let errors = count("corruptions") + count("check-errors");
        if errors > 0 {
            return Err(Error::invalid(format!(
                "{} is corrupt: {errors} errors",
                shown(&self.slice.name)
            ))
            .remedy("Get it again, or mend a copy of it: qemu-img check -r all COPY"));
        }
        if value.is_null() && !output.status.success() {
            return Err(self.unreadable(&output.complaint()));
        }
        Ok(true)
    }

    /// Space that a copy as qcow2 takes at most; as large as it is where the time was too short.
    pub async fn needed(&self, env: &Env, patience: &Patience) -> Result<Bytes> {
        let words = ["measure", "--output=json", "-O", "qcow2"];
        let (value, output) = match self.ask(env, &words, patience).await {
            Err(e) if e.kind == ErrorKind::TimedOut => return Ok(Bytes(self.slice.size)),
            asked => asked?,
        };
        value
            .get("required")
            .and_then(Value::as_u64)
            .map(Bytes)
            .ok_or_else(|| self.unreadable(&output.complaint()))
    }

    /// What a failed conversion means.
    pub fn failed(&self, error: Error) -> Error {
        let full = error.message.contains("no space left");
        if full || error.kind == ErrorKind::Refused {
            return error;
        }
        self.unreadable(&error.message)
    }
}

/// `qemu-img`'s complaint without the long name that it repeats.
fn without_spec(said: &str) -> String {
    let said = said.strip_prefix("qemu-img: ").unwrap_or(said);
    match (said.find("'json:{"), said.rfind("}'")) {
        (Some(from), Some(to)) if from < to => {
            let rest = said[to + 2..].trim_start_matches([':', ' ']);
            format!("{}{rest}", &said[..from]).trim().to_owned()
        }
        _ => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::model::Dirs;

    #[tokio::test]
    async fn a_large_image_is_not_cut_short_by_the_time_of_a_plan() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("qemu-img");
        // As one that reads all of a large image.
        std::fs::write(&tool, "#!/bin/sh\nsleep 1000\n").unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let env = Env {
            dirs: Dirs::under(dir.path()),
            path: vec![dir.path().to_owned()],
            vars: std::collections::BTreeMap::new(),
            home: dir.path().to_owned(),
        };
        let source = Source {
            slice: Slice {
                path: dir.path().join("x"),
                offset: 0,
                size: 4096,
                inner: false,
                name: "x".to_owned(),
            },
            driver: "qcow2".to_owned(),
        };
        let short = Patience::at_most(Duration::from_millis(50));
        assert!(!source.check(&env, &short).await.unwrap());
        assert_eq!(source.needed(&env, &short).await.unwrap(), Bytes(4096));
        // Taken in it has all the time, until the user has none.
        let long = Patience {
            limit: None,
            cancel: CancellationToken::new(),
        };
        long.cancel.cancel();
        let error = source.check(&env, &long).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
    }
}
