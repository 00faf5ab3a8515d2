//! What every part of this backend works with.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use super::api::Api;
use super::json::encoded;
use super::server::Server;
use super::target::{Target, Token};
use crate::backend::contract::{Env, ReadCx};
use crate::link::http::Http;
use crate::model::{ContextSpec, Error, InstanceId, Kind, Result};

/// The kind's word.
pub const KIND: Kind = Kind::new("incus");

/// The project that is meant where none is named.
pub const DEFAULT: &str = "default";

/// One context: a server, and what is known of it.
#[derive(Debug)]
pub struct Ctx {
    /// The context as it was opened.
    pub spec: ContextSpec,
    /// The process it lives in.
    pub env: Arc<Env>,
    opened: OnceLock<Opened>,
    server: RwLock<Option<Arc<Server>>>,
}

#[derive(Debug)]
struct Opened {
    api: Api,
    project: Option<String>,
    token: Option<Token>,
}

impl Ctx {
    /// No I/O.
    pub fn new(spec: ContextSpec, env: Arc<Env>) -> Self {
        Self {
            spec,
            env,
            opened: OnceLock::new(),
            server: RwLock::new(None),
        }
    }

    fn opened(&self) -> Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = self
            .open()
            .map_err(|error| error.in_context(&self.spec.name))?;
        Ok(self.opened.get_or_init(|| opened))
    }

    fn open(&self) -> Result<Opened> {
        let target = Target::of(&self.spec, &self.env)?;
        let connect = Duration::from_secs(self.spec.connect_timeout.unwrap_or(5));
        Ok(Opened {
            api: Api {
                http: Http::new(&self.spec.name, target.reach, connect)?,
                context: self.spec.name.clone(),
            },
            project: target.project,
            token: target.token,
        })
    }

    /// The server. Reads the configuration once; connects to nobody.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn api(&self) -> Result<&Api> {
        self.opened().map(|opened| &opened.api)
    }

    /// What lets this client in, where it was given.
    pub fn token(&self) -> Option<&Token> {
        self.opened().ok()?.token.as_ref()
    }

    /// The one project of this context; `None` is all.
    pub fn project(&self) -> Option<&str> {
        self.opened().ok()?.project.as_deref()
    }

    /// The query that asks for all that this context shows, to be followed by others.
    pub fn scope(&self) -> String {
        match self.project() {
            Some(project) => format!("project={}", encoded(project)),
            None => "all-projects=true".to_owned(),
        }
    }

    /// The address of the instance called `name`.
    pub fn id(&self, project: &str, name: &str) -> InstanceId {
        InstanceId::new(&self.spec.name, Some(project), name)
    }

    /// Project and name of an address of this context.
    pub fn place(&self, id: &InstanceId) -> (String, String) {
        let project = id
            .namespace()
            .or_else(|| self.project().map(str::to_owned))
            .unwrap_or_else(|| DEFAULT.to_owned());
        (project, id.key().to_owned())
    }

    /// What was last learnt of the server, without asking.
    pub fn known(&self) -> Option<Arc<Server>> {
        self.server
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Who is at the other end, asked anew.
    ///
    /// # Errors
    /// As a read; `Unauthorized` where the server does not know this client.
    pub async fn ask(&self, cx: &ReadCx) -> Result<Arc<Server>> {
        let reply = self.api()?.get(cx, "/1.0").await?;
        let server = Arc::new(Server::read(&reply.metadata));
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&server));
        Ok(server)
    }

    /// Who is at the other end, asked once.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn server(&self, cx: &ReadCx) -> Result<Arc<Server>> {
        match self.known() {
            Some(server) if server.trusted => Ok(server),
            _ => self.ask(cx).await,
        }
    }

    /// An error of this context.
    pub fn own(&self, error: Error) -> Error {
        error.in_context(&self.spec.name)
    }
}
