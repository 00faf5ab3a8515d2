//! From configuration and discovery to the members of a fleet.

use std::sync::Arc;

use async_trait::async_trait;

use super::late::Late;
use super::secrets::Secrets;
use crate::backend::contract::{Backend, Env, Families, KindInfo, NoFamilies, ReadCx};
use crate::backend::registry::{self, KINDS};
use crate::config::{ContextEntry, Dropped, Loaded};
use crate::fleet::Member;
use crate::model::{
    Check, ContextSpec, Detail, Error, Facts, Field, Instance, InstanceId, Inventory, Kind,
    Operation, Result, SecretText, Support,
};

/// The kinds as [`crate::config::load`] wants them.
pub fn config_kinds() -> Vec<(&'static str, &'static [Field])> {
    KINDS
        .iter()
        .map(|info| (info.id, info.context_fields))
        .collect()
}

/// Opens every enabled context: the configured ones in file order, then those found here.
/// One that cannot be opened is a member all the same, and says why. No secret is fetched here: each context does
/// that by itself, when it is first asked.
pub fn open(
    loaded: &Loaded,
    env: &Arc<Env>,
    secrets: &Arc<Secrets>,
    discover: bool,
) -> Vec<Member> {
    let found = if discover {
        discovered(loaded, env)
    } else {
        Vec::new()
    };
    let configured = loaded.contexts.iter().filter(|entry| entry.enabled);
    let opened = configured.map(|entry| (entry.line, open_entry(entry, &found, env, secrets)));
    let dropped = loaded
        .dropped
        .iter()
        .map(|dropped| (dropped.line, left_out(dropped)));
    let mut placed: Vec<(usize, Member)> = opened.chain(dropped).collect();
    // Mending one shifts no other.
    placed.sort_by_key(|(line, _)| *line);
    let mut members: Vec<Member> = placed.into_iter().map(|(_, member)| member).collect();
    for spec in found {
        let named = loaded.contexts.iter().any(|entry| entry.name == spec.name)
            || loaded
                .dropped
                .iter()
                .any(|dropped| dropped.name == spec.name);
        if named {
            continue;
        }
        match hider(loaded, &spec).and_then(|name| members.iter_mut().find(|m| m.spec.name == name))
        {
            // Asking for the one that is found is answered with this one's name.
            Some(member) => _ = member.spec.origin.get_or_insert(spec.name),
            None => members.push(open_spec(spec, env)),
        }
    }
    members
}

/// The configured context that is the same place as one that is found.
fn hider<'a>(loaded: &'a Loaded, found: &ContextSpec) -> Option<&'a str> {
    let same = |entry: &&ContextEntry| {
        entry.enabled && entry.kind == found.kind && entry.fields == found.fields
    };
    loaded
        .contexts
        .iter()
        .find(same)
        .map(|entry| entry.name.as_str())
}

/// What the file names and nobody can open is a part of the fleet that gives no answer.
fn left_out(dropped: &Dropped) -> Member {
    let mut spec = ContextSpec::new(&dropped.name, dropped.kind.clone());
    spec.configured = true;
    let error = Error::invalid(format!("{} is left out: {}", dropped.name, dropped.why));
    unopened(spec, error.remedy("Mend it: corral config check"))
}

/// Says of a default context that is nowhere that it is. Looks only at this machine.
pub fn check_default(loaded: &mut Loaded, env: &Env, discover: bool) {
    let Some(default) = loaded.settings.default_context.clone() else {
        return;
    };
    let entries = loaded.contexts.iter().map(|entry| entry.name.clone());
    let dropped = loaded.dropped.iter().map(|dropped| dropped.name.clone());
    let mut names: Vec<String> = entries.chain(dropped).collect();
    let known = names.contains(&default);
    if !known && discover {
        let found = discovered(loaded, env).into_iter();
        let shown = found.filter(|spec| hider(loaded, spec).is_none());
        names.extend(shown.map(|spec| spec.name));
    }
    if !names.contains(&default) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        loaded.no_such_default(&names);
    }
}

/// What discovery finds, for the kinds that are wanted. Looks only at this machine.
pub fn discovered(loaded: &Loaded, env: &Env) -> Vec<ContextSpec> {
    KINDS
        .iter()
        .filter(|info| loaded.settings.discover.wants(info.id))
        .flat_map(|info| (info.discover)(env).contexts)
        .collect()
}

