//! The one loop that owns the terminal.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::TuiOptions;
use super::app::{App, Beside, Overlay};
use super::background::Answer;
use super::dialog::Guard;
use super::effects::Runner;
use super::events::{self, Events};
use super::input::{self, Input};
use super::look::{self, Look};
use super::msg::{At, Effect, Msg, Reply};
use super::terminal::Terminal;
use super::{update, view};
use crate::action::by_hand::{self, Opened};
use crate::action::questions::{Asked, Questions};
use crate::action::{Engine, contexts, reload, task_files};
use crate::model::{Error, FleetView, InstanceId, Result};

/// At most 60 frames a second.
const FRAME: Duration = Duration::from_millis(16);
/// A busy fleet changes more often than anybody reads: it is looked at ten times a second.
const LOOK: Duration = Duration::from_millis(100);
/// Ages on the screen go by ten seconds.
const AGES: Duration = Duration::from_secs(10);
/// Answers on their way to the loop: more than that wait at their sender, which has nothing else to do.
const REPLIES: usize = 256;

/// How the view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user left.
    Quit,
    /// This signal ended it.
    Signal(i32),
}

struct Signals {
    term: Signal,
    hangup: Signal,
    interrupt: Signal,
    stop: Signal,
    cont: Signal,
}

/// What it means that the terminal is gone.
const HANGUP: i32 = rustix::process::Signal::HUP.as_raw();
/// SIGTSTP, where the platform has no name for it in tokio.
const STOP: i32 = rustix::process::Signal::TSTP.as_raw();
const CONT: i32 = rustix::process::Signal::CONT.as_raw();

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            stop: signal(SignalKind::from_raw(STOP))?,
            cont: signal(SignalKind::from_raw(CONT))?,
        })
    }

    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.term.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.hangup.recv() => SignalKind::hangup().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.stop.recv() => STOP,
            _ = self.cont.recv() => CONT,
        }
    }
}

