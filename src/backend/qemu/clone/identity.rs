//! What a clone's guest gets of its own at its first start: machine ID, SSH host keys, host name.
//!
//! Nothing of a guest's file system is touched from outside: its agent does it, and where there is
//! none it is said that nothing was done.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::ctx::Ctx;
use super::super::definition::Definition;
use super::super::{locks, process};
use crate::backend::contract::TaskCx;
use crate::link::files::write_atomically;
use crate::link::qga::Agent;
use crate::model::{Error, Result, shown};

/// The file beside the definition; gone once it is done.
pub const FILE: &str = "identity.json";

/// Until an agent answers after a start: a boot, and a slow one without KVM.
const BOOT: Duration = Duration::from_secs(180);
/// One try of an agent; the lock is free in between.
const TRY: Duration = Duration::from_secs(10);
/// The agent's own answers.
const ANSWER: Duration = Duration::from_secs(5);
/// Keys are made within this.
const SCRIPT_TIME: Duration = Duration::from_secs(60);
/// The script's exit code when it came to its end; what failed is added to it.
const ENDED: i64 = 64;

/// Runs inside of the guest, in whatever shell there is: `$1` machine ID, `$2` host name, `$3` is
/// `seed` where cloud-init sees to keys and name, `$4` a root for tests.
const SCRIPT: &str = r#"
root=$4 bad=0
set_id() {
    printf '%s\n' "$1" >"$root/etc/machine-id" || return 1
    if [ -f "$root/var/lib/dbus/machine-id" ] && [ ! -L "$root/var/lib/dbus/machine-id" ]; then
        printf '%s\n' "$1" >"$root/var/lib/dbus/machine-id" || return 1
    fi
}
new_keys() {
    d=$root/etc/ssh/.corral-old
    mkdir -p "$d" && mv "$root"/etc/ssh/ssh_host_*_key* "$d" || return 1
    if ssh-keygen -A ${root:+-f "$root"} >/dev/null 2>&1; then rm -r "$d"
    else mv "$d"/* "$root/etc/ssh"; rmdir "$d"; return 1; fi
    [ -n "$root" ] && return 0
    systemctl try-reload-or-restart ssh.service sshd.service >/dev/null 2>&1 ||
        { [ -r /run/sshd.pid ] && kill -HUP "$(cat /run/sshd.pid)"; } || :
}
new_bear() {
    for f in "$root"/etc/dropbear/dropbear_*_host_key; do
        t=${f##*/dropbear_}; t=${t%_host_key}; [ "$t" = dss ] && { rm -f "$f"; continue; }
        rm -f "$f.new"; dropbearkey -t "$t" -f "$f.new" >/dev/null 2>&1 && mv "$f.new" "$f" || return 1
    done
}
set_name() {
    old=$(cat "$root/etc/hostname" 2>/dev/null)
    printf '%s\n' "$1" >"$root/etc/hostname" || return 1
    if [ -n "$old" ] && [ -f "$root/etc/hosts" ]; then
        awk -v o="$old" -v n="$1" '{ for (i = 2; i <= NF; i++) if ($i == o) $i = n; print }' \
            "$root/etc/hosts" >"$root/etc/hosts.new" && cat "$root/etc/hosts.new" >"$root/etc/hosts"
        rm -f "$root/etc/hosts.new"
    fi
    [ -n "$root" ] || hostname "$1" 2>/dev/null || hostnamectl set-hostname "$1"
}
set_id "$1" || bad=$((bad | 1))
if [ "$3" != seed ]; then
    if ls "$root"/etc/ssh/ssh_host_*_key >/dev/null 2>&1; then new_keys || bad=$((bad | 2))
    elif ls "$root"/etc/dropbear/dropbear_*_host_key >/dev/null 2>&1; then new_bear || bad=$((bad | 2))
    else bad=$((bad | 8)); fi
    set_name "$2" || bad=$((bad | 4))
fi
sync
exit $((64 + bad))
"#;

/// What is still to be done for a clone's guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Whose identity it has until then.
    pub of: String,
    /// Its host name to be.
    pub hostname: String,
    /// Its first-boot seed sees to keys and host name.
    pub seed: bool,
    /// Why it could not be done.
    #[serde(default)]
    pub tried: Option<String>,
}

