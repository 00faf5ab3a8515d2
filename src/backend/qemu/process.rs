//! The QEMU process of a VM: started so that it outlives corral, found again by its monitor.
//!
//! A process is ours only if `query-uuid` answers with the definition's UUID. No other is touched.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::accel::{self, Accel};
use super::argv;
use super::ctx::{Ctx, Paths};
use super::definition::Definition;
use super::layout::Layout;
use super::{events, locks, ports, proc, tpm};
use crate::link::child::{Cmd, run};
use crate::link::qmp::{Qmp, is_listening};
use crate::link::{files, signal};
use crate::model::{Error, ErrorKind, EventLevel, Result};

/// A monitor answers within milliseconds; a loaded machine within a second or two.
pub const MONITOR: Duration = Duration::from_secs(5);
/// Until QEMU has set up its devices and gone to the background.
const START: Duration = Duration::from_secs(60);

/// The newest format of [`Launch`], counted up when guests are started with something that later
/// operations need.
pub const LAUNCH: u32 = 1;

/// How a process was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Which corral's [`LAUNCH`] it was; 0 is from before there was one.
    #[serde(default)]
    pub format: u32,
    /// The process.
    pub pid: u32,
    /// With what.
    pub accel: Accel,
    /// When.
    pub at: Timestamp,
    /// In which boot of this machine.
    pub boot: String,
    /// Hash of the definition it was started from.
    pub definition: String,
    /// The definition as the process has it now; see [`super::started`].
    #[serde(default)]
    pub running: Option<Definition>,
    /// What its balloon was asked to leave to the guest; `None`: all.
    #[serde(default)]
    pub balloon: Option<crate::model::Bytes>,
}

impl Launch {
    /// The last start of this VM.
    pub fn read(paths: &Paths) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(&paths.launch).ok()?).ok()
    }
}

/// The command line that starts this VM.
///
/// # Errors
/// As [`argv::build`]; `NotFound` without QEMU.
pub fn command(ctx: &Ctx, vm: &Definition, accel: &Accel) -> Result<Cmd> {
    let paths = ctx.paths(&vm.uuid)?;
    Ok(Cmd::new(ctx.qemu()?).args(argv::build(vm, &paths, accel)?))
}

/// Starts the VM's process and returns once its monitor answers. The caller holds
/// [`locks::vm`].
///
/// # Errors
/// `Conflict` when it runs already or a port is taken, `Backend` with QEMU's own words.
pub async fn spawn(ctx: &Ctx, vm: &Definition) -> Result<Launch> {
    launch(ctx, vm, &[], None).await
}

/// As [`spawn`], with its CPUs halted before the first instruction and the sizes of `fits`: to load
/// saved RAM.
///
/// # Errors
/// As [`spawn`].
pub async fn spawn_halted(ctx: &Ctx, vm: &Definition, fits: Option<&Layout>) -> Result<Launch> {
    launch(ctx, vm, &["-S"], fits).await
}

async fn launch(
    ctx: &Ctx,
    vm: &Definition,
    extra: &[&str],
    fits: Option<&Layout>,
) -> Result<Launch> {
    let paths = ctx.paths(&vm.uuid)?;
    let called = ctx.called(vm);
    let runs = async || Ok(connect(ctx, vm).await?.is_some() || owner(&paths, vm).is_some());
    if runs().await? || (settled(ctx, vm).await? && runs().await?) {
        return Err(Error::conflict(format!("{called} runs already")));
    }
    if let Some(why) = ctx.store.held_by_clones(vm, &ctx.id(&vm.name))? {
        return Err(why);
    }
    let accel = accel_for(ctx, vm).await?;
    let (vm, claim) = ports::settle(ctx, vm).await?;
    let vm = &fits.map_or_else(|| vm.clone(), |layout| layout.fitted(&vm));
    let cmd = command(ctx, vm, &accel)?.args(extra);
    files::make_dir(&paths.dir)?;
    // What a killed process left behind would be in the way.
    for path in paths.sockets().into_iter().chain([paths.pid.as_path()]) {
        let _ = std::fs::remove_file(path);
    }
    if vm.tpm {
        start_tpm(ctx, vm, &paths).await?;
    }
    let output = run(&cmd, START).await;
    drop(claim);
    let output = output.map_err(|e| e.in_context(&ctx.spec.name))?;
    note(&paths, &cmd, &output.stderr);
    if !output.status.success() {
        return Err(failed(&called, &paths, &output.complaint()));
    }
    let launch = Launch {
        format: LAUNCH,
        pid: signal::read_pidfile(&paths.pid).unwrap_or_default(),
        accel,
        at: Timestamp::now(),
        boot: accel::boot_id(),
        definition: super::store::Store::start_hash(vm),
        running: Some(vm.clone()),
        balloon: None,
    };
    let bytes = serde_json::to_vec(&launch).unwrap_or_default();
    files::write_atomically(&paths.launch, &bytes)?;
    match connect(ctx, vm).await? {
        Some(_) => {
            let _ = std::fs::write(&paths.alive, "");
            events::say(ctx, vm, EventLevel::Info, "STARTED", "started");
            Ok(launch)
        }
        None => Err(failed(&called, &paths, "it ended right after its start")),
    }
}

