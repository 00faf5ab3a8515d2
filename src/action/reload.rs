//! Where an engine's configuration comes from, and how a running one follows it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::contexts;
use super::engine::Engine;
use super::grammar;
use super::secrets::Secrets;
use crate::backend::contract::Env;
use crate::config::{LoadInput, Loaded, Settings, load};
use crate::fleet::Member;
use crate::model::{ConfigProblem, Error, Health, Plan, Refusal, Result, shown};

/// The file is looked at so often: one `stat`.
const LOOK: Duration = Duration::from_secs(1);

/// What the configuration was loaded from, so that it can be loaded again.
pub struct Source {
    env: Arc<Env>,
    /// The whole environment: settings and secrets may name any variable.
    vars: BTreeMap<String, String>,
    /// `--config`.
    file: Option<PathBuf>,
    /// `--readonly`.
    readonly: bool,
    /// Contexts that are found here count.
    discover: bool,
    secrets: Arc<Secrets>,
    /// What is asked besides of what is wrong: how the view looks is no business of this floor.
    check: Option<LookCheck>,
    /// The flag that a simulated fleet was asked for with: only how the view looks is taken from the files.
    simulated: Option<String>,
    turn: Mutex<()>,
}

/// What is wrong with themes and keymaps in this folder, and with what the settings say of them.
pub type LookCheck = fn(&Path, &Loaded) -> Vec<ConfigProblem>;

/// Folders whose files say how the view looks.
const LOOKS: [&str; 2] = ["keymaps", "themes"];

impl Source {
    /// From a process's surroundings and its flags.
    pub fn new(
        env: Arc<Env>,
        vars: BTreeMap<String, String>,
        file: Option<PathBuf>,
        readonly: bool,
        discover: bool,
    ) -> Self {
        Self {
            secrets: Arc::new(Secrets::new(Arc::clone(&env), vars.clone())),
            env,
            vars,
            file,
            readonly,
            discover,
            check: None,
            simulated: None,
            turn: Mutex::new(()),
        }
    }

    /// Faults of the view's files are told with the others.
    #[must_use]
    pub fn checking(self, check: LookCheck) -> Self {
        Self {
            check: Some(check),
            ..self
        }
    }

    /// For a simulated fleet, asked for with this flag. Nothing but how the view looks is taken from the files.
    #[must_use]
    pub fn simulated(self, flag: String) -> Self {
        Self {
            simulated: Some(flag),
            ..self
        }
    }

    /// The folder of the user's themes and keymaps.
    fn looks(&self) -> &Path {
        &self.env.dirs.config
    }

    /// Two that load at once would each think to be the newer.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads file, environment and flags. Never fails: what is wrong is among its problems.
    pub fn load(&self) -> Loaded {
        let mut loaded = self.read();
        self.check_look(&mut loaded);
        loaded
    }

    /// Looks for what is wrong with themes and keymaps besides.
    pub fn check_look(&self, loaded: &mut Loaded) {
        if let Some(check) = self.check {
            let found = check(self.looks(), loaded);
            loaded.problems.extend(found);
        }
    }

    /// What a command needs: themes and keymaps are not looked at.
    pub fn read(&self) -> Loaded {
        let mut flags = Vec::new();
        if self.readonly {
            flags.push(("readonly".to_owned(), true.into()));
        }
        let mut loaded = load(&LoadInput {
            dirs: &self.env.dirs,
            file: self.file.clone(),
            env: &self.vars,
            flags,
            kinds: &contexts::config_kinds(),
        });
        if self.simulated.is_some() {
            return only_look(loaded, self.readonly);
        }
        contexts::check_default(&mut loaded, &self.env, self.discover);
        loaded
    }

    /// Opens the contexts. Connects to nobody and runs nothing.
    pub fn open(&self, loaded: &Loaded) -> Vec<Member> {
        contexts::open(loaded, &self.env, &self.secrets, self.discover)
    }