impl Identity {
    /// The record in a VM's folder; one that cannot be read is none.
    pub fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(FILE)).ok()?).ok()
    }

    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        let bytes = serde_json::to_vec(self)
            .map_err(|e| Error::backend(format!("the identity cannot be written down: {e}")))?;
        write_atomically(&dir.join(FILE), &bytes)
    }

    /// What it means to whoever looks at the VM.
    pub fn pending(&self) -> String {
        let what = if self.seed {
            "the machine ID of its guest is"
        } else {
            "machine ID, SSH host keys and host name of its guest are"
        };
        match &self.tried {
            Some(why) => format!("{what} still of {}: {}", shown(&self.of), shown(why)),
            None => format!("{what} made anew at the first start"),
        }
    }
}

/// Gives the guest of a clone its identity, once after its first start. Says what came of it;
/// `None`: nothing was to be done. Never fails: the VM runs, whatever its guest does.
pub async fn settle(ctx: &Ctx, cx: &TaskCx, vm: &Definition) -> Option<String> {
    let dir = ctx.store.dir(&vm.name).ok()?;
    let mut wanted = Identity::read(&dir).filter(|wanted| wanted.tried.is_none())?;
    cx.step("Give its guest an identity of its own, once its agent answers");
    let done = renew(ctx, cx, vm, &wanted).await;
    // It may have been deleted or renamed meanwhile: then there is nothing to note.
    let here = ctx
        .store
        .load(&vm.name)
        .is_ok_and(|now| now.uuid == vm.uuid);
    match done {
        Ok(said) => {
            if here {
                let _ = fs::remove_file(dir.join(FILE));
            }
            Some(said)
        }
        Err(error) => {
            let what = if wanted.seed {
                "the machine ID of its guest is"
            } else {
                "machine ID, SSH host keys and host name of its guest are"
            };
            let said = format!("{what} still of {}: {}", shown(&wanted.of), error.message);
            wanted.tried = Some(error.message);
            if here {
                let _ = wanted.write(&dir);
            }
            Some(said)
        }
    }
}