/// Contexts of the configuration that are disabled: names and kinds, in its order.
pub fn disabled(engine: &super::engine::Engine) -> Vec<(String, String)> {
    let config = engine.config();
    let off = config.contexts.iter().filter(|entry| !entry.enabled);
    off.map(|entry| (entry.name.clone(), entry.kind.to_string()))
        .collect()
}

/// The context in which something new is made when none is named.
pub fn default_name(engine: &super::engine::Engine) -> Option<String> {
    super::rows::create::default_name(engine).filter(|name| engine.fleet().member(name).is_some())
}

/// What discovery looked for and did not find: what, why, how to get it. Looks only at this machine.
pub fn absent(engine: &super::engine::Engine) -> Vec<(String, String, String)> {
    if engine.is_in_memory() {
        return Vec::new();
    }
    let config = engine.config();
    KINDS
        .iter()
        .filter(|info| config.settings.discover.wants(info.id))
        .filter_map(|info| (info.discover)(engine.env()).absent)
        .collect()
}

fn open_entry(
    entry: &ContextEntry,
    found: &[ContextSpec],
    env: &Arc<Env>,
    secrets: &Arc<Secrets>,
) -> Member {
    let mut spec = spec_of(entry);
    if let Some(known) = found
        .iter()
        .find(|known| known.name == spec.name && known.kind == spec.kind)
    {
        for (key, value) in &known.fields {
            spec.fields
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
        spec.origin.clone_from(&known.origin);
    }
    match entry.secret.clone() {
        None => open_spec(spec, env),
        Some(secret) => {
            let late = Late::new(spec.clone(), Arc::clone(env), secret, Arc::clone(secrets));
            let backend = Arc::new(late);
            Member { spec, backend }
        }
    }
}

/// An entry as a spec, its secret not resolved.
pub fn spec_of(entry: &ContextEntry) -> ContextSpec {
    ContextSpec {
        fields: entry.fields.clone(),
        secret: None::<SecretText>,
        reference: entry.secret.clone(),
        readonly: entry.readonly,
        protected: entry.protected,
        relaxed: entry.relaxed,
        interval: entry.interval,
        connect_timeout: entry.connect_timeout,
        read_timeout: entry.read_timeout,
        addresses: entry.addresses,
        configured: true,
        ..ContextSpec::new(&entry.name, entry.kind.clone())
    }
}

fn open_spec(spec: ContextSpec, env: &Arc<Env>) -> Member {
    match open_now(spec.clone(), env) {
        Ok(backend) => Member { spec, backend },
        Err(error) => unopened(spec, error),
    }
}

/// Opens a context whose secret, if it has one, is there.
pub(super) fn open_now(spec: ContextSpec, env: &Arc<Env>) -> Result<Arc<dyn Backend>> {
    let info: Option<&KindInfo> = registry::find(&spec.kind);
    match info {
        Some(info) => (info.open)(spec, Arc::clone(env)),
        None => Err(Error::invalid(format!("there is no backend {}", spec.kind))),
    }
}

fn unopened(spec: ContextSpec, error: Error) -> Member {
    let backend = Arc::new(Unopened {
        kind: spec.kind.clone(),
        error: error.in_context(&spec.name),
    });
    Member { spec, backend }
}

/// Stands for a context that could not be opened: it is listed with the reason.
pub struct Unopened {
    kind: Kind,
    error: Error,
}

impl Unopened {
    /// One that fails so.
    pub fn new(kind: Kind, error: Error) -> Self {
        Self { kind, error }
    }

    fn fail<T>(&self) -> Result<T> {
        Err(self.error.clone())
    }
}

#[async_trait]
impl Backend for Unopened {
    fn kind(&self) -> Kind {
        self.kind.clone()
    }

    fn support(&self, _: Operation, _: Option<&Instance>) -> Support {
        Support::No(self.error.message.clone())
    }

    async fn probe(&self, _: &ReadCx) -> Result<Facts> {
        self.fail()
    }

    async fn inventory(&self, _: &ReadCx) -> Result<Inventory> {
        self.fail()
    }

    async fn detail(&self, _: &ReadCx, _: &InstanceId) -> Result<Detail> {
        self.fail()
    }

    async fn doctor(&self, _: &ReadCx) -> Vec<Check> {
        vec![cannot_open(&self.error)]
    }

    fn families(&self) -> &dyn Families {
        &NoFamilies
    }
}

/// What doctor says of a context that cannot be opened.
pub(super) fn cannot_open(error: &Error) -> Check {
    let check = Check::fail("context.open", error.message.clone());
    match &error.remedy {
        Some(remedy) => check.remedy(remedy.clone()),
        None => check,
    }
}
