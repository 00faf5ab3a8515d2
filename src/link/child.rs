//! Child processes: argv, never a shell; bounded output; ended with their group at the deadline.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use process_wrap::tokio::{CommandWrap, ProcessSession};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use crate::model::{Error, Result};

/// Output beyond this is read and dropped: no tool that corral asks says more of use, and a
/// runaway child must not fill memory.
const OUTPUT: usize = 4 << 20;

/// A command line.
#[derive(Clone, Debug)]
pub struct Cmd {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Cmd {
    /// `program` without arguments.
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// One more environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// The same, run by `timeout` (of coreutils), which kills it after `limit` whether or not
    /// corral still lives.
    #[must_use]
    pub fn ended_by(self, timeout: &Path, limit: Duration) -> Self {
        let mut cmd = Self::new(timeout)
            .args(["-s", "KILL", &limit.as_secs().max(1).to_string()])
            .arg(self.program)
            .args(self.args);
        cmd.env = self.env;
        cmd
    }

    /// The program's name, for messages.
    pub fn name(&self) -> String {
        self.program
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// As it would be typed, for plans; not for a shell to run.
    pub fn shown(&self) -> String {
        let mut words = vec![self.name()];
        words.extend(self.args.iter().map(|arg| {
            let text = arg.to_string_lossy();
            if text.is_empty() || text.contains(char::is_whitespace) {
                format!("'{text}'")
            } else {
                text.into_owned()
            }
        }));
        words.join(" ")
    }

    /// What is run.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// With what.
    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }

    fn command(&self) -> CommandWrap {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // A session of its own: no terminal to ask on, or to be interrupted from. Ctrl-C at
        // corral's is corral's to answer.
        let mut command = CommandWrap::from(command);
        command.wrap(ProcessSession);
        command
    }
}

impl Cmd {
    /// Starts it with pipes to speak through; what it says on standard error is dropped.
    ///
    /// # Errors
    /// `NotFound` when it cannot be started.
    pub fn spoken(&self) -> Result<(ChildStdin, ChildStdout, Spoken)> {
        let mut command = self.command();
        command
            .command_mut()
            .stdin(Stdio::piped())
            .stderr(Stdio::null());
        let name = self.name();
        let mut child = command.spawn().map_err(|error| {
            Error::not_found(format!("{name} cannot be started: {error}")).because(error)
        })?;
        let group = Arc::new(Mutex::new(Group::of(child.id())));
        let (stdin, stdout) = (child.stdin().take(), child.stdout().take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(Error::backend(format!("{name} has no pipes")));
        };
        let pid = child.id();
        // Nobody else waits for it: without this it would stay as a zombie.
        let of_task = Arc::clone(&group);
        tokio::spawn(async move {
            let _ = child.inner_mut().wait().await;
            if let Ok(mut group) = of_task.lock() {
                group.leave();
            }
        });
        let spoken = Spoken { pid, group };
        Ok((stdin, stdout, spoken))
    }
}

/// A child that is spoken to. Dropped, it is killed with its group.
pub struct Spoken {
    pid: Option<u32>,
    group: Arc<Mutex<Group>>,
}

impl Drop for Spoken {
    fn drop(&mut self) {
        if let Ok(mut group) = self.group.lock() {
            *group = Group(None);
        }
    }
}

impl Spoken {
    /// Its process ID.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }
}

/// What a child left.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, at most 4 MiB.
    pub stdout: Vec<u8>,
    /// Its standard error, at most 4 MiB.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Standard output as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The first telling line of standard error.
    pub fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or("it said nothing");
        crate::model::shown(line).into_owned()
    }
}

/// Runs a child to its end and gives back whatever it left.
///
/// # Errors
/// `NotFound` when it cannot be started, `TimedOut` when the deadline passed (it is ended then).
pub async fn run(cmd: &Cmd, limit: Duration) -> Result<Output> {
    run_cancellable(cmd, Some(limit), &CancellationToken::new()).await
}

/// Runs a child that may take long, until its end or until it is cancelled.
///
/// # Errors
/// As [`run`]; `Refused` when cancelled (it is ended then).
pub async fn run_cancellable(
    cmd: &Cmd,
    limit: Option<Duration>,
    cancel: &CancellationToken,
) -> Result<Output> {
    run_lines(cmd, limit, cancel, |_| {}).await
}

/// Like [`run_cancellable`], and gives each line of standard output to `on_line` as it comes.
/// A carriage return ends a line too: that is how tools draw their progress.
///
/// # Errors
/// As [`run_cancellable`].
pub async fn run_lines(
    cmd: &Cmd,
    limit: Option<Duration>,
    cancel: &CancellationToken,
    on_line: impl FnMut(&str) + Send,
) -> Result<Output> {
    let name = cmd.name();
    let mut child = cmd.command().spawn().map_err(|error| {
        Error::not_found(format!("{name} cannot be started: {error}")).because(error)
    })?;
    let mut group = Group::of(child.id());
    let (stdout, stderr) = (child.stdout().take(), child.stderr().take());
    let work = async {
        let (stdout, stderr, status) = tokio::join!(
            collect(stdout, on_line),
            collect(stderr, |_| {}),
            // The leader alone: what it left behind has its own life.
            child.inner_mut().wait()
        );
        status.map(|status| Output {
            status,
            stdout,
            stderr,
        })
    };
    let timeout = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let failure = tokio::select! {
        output = work => {
            group.leave();
            return output.map_err(|e| Error::backend(format!("{name}: {e}")).because(e));
        }
        () = timeout => Error::timed_out(format!("{name} did not end within {} s", limit.unwrap_or_default().as_secs())),
        () = cancel.cancelled() => Error::refused("cancelled"),
    };
    drop(group);
    let _ = child.inner_mut().wait().await;
    Err(failure)
}

