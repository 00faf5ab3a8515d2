//! A view that is open while the suite changes things under it: it sees what happens, and lives.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corral::backend::contract::Backend;
use corral::fleet::{Fleet, FleetOptions, Member};
use corral::model::{ContextSpec, Scope};

use crate::bench::Bench;
use crate::tmux::{Pane, is_there};

/// A fleet that watches the same backend as a full-screen view does.
pub struct View {
    fleet: Arc<Fleet>,
}

impl View {
    pub fn open(spec: &ContextSpec, backend: Arc<dyn Backend>) -> Self {
        let member = Member {
            spec: spec.clone(),
            backend,
        };
        let options = FleetOptions {
            watch: true,
            addresses: true,
            ..FleetOptions::default()
        };
        Self {
            fleet: Fleet::start(vec![member], options),
        }
    }

    /// By itself it comes to show what the backend says.
    pub async fn agrees(&self, bench: &Bench) {
        self.fleet.settle(&Scope::default()).await;
        for _ in 0..200 {
            let there = bench.backend.inventory(&bench.cx()).await.unwrap();
            let mut there: Vec<_> = there
                .instances
                .iter()
                .map(|row| (row.id.to_string(), row.state))
                .collect();
            let view = self.fleet.view();
            let mut here: Vec<_> = view
                .instances
                .iter()
                .map(|row| (row.id.to_string(), row.state))
                .collect();
            there.sort();
            here.sort();
            if there == here {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the view of {} never agreed", bench.context);
    }
}

/// The program itself on a terminal.
pub struct Terminal {
    pane: Arc<Pane>,
    done: Arc<AtomicBool>,
    screens: Arc<Mutex<Vec<String>>>,
    watcher: Option<std::thread::JoinHandle<()>>,
}

impl Terminal {
    /// In this home; `None` where there is no tmux.
    pub fn open(home: &Path) -> Option<Self> {
        if !is_there() {
            return None;
        }
        let pane = Arc::new(Pane::at(Some(home), 100, 30, &[]));
        pane.corral("");
        pane.wait_for("local");
        let done = Arc::new(AtomicBool::new(false));
        let screens = Arc::new(Mutex::new(Vec::new()));
        let watcher = {
            let (pane, done, screens) = (Arc::clone(&pane), Arc::clone(&done), screens.clone());
            std::thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    screens.lock().unwrap().push(pane.screen());
                    std::thread::sleep(Duration::from_millis(100));
                }
            })
        };
        Some(Self {
            pane,
            done,
            screens,
            watcher: Some(watcher),
        })
    }

    /// It showed this instance in each of these states, still answers keys, and shows an empty
    /// fleet in the end.
    pub fn saw(mut self, name: &str, states: &[&str]) {
        self.pane.wait_for("No virtual machines yet");
        self.ended();
        let screens = self.screens.lock().unwrap();
        for state in states {
            let seen = screens
                .iter()
                .any(|s| s.lines().any(|l| l.contains(name) && l.contains(state)));
            assert!(seen, "{name} was never shown as {state}");
        }
        self.pane.keys("?");
        self.pane.wait_for("Keys valid here");
    }
    /// The watcher holds the pane, and with it the terminal's server.
    fn ended(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            let watched = watcher.join();
            assert!(watched.is_ok() || std::thread::panicking());
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.ended();
    }
}
