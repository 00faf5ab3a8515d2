//! From the process's environment to a running front.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use corral::action::fleet_api::{Fleet, FleetOptions, Member};
use corral::action::reload::Source;
use corral::action::render;
use corral::action::{Engine, EngineParts, Globals, Invocation, Run, grammar};
use corral::backend::contract::{Asker, Env, NoAsker};
use corral::backend::demo;
use corral::cli::{self, Early, Terminal, exit, note};
use corral::model::{Dirs, Error, Prompt, PromptKind, Result, SecretText, shown};
use corral::tui::{self, Ended, TuiOptions};
use etcetera::BaseStrategy as _;
use secrecy::ExposeSecret as _;

/// Variables that backends may read, by prefix. Whatever else the environment holds stays out of their
/// reach, and so out of anything they print.
const VARIABLES: &[&str] = &[
    "CORRAL_",
    "DISPLAY",
    "EDITOR",
    "HOME",
    "INCUS_",
    "KUBE",
    "LANG",
    "LC_",
    "LIBVIRT_",
    "LOGNAME",
    "LXD_",
    "PATH",
    "QEMU_",
    "SSH_AUTH_SOCK",
    "TERM",
    "TMPDIR",
    "TMUX",
    "USER",
    "VBOX_",
    "VISUAL",
    "WAYLAND_DISPLAY",
    "XDG_",
];

/// How long the steps of running tasks may still take when corral is left.
const GRACE: Duration = Duration::from_secs(10);

/// The whole program.
pub(crate) fn main() -> ExitCode {
    ExitCode::from(match go() {
        Ok(code) => cli::settled(code),
        Err(error) => {
            note(&render::failure(&error));
            error.exit_code()
        }
    })
}

fn go() -> Result<u8> {
    let words = std::env::args_os()
        .skip(1)
        .map(|word| {
            word.into_string().map_err(|word| {
                Error::invalid(format!(
                    "{:?} is not UTF-8 text",
                    shown(&word.to_string_lossy())
                ))
            })
        })
        .collect::<Result<Vec<String>>>()?;
    let vars: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let dirs = dirs()?;
    let terminal = Terminal::look(&vars);
    let words = listing(words);
    let invocation = match cli::early(&words, &dirs) {
        Early::Done(code) => return Ok(code),
        Early::Go(invocation) => *invocation,
    };
    let full_screen = invocation.row.is_none_or(|row| row.name == "ui");
    if full_screen && (!terminal.is_screen() || invocation.globals.headless) {
        note(
            "corral: there is no terminal here for the full-screen view; corral list prints the fleet",
        );
        return Ok(exit::USAGE);
    }
    let _log = match vars.get("CORRAL_LOG").filter(|filter| !filter.is_empty()) {
        Some(filter) if invocation.globals.demo.is_none() => {
            let started = cli::logs::start(&dirs.state, filter);
            Some(started.map_err(|e| Error::invalid(format!("CORRAL_LOG: {e}")))?)
        }
        _ => None,
    };
    tracing::debug!(verb = invocation.action.verb, "start");
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|e| Error::backend("the runtime did not start").because(e))?;
    let code = runtime.block_on(front(invocation, vars, dirs, terminal, full_screen));
    // A read of standard input cannot be ended; it must not keep the process.
    runtime.shutdown_background();
    code
}

/// `corral --headless` without a verb is `corral --headless list`, with what that takes.
fn listing(words: Vec<String>) -> Vec<String> {
    let verbless = |words: &[String]| !grammar::parse(words).is_ok_and(|it| it.row.is_some());
    // A verb that is used wrongly is a verb, and no instance of that name.
    let is_verb = |word: &String| {
        let names = corral::action::rows().iter();
        let mut names = names.flat_map(|row| row.aliases.iter().chain([&row.name]));
        names.any(|name| name.split(' ').next() == Some(word))
    };
    if !words.iter().any(|word| word == "--headless")
        || !verbless(&words)
        || words.iter().any(is_verb)
    {
        return words;
    }
    let mut list = vec!["list".to_owned()];
    list.extend(words.iter().cloned());
    if verbless(&list) { words } else { list }
}

fn dirs() -> Result<Dirs> {
    let base = etcetera::base_strategy::Xdg::new().map_err(|e| {
        Error::invalid(format!("there is no home directory: {e}")).remedy("Set HOME")
    })?;
    let state = base
        .state_dir()
        .unwrap_or_else(|| base.home_dir().join(".local/state"));
    Ok(Dirs {
        config: base.config_dir().join("corral"),
        data: base.data_dir().join("corral"),
        state: state.join("corral"),
        cache: base.cache_dir().join("corral"),
    })
}

/// Folders that are not there and cannot be made: the simulated fleet writes nothing.
fn nowhere() -> Dirs {
    Dirs::under(std::path::Path::new("/proc/self/corral"))
}