async fn renew(ctx: &Ctx, cx: &TaskCx, vm: &Definition, wanted: &Identity) -> Result<String> {
    let paths = ctx.paths(&vm.uuid)?;
    let until = Instant::now() + cx.timeout.map_or(BOOT, |limit| limit.min(BOOT));
    loop {
        if cx.cancel.is_cancelled() {
            return Err(Error::refused("cancelled"));
        }
        if process::owner(&paths, vm).is_none() {
            return Err(Error::refused("it is off again"));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::timed_out("no guest agent answered"));
        }
        let talk = async {
            let _lock = locks::agent(ctx, &vm.uuid).await?;
            let mut agent = Agent::connect(&paths.agent, TRY.min(left)).await?;
            Ok::<_, Error>(execute(&mut agent, vm, wanted).await)
        };
        let talked = tokio::select! {
            talked = talk => talked,
            () = cx.cancel.cancelled() => continue,
        };
        match talked {
            Ok(done) => return done,
            // Not there yet, or another corral talks to it.
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Has the agent run the script; says what it did.
async fn execute(agent: &mut Agent, vm: &Definition, wanted: &Identity) -> Result<String> {
    let seed = if wanted.seed { "seed" } else { "" };
    let id = vm.uuid.simple().to_string();
    let command = json!({
        "path": "/bin/sh",
        "arg": ["-c", SCRIPT, "sh", id, wanted.hostname, seed, ""],
        "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
    });
    let begun = agent.execute("guest-exec", &command, ANSWER).await?;
    let pid = begun
        .get("pid")
        .and_then(Value::as_i64)
        .ok_or_else(|| Error::backend("the guest agent names no process"))?;
    let until = Instant::now() + SCRIPT_TIME;
    loop {
        let status = agent
            .execute("guest-exec-status", &json!({ "pid": pid }), ANSWER)
            .await?;
        if status.get("exited").and_then(Value::as_bool) == Some(true) {
            let code = status.get("exitcode").and_then(Value::as_i64);
            return told(code, wanted);
        }
        if Instant::now() >= until {
            return Err(Error::timed_out("the guest did not come to an end with it"));
        }
        // The agent has no way to tell of it by itself.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What the script's exit code says.
fn told(code: Option<i64>, wanted: &Identity) -> Result<String> {
    let bad = match code {
        Some(code) if (ENDED..ENDED + 16).contains(&code) => code - ENDED,
        Some(code) => {
            return Err(Error::backend(format!(
                "the guest's shell ended with {code}"
            )));
        }
        None => return Err(Error::backend("the guest's shell was killed")),
    };
    let all = [(1, "machine ID"), (2, "SSH host keys"), (4, "host name")];
    let all = if wanted.seed { &all[..1] } else { &all[..] };
    let (mut new, mut old) = (Vec::new(), Vec::new());
    for (bit, what) in all {
        if bad & bit != 0 {
            old.push(*what);
        } else if *bit != 2 || bad & 8 == 0 {
            new.push(*what);
        }
    }
    if new.is_empty() {
        return Err(Error::backend(format!(
            "the guest could not change its {}",
            old.join(", ")
        )));
    }
    let mut said = format!("its guest has its own {}", new.join(", "));
    if !old.is_empty() {
        said.push_str(&format!(
            ", but still the {} of {}",
            old.join(", "),
            shown(&wanted.of)
        ));
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn wanted() -> Identity {
        Identity {
            of: "local/web".into(),
            hostname: "web2".into(),
            seed: false,
            tried: None,
        }
    }

    /// Runs the script over a folder that looks like a guest's root.
    fn script(root: &Path, seed: &str) -> Option<i64> {
        let status = Command::new("/bin/sh")
            .args([
                "-c",
                SCRIPT,
                "sh",
                "0123456789abcdef0123456789abcdef",
                "web2",
                seed,
            ])
            .arg(root)
            .status()
            .unwrap();
        status.code().map(i64::from)
    }

    #[test]
    fn a_guest_gets_all_three_and_keeps_its_other_hosts() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("etc/ssh")).unwrap();
        fs::write(at("etc/machine-id"), "old\n").unwrap();
        fs::write(at("etc/hostname"), "web\n").unwrap();
        fs::write(
            at("etc/hosts"),
            "127.0.0.1 localhost\n127.0.1.1 web web.lan\n10.0.0.9 web-db\n",
        )
        .unwrap();
        let keygen = Command::new("ssh-keygen")
            .arg("-A")
            .arg("-f")
            .arg(root.path())
            .output();
        let keys = keygen.is_ok_and(|made| made.status.success());
        let key = at("etc/ssh/ssh_host_ed25519_key");
        let before = fs::read(&key).unwrap_or_default();
        let code = script(root.path(), "");
        assert_eq!(code, Some(if keys { ENDED } else { ENDED + 8 }));
        assert_eq!(
            fs::read_to_string(at("etc/machine-id")).unwrap(),
            "0123456789abcdef0123456789abcdef\n"
        );
        assert_eq!(fs::read_to_string(at("etc/hostname")).unwrap(), "web2\n");
        let hosts = fs::read_to_string(at("etc/hosts")).unwrap();
        assert!(
            hosts.contains("127.0.1.1 web2 web.lan") && hosts.contains("web-db"),
            "{hosts}"
        );
        if keys {
            assert_ne!(fs::read(&key).unwrap(), before);
            assert!(!at("etc/ssh/.corral-old").exists());
        }
        // With a seed only what cloud-init leaves alone.
        fs::write(at("etc/hostname"), "web\n").unwrap();
        assert_eq!(script(root.path(), "seed"), Some(ENDED));
        assert_eq!(fs::read_to_string(at("etc/hostname")).unwrap(), "web\n");
    }

    #[test]
    fn what_could_not_be_done_is_said() {
        let root = tempfile::tempdir().unwrap();
        let code = script(root.path(), "");
        assert!(told(code, &wanted()).is_err(), "{code:?}");
        let said = told(Some(ENDED + 2), &wanted()).unwrap();
        assert!(
            said.contains("machine ID, host name, but still the SSH host keys of local/web"),
            "{said}"
        );
        let said = told(Some(ENDED + 8), &wanted()).unwrap();
        assert!(!said.contains("keys"), "{said}");
        for odd in [None, Some(0), Some(127), Some(-9)] {
            assert!(told(odd, &wanted()).is_err());
        }
    }
}
