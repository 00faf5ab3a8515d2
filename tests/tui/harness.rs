//! A view over the simulated fleet, without a terminal: effects are carried out at once.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use corral::action::{Engine, EngineParts};
use corral::backend::contract::Env;
use corral::backend::demo::{self, Demo, DemoSize, Knobs};
use corral::config::{self, LoadInput};
use corral::fleet::{Fleet, FleetOptions, Member};
use corral::model::{Action, Data, Dirs, Plan, Result, Scope, Task};
use corral::tui::app::App;
use corral::tui::glyphs::Glyphs;
use corral::tui::input::{Input, Key};
use corral::tui::msg::{At, Effect, Msg, Reply};
use corral::tui::{TuiOptions, setup, update, view};
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A view with its engine.
pub struct Bench {
    pub app: App,
    pub engine: Arc<Engine>,
    pub demos: Vec<Arc<Demo>>,
    /// What came back for every change that was planned.
    pub planned: Vec<Result<Plan>>,
    /// What came back for every question.
    pub answers: Vec<(Action, Result<Data>)>,
    /// Every effect so far.
    pub effects: Vec<Effect>,
    /// Effects on the terminal, and whatever is held back.
    pub held: Vec<Effect>,
    /// Effects are not carried out.
    pub hold: bool,
    ms: u64,
    home: Option<tempfile::TempDir>,
}

impl Bench {
    pub async fn new() -> Self {
        Self::sized(80, 24, Knobs::instant()).await
    }

    pub async fn sized(width: u16, height: u16, knobs: Knobs) -> Self {
        Self::with(width, height, knobs, None).await
    }

    /// With a configuration that can be changed; without one nothing is kept on disk.
    pub async fn with(width: u16, height: u16, knobs: Knobs, config: Option<&str>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dirs = Dirs::under(dir.path());
        if let Some(text) = config {
            std::fs::create_dir_all(&dirs.config).unwrap();
            std::fs::write(dirs.config.join("config.toml"), text).unwrap();
        }
        let mut demos = Vec::new();
        let mut members = Vec::new();
        for (spec, demo) in demo::members(DemoSize::Small, &knobs) {
            demos.push(Arc::clone(&demo));
            members.push(Member {
                spec,
                backend: demo,
            });
        }
        let fleet = Fleet::start(members, FleetOptions::default());
        let engine = engine(fleet, &dirs, config.is_none());
        let mut bench = Self::over(engine, width, height);
        bench.demos = demos;
        bench.home = Some(dir);
        bench.look().await;
        bench
    }

    /// Over an engine that is there.
    pub fn over(engine: Arc<Engine>, width: u16, height: u16) -> Self {
        let mut told = Vec::new();
        let mut setup = setup(&engine, &options(), (width, height), &mut told);
        setup.glyphs = Glyphs::Unicode;
        let at = At {
            ms: 0,
            wall: Timestamp::now(),
        };
        assert!(told.is_empty(), "{told:?}");
        Self {
            app: App::new(setup, at),
            engine,
            demos: Vec::new(),
            planned: Vec::new(),
            answers: Vec::new(),
            effects: Vec::new(),
            held: Vec::new(),
            hold: false,
            ms: 0,
            home: None,
        }
    }

    pub fn at(&self) -> At {
        At {
            ms: self.ms,
            wall: Timestamp::now(),
        }
    }

    /// Takes the fleet and the tasks in as they are.
    pub async fn look(&mut self) {
        let view = self.engine.fleet().settle(&Scope::default()).await;
        let pending = self.engine.fleet().pending();
        self.msg(Msg::Fleet(view, pending)).await;
        let beside = corral::tui::app::Beside::of(&self.engine);
        self.msg(Msg::Contexts(beside)).await;
        let tasks = self.engine.tasks().borrow().clone();
        self.msg(Msg::Tasks(tasks)).await;
        let others = self.engine.board().others();
        self.msg(Msg::OtherTasks(Arc::new(others))).await;
    }

    /// A message, with all that comes of it.
    pub async fn msg(&mut self, msg: Msg) {
        let mut queue = VecDeque::from([msg]);
        while let Some(msg) = queue.pop_front() {
            let at = self.at();
            for effect in update::update(&mut self.app, at, msg) {
                self.effects.push(effect.clone());
                if self.hold {
                    self.held.push(effect);
                } else if let Some((number, reply)) = self.carry_out(effect).await {
                    queue.push_back(Msg::Reply(number, reply));
                }
            }
        }
    }