fn environment(vars: &BTreeMap<String, String>, dirs: Dirs) -> Env {
    let path = vars.get("PATH").map_or("", String::as_str);
    let mut path: Vec<PathBuf> = std::env::split_paths(path).collect();
    // Helpers that came with corral are beside it, wherever that is.
    let own = std::env::current_exe().ok();
    path.extend(
        own.as_deref()
            .and_then(std::path::Path::parent)
            .map(PathBuf::from),
    );
    Env {
        dirs,
        path,
        vars: vars
            .iter()
            .filter(|(name, _)| VARIABLES.iter().any(|prefix| name.starts_with(prefix)))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        home: vars
            .get("HOME")
            .map_or_else(|| PathBuf::from("/"), PathBuf::from),
    }
}

async fn front(
    invocation: Invocation,
    vars: BTreeMap<String, String>,
    dirs: Dirs,
    terminal: Terminal,
    full_screen: bool,
) -> Result<u8> {
    let globals = &invocation.globals;
    let row = invocation.row;
    let follows = row.is_some_and(|row| matches!(row.shape(&invocation.action), Run::Follow(_)));
    let demo = globals.demo.is_some();
    let source = source(globals, &vars, &Arc::new(environment(&vars, dirs.clone())));
    let env = Arc::new(environment(&vars, if demo { nowhere() } else { dirs }));
    let mut loaded = source.read();
    if !demo && !full_screen && row.is_some_and(|row| !row.name.starts_with("config")) {
        for problem in &loaded.problems {
            note(&format!(
                "warning: {}: {}",
                shown(&problem.place()),
                shown(&problem.message)
            ));
        }
    }
    // Every line of a command would be one more about keys that it does not use.
    source.check_look(&mut loaded);
    let members = match &globals.demo {
        Some(options) => simulated(options)?,
        None => source.open(&loaded),
    };
    let fleet = Fleet::start(
        members,
        FleetOptions {
            cache: (!demo).then(|| env.dirs.cache.clone()),
            state: (!demo).then(|| env.dirs.state.clone()),
            // One command asks once what is in its scope; only what lives on keeps watching.
            watch: full_screen || follows,
            addresses: full_screen,
        },
    );
    let readonly = source.readonly(&loaded);
    let engine = Engine::new(EngineParts {
        fleet,
        env,
        config: loaded,
        readonly,
        in_memory: demo,
        source: Some(source),
    });
    if let (Some(error), false) = (engine.protection().fault(), full_screen) {
        note(&format!("warning: {error}"));
    }
    if full_screen {
        let options = TuiOptions {
            vars,
            demo,
            readonly: globals.readonly,
            words: invocation
                .action
                .targets
                .iter()
                .map(ToString::to_string)
                .collect(),
        };
        let ended = tui::run(Arc::clone(&engine), options).await;
        engine.shutdown(GRACE).await;
        return Ok(match ended? {
            Ended::Quit => 0,
            Ended::Signal(number) => u8::try_from(128 + number).unwrap_or(u8::MAX),
        });
    }
    engine.set_asker(if globals.headless {
        Arc::new(NoAsker)
    } else {
        Arc::new(TerminalAsker)
    });
    let code = cli::run(&engine, &invocation, &terminal).await;
    engine.fleet().shutdown().await;
    Ok(code)
}

/// A simulated fleet takes from the files how its view looks, and nothing else.
fn source(globals: &Globals, vars: &BTreeMap<String, String>, env: &Arc<Env>) -> Source {
    let source = Source::new(
        Arc::clone(env),
        vars.clone(),
        globals.config.as_ref().map(PathBuf::from),
        globals.readonly,
        !globals.no_discover,
    )
    .checking(tui::look::faults);
    match globals.demo.as_deref() {
        None => source,
        Some("") => source.simulated("--demo".to_owned()),
        Some(options) => source.simulated(format!("--demo={}", grammar::quote(options))),
    }
}

fn simulated(options: &str) -> Result<Vec<Member>> {
    let (size, knobs) = demo::parse(options)?;
    let open = |(spec, backend)| Member { spec, backend };
    Ok(demo::fleet(size, &knobs).into_iter().map(open).collect())
}

/// Asks on the terminal.
struct TerminalAsker;

#[async_trait]
impl Asker for TerminalAsker {
    async fn ask(&self, prompt: Prompt) -> Result<SecretText> {
        let context = prompt.context.clone();
        tokio::task::spawn_blocking(move || {
            let hidden = prompt.answer == PromptKind::Secret;
            let text = format!("{}: {}", prompt.context, prompt.question);
            let answer = cli::question(&text, &prompt.facts, hidden, &prompt.remedy)?;
            Ok(match prompt.answer {
                PromptKind::YesNo if cli::is_yes(answer.expose_secret()) => Prompt::YES.into(),
                PromptKind::YesNo => Prompt::NO.into(),
                PromptKind::Text | PromptKind::Secret => answer,
            })
        })
        .await
        .unwrap_or_else(|_| Err(Error::refused("the question was not answered")))
        .map_err(|error| error.in_context(&context))
    }
}
