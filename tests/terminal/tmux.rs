//! A pane with a shell in it. Waits are for what is on the screen, never for a time.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// However slow the machine is, what is waited for comes before this.
const DEADLINE: Duration = Duration::from_secs(60);

/// One tmux server with one pane. Its socket is in its folder, so that nothing of it outlives the test.
pub struct Pane {
    socket: PathBuf,
    pub dir: tempfile::TempDir,
}

/// Whether there is a tmux; if not, the test says that it is skipped.
pub fn is_there() -> bool {
    let there = Command::new("tmux").arg("-V").output().is_ok();
    if !there {
        println!("skipped (daemon): tmux is not installed: apt install tmux");
    }
    there
}

impl Pane {
    /// A shell on `width` × `height` with a home of its own and these variables.
    pub fn open(width: u16, height: u16, vars: &[(&str, &str)]) -> Self {
        Self::at(None, width, height, vars)
    }

    /// The same in a home that others have too.
    pub fn at(home: Option<&Path>, width: u16, height: u16, vars: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pane = Self {
            socket: dir.path().join("tmux"),
            dir,
        };
        let home = home.unwrap_or(pane.dir.path()).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = format!(
            "exec env -i HOME='{home}' PATH='{path}' TERM=screen-256color LANG=C.UTF-8 HISTFILE= PS1='READY> '"
        );
        for (name, value) in vars {
            shell.push_str(&format!(" {name}='{value}'"));
        }
        shell.push_str(" bash --norc --noprofile -i");
        let (width, height) = (width.to_string(), height.to_string());
        pane.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-c",
            &home,
            "-x",
            &width,
            "-y",
            &height,
            &shell,
        ]);
        pane.wait_for("READY>");
        pane
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command
            .env_remove("TMUX")
            .arg("-S")
            .arg(&self.socket)
            .args(args);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "tmux {args:?}: {text}");
        output
    }

    /// The terminal is gone, for whoever was in it.
    pub fn hang_up(&self) {
        self.tmux(&["kill-server"]);
    }

    /// Another size.
    pub fn resize(&self, width: &str, height: &str) {
        self.tmux(&["resize-window", "-x", width, "-y", height]);
    }

    /// Keys as tmux names them.
    pub fn keys(&self, keys: &str) {
        for key in keys.split(' ') {
            self.tmux(&["send-keys", key]);
        }
    }

    /// A text, as typed.
    pub fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// A line for the shell, or whoever reads lines.
    pub fn line(&self, text: &str) {
        self.text(text);
        self.keys("Enter");
    }

    /// Starts corral with these words.
    pub fn corral(&self, words: &str) {
        self.line(&format!("{} {words}", env!("CARGO_BIN_EXE_corral")));
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The same with its escape sequences.
    pub fn coloured(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-e"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A format of tmux, filled in.
    pub fn format(&self, format: &str) -> String {
        let output = self.tmux(&["display-message", "-p", format]);
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    /// What a terminal program could have left behind.
    pub fn state(&self) -> String {
        self.format(
            "alt {alternate_on} cursor {cursor_flag} mouse {mouse_any_flag} keys {keypad_flag}{keypad_cursor_flag} wrap {wrap_flag} title {pane_title}"
                .replace('{', "#{")
                .as_str(),
        )
    }

    /// Waits until it is so.
    pub fn until(&self, what: &str, so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if so(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < DEADLINE, "never came: {what}\n{screen}");
            std::thread::sleep(Duration::from_millis(40));
        }
    }

    /// Waits for a text on the screen.
    pub fn wait_for(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Waits until a text is gone.
    pub fn wait_gone(&self, text: &str) -> String {
        self.until(&format!("no {text}"), |screen| !screen.contains(text))
    }

    /// Waits until a question is on the screen and keys count: its buttons are live then.
    pub fn wait_question(&self, text: &str) {
        self.until(text, |screen| {
            screen.contains(text)
                && screen
                    .lines()
                    .any(|l| l.contains("[Cancel]") && !l.contains("(wait)"))
        });
    }

    /// Waits for a file with something in it; its text.
    pub fn file(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        let begun = Instant::now();
        loop {
            if let Some(text) = read(&path) {
                return text;
            }
            assert!(
                begun.elapsed() < DEADLINE,
                "{name} never came\n{}",
                self.screen()
            );
            std::thread::sleep(Duration::from_millis(40));
        }
    }
}

fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.ends_with('\n').then_some(text)
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .env_remove("TMUX")
            .arg("-S")
            .arg(&self.socket)
            .arg("kill-server")
            .output();
    }
}