fn failed(called: &str, paths: &Paths, said: &str) -> Error {
    let why = plain(said);
    let remedy = if why.contains("Failed to get") && why.contains("lock") {
        "Another program uses that image: end it, or look with: fuser -v FILE".to_owned()
    } else {
        format!("Its log: {}", paths.log.display())
    };
    Error::backend(format!("{called}: QEMU did not start: {why}")).remedy(remedy)
}

/// QEMU's complaint without the option that it repeats: `-blockdev {…}: text` becomes the image's
/// path and the text.
fn plain(said: &str) -> String {
    let said = said.strip_prefix("qemu-system-x86_64: ").unwrap_or(said);
    let Some((node, text)) = said
        .strip_prefix("-blockdev ")
        .and_then(|rest| rest.rsplit_once("}: "))
    else {
        return said.to_owned();
    };
    let node: Value = serde_json::from_str(&format!("{node}}}")).unwrap_or_default();
    match node.pointer("/file/filename").and_then(Value::as_str) {
        Some(file) => format!("{}: {text}", crate::model::shown(file)),
        None => text.to_owned(),
    }
}

/// What this VM runs with.
///
/// # Errors
/// Without QEMU.
pub async fn accel_for(ctx: &Ctx, vm: &Definition) -> Result<Accel> {
    // A guest with a TCG model gains by KVM too, so that model is what is proven.
    let accel = accel::prove(ctx, &vm.cpu_model).await?;
    if vm.is_windows() {
        return accel::with_hints(ctx, &vm.cpu_model, accel).await;
    }
    Ok(accel)
}

/// Appends how QEMU was started and what it said; the log is begun anew at 1 MiB.
fn note(paths: &Paths, cmd: &Cmd, said: &[u8]) {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let long = std::fs::metadata(&paths.log).is_ok_and(|meta| meta.len() > 1 << 20);
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(!long)
        .write(true)
        .truncate(long)
        .mode(0o600)
        .open(&paths.log);
    // The log helps to find a fault; the start does not depend on it.
    if let Ok(mut file) = file {
        let _ = writeln!(file, "{} {}", Timestamp::now(), cmd.shown());
        let _ = file.write_all(said);
    }
}

async fn start_tpm(ctx: &Ctx, vm: &Definition, paths: &Paths) -> Result<()> {
    if let Some(pid) = signal::read_pidfile(&paths.tpm_pid) {
        let ours = paths.tpm.to_string_lossy().into_owned();
        // One of a QEMU that was killed still holds the state.
        let _ = signal::kill(pid, |argv| argv.iter().any(|arg| arg.contains(&ours)));
    }
    let dir = ctx.store.dir(&vm.name)?;
    tpm::start(&ctx.env, &dir, &paths.tpm, &paths.tpm_pid).await
}

/// The monitor of the running VM under its lock; `None` when it does not run.
///
/// # Errors
/// `TimedOut` when it hangs, `Conflict` when another process listens there, or another corral
/// holds the monitor too long.
pub async fn connect(ctx: &Ctx, vm: &Definition) -> Result<Option<Qmp>> {
    connect_within(ctx, vm, MONITOR).await
}

/// [`connect`] with another limit.
///
/// # Errors
/// As [`connect`].
pub async fn connect_within(ctx: &Ctx, vm: &Definition, limit: Duration) -> Result<Option<Qmp>> {
    let paths = ctx.paths(&vm.uuid)?;
    if !paths.qmp.exists() {
        return Ok(None);
    }
    let started = std::time::Instant::now();
    let lock = locks::monitor(ctx, &vm.uuid, limit).await?;
    let left = limit.saturating_sub(started.elapsed());
    let mut qmp = match Qmp::connect(&paths.qmp, &ctx.called(vm), left).await {
        Ok(qmp) => qmp,
        Err(error) if error.kind == ErrorKind::Unreachable => return Ok(None),
        Err(error) => return Err(error),
    };
    let left = limit.saturating_sub(started.elapsed());
    let answer = match qmp.execute("query-uuid", Value::Null, left).await {
        Ok(answer) => answer,
        Err(error) if error.kind == ErrorKind::Unreachable => return Ok(None),
        Err(error) => return Err(error),
    };
    let said = answer.get("UUID").and_then(Value::as_str).unwrap_or("");
    if said.parse::<uuid::Uuid>().ok() != Some(vm.uuid) {
        return Err(Error::conflict(format!(
            "{}: the QEMU at {} is another machine's ({})",
            ctx.called(vm),
            paths.qmp.display(),
            crate::model::shown(said)
        ))
        .remedy("It is left alone. Look at it: corral doctor"));
    }
    // What it says of itself is not enough where its own process is known to be another.
    let peer = qmp.peer_pid().filter(|peer| *peer > 0);
    if let (Some(peer), Some(own)) = (peer, owner(&paths, vm))
        && peer != own
    {
        return Err(Error::conflict(format!(
            "{}: process {peer} answers at {}, but its QEMU is process {own}",
            ctx.called(vm),
            paths.qmp.display()
        ))
        .remedy(format!(
            "See who that is: ps -fp {peer}. Power its QEMU off: corral stop --force {}",
            ctx.called(vm)
        )));
    }
    qmp.hold(lock);
    Ok(Some(qmp))
}

