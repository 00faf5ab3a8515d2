//! What every part of this backend works with.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::client::Client;
use super::domain::Domain;
use super::wire::{Call, Dom, Listed, Looked};
use crate::backend::contract::{Env, ReadCx};
use crate::model::{ContextSpec, Error, ErrorKind, InstanceId, Kind, Result};

/// The kind's word.
pub const KIND: Kind = Kind::new("libvirt");

/// One context.
pub struct Ctx {
    /// The context as it was opened.
    pub spec: ContextSpec,
    /// The process it lives in.
    pub env: Arc<Env>,
    /// Its helpers.
    pub client: Client,
    /// Definitions that were read, by UUID; kept only while a watch tells of their changes.
    pub known: Mutex<HashMap<String, Arc<Domain>>>,
    /// A watch tells of changes.
    pub watched: AtomicBool,
    /// CPU time at the last list, by UUID: nanoseconds, and when.
    pub busy: Mutex<HashMap<String, (u64, Instant)>>,
}

impl Ctx {
    /// No I/O.
    pub fn new(spec: ContextSpec, env: Arc<Env>, uri: String) -> Self {
        let client = Client::new(&spec.name, Arc::clone(&env), uri, false);
        Self {
            spec,
            env,
            client,
            known: Mutex::default(),
            watched: AtomicBool::new(false),
            busy: Mutex::default(),
        }
    }

    /// The address of the domain called `name`.
    pub fn id(&self, name: &str) -> InstanceId {
        InstanceId::new(&self.spec.name, None, name)
    }

    /// Looks at the domain of an ID.
    ///
    /// # Errors
    /// `NotFound`, and those of libvirt.
    pub async fn look(&self, cx: &ReadCx, id: &InstanceId) -> Result<Seen> {
        let key = id.key();
        // A UUID as a name would find another domain by its UUID.
        let looked: Looked = match self.find(cx, key).await {
            Err(error) if error.kind == ErrorKind::NotFound => {
                return Err(
                    Error::not_found(format!("{id} is not there")).in_context(&self.spec.name)
                );
            }
            other => other?,
        };
        if looked.listed.name != key {
            return Err(Error::not_found(format!("{id} is not there")).in_context(&self.spec.name));
        }
        Seen::of(id.clone(), looked)
    }

    /// A domain by UUID or name.
    ///
    /// # Errors
    /// `NotFound`, and those of libvirt.
    pub async fn find(&self, cx: &ReadCx, key: &str) -> Result<Looked> {
        let key = key.to_owned();
        self.client.ask(cx, Call::Look { key }).await
    }

    /// What was read of a domain holds no longer.
    pub fn forget(&self, uuid: &str) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(uuid);
    }
}

/// A domain as a plan or a page sees it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its address.
    pub id: InstanceId,
    /// Its line of the list.
    pub listed: Listed,
    /// What it runs with.
    pub live: Domain,
    /// What it is at its next start.
    pub config: Domain,
    /// The XML of `live`, without passwords.
    pub live_xml: String,
    /// The XML of `config`.
    pub config_xml: String,
}

impl Seen {
    /// Reads what was looked up.
    ///
    /// # Errors
    /// `Backend` for XML that cannot be read.
    pub fn of(id: InstanceId, looked: Looked) -> Result<Self> {
        Ok(Self {
            id,
            live: Domain::read(&looked.live)?,
            config: Domain::read(&looked.config)?,
            listed: looked.listed,
            live_xml: looked.live,
            config_xml: looked.config,
        })
    }

    /// Names it in calls.
    pub fn dom(&self) -> Dom {
        Dom {
            uuid: self.listed.uuid.clone(),
            name: self.listed.name.clone(),
        }
    }

    /// Has CPUs, memory and a process.
    pub fn is_active(&self) -> bool {
        self.listed.id.is_some()
    }

    /// State and reason.
    pub fn is(&self) -> super::state::Is {
        super::state::of(&self.listed)
    }

    /// Identity, definition and state in one: what must hold until the first write.
    pub fn token(&self) -> String {
        use sha2::{Digest as _, Sha256};
        let digest = Sha256::digest(self.config_xml.as_bytes());
        let short: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
        format!(
            "{} {short} {} {} {}",
            self.listed.uuid,
            self.is().state,
            u8::from(self.listed.persistent),
            self.listed
                .autostart
                .map_or("-", |on| if on { "1" } else { "0" }),
        )
    }
}