    async fn carry_out(&mut self, effect: Effect) -> Option<(u64, Reply)> {
        match effect {
            Effect::Plan(n, action) => {
                let plan = self.engine.plan(&action).await;
                self.planned.push(plan.clone());
                Some((n, Reply::Planned(plan.map(Box::new))))
            }
            Effect::Submit(n, plan, consent, options) => {
                let task = self.engine.submit(&plan, &consent, &options).await;
                Some((n, Reply::Submitted(task.map(|handle| handle.id.clone()))))
            }
            Effect::KeepText(n, argument, text) => {
                let file = corral::action::by_hand::typed(&self.engine, argument, &text.0);
                Some((n, Reply::Kept(file.map(|file| (text.0, file)))))
            }
            Effect::ForgetText(file) => {
                corral::action::by_hand::typed_in_vain(&self.engine, &file);
                None
            }
            Effect::Read(n, action) | Effect::ReadInParts(n, action) => {
                let data = self.engine.read(action.clone()).await;
                self.answers.push((action, data.clone()));
                Some((n, Reply::Read(data.map(Box::new))))
            }
            Effect::Samples(n, id) => Some((n, Reply::Samples(self.engine.fleet().samples(&id)))),
            Effect::Support(n, ids) => {
                let id = ids.first()?;
                let all = corral::model::Operation::ALL;
                let cells = all.map(|o| (o, self.engine.support(o, id)));
                Some((n, Reply::Support(cells.to_vec())))
            }
            other => {
                self.held.push(other);
                None
            }
        }
    }

    /// Time goes by, and what was decided is drawn.
    pub async fn pass(&mut self, ms: u64) {
        self.msg(Msg::Drawn).await;
        self.ms += ms;
        self.msg(Msg::Tick).await;
    }

    /// One key.
    pub async fn key(&mut self, key: Key) {
        self.ms += 20;
        self.msg(Msg::Input(Input::Key(key))).await;
    }

    /// Keys as a keymap prints them, separated by spaces.
    pub async fn press(&mut self, keys: &str) {
        for key in keys.split(' ') {
            let key = Key::parse(key).unwrap_or_else(|| panic!("{key:?} is no key"));
            self.key(key).await;
        }
    }

    /// A text, character by character.
    pub async fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.key(Key::char(c)).await;
        }
    }

    /// A line of the command line.
    pub async fn command(&mut self, line: &str) {
        self.press(":").await;
        self.type_text(line).await;
        self.press("Enter").await;
    }

    /// Waits for every task to end and takes the result in.
    pub async fn settle(&mut self) -> Vec<Task> {
        self.engine.board().idle().await;
        self.look().await;
        self.engine.board().all()
    }

    /// Puts the cursor on an instance.
    pub async fn select(&mut self, id: &str) {
        let id = id.parse().unwrap();
        assert!(self.app.inventory.go_to(&id), "{id} is not shown");
        self.msg(Msg::Tick).await;
    }

    /// Native calls of changes that any context has seen.
    pub fn native(&self) -> Vec<String> {
        let calls = self.demos.iter().map(|demo| demo.calls().native);
        calls.flatten().collect()
    }

    /// The screen.
    pub fn screen(&self) -> String {
        screen(&self.app)
    }

    /// The state of an instance, by its backend's own word.
    pub async fn state(&self, id: &str) -> corral::model::State {
        let action = corral::model::Action::new("info").on(id.parse().unwrap());
        match self.engine.read(action).await.unwrap().body {
            corral::model::Body::Details(details) => details[0].instance.state,
            other => panic!("{other:?}"),
        }
    }
}

/// Draws a frame.
pub fn draw(app: &App) -> Buffer {
    let (width, height) = app.setup.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    view::view(app, &mut buffer);
    buffer
}

/// The lines of a frame, without colour.
pub fn screen(app: &App) -> String {
    lines(&draw(app)).join("\n")
}

/// The lines of a buffer; the second half of a wide character is no cell of its own.
pub fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    (area.top()..area.bottom())
        .map(|y| {
            let mut line = String::new();
            let mut x = area.left();
            while x < area.right() {
                let symbol = buffer[(x, y)].symbol();
                line.push_str(symbol);
                x += (corral::model::shown_width(symbol) as u16).max(1);
            }
            line.trim_end().to_owned()
        })
        .collect()
}

/// What a plain terminal gives.
pub fn options() -> TuiOptions {
    TuiOptions {
        vars: [("TERM", "xterm"), ("LANG", "C.UTF-8")]
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect(),
        ..TuiOptions::default()
    }
}

fn engine(fleet: Arc<Fleet>, dirs: &Dirs, in_memory: bool) -> Arc<Engine> {
    let loaded = config::load(&LoadInput {
        dirs,
        file: None,
        env: &std::collections::BTreeMap::new(),
        flags: Vec::new(),
        kinds: &corral::action::contexts::config_kinds(),
    });
    let env = Env {
        dirs: dirs.clone(),
        path: Vec::new(),
        vars: std::collections::BTreeMap::new(),
        home: Path::new("/nonexistent").to_owned(),
    };
    Engine::new(EngineParts {
        fleet,
        env: Arc::new(env),
        config: loaded,
        readonly: None,
        in_memory,
        source: None,
    })
}
