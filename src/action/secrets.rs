//! From a reference to a secret. What comes out is never printed, logged or kept on disk.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;

use super::paths::at_home;
use crate::backend::contract::Env;
use crate::link::child::{self, Cmd};
use crate::model::{Error, ErrorKind, Result, Secret, SecretText, shown};

/// A password manager that has not answered by then waits for a person.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// Longer than any key or token; a larger file is a mistake.
const LARGEST: u64 = 64 << 10;

/// What a command printed. Held while it runs: two contexts with one command ask the user's agent once, and
/// another command is not held up.
type Answer = Mutex<Option<SecretText>>;

/// Resolves references; each command runs once per process.
pub struct Secrets {
    env: Arc<Env>,
    vars: BTreeMap<String, String>,
    limit: Duration,
    answered: std::sync::Mutex<Vec<(Secret, Arc<Answer>)>>,
}

impl Secrets {
    /// `vars` is the whole environment: a reference may name any variable.
    pub fn new(env: Arc<Env>, vars: BTreeMap<String, String>) -> Self {
        Self {
            env,
            vars,
            limit: COMMAND_LIMIT,
            answered: std::sync::Mutex::default(),
        }
    }

    /// The secret behind `secret`, for the context `context`.
    ///
    /// # Errors
    /// `Unauthorized`: without it nobody can log in. Says where it was looked for, never what.
    pub async fn resolve(&self, context: &str, secret: &Secret) -> Result<SecretText> {
        let found = match secret {
            Secret::Literal(text) => Ok(text.clone()),
            Secret::Env(name) => self.variable(name),
            Secret::File(path) => self.file(path),
            Secret::Command(argv) => {
                let answer = self.answer(secret);
                // Waiting for another context that asks the same counts too.
                tokio::time::timeout(self.limit, self.answered_once(&answer, argv))
                    .await
                    .unwrap_or_else(|_| Err(self.too_late(argv.first().map_or("", String::as_str))))
            }
        };
        found.map_err(|error| error.in_context(context))
    }

    /// Commands run again when they are next needed: what they printed may be out of date.
    pub fn forget(&self) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.clear();
    }

    fn variable(&self, name: &str) -> Result<SecretText> {
        match self.vars.get(name).filter(|text| !text.is_empty()) {
            Some(text) => Ok(SecretText::from(text.clone())),
            None => Err(unknown(format!("the variable {} is not set", shown(name)))
                .remedy(format!("export {}=…", shown(name)))),
        }
    }

    fn file(&self, path: &Path) -> Result<SecretText> {
        let path = at_home(&self.env.home, path);
        let name = shown(&path.display().to_string()).into_owned();
        let failed = |error: std::io::Error| unknown(format!("{name} cannot be read: {error}"));
        let facts = std::fs::metadata(&path).map_err(failed)?;
        if !facts.is_file() || facts.len() > LARGEST {
            return Err(unknown(format!("{name} is no file with a secret in it")));
        }
        let me = rustix::process::geteuid().as_raw();
        if facts.uid() != me && facts.uid() != 0 {
            return Err(unknown(format!("{name} belongs to another user")));
        }
        if facts.mode() & 0o077 != 0 {
            return Err(unknown(format!(
                "others may read {name} (mode {:04o})",
                facts.mode() & 0o7777
            ))
            .remedy(format!("chmod 600 {name}")));
        }
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        first_line(&text).ok_or_else(|| unknown(format!("{name} is empty")))
    }

    async fn command(&self, argv: &[String]) -> Result<SecretText> {
        let program = argv.first().map_or("", String::as_str);
        let name = shown(program).into_owned();
        let found = if program.contains('/') {
            Some(at_home(&self.env.home, Path::new(program)))
        } else {
            self.env.which(program)
        };
        let path = found.ok_or_else(|| unknown(format!("{name} is not installed")))?;
        let cmd = Cmd::new(path).args(&argv[1..]);
        let output = child::run(&cmd, self.limit).await.map_err(|error| {
            if error.kind == ErrorKind::TimedOut {
                self.too_late(&name)
            } else {
                unknown(error.message)
            }
        })?;
        if !output.status.success() {
            return Err(unknown(format!(
                "{name} failed: {}",
                cut(&output.complaint())
            )));
        }
        first_line(&output.text()).ok_or_else(|| unknown(format!("{name} printed nothing")))
    }

    async fn answered_once(&self, answer: &Answer, argv: &[String]) -> Result<SecretText> {
        let mut answer = answer.lock().await;
        if let Some(known) = answer.as_ref() {
            return Ok(known.clone());
        }
        let fresh = self.command(argv).await?;
        Ok(answer.insert(fresh).clone())
    }

    fn answer(&self, secret: &Secret) -> Arc<Answer> {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = answered.iter().find(|(asked, _)| asked == secret) {
            return Arc::clone(answer);
        }
        let answer = Arc::new(Answer::default());
        answered.push((secret.clone(), Arc::clone(&answer)));
        answer
    }

    fn too_late(&self, program: &str) -> Error {
        unknown(format!(
            "{} did not give it within {} s",
            shown(program),
            self.limit.as_secs()
        ))
        .remedy("It may wait for a passphrase: unlock it first, then try again.")
    }
}

