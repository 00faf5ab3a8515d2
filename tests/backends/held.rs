//! corral killed with -9 at a known place, and what `corral doctor --fix` makes of what it left.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test takes what it needs"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use corral::backend::contract::ReadCx;
use corral::model::CheckStatus;

use super::lab::{Lab, READ};

/// A `qemu-img` that stops before or after the call whose arguments hold a text.
pub struct Held {
    pub dir: PathBuf,
}

impl Held {
    pub fn new(lab: &Lab) -> Self {
        let dir = lab.root.path().join("held");
        fs::create_dir_all(&dir).unwrap();
        let tool = which::which("qemu-img").unwrap();
        let script = format!(
            "#!/bin/sh\n\
             stop() {{ echo $$ > '{dir}/mark.new'; mv '{dir}/mark.new' '{dir}/mark'; \
               while [ ! -e '{dir}/go' ]; do sleep 0.05; done; }}\n\
             case \"$*\" in *\"$HOLD\"*) [ \"$WHEN\" = before ] && stop;; esac\n\
             '{tool}' \"$@\"; code=$?\n\
             case \"$*\" in *\"$HOLD\"*) [ \"$WHEN\" = after ] && stop;; esac\n\
             exit $code\n",
            dir = dir.display(),
            tool = tool.display()
        );
        let file = dir.join("qemu-img");
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    /// Runs corral until it stops there, and kills it.
    pub fn kill(&self, lab: &Lab, words: &[&str], when: &str, at: &str) {
        self.kill_once(lab, words, when, at, || true);
    }

    /// [`Held::kill`], but not before something is so.
    pub fn kill_once(
        &self,
        lab: &Lab,
        words: &[&str],
        when: &str,
        at: &str,
        ready: impl Fn() -> bool,
    ) {
        let mut child = self.stopped(lab, words, when, at, ready);
        child.kill().unwrap();
        child.wait().unwrap();
        // The tool that it left: by its number, as it wrote it itself.
        let pid = fs::read_to_string(self.dir.join("mark")).unwrap();
        let ended = Command::new("kill").args(["-9", pid.trim()]).status();
        assert!(ended.unwrap().success());
    }

    /// Runs corral until it stops there.
    pub fn stopped(
        &self,
        lab: &Lab,
        words: &[&str],
        when: &str,
        at: &str,
        ready: impl Fn() -> bool,
    ) -> Child {
        let mark = self.dir.join("mark");
        let _ = fs::remove_file(&mark);
        let _ = fs::remove_file(self.dir.join("go"));
        let path = std::env::var("PATH").unwrap();
        let mut child = lab
            .corral(words)
            .env("PATH", format!("{}:{path}", self.dir.display()))
            .env("WHEN", when)
            .env("HOLD", at)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let until = Instant::now() + READ;
        while !(mark.exists() && ready()) {
            assert!(child.try_wait().unwrap().is_none(), "{words:?} has ended");
            assert!(Instant::now() < until, "{words:?} never did {at}");
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    /// What stopped goes on.
    pub fn go(&self) {
        fs::write(self.dir.join("go"), "").unwrap();
    }
}

/// `corral doctor` finds it, `--fix` mends it, and then nothing is left.
pub async fn mended(lab: &Lab) {
    let backend = lab.backend();
    let found = backend.doctor(&ReadCx::quiet(READ)).await;
    assert!(
        found.iter().any(|check| check.fix.is_some()
            && check.id.starts_with("qemu.unfinished.")
            && check.remedy.as_deref() == Some("corral doctor --fix")),
        "{found:?}"
    );
    fix(lab).await;
}

pub async fn fix(lab: &Lab) {
    // More than one repair is confirmed by their number, as the refusal says.
    let asked = lab
        .corral(&["doctor", "--fix", "-y"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let mut did = String::from_utf8_lossy(&asked.stdout).into_owned();
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    let mut status = asked.status;
    if let Some((word, _)) = said
        .split_once("--confirm '")
        .and_then(|(_, rest)| rest.split_once('\''))
    {
        let mut again = lab.corral(&["doctor", "--fix", "--confirm", word]);
        let confirmed = again.stdout(Stdio::piped()).output().unwrap();
        did = String::from_utf8_lossy(&confirmed.stdout).into_owned();
        status = confirmed.status;
    }
    let backend = lab.backend();
    let left: Vec<_> = backend
        .doctor(&ReadCx::quiet(READ))
        .await
        .into_iter()
        .filter(|check| check.fix.is_some() || check.status == CheckStatus::Fail)
        .collect();
    assert!(left.is_empty(), "{status:?} {did} {said} {left:?}");
}