/// Runs until the user leaves or a signal ends it.
pub(super) async fn run(
    engine: Arc<Engine>,
    mut app: App,
    first: Vec<Msg>,
    options: TuiOptions,
) -> Result<Ended> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| Error::backend(format!("{what}: {error}"))
    };
    let asks = options.asks_background();
    let mut signals = Signals::new().map_err(failed("signals cannot be handled"))?;
    let begun = Instant::now();
    let now = || At {
        ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        wall: Timestamp::now(),
    };
    let (sender, mut replies) = mpsc::channel(REPLIES);
    let mut fleet = engine.fleet().subscribe();
    let mut tasks = engine.tasks();
    let mut seen = Seen::default();
    let mut queue: Vec<Msg> = first;
    queue.extend(look_at(&engine, &mut seen));
    queue.push(Msg::Tasks(tasks.borrow_and_update().clone()));
    // Words of the command line say where to begin.
    if options.words.is_empty() {
        let cut = engine.ui().take_cut();
        queue.extend(cut.map(|cut| Msg::Returned(Box::new(cut))));
    }
    let finder = Arc::clone(&engine);
    let (asker, mut asked) = Questions::new();
    engine.set_asker(Arc::clone(&asker) as Arc<_>);
    let mut runner = Runner::new(Arc::clone(&engine), sender.clone(), asker);
    let questions = sender.clone();
    tokio::spawn(async move {
        while let Some(asked) = asked.recv().await {
            let msg = match asked {
                Asked::Put(number, prompt) => Msg::Question(number, prompt),
                Asked::Withdrawn(number) => Msg::Withdrawn(number),
            };
            if questions.send(msg).await.is_err() {
                break;
            }
        }
    });
    let news = sender.clone();
    let mut changes = reload::follow(Arc::clone(&engine));
    let reloaded = Arc::clone(&engine);
    let files = Some((app.setup.keymap.clone(), app.setup.themes.clone()));
    // Ends with the view: nobody takes its messages then.
    tokio::spawn(async move {
        let mut ui = reloaded.config().settings.ui.clone();
        let mut files = files;
        let mut faults = reloaded.config().problems.clone();
        while let Some(new) = changes.next().await {
            let beside = Msg::Contexts(Beside::of(&reloaded));
            let said = new.fault.clone();
            let mut news_of_it = vec![Msg::Config(new.readonly, new.fault), beside];
            let now = reloaded.config().settings.ui.clone();
            let kept = reloaded.ui().load().0.theme;
            let look = Look::new(&reloaded, &options, kept.as_deref(), &mut Vec::new());
            let new_files = (look.keymap.clone(), look.themes.clone());
            // What was chosen in the view stays until the file says something else.
            if now != ui {
                news_of_it.push(Msg::Look(Box::new(look)));
            } else if files.as_ref().is_none_or(|files| *files != new_files) {
                news_of_it.push(Msg::Look(Box::new(look.same_settings())));
            }
            (ui, files) = (now, Some(new_files));
            // All that is wrong since can be read where notices are kept; the first was told above.
            let config = reloaded.config();
            let fresh = config
                .problems
                .iter()
                .filter(|fault| !faults.contains(fault));
            let told = fresh
                .map(look::told)
                .filter(|text| said.as_ref() != Some(text));
            news_of_it.extend(told.map(|text| Msg::Notice(text, true)));
            faults.clone_from(&config.problems);
            for told in news_of_it {
                if news.send(told).await.is_err() {
                    return;
                }
            }
        }
    });
    let news = sender.clone();
    let mut others = task_files::follow_others(Arc::clone(&engine));
    tokio::spawn(async move {
        while let Some(tasks) = others.next().await {
            if news.send(Msg::OtherTasks(tasks)).await.is_err() {
                break;
            }
        }
    });
    tokio::spawn(async move {
        let teller = Arc::clone(&finder);
        let told = tokio::task::spawn_blocking(move || {
            by_hand::tidy(&teller);
            left(&teller)
        });
        if let Ok(Some(notice)) = told.await {
            let _ = sender.send(Msg::Notice(notice, true)).await;
        }
        let found = tokio::task::spawn_blocking(move || contexts::absent(&finder));
        if let Ok(absent) = found.await {
            let _ = sender.send(Msg::Absent(absent)).await;
        }
    });
    let mut terminal = Terminal::take(app.mouse).map_err(failed("the terminal cannot be used"))?;
    let mut events = Events::begin();
    let mut gone = events::hung_up();
    let mut background = Answer::default();
    let mut drawn: Option<Instant> = None;
    let mut dirty = true;
    let mut looked = Instant::now();
    let mut edited: Vec<Msg> = Vec::new();
    loop {
        for msg in queue.drain(..) {
            dirty = true;
            for effect in update::update(&mut app, now(), msg) {
                if let Effect::Edit(request, opened) = effect {
                    // It reads what is typed as long as it is there.
                    drop(events);
                    let ended = by_editor(&engine, &mut terminal, &opened);
                    events = Events::begin();
                    // A Ctrl-C in the editor was the editor's.
                    signals = Signals::new().map_err(failed("signals cannot be handled"))?;
                    edited.push(Msg::Reply(request, Reply::Edited(opened, ended)));
                    continue;
                }
                if let Some(ended) = own(&mut terminal, &mut runner, effect) {
                    return Ok(ended);
                }
            }
        }
        if !edited.is_empty() {
            let size = Terminal::size();
            queue.push(Msg::Input(Input::Resize(size.0, size.1)));
            queue.append(&mut edited);
            continue;
        }
        let due = drawn.map_or(Duration::ZERO, |at| FRAME.saturating_sub(at.elapsed()));
        if dirty && due.is_zero() {
            draw(&mut terminal, &app).map_err(failed("the terminal went away"))?;
            // After the first frame, which waits for nobody.
            if drawn.is_none() && asks && app.setup.usual {
                let _ = Terminal::ask_background();
                background.asked(Instant::now());
            }
            drawn = Some(Instant::now());
            dirty = false;
            update::update(&mut app, now(), Msg::Drawn);
            continue;
        }
        let held = background.late(Instant::now()).into_iter();
        queue.extend(held.flat_map(input::read).map(Msg::Input));
        if !queue.is_empty() {
            continue;
        }
        let pause = if dirty { due } else { next_tick(&app) };
        let waits = background.due(Instant::now());
        let in_time = pause.min(waits.unwrap_or(pause));
        let look_in = LOOK.saturating_sub(looked.elapsed());
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                STOP => {
                    suspend(&mut terminal);
                    dirty = true;
                }
                CONT => {
                    terminal.continued();
                    dirty = true;
                }
                other => return Ok(cut(&engine, &app, other)),
            },
            _ = &mut gone => return Ok(cut(&engine, &app, HANGUP)),
            event = events.next() => match event {
                Some(Ok(event)) => {
                    let (events, light) = background.take(event, Instant::now());
                    queue.extend(events.into_iter().flat_map(input::read).map(Msg::Input));
                    queue.extend(light.map(Msg::Background));
                }
                Some(Err(_)) | None => return Ok(cut(&engine, &app, HANGUP)),
            },
            Some(msg) = replies.recv() => queue.push(msg),
            Ok(()) = async {
                tokio::time::sleep(look_in).await;
                fleet.changed().await
            } => {
                looked = Instant::now();
                queue.extend(look_at(&engine, &mut seen));
            }
            Ok(()) = tasks.changed() => queue.push(Msg::Tasks(tasks.borrow_and_update().clone())),
            () = tokio::time::sleep(in_time) => {
                if !dirty && in_time == pause {
                    queue.push(Msg::Tick);
                }
            }
        }
    }
}

