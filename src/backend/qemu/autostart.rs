//! VMs that start with this machine: a mark in the definition, and one systemd user unit that
//! starts all that are marked. `doctor --fix` puts the unit there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ctx::Ctx;
use crate::link::child::{Cmd, run};
use crate::link::files::{make_dir, write_atomically};
use crate::model::{Action, Check, Error, Outcome, Result, Step, shown};

/// The check that offers the unit.
pub(super) const CHECK: &str = "qemu.autostart";

/// The unit.
const UNIT: &str = "corral-autostart.service";
/// It asks the user's own service manager only.
const ASK: Duration = Duration::from_secs(10);

/// What a VM with the mark lacks to be started, in words; `None`: the unit is there.
pub(super) fn missing(ctx: &Ctx) -> Option<String> {
    match unit(ctx) {
        Ok(unit) if unit.is_there() => None,
        _ => Some("nothing starts it yet: corral doctor --fix sets up the unit that does".into()),
    }
}

struct Unit {
    file: PathBuf,
    text: String,
}

impl Unit {
    /// Of this very content: a corral that was moved is started from where it is now.
    fn is_there(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|text| text == self.text)
    }

    /// Linked into what the user's manager starts.
    fn is_enabled(&self) -> bool {
        let wants = self.file.with_file_name("default.target.wants").join(UNIT);
        fs::symlink_metadata(wants).is_ok()
    }
}

fn unit(ctx: &Ctx) -> Result<Unit> {
    let program = std::env::current_exe()
        .map_err(|e| Error::backend(format!("where corral itself is cannot be known: {e}")))?;
    // Beside corral's own folder: both follow XDG_CONFIG_HOME.
    let config = ctx.env.dirs.config.parent().unwrap_or(Path::new("/"));
    Ok(Unit {
        file: config.join("systemd/user").join(UNIT),
        text: text(&program, ctx)?,
    })
}

fn text(program: &Path, ctx: &Ctx) -> Result<String> {
    let mut homes = String::new();
    // A manager that was started at login does not know what a shell has set since.
    for (name, dir) in [
        ("XDG_CONFIG_HOME", &ctx.env.dirs.config),
        ("XDG_DATA_HOME", &ctx.env.dirs.data),
        ("XDG_STATE_HOME", &ctx.env.dirs.state),
        ("XDG_CACHE_HOME", &ctx.env.dirs.cache),
    ] {
        let home = dir.parent().unwrap_or(Path::new("/"));
        homes.push_str(&format!(
            "Environment={}\n",
            word(&format!("{name}={}", plain(home)?))
        ));
    }
    Ok(format!(
        "# Written by: corral doctor --fix\n\
         [Unit]\n\
         Description=VMs that corral starts with this machine\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         {homes}\
         ExecStart={} --headless autostart --run --context {}\n\
         # The VMs are its children: they stay when it has ended, and when it is stopped.\n\
         RemainAfterExit=yes\n\
         KillMode=process\n\
         TimeoutStartSec=infinity\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        word(plain(program)?),
        word(&ctx.spec.name),
    ))
}

/// A path as text; one that a unit cannot hold is an error.
fn plain(path: &Path) -> Result<&str> {
    path.to_str()
        .filter(|text| !text.chars().any(char::is_control))
        .ok_or_else(|| {
            Error::unsupported(format!(
                "a systemd unit cannot name {}",
                shown(&path.to_string_lossy())
            ))
        })
}

/// One word of a unit's line: `%` and `$` mean something there, blanks end it.
fn word(text: &str) -> String {
    let text = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    format!("\"{text}\"")
}

fn systemctl(ctx: &Ctx) -> Option<PathBuf> {
    ctx.env.which("systemctl")
}

/// Whether VMs that are to start with this machine will.
pub(super) fn check(ctx: &Ctx) -> Option<Check> {
    let marked: Vec<String> = ctx
        .store
        .list()
        .ok()?
        .into_iter()
        .filter_map(|entry| entry.definition.ok())
        .filter(|vm| vm.autostart)
        .map(|vm| ctx.id(&vm.name).to_string())
        .collect();
    if marked.is_empty() {
        return None;
    }
    let unit = match unit(ctx) {
        Ok(unit) => unit,
        Err(error) => return Some(Check::warn(CHECK, error.message)),
    };
    let marked = marked.join(", ");
    let manager = systemctl(ctx);
    if unit.is_there() && (manager.is_none() || unit.is_enabled()) {
        if manager.is_none() {
            return Some(
                Check::warn(
                    CHECK,
                    format!("{marked}: there is no systemctl here, so nothing starts them"),
                )
                .remedy("Have this run at boot: corral autostart --run"),
            );
        }
        return Some(match lingers(ctx) {
            Some(false) => Check::warn(
                CHECK,
                format!("{marked}: start at login, not at boot, and end with the last session"),
            )
            .remedy("From boot on, without a login: loginctl enable-linger"),
            _ => Check::ok(CHECK, format!("started with this machine: {marked}")),
        });
    }
    Some(
        Check::warn(
            CHECK,
            format!("{marked}: no unit starts them with this machine"),
        )
        .remedy("corral doctor --fix, and for a start without a login: loginctl enable-linger")
        .by([Step::new(
            "Set up the unit that starts them",
            "systemctl --user enable corral-autostart.service",
        )])
        .fix(Action::new("doctor").with("fix", true)),
    )
}

/// Whether the user's services run without a login; `None` where logind keeps no record.
fn lingers(ctx: &Ctx) -> Option<bool> {
    let root = Path::new("/var/lib/systemd/linger");
    let user = ctx.env.home.file_name()?;
    root.is_dir().then(|| root.join(user).exists())
}

/// Writes the unit and enables it.
pub(super) async fn set_up(ctx: &Ctx) -> Result<Outcome> {
    let unit = unit(ctx)?;
    if let Some(dir) = unit.file.parent() {
        make_dir(dir)?;
    }
    write_atomically(&unit.file, unit.text.as_bytes())?;
    let file = unit.file.display();
    let Some(systemctl) = systemctl(ctx) else {
        return Ok(Outcome::changed(format!(
            "{file} is written; there is no systemctl here: have this run at boot: corral autostart --run"
        )));
    };
    let reload = Cmd::new(&systemctl).args(["--user", "daemon-reload"]);
    let enable = Cmd::new(&systemctl).args(["--user", "enable", UNIT]);
    // A manager that is not running cannot reload, and has nothing to; enable tells what matters.
    let _ = run(&reload, ASK).await?;
    let output = run(&enable, ASK).await?;
    if !output.status.success() {
        return Err(Error::backend(format!(
            "{file} is written, but not enabled: {}",
            output.complaint()
        ))
        .remedy(format!(
            "Enable it yourself: systemctl --user enable {UNIT}"
        )));
    }
    Ok(Outcome::changed(format!(
        "{file} is written and enabled; for a start without a login: loginctl enable-linger"
    )))
}

#[cfg(test)]
mod tests {
    use super::super::ctx::tests::context;
    use super::*;

    #[test]
    fn odd_paths_are_one_word_each() {
        let ctx = context(Path::new("/home/a b%c"));
        let text = text(Path::new("/opt/$x \"y\"/corral"), &ctx).unwrap();
        assert!(
            text.contains(r#"ExecStart="/opt/$$x \"y\"/corral" --headless"#),
            "{text}"
        );
        assert!(text.contains("a b%%c"), "{text}");
        assert!(super::text(Path::new("/a\nExecStart=/bin/rm"), &ctx).is_err());
    }
}
