//! A small fleet at a fixed moment, for frames that are the same every time.

use std::collections::HashMap;
use std::sync::Arc;

use corral::model::{
    Address, Bytes, ContextSpec, ContextView, Error, Facts, FleetView, Health, Instance,
    InstanceId, InstanceKind, Kind, Port, State, Usage,
};
use corral::tui::app::{App, Setup};
use corral::tui::glyphs::Glyphs;
use corral::tui::input::{Input, Key};
use corral::tui::keymap::Keymap;
use corral::tui::msg::{At, Effect, Msg};
use corral::tui::theme::{Depth, Theme};
use corral::tui::update;
use jiff::Timestamp;

pub fn now() -> Timestamp {
    "2026-11-30T06:00:00Z".parse().unwrap()
}

pub fn at(ms: u64) -> At {
    At { ms, wall: now() }
}

pub fn context(name: &str, kind: &str, health: Health, count: usize) -> ContextView {
    let ok = health.is_ok();
    ContextView {
        health,
        answered_at: ok.then(now),
        complete: ok,
        facts: ok.then(|| Facts {
            summary: Some(format!("{kind} 10.0, KVM usable, UEFI firmware found")),
            ..Facts::default()
        }),
        configured: true,
        protected: name == "pve",
        count,
        latency_ms: Some(12),
        ..ContextView::of(&ContextSpec::new(name, Kind::read(kind)))
    }
}

pub fn instance(id: &str, kind: &str, state: State) -> Instance {
    let id: InstanceId = id.parse().unwrap();
    let mut row = Instance::new(id, Kind::read(kind), InstanceKind::Vm, state, now());
    row.uid = Some(format!("uid-{}", row.id));
    row.cpus = Some(4);
    row.memory_bytes = Some(Bytes::gib(4));
    row.host = Some("host1".to_owned());
    if state == State::Running {
        row.uptime_seconds = Some(300_000);
        row.usage = Some(Usage {
            cpu_percent: Some(12.0),
            memory_bytes: Some(Bytes::mib(1300)),
        });
        row.addresses = Some(vec![Address {
            ip: "10.0.3.41".to_owned(),
            nic: Some("net0".to_owned()),
            source: Some("agent".to_owned()),
        }]);
    }
    row
}

pub fn silent() -> Error {
    Error::unreachable("hv2 does not answer: no connection in 5 s")
        .remedy("Retry: corral context test hv2")
}

pub fn fleet() -> FleetView {
    let mut paused = instance("hv1/db", "libvirt", State::Paused);
    paused.reason = Some("I/O error on vda: no space".to_owned());
    let mut web = instance("local/web", "qemu", State::Running);
    web.addresses = None;
    web.ports = Some(vec![Port {
        guest: 22,
        host: "127.0.0.1:2201".to_owned(),
        protocol: "tcp".to_owned(),
    }]);
    web.tags = vec!["prod".to_owned(), "web".to_owned()];
    let mut mail = instance("hv2/mail", "libvirt", State::Running).as_stale();
    mail.observed_at = "2026-11-30T05:51:00Z".parse().unwrap();
    let mut template = instance("pve/900", "proxmox", State::Stopped);
    "debian-13".clone_into(&mut template.name);
    template.template = true;
    let mut vm = instance("pve/101", "proxmox", State::Running);
    "db".clone_into(&mut vm.name);
    vm.protected = true;
    let mut hostile = instance("lab/default/evil", "incus", State::Running);
    "e\u{1b}]0;owned\u{7}vil\u{202e}\n日本".clone_into(&mut hostile.name);
    hostile.kind = InstanceKind::Ct;
    let mut broken = instance("lab/default/half", "incus", State::Broken);
    broken.reason = Some("no config in the answer".to_owned());
    let stale = Health::Stale(silent());
    let mut contexts = vec![
        context("local", "qemu", Health::Ok, 2),
        context("hv1", "libvirt", Health::Ok, 1),
        context("hv2", "libvirt", stale, 1),
        context("lab", "incus", Health::Ok, 2),
        context("pve", "proxmox", Health::Ok, 2),
    ];
    contexts[2].answered_at = Some("2026-11-30T05:51:00Z".parse().unwrap());
    FleetView {
        generation: 1,
        contexts,
        instances: [
            web,
            instance("local/ci-10", "qemu", State::Stopped),
            paused,
            mail,
            hostile,
            broken,
            vm,
            template,
        ]
        .into_iter()
        .map(Arc::new)
        .collect(),
    }
}

pub fn setup(width: u16, height: u16) -> Setup {
    Setup {
        version: "0.1.0".to_owned(),
        size: (width, height),
        theme: Theme::built_in("dark", Depth::Full).unwrap(),
        themes: Theme::names()
            .filter_map(|name| Theme::built_in(name, Depth::Full))
            .collect(),
        usual: true,
        light: None,
        glyphs: Glyphs::Unicode,
        keymap: Keymap::built_in(),
        absent: Vec::new(),
        beside: corral::tui::app::Beside::default(),
        readonly: false,
        sort: None,
        columns: std::collections::BTreeMap::new(),
        mouse: false,
        kept: corral::action::ui_state::UiState::default(),
        entered: Vec::new(),
        manners: corral::tui::presence::Manners::default(),
        demo: false,
    }
}

/// A view of `fleet`.
pub fn app(setup: Setup, fleet: FleetView) -> App {
    let mut app = App::new(setup, at(0));
    show(&mut app, fleet);
    app
}

pub fn show(app: &mut App, fleet: FleetView) -> Vec<Effect> {
    let ms = app.ms;
    update::update(
        app,
        at(ms),
        Msg::Fleet(Arc::new(fleet), Arc::new(HashMap::new())),
    )
}

/// Keys as a keymap prints them, separated by spaces.
pub fn press(app: &mut App, keys: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for key in keys.split(' ') {
        let key = Key::parse(key).unwrap_or_else(|| panic!("{key:?} is no key"));
        let ms = app.ms + 20;
        effects.extend(update::update(app, at(ms), Msg::Input(Input::Key(key))));
    }
    effects
}

pub fn type_text(app: &mut App, text: &str) -> Vec<Effect> {
    let mut effects = Vec::new();
    for c in text.chars() {
        let ms = app.ms + 20;
        let msg = Msg::Input(Input::Key(Key::char(c)));
        effects.extend(update::update(app, at(ms), msg));
    }
    effects
}