/// Ended by a signal that nobody in front of it gave: the next view begins where this one was.
fn cut(engine: &Engine, app: &App, signal: i32) -> Ended {
    engine.ui().cut(&super::cut::of(app));
    Ended::Signal(signal)
}

/// What was interrupted since the view was last open.
fn left(engine: &Engine) -> Option<String> {
    let tasks = engine.board().interrupted(engine.ui().opened());
    let last = tasks.last()?;
    let command = &last.command;
    Some(match tasks.len() {
        1 => format!("interrupted the last time: {command} · g y shows what was done"),
        n => format!("{n} tasks were interrupted, the last is: {command} · g y shows them"),
    })
}

/// What the view was last told.
#[derive(Default)]
struct Seen {
    fleet: Arc<FleetView>,
    pending: Arc<HashMap<InstanceId, String>>,
    beside: Beside,
}

/// The fleet and the contexts that are not of it, if they are not as they were.
fn look_at(engine: &Engine, seen: &mut Seen) -> Vec<Msg> {
    let (view, pending) = (engine.fleet().view(), engine.fleet().pending());
    if view.generation == seen.fleet.generation && pending == seen.pending {
        return Vec::new();
    }
    seen.fleet = Arc::clone(&view);
    seen.pending = Arc::clone(&pending);
    let mut news = vec![Msg::Fleet(view, pending)];
    let beside = Beside::of(engine);
    if beside != seen.beside {
        seen.beside.clone_from(&beside);
        news.push(Msg::Contexts(beside));
    }
    news
}

fn draw(terminal: &mut Terminal, app: &App) -> std::io::Result<()> {
    let (width, height) = app.setup.size;
    let mut next = Buffer::empty(Rect::new(0, 0, width, height));
    let cursor = view::view(app, &mut next);
    terminal.show(next, cursor)
}

/// When something shown changes by itself.
fn next_tick(app: &App) -> Duration {
    let guard = app.overlays.last().and_then(Overlay::guard);
    let opens = guard.and_then(Guard::opens_at);
    match opens.and_then(|at| at.checked_sub(app.ms)) {
        Some(left) if left > 0 => Duration::from_millis(left),
        _ => AGES,
    }
}

/// Effects on the terminal itself; how the view ends, if it does.
fn own(terminal: &mut Terminal, runner: &mut Runner, effect: Effect) -> Option<Ended> {
    match runner.begin(effect)? {
        Effect::Quit => return Some(Ended::Quit),
        Effect::Repaint => terminal.repaint(),
        Effect::Suspend => suspend(terminal),
        Effect::Mouse(on) => {
            let _ = terminal.set_mouse(on);
        }
        Effect::Present(presence, manners) => {
            let _ = terminal.present(presence, manners);
        }
        Effect::Ring(text, how) => {
            let _ = Terminal::ring(&text, how);
        }
        Effect::Copy(text) => {
            let _ = Terminal::copy(&text);
        }
        _ => {}
    }
    None
}

/// Gives the terminal to the editor and takes it back when that has ended.
fn by_editor(engine: &Engine, terminal: &mut Terminal, opened: &Opened) -> Result<()> {
    let editor = opened.editor(engine)?;
    Terminal::leave();
    let ended = tokio::task::block_in_place(|| by_hand::run(&editor));
    let _ = terminal.enter_again();
    ended
}

/// Gives the terminal back and stops this job, as Ctrl-Z does everywhere; goes on after `fg`.
fn suspend(terminal: &mut Terminal) {
    Terminal::leave();
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::STOP);
    let _ = terminal.enter_again();
}