/// A child's process group: killed when it goes out of scope, also where the caller gave up and
/// dropped the whole wait.
struct Group(Option<rustix::process::Pid>);

impl Group {
    fn of(leader: Option<u32>) -> Self {
        let raw = leader.and_then(|id| i32::try_from(id).ok());
        Self(raw.and_then(rustix::process::Pid::from_raw))
    }

    /// Its leader has ended: the number may soon be another's.
    fn leave(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// Like [`run`], and an exit code other than 0 is an error that quotes the child.
pub async fn run_ok(cmd: &Cmd, limit: Duration) -> Result<Output> {
    let output = run(cmd, limit).await?;
    check(cmd, output)
}

/// An exit code other than 0 as an error that quotes the child.
pub fn check(cmd: &Cmd, output: Output) -> Result<Output> {
    if output.status.success() {
        return Ok(output);
    }
    Err(Error::backend(format!(
        "{}: {}",
        cmd.name(),
        output.complaint()
    )))
}

/// Longest line given to `on_line`; progress lines have 20 bytes.
const LINE: usize = 4096;

async fn collect(
    pipe: Option<impl AsyncRead + Unpin>,
    mut on_line: impl FnMut(&str) + Send,
) -> Vec<u8> {
    let Some(mut pipe) = pipe else {
        return Vec::new();
    };
    let mut kept = Vec::new();
    let mut line = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match pipe.read(&mut buffer).await {
            Ok(0) | Err(_) => return kept,
            Ok(n) => {
                let room = OUTPUT.saturating_sub(kept.len()).min(n);
                kept.extend_from_slice(&buffer[..room]);
                for &byte in &buffer[..n] {
                    if matches!(byte, b'\r' | b'\n') {
                        on_line(&String::from_utf8_lossy(&line));
                        line.clear();
                    } else if line.len() < LINE {
                        line.push(byte);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorKind;

    #[tokio::test]
    async fn says_what_the_child_said() {
        let cmd = Cmd::new("/bin/sh")
            .arg("-c")
            .arg("echo out; echo 'no\u{1b}[2J good' >&2; exit 3");
        let output = run(&cmd, Duration::from_secs(20)).await.unwrap();
        assert_eq!(output.text(), "out\n");
        let error = run_ok(&cmd, Duration::from_secs(20)).await.unwrap_err();
        assert_eq!(error.message, "sh: no\\x1b[2J good");
    }

    #[tokio::test]
    async fn a_hanging_child_ends_with_its_group() {
        let cmd = Cmd::new("/bin/sh").arg("-c").arg("sleep 1000 & wait");
        let error = run(&cmd, Duration::from_millis(200)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_dropped_wait_ends_the_whole_group_and_timeout_needs_no_parent() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > '{}'; wait", mark.display());
        let cmd = Cmd::new("/bin/sh").arg("-c").arg(script);
        let began = tokio::time::Instant::now();
        let pid = loop {
            let wait = run(&cmd, Duration::from_secs(20));
            // Dropped as soon as the grandchild is there.
            let _ = tokio::time::timeout(Duration::from_millis(500), wait).await;
            let text = std::fs::read_to_string(&mark).unwrap_or_default();
            if let Ok(pid) = text.trim().parse::<u32>() {
                break pid;
            }
            assert!(began.elapsed() < Duration::from_secs(20));
        };
        while crate::link::signal::is_alive(pid) {
            assert!(began.elapsed() < Duration::from_secs(20), "{pid} lives");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let bounded = Cmd::new("sleep")
            .arg("1000")
            .ended_by(Path::new("timeout"), Duration::from_secs(1));
        let output = run(&bounded, Duration::from_secs(20)).await.unwrap();
        assert!(!output.status.success());
    }

    #[tokio::test]
    async fn req_33_children_speak_one_language_and_output_is_bounded() {
        let cmd = Cmd::new("/bin/sh")
            .arg("-c")
            .arg("echo $LC_ALL; head -c 9000000 /dev/zero");
        let output = run(&cmd, Duration::from_secs(60)).await.unwrap();
        assert!(output.stdout.starts_with(b"C\n"));
        assert_eq!(output.stdout.len(), OUTPUT);
    }

    #[tokio::test]
    async fn progress_comes_line_by_line() {
        let cmd = Cmd::new("/bin/sh")
            .arg("-c")
            .arg("printf '(1/100%%)\\r(100/100%%)\\ndone\\n'");
        let mut seen = Vec::new();
        run_lines(&cmd, None, &CancellationToken::new(), |line| {
            seen.push(line.to_owned());
        })
        .await
        .unwrap();
        assert_eq!(seen, ["(1/100%)", "(100/100%)", "done"]);
    }

    #[tokio::test]
    async fn a_child_has_a_session_of_its_own_and_no_terminal() {
        let cmd = Cmd::new("/bin/sh")
            .arg("-c")
            .arg("echo $$; cut -d' ' -f5-7 /proc/$$/stat; exec 2>&1; : < /dev/tty");
        let output = run(&cmd, Duration::from_secs(20)).await.unwrap();
        let text = output.text();
        let mut lines = text.lines();
        let pid = lines.next().unwrap();
        // Group, session, terminal.
        assert_eq!(lines.next().unwrap(), format!("{pid} {pid} 0"));
        assert!(lines.next().unwrap().contains("/dev/tty"), "{text}");
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let error = run(&Cmd::new("/nonexistent/tool"), Duration::from_secs(5))
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert!(error.message.contains("tool"));
    }
}
