//! One command line against an engine.

use std::pin::Pin;
use std::sync::Arc;

use futures::StreamExt as _;
use jiff::Timestamp;
use tokio::io::AsyncWriteExt as _;

use super::signals::{Interrupts, Signal};
use super::{Terminal, batch, change, exit, note, out};
use crate::action::grammar::Invocation;
use crate::action::render::{self, Format, View};
use crate::action::{Engine, Run, reload};
use crate::model::{Body, Data, Error, Result, Scope};

/// Runs a parsed command line; the exit code.
pub async fn run(engine: &Arc<Engine>, invocation: &Invocation, terminal: &Terminal) -> u8 {
    let terminal = terminal.headless(invocation.globals.headless);
    match one(engine, invocation, &terminal).await {
        Ok(code) => code,
        Err(error) => {
            note(&render::failure(&error));
            error.exit_code()
        }
    }
}

/// `run` as a boxed future: batch lines run commands, and a batch is a command.
pub(super) fn boxed<'a>(
    engine: &'a Arc<Engine>,
    invocation: &'a Invocation,
    terminal: &'a Terminal,
) -> Pin<Box<dyn Future<Output = u8> + Send + 'a>> {
    Box::pin(run(engine, invocation, terminal))
}

async fn one(engine: &Arc<Engine>, invocation: &Invocation, terminal: &Terminal) -> Result<u8> {
    let Some(row) = invocation.row else {
        return Err(Error::invalid("there is no command").remedy("See corral --help"));
    };
    let mut view = View {
        format: Format::read(invocation.output.format.as_deref())?,
        output: invocation.output.clone(),
        width: terminal.width,
        colour: terminal.colour,
        stream: false,
    };
    let action = invocation.action.clone();
    if row.name == "screenshot" && action.args.text("to") == Some("-") && terminal.stdout {
        return Err(
            Error::refused("a picture is no text: a terminal cannot show its bytes")
                .remedy("Send it elsewhere: --to FILE, or corral screenshot … --to - > FILE"),
        );
    }
    match row.shape(&action) {
        Run::Read(_) => {
            let scope = action.scope.clone();
            let data = tokio::select! {
                data = engine.read(action) => data?,
                signal = interrupted() => return Ok(signal.exit_code()),
            };
            print(engine, data, &scope, &view)
        }
        Run::Follow(_) => {
            view.stream = true;
            follow(engine, invocation, &view).await
        }
        Run::Change(_) => change::change(engine, invocation, terminal, &view).await,
        Run::Open(_) => Ok(connect(engine, invocation, terminal).await),
        Run::Front if row.name == "batch" => batch::batch(engine, invocation, terminal).await,
        Run::Front => Err(Error::refused(format!(
            "corral {} needs the full-screen view",
            row.name
        ))
        .remedy("Run it on a terminal, without --headless")),
    }
}

async fn interrupted() -> Signal {
    match Interrupts::watch() {
        Ok(mut signals) => signals.next().await,
        // Without handlers the signals do what they do by default.
        Err(_) => std::future::pending().await,
    }
}

fn print(engine: &Arc<Engine>, mut data: Data, scope: &Scope, view: &View) -> Result<u8> {
    if let Body::Screenshots(taken) = &data.body
        && let Some(one) = taken.iter().find(|one| one.path.is_none())
    {
        super::out_bytes(&one.bytes);
        return Ok(exit::OK);
    }
    let fleet = engine.fleet().view();
    let kinds = |name: &str| fleet.context(name).map(|c| c.kind.to_string());
    let text = view.data(&mut data, &kinds, Timestamp::now())?;
    out(&text);
    for line in render::notes(&data, view) {
        note(&line);
    }
    remember(engine, &data);
    let answered = fleet.contexts.iter().any(|context| {
        scope.covers(&context.name, context.kind.as_str()) && context.health.is_ok()
    });
    Ok(exit::of_data(&data, answered))
}

/// Snapshot names, for completion.
fn remember(engine: &Arc<Engine>, data: &Data) {
    if engine.is_in_memory() {
        return;
    }
    let cache = &engine.env().dirs.cache;
    match &data.body {
        Body::Details(all) => {
            for detail in all {
                let names = detail.snapshots.iter().map(|s| s.name.as_str());
                super::complete::remember_snapshots(cache, &detail.instance.id.to_string(), names);
            }
        }
        Body::Snapshots(all) => {
            let mut ids: Vec<String> = all.iter().map(|s| s.instance.to_string()).collect();
            ids.dedup();
            for id in ids {
                let of = all.iter().filter(|s| s.instance.to_string() == id);
                super::complete::remember_snapshots(cache, &id, of.map(|s| s.name.as_str()));
            }
        }
        _ => {}
    }
}

async fn follow(engine: &Arc<Engine>, invocation: &Invocation, view: &View) -> Result<u8> {
    let mut answers = engine.follow(invocation.action.clone());
    let mut signals = Interrupts::watch()?;
    let mut changes = reload::follow(Arc::clone(engine)).fuse();
    let mut code = exit::OK;
    let mut first = true;
    loop {
        let data = tokio::select! {
            answer = answers.next() => match answer {
                Some(answer) => answer?,
                None => return Ok(code),
            },
            Some(change) = changes.next() => {
                if let Some(fault) = change.fault {
                    note(&format!("warning: {}", crate::model::shown(&fault)));
                }
                continue;
            }
            signal = signals.next() => return Ok(signal.exit_code()),
        };
        let apart = !matches!(data.body, Body::Log(_));
        if !first && apart && matches!(view.format, Format::Table | Format::Wide) {
            out("\n");
        }
        first = false;
        code = print(engine, data, &invocation.action.scope, view)?;
    }
}

/// Joins a live stream to standard input and output. corral's own failure is 255, so that it cannot be
/// taken for a status of the other end.
async fn connect(engine: &Arc<Engine>, invocation: &Invocation, terminal: &Terminal) -> u8 {
    let session = match engine.open(invocation.action.clone()).await {
        Ok(session) => session,
        Err(error) => {
            note(&render::failure(&error));
            return exit::OWN_FAILURE;
        }
    };
    if terminal.stdout {
        note(&format!(
            "{}: {}",
            session.id,
            crate::model::shown(&session.way)
        ));
    }
    let mut stream = session.stream;
    let send = async {
        let mut stdin = tokio::io::stdin();
        let sent = tokio::io::copy(&mut stdin, &mut stream.write).await;
        // The other end may still have something to say.
        let _ = stream.write.shutdown().await;
        if sent.is_err() {
            return;
        }
        std::future::pending::<()>().await;
    };
    let mut stdout = tokio::io::stdout();
    let receive = async {
        let received = tokio::io::copy(&mut stream.read, &mut stdout).await;
        let _ = stdout.flush().await;
        received
    };
    tokio::select! {
        received = receive => match received {
            Ok(_) => exit::OK,
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => exit::OK,
            Err(error) => {
                note(&format!("error: the connection to {} broke: {error}", session.id));
                exit::OWN_FAILURE
            }
        },
        () = send => exit::OWN_FAILURE,
        signal = interrupted() => signal.exit_code(),
    }
}