fn unknown(why: String) -> Error {
    Error::new(ErrorKind::Unauthorized, format!("no secret: {why}"))
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

fn first_line(text: &str) -> Option<SecretText> {
    let line = text.lines().next()?.trim_end_matches('\r');
    (!line.is_empty()).then(|| SecretText::from(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::model::Dirs;

    fn secrets(home: &Path) -> Secrets {
        let env = Env {
            dirs: Dirs::under(home),
            path: vec!["/usr/bin".into(), "/bin".into()],
            vars: BTreeMap::new(),
            home: home.to_owned(),
        };
        let vars = BTreeMap::from([("TOKEN".to_owned(), "canary-1".to_owned())]);
        Secrets::new(Arc::new(env), vars)
    }

    fn sh(script: &str) -> Secret {
        Secret::Command(vec!["sh".into(), "-c".into(), script.into()])
    }

    async fn told(secrets: &Secrets, secret: Secret) -> String {
        let error = secrets.resolve("pve", &secret).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        assert_eq!(error.context.as_deref(), Some("pve"));
        error.to_string()
    }

    #[tokio::test]
    async fn every_source_gives_its_first_line() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("key");
        std::fs::write(&file, "canary-2\nmore\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let secrets = secrets(home.path());
        for (secret, want) in [
            (Secret::Env("TOKEN".into()), "canary-1"),
            (Secret::File(file), "canary-2"),
            (Secret::File("~/key".into()), "canary-2"),
            (sh("echo canary-3; echo more"), "canary-3"),
            (Secret::Literal("canary-4".into()), "canary-4"),
        ] {
            let found = secrets.resolve("pve", &secret).await.unwrap();
            assert_eq!(found.expose_secret(), want);
            assert!(!format!("{found:?}").contains("canary"));
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_told_without_what_is_there() {
        let home = tempfile::tempdir().unwrap();
        let secrets = secrets(home.path());
        assert!(
            told(&secrets, Secret::Env("NOPE".into()))
                .await
                .contains("NOPE is not set")
        );
        let no_such = Secret::Command(vec!["no-such-program-here".into()]);
        assert!(told(&secrets, no_such).await.contains("not installed"));
        assert!(told(&secrets, sh("true")).await.contains("printed nothing"));
        let text = told(
            &secrets,
            sh("echo canary; printf 'locked\\033[2J' >&2; exit 3"),
        )
        .await;
        assert!(
            text.contains("locked") && !text.contains("canary") && !text.contains('\u{1b}'),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_file_that_others_read_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("key");
        std::fs::write(&file, "canary\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let text = told(&secrets(home.path()), Secret::File(file)).await;
        assert!(
            text.contains("chmod 600") && !text.contains("canary"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn one_command_that_hangs_holds_up_no_other() {
        let home = tempfile::tempdir().unwrap();
        let secrets = Arc::new(secrets(home.path()));
        let hangs = {
            let secrets = Arc::clone(&secrets);
            tokio::spawn(async move { secrets.resolve("a", &sh("sleep 60")).await })
        };
        tokio::task::yield_now().await;
        let other = secrets.resolve("b", &sh("echo canary")).await;
        assert!(other.is_ok() && !hangs.is_finished());
        hangs.abort();
    }

    #[tokio::test]
    async fn a_command_runs_once_and_ends_at_its_deadline() {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("log");
        let mut secrets = secrets(home.path());
        let once = sh(&format!("echo x >> {}; echo canary", log.display()));
        for _ in 0..3 {
            secrets.resolve("pve", &once).await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "x\n");
        secrets.forget();
        secrets.resolve("pve", &once).await.unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "x\nx\n");
        secrets.limit = Duration::from_millis(100);
        assert!(told(&secrets, sh("sleep 60")).await.contains("passphrase"));
    }
}
