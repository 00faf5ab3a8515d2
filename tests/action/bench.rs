//! An engine over a simulated fleet, for each test anew.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use corral::action::grammar::{self, ParseFailure, RunOptions};
use corral::action::{Engine, EngineParts};
use corral::backend::contract::Env;
use corral::backend::demo::{self, Demo, DemoSize, Knobs};
use corral::config::{self, LoadInput};
use corral::fleet::{Fleet, FleetOptions, Member};
use corral::model::{
    Action, Body, Consent, Data, Dirs, Error, Gate, InstanceId, Plan, Result, State, Task,
};

/// Everything a test holds.
pub struct Bench {
    pub engine: Arc<Engine>,
    pub demos: Vec<Arc<Demo>>,
    pub dir: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(Knobs::instant(), None, false)
    }

    pub fn with(knobs: Knobs, readonly: Option<&str>, on_disk: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut demos = Vec::new();
        let mut members = Vec::new();
        for (spec, demo) in demo::members(DemoSize::Small, &knobs) {
            demos.push(Arc::clone(&demo));
            members.push(Member {
                spec,
                backend: demo,
            });
        }
        let dirs = Dirs::under(dir.path());
        let fleet = Fleet::start(members, FleetOptions::default());
        let engine = engine(fleet, &dirs, readonly, on_disk);
        Self { engine, demos, dir }
    }

    pub async fn plan(&self, line: &str) -> Result<Plan> {
        self.engine.plan(&action(line)).await
    }

    /// Plans and runs with the given answer; the ended task.
    pub async fn run(&self, line: &str, consent: Consent) -> Result<Task> {
        let plan = self.plan(line).await?;
        let mut handle = self.engine.submit(&plan, &consent, &options(line)).await?;
        Ok(handle.finished().await)
    }

    /// Runs with whatever the gate wants.
    pub async fn force(&self, line: &str) -> Result<Task> {
        let plan = self.plan(line).await?;
        self.run(line, answer(&plan)).await
    }

    pub async fn read(&self, line: &str) -> Result<Data> {
        self.engine.read(action(line)).await
    }

    pub async fn state(&self, id: &str) -> State {
        match self.read(&format!("info {id}")).await.unwrap().body {
            Body::Details(details) => details[0].instance.state,
            other => panic!("{other:?}"),
        }
    }

    pub fn demo(&self, id: &str) -> &Demo {
        let id: InstanceId = id.parse().unwrap();
        let at = self
            .engine
            .fleet()
            .members()
            .iter()
            .position(|m| m.spec.name == id.context())
            .unwrap();
        &self.demos[at]
    }

    /// Native calls of changes that any context has seen.
    pub fn native(&self) -> Vec<String> {
        self.demos
            .iter()
            .flat_map(|demo| demo.calls().native)
            .collect()
    }
}

pub fn engine(
    fleet: Arc<Fleet>,
    dirs: &Dirs,
    readonly: Option<&str>,
    on_disk: bool,
) -> Arc<Engine> {
    let env = BTreeMap::new();
    let config = config::load(&LoadInput {
        dirs,
        file: None,
        env: &env,
        flags: Vec::new(),
        kinds: &[],
    });
    Engine::new(EngineParts {
        fleet,
        env: Arc::new(Env {
            dirs: dirs.clone(),
            path: Vec::new(),
            vars: env,
            home: Path::new("/nonexistent").to_owned(),
        }),
        config,
        readonly: readonly.map(|why| corral::model::Refusal::new(why, None)),
        in_memory: !on_disk,
        source: None,
    })
}

fn invocation(line: &str) -> corral::action::Invocation {
    match grammar::parse(&grammar::tokenize(line).unwrap()) {
        Ok(invocation) => invocation,
        Err(ParseFailure::Bad(error)) => panic!("{line}: {error}"),
        Err(ParseFailure::Show(text)) => panic!("{line}: {text}"),
    }
}

pub fn action(line: &str) -> Action {
    invocation(line).action
}

pub fn options(line: &str) -> RunOptions {
    invocation(line).run
}

pub fn answer(plan: &Plan) -> Consent {
    match &plan.gate {
        Gate::Free => Consent::default(),
        Gate::Confirm => yes(),
        Gate::Type { text } => typed(text),
    }
}

pub fn yes() -> Consent {
    Consent {
        yes: true,
        typed: None,
    }
}

pub fn typed(text: &str) -> Consent {
    Consent {
        yes: false,
        typed: Some(text.to_owned()),
    }
}

pub fn error<T: std::fmt::Debug>(result: Result<T>) -> Error {
    result.unwrap_err()
}