    /// Why every change is refused, if it is.
    pub fn readonly(&self, loaded: &Loaded) -> Option<Refusal> {
        let refuse = |why: String, remedy: String| Some(Refusal::new(why, Some(remedy)));
        if self.readonly {
            return refuse(
                "--readonly was given".to_owned(),
                "Start corral without it".to_owned(),
            );
        }
        if !loaded.settings.readonly {
            return None;
        }
        if let Some(why) = &loaded.unusable {
            return refuse(
                format!("the configuration cannot be read and may forbid changes ({why})"),
                "Mend it: corral config check".to_owned(),
            );
        }
        let source = loaded.rows.iter().find(|row| row.key == "readonly");
        let path = loaded.path.display().to_string();
        match source.map(|row| row.source.as_str()) {
            Some("environment") => refuse(
                "CORRAL_READONLY is set".to_owned(),
                "Unset it, and start corral again".to_owned(),
            ),
            _ => refuse(
                format!("the configuration is read-only ({})", shown(&path)),
                format!("Take readonly = true from {}", shown(&path)),
            ),
        }
    }
}

/// What a simulated fleet takes from the configuration, and what is wrong with that.
fn only_look(mut loaded: Loaded, readonly: bool) -> Loaded {
    let is_broken = loaded.unusable.is_some();
    loaded.problems.retain(|fault| {
        is_broken || fault.message.starts_with("ui.") || fault.message.contains(" in [ui]")
    });
    loaded.rows.retain(|row| row.key.starts_with("ui."));
    Loaded {
        settings: Settings {
            ui: loaded.settings.ui,
            readonly,
            ..Settings::default()
        },
        contexts: Vec::new(),
        images: Vec::new(),
        dropped: Vec::new(),
        default_at: None,
        unusable: None,
        ..loaded
    }
}

/// What came of loading the configuration again.
#[derive(Clone, Debug, PartialEq)]
pub struct Reloaded {
    /// Contexts came, went, or were opened again.
    pub contexts_changed: bool,
    /// Every change is refused.
    pub readonly: bool,
    /// The first fault that was not there before, with its place.
    pub fault: Option<String>,
}

impl Engine {
    /// Loads the configuration again and follows it: contexts, guards, settings. The contexts in `reopen` are opened
    /// again though they look the same: a secret or a pin behind them is new. A file that cannot be read keeps
    /// the contexts and settings that hold; only guards can come from it.
    ///
    /// # Errors
    /// Only when corral fails inside.
    pub async fn reload(self: &Arc<Self>, reopen: &[String]) -> Result<Reloaded> {
        let engine = Arc::clone(self);
        let reopen = reopen.to_vec();
        // Reads files, and looks for contexts on this machine.
        tokio::task::spawn_blocking(move || engine.reload_now(&reopen))
            .await
            .map_err(|error| Error::backend("the configuration was not loaded").because(error))
    }

    /// Asks again at once, because somebody wants it. A context that needs a login is opened anew, with its secret
    /// fetched anew: the old one may have been changed or have expired.
    pub fn refresh(self: &Arc<Self>, context: Option<&str>) {
        let view = self.fleet().view();
        let mut locked = Vec::new();
        for seen in &view.contexts {
            if context.is_some_and(|name| name != seen.name) {
                continue;
            }
            match seen.health {
                // Not asked as it is besides: its user would be asked twice.
                Health::LoginNeeded(_) if self.source().is_some() => locked.push(seen.name.clone()),
                _ => self.fleet().refresh(Some(&seen.name)),
            }
        }
        if let (Some(source), false) = (self.source(), locked.is_empty()) {
            source.secrets.forget();
            let engine = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = engine.reload(&locked).await {
                    tracing::warn!(%error, "contexts were not opened again");
                }
            });
        }
    }

    fn reload_now(self: &Arc<Self>, reopen: &[String]) -> Reloaded {
        let Some(source) = self.source() else {
            return Reloaded {
                contexts_changed: false,
                readonly: self.readonly().is_some(),
                fault: None,
            };
        };
        let _one_at_a_time = source.turn();
        let before = self.config();
        let fresh = source.load();
        let readonly = source.readonly(&fresh);
        let fault = fresh
            .problems
            .iter()
            .find(|problem| !problem.warning && !before.problems.contains(problem))
            .map(|problem| format!("{}: {}", problem.place(), problem.message));
        // A file that goes away takes no guard with it.
        let gone = (before.present && !fresh.present)
            .then(|| format!("{}: it went away", shown(&fresh.path.display().to_string())));
        let told = gone.clone().or(fault.clone());
        if let Some(why) = gone.or_else(|| fresh.unusable.clone()) {
            let readonly = readonly.or_else(|| self.readonly());
            let is_readonly = readonly.is_some();
            let kept = Loaded {
                problems: fresh.problems,
                ..Loaded::clone(&before)
            };
            self.follow_config(kept, readonly);
            let holds = if is_readonly {
                "the contexts stay, nothing is changed until it is mended"
            } else {
                "what held before holds on"
            };
            return Reloaded {
                contexts_changed: false,
                readonly: is_readonly,
                fault: told.map(|_| format!("{why}; {holds}")),
            };
        }
        if source.simulated.is_some() {
            let is_readonly = readonly.is_some();
            self.follow_config(fresh, readonly);
            return Reloaded {
                contexts_changed: false,
                readonly: is_readonly,
                fault,
            };
        }
        let before = self.fleet().members();
        let mut members = source.open(&fresh);
        if source.discover {
            keep_found(&mut members, &before, &fresh);
        }
        in_place(&mut members, &before);
        let is_readonly = readonly.is_some();
        // Guards first: no context is there before what protects it.
        self.follow_config(fresh, readonly);
        Reloaded {
            contexts_changed: self.fleet().arrange(members, reopen),
            readonly: is_readonly,
            fault,
        }
    }
}