/// The process that was started for this VM, by what its command line says; for a process whose
/// monitor does not answer.
pub fn owner(paths: &Paths, vm: &Definition) -> Option<u32> {
    let pid = signal::read_pidfile(&paths.pid)?;
    signal::argv(pid)
        .filter(|argv| is_ours(argv, paths, vm))
        .map(|_| pid)
}

/// Whether a command line is one that [`command`] made for this VM.
pub fn is_ours(argv: &[String], paths: &Paths, vm: &Definition) -> bool {
    let uuid = vm.uuid.to_string();
    let pid = paths.pid.to_string_lossy();
    argv.windows(2).any(|w| w[0] == "-uuid" && w[1] == uuid)
        && argv.windows(2).any(|w| w[0] == "-pidfile" && w[1] == pid)
}

/// Waits for what a corral that was killed had begun, and which knows nothing of its end: a QEMU of
/// this VM that nobody can ask yet or any more, or a `qemu-img` that writes one of its images. True
/// when there was something to wait for.
///
/// # Errors
/// `TimedOut` when it stays.
pub async fn settled(ctx: &Ctx, vm: &Definition) -> Result<bool> {
    let paths = ctx.paths(&vm.uuid)?;
    let images: Vec<String> = vm
        .snapshot_nodes()
        .into_iter()
        .map(|(_, path)| path.to_string_lossy().into_owned())
        .collect();
    let until = tokio::time::Instant::now() + START;
    let mut waited = false;
    while let Some(pid) = unsettled(&paths, vm, &images).await {
        if tokio::time::Instant::now() >= until {
            let called = ctx.called(vm);
            return Err(Error::timed_out(format!(
                "process {pid} works on {called}, and does not come to an end"
            ))
            .remedy(format!("See what it does: ps -fp {pid}")));
        }
        waited = true;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(waited)
}

async fn unsettled(paths: &Paths, vm: &Definition, images: &[String]) -> Option<u32> {
    // One that can be asked is started.
    let answers = is_listening(&paths.qmp).await;
    proc::own().into_iter().find(|pid| {
        signal::argv(*pid).is_some_and(|argv| {
            (!answers && is_ours(&argv, paths, vm)) || is_tool_on(&argv, images)
        })
    })
}

/// Whether a command line is that of a `qemu-img` with one of these images.
fn is_tool_on(argv: &[String], images: &[String]) -> bool {
    let named = |arg: &String| std::path::Path::new(arg).file_name() == Some("qemu-img".as_ref());
    argv.first().is_some_and(named) && argv.iter().any(|arg| images.contains(arg))
}

/// Waits until the VM's process has ended, at most `limit`; true when it has.
pub async fn ended(paths: &Paths, vm: &Definition, pid: Option<u32>, limit: Duration) -> bool {
    let until = tokio::time::Instant::now() + limit;
    loop {
        // The number that was seen may be another's: of whoever listened in its place.
        let alive = owner(paths, vm).is_some()
            || pid
                .and_then(signal::argv)
                .is_some_and(|argv| is_ours(&argv, paths, vm));
        if !alive {
            return true;
        }
        if tokio::time::Instant::now() >= until {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_on_an_image_is_known_by_its_words() {
        let images = ["/d/a.qcow2".to_owned()];
        let is = |line: &str| {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            is_tool_on(&argv, &images)
        };
        assert!(is("/usr/bin/qemu-img snapshot -q -a s /d/a.qcow2"));
        assert!(!is("/usr/bin/qemu-img snapshot -q -a s /d/b.qcow2"));
        assert!(!is("less /d/a.qcow2"));
    }

    #[test]
    fn complaints_are_told_without_the_option() {
        let said = r#"qemu-system-x86_64: -blockdev {"driver":"qcow2","file":{"driver":"file","filename":"/d/a: b.qcow2"}}: Failed to get "write" lock"#;
        assert_eq!(plain(said), r#"/d/a: b.qcow2: Failed to get "write" lock"#);
        assert_eq!(plain("qemu-system-x86_64: no"), "no");
        assert_eq!(plain("-blockdev {x}: no"), "no");
    }
}
