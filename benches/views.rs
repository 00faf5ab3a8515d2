//! What the full-screen view does between a key and a frame, with the large simulated fleet at 200×60.
//!
//! `cargo bench --bench views`; `make bench` puts the figures beside their budgets.

#![allow(clippy::expect_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use corral::action::{Engine, EngineParts};
use corral::backend::contract::Env;
use corral::backend::demo::{self, DemoSize, Knobs};
use corral::config::{self, LoadInput};
use corral::fleet::{Fleet, FleetOptions, Member};
use corral::model::{Action, Dirs, Scope, Selector};
use corral::tui::app::App;
use corral::tui::glyphs::Glyphs;
use corral::tui::input::{Input, Key};
use corral::tui::msg::{At, Msg};
use corral::tui::{TuiOptions, setup, update, view};
use criterion::{BatchSize, Criterion};
use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const SIZE: (u16, u16) = (200, 60);

fn members(knobs: &Knobs) -> Vec<Member> {
    demo::members(DemoSize::Large, knobs)
        .into_iter()
        .map(|(spec, backend)| Member { spec, backend })
        .collect()
}

/// Every context out of reach.
fn dead() -> Knobs {
    let knobs = Knobs::instant();
    let names = demo::members(DemoSize::Large, &knobs);
    Knobs {
        down: names.into_iter().map(|(spec, _)| spec.name).collect(),
        ..knobs
    }
}

fn options(dirs: &Dirs) -> FleetOptions {
    FleetOptions {
        cache: Some(dirs.cache.clone()),
        ..FleetOptions::default()
    }
}

fn engine(fleet: Arc<Fleet>, dirs: &Dirs) -> Arc<Engine> {
    let env = Arc::new(Env {
        dirs: dirs.clone(),
        path: Vec::new(),
        vars: std::collections::BTreeMap::new(),
        home: dirs.data.clone(),
    });
    let config = config::load(&LoadInput {
        dirs,
        file: None,
        env: &std::collections::BTreeMap::new(),
        flags: Vec::new(),
        kinds: &[],
    });
    Engine::new(EngineParts {
        fleet,
        env,
        config,
        readonly: None,
        in_memory: true,
        source: None,
    })
}

fn at(ms: u64) -> At {
    At {
        ms,
        wall: Timestamp::now(),
    }
}

/// A view of what the fleet shows now.
fn app(fleet: Arc<Fleet>, dirs: &Dirs) -> App {
    let shown = fleet.view();
    let engine = engine(fleet, dirs);
    let mut told = Vec::new();
    let mut setup = setup(&engine, &TuiOptions::default(), SIZE, &mut told);
    setup.glyphs = Glyphs::Unicode;
    let mut app = App::new(setup, at(0));
    let msg = Msg::Fleet(shown, Arc::default());
    update::update(&mut app, at(0), msg);
    app
}

fn frame(app: &App) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1));
    view::view(app, &mut buffer);
    buffer
}

fn press(app: &mut App, key: &str) {
    let key = Key::parse(key).expect("a key");
    update::update(app, at(20), Msg::Input(Input::Key(key)));
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _inside = runtime.enter();
    let dir = tempfile::tempdir().expect("a folder");
    let dirs = Dirs::under(dir.path());
    let fleet = Fleet::start(members(&Knobs::instant()), options(&dirs));
    runtime.block_on(async {
        fleet.settle(&Scope::default()).await;
        fleet.shutdown().await;
    });
    let count = fleet.view().instances.len();
    assert!(count >= 10_000, "only {count} instances");
    let shown = app(Arc::clone(&fleet), &dirs);

    let mut bench = Criterion::default()
        .sample_size(30)
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    bench.bench_function("frame", |b| b.iter(|| black_box(frame(&shown))));
    bench.bench_function("filter keystroke and frame", |b| {
        b.iter_batched_ref(
            || {
                let mut app = shown.clone();
                press(&mut app, "/");
                app
            },
            |app| {
                press(app, "w");
                black_box(frame(app))
            },
            BatchSize::LargeInput,
        );
    });
    bench.bench_function("sort and frame", |b| {
        b.iter_batched_ref(
            || {
                let mut app = shown.clone();
                press(&mut app, "o");
                app
            },
            |app| {
                press(app, "m");
                black_box(frame(app))
            },
            BatchSize::LargeInput,
        );
    });
    bench.bench_function("sort by address and frame", |b| {
        b.iter_batched_ref(
            || {
                let mut app = shown.clone();
                press(&mut app, "o");
                app
            },
            |app| {
                press(app, "a");
                black_box(frame(app))
            },
            BatchSize::LargeInput,
        );
    });
    bench.bench_function("value of a filter offered and frame", |b| {
        b.iter_batched_ref(
            || {
                let mut app = shown.clone();
                for key in ["/", "n", "a", "m", "e"] {
                    press(&mut app, key);
                }
                app
            },
            |app| {
                press(app, ":");
                black_box(frame(app))
            },
            BatchSize::LargeInput,
        );
    });
    let mut tree = shown.clone();
    press(&mut tree, "t");
    press(&mut tree, "*");
    bench.bench_function("frame of a tree, all marked", |b| {
        b.iter(|| black_box(frame(&tree)));
    });
    bench.bench_function("filter keystroke in a tree and frame", |b| {
        b.iter_batched_ref(
            || {
                let mut app = tree.clone();
                press(&mut app, "/");
                app
            },
            |app| {
                press(app, "w");
                black_box(frame(app))
            },
            BatchSize::LargeInput,
        );
    });
    bench.bench_function("changed fleet taken in", |b| {
        let view = fleet.view();
        b.iter_batched_ref(
            || (shown.clone(), Arc::new((*view).clone())),
            |(app, view)| {
                let msg = Msg::Fleet(Arc::clone(view), Arc::default());
                update::update(app, at(40), msg);
                black_box(frame(app))
            },
            BatchSize::LargeInput,
        );
    });
    let planner = engine(Arc::clone(&fleet), &dirs);
    let rows = &fleet.view().instances;
    let stop = rows.iter().fold(Action::new("stop"), |action, row| {
        action.on(Selector::id(&row.id))
    });
    bench.bench_function("plan to stop all, named one by one", |b| {
        b.iter(|| {
            let plan = runtime.block_on(planner.plan(&stop)).expect("a plan");
            assert_eq!(plan.targets.len(), count);
        });
    });
    let knobs = dead();
    bench.bench_function("caches read and first frame, all contexts dead", |b| {
        b.iter_batched(
            || members(&knobs),
            |members| {
                let fleet = Fleet::start(members, options(&dirs));
                assert_eq!(fleet.view().instances.len(), count);
                let app = app(Arc::clone(&fleet), &dirs);
                let frame = frame(&app);
                // Given back, so that taking it all apart is not measured.
                (fleet, app, frame)
            },
            BatchSize::PerIteration,
        );
    });
    bench.final_summary();
}