/// What was found once stays until it is turned off: that its daemon is away now is for its own rows to say.
fn keep_found(members: &mut Vec<Member>, before: &[Arc<Member>], loaded: &Loaded) {
    for old in before.iter().filter(|old| !old.spec.configured) {
        let spec = &old.spec;
        let there = |new: &Member| {
            new.spec.name == spec.name
                || (new.spec.kind == spec.kind && new.spec.fields == spec.fields)
        };
        let named = loaded.contexts.iter().any(|entry| entry.name == spec.name);
        let wanted = loaded.settings.discover.wants(spec.kind.as_str());
        if wanted && !named && !members.iter().any(there) {
            members.push(Member {
                spec: spec.clone(),
                backend: Arc::clone(&old.backend),
            });
        }
    }
}

/// Configured contexts in the order of the file, then the found ones where they were: keys and eyes know them by
/// their number, and one that is found now must not take another's.
fn in_place(members: &mut [Member], before: &[Arc<Member>]) {
    members.sort_by_key(|member| {
        let spec = &member.spec;
        let was = before.iter().position(|old| old.spec.name == spec.name);
        if spec.configured {
            (false, 0)
        } else {
            (true, was.unwrap_or(usize::MAX))
        }
    });
}

impl Engine {
    /// The folder of the user's themes and keymaps, if there may be any.
    pub fn looks(&self) -> Option<&Path> {
        match self.source() {
            Some(source) => Some(source.looks()),
            None if self.is_in_memory() => None,
            None => Some(&self.env().dirs.config),
        }
    }

    /// The flag that a command in a shell needs to reach this fleet: a simulated one's, else nothing.
    pub fn flag(&self) -> &str {
        let flag = self.source().and_then(|source| source.simulated.as_deref());
        flag.unwrap_or("")
    }

    /// What an error says to do reaches this fleet.
    pub(super) fn in_shell(&self, mut error: Error) -> Error {
        error.message = grammar::reaching(self.flag(), &error.message);
        error.remedy = error
            .remedy
            .map(|remedy| grammar::reaching(self.flag(), &remedy));
        error
    }

    /// Every command that a plan shows reaches this fleet.
    pub(super) fn plan_in_shell(&self, plan: &mut Plan) {
        let flag = self.flag();
        if flag.is_empty() {
            return;
        }
        plan.command = grammar::reaching(flag, &plan.command);
        for target in &mut plan.targets {
            for refusal in &mut target.refusals {
                let remedy = refusal.remedy.take();
                refusal.remedy = remedy.map(|remedy| grammar::reaching(flag, &remedy));
            }
            for step in &mut target.steps {
                let undo = step.undo.take();
                step.undo = undo.map(|undo| grammar::reaching(flag, &undo));
            }
        }
    }
}

