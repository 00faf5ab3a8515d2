//! From configuration and discovery to the members of a fleet.

use std::sync::Arc;

use async_trait::async_trait;

use super::late::Late;
use super::secrets::Secrets;
use crate::backend::contract::{Backend, Env, KindInfo, ReadCx};
use crate::backend::registry::{self, KINDS};
use crate::config::{ContextEntry, Loaded};
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
    let mut members: Vec<Member> = configured
        .map(|entry| open_entry(entry, &found, env, secrets))
        .collect();
    for spec in found {
        let named = loaded.contexts.iter().any(|entry| entry.name == spec.name);
        let twice = members
            .iter()
            .any(|member| member.spec.kind == spec.kind && member.spec.fields == spec.fields);
        if named || twice {
            continue;
        }
        members.push(open_spec(spec, env));
    }
    members
}

/// What discovery finds, for the kinds that are wanted. Looks only at this machine.
pub fn discovered(loaded: &Loaded, env: &Env) -> Vec<ContextSpec> {
    KINDS
        .iter()
        .filter(|info| loaded.settings.discover.wants(info.id))
        .flat_map(|info| (info.discover)(env).contexts)
        .collect()
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
}

/// What doctor says of a context that cannot be opened.
pub(super) fn cannot_open(error: &Error) -> Check {
    let check = Check::fail("context.open", error.message.clone());
    match &error.remedy {
        Some(remedy) => check.remedy(remedy.clone()),
        None => check,
    }
}