/// Follows the file, and what stands beside it for the view, for as long as it is listened to: what came of each change of it, by whomever.
pub fn follow(engine: Arc<Engine>) -> BoxStream<'static, Reloaded> {
    let path = engine.config().path.clone();
    let looks = engine.source().map(|source| source.looks().to_owned());
    let stamps = move |path: &Path| Stamp::all(path, looks.as_deref());
    let seen = stamps(&path);
    futures::stream::unfold(
        (engine, path, seen, stamps),
        async |(engine, path, mut seen, stamps)| {
            engine.source()?;
            loop {
                tokio::time::sleep(LOOK).await;
                let mut now = stamps(&path);
                if now == seen {
                    continue;
                }
                // An editor may be at work: a file that is gone or empty for a moment is not what was meant.
                loop {
                    tokio::time::sleep(LOOK / 2).await;
                    let later = stamps(&path);
                    if later == now {
                        break;
                    }
                    now = later;
                }
                seen = now;
                match engine.reload(&[]).await {
                    Ok(reloaded) => return Some((reloaded, (engine, path, seen, stamps))),
                    Err(error) => tracing::warn!(%error, "the configuration was not loaded again"),
                }
            }
        },
    )
    .boxed()
}

/// What changes when a file does. `None`: there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp(Option<[i128; 5]>);

impl Stamp {
    /// Of the file, and of every theme and keymap.
    fn all(path: &Path, looks: Option<&Path>) -> Vec<(PathBuf, Self)> {
        let folders = LOOKS.iter().filter_map(|kind| Some(looks?.join(kind)));
        let files = folders
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
        let mut files: Vec<PathBuf> = files.collect();
        files.sort();
        files.insert(0, path.to_owned());
        let stamps = files.iter().map(|path| Self::of(path)).collect::<Vec<_>>();
        files.into_iter().zip(stamps).collect()
    }

    fn of(path: &Path) -> Self {
        let moment =
            |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self(std::fs::metadata(path).ok().map(|facts| {
            [
                facts.dev().into(),
                facts.ino().into(),
                facts.size().into(),
                moment(facts.mtime(), facts.mtime_nsec()),
                // Who may write it counts too.
                moment(facts.ctime(), facts.ctime_nsec()),
            ]
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::contexts::Unopened;
    use crate::model::{ContextSpec, Kind};

    fn member(name: &str, configured: bool) -> Member {
        let mut spec = ContextSpec::new(name, Kind::read("k"));
        spec.configured = configured;
        spec.fields.insert("socket".to_owned(), name.into());
        let error = Error::unreachable("nobody");
        let backend = Arc::new(Unopened::new(spec.kind.clone(), error));
        Member { spec, backend }
    }

    fn names(members: &[Member]) -> Vec<&str> {
        members.iter().map(|m| m.spec.name.as_str()).collect()
    }

    #[test]
    fn a_context_that_is_found_shifts_no_other() {
        let now = [("z", true), ("a", true), ("new", false), ("local", false)];
        let mut members: Vec<Member> = now.into_iter().map(|(n, c)| member(n, c)).collect();
        let before = ["a", "local"].map(|name| Arc::new(member(name, false)));
        in_place(&mut members, &before);
        assert_eq!(names(&members), ["z", "a", "local", "new"]);
    }

    #[test]
    fn a_found_context_stays_while_it_is_away_and_goes_when_it_is_turned_off() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config.toml");
        let load = |text: &str| {
            std::fs::write(&file, text).unwrap();
            load(&LoadInput {
                dirs: &crate::model::Dirs::under(home.path()),
                file: Some(file.clone()),
                env: &BTreeMap::new(),
                flags: Vec::new(),
                kinds: &[("k", &[])],
            })
        };
        let before = [
            Arc::new(member("found", false)),
            Arc::new(member("was-configured", true)),
        ];
        let kept = |text: &str, now: Vec<Member>| {
            let mut members = now;
            keep_found(&mut members, &before, &load(text));
            members.len()
        };
        assert_eq!(kept("", Vec::new()), 1);
        assert_eq!(kept("discover = false", Vec::new()), 0);
        let off = "[[context]]\nname = \"found\"\nbackend = \"k\"\nenabled = false\n";
        assert_eq!(kept(off, Vec::new()), 0);
        let mut same = member("lab", true);
        same.spec.fields = before[0].spec.fields.clone();
        assert_eq!(kept("", vec![same]), 1, "configured under another name");
    }
}
