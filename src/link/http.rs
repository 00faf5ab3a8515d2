//! HTTP to one server: over TLS with its trust and our certificate, or over a unix socket.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use futures::TryStreamExt as _;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Method, Response};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::io::{ReaderStream, StreamReader};

use super::tls::{self, Guard, Identity};
use super::trust::Trust;
use crate::model::{Error, ErrorKind, Result, shown};

/// A connection that nobody used for so long is closed: a server may do so at the same moment.
const IDLE: Duration = Duration::from_secs(20);
/// Pieces of a body that is streamed.
const PIECE: usize = 256 << 10;

/// Where a server is.
#[derive(Clone, Debug)]
pub enum Reach {
    /// A unix socket of this machine.
    Socket(PathBuf),
    /// A host that speaks TLS.
    Tls {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
        /// What its certificate has to be.
        trust: Trust,
        /// Who we are.
        identity: Option<Box<Identity>>,
    },
}

/// A client of one server. Opening one does no I/O.
#[derive(Debug)]
pub struct Http {
    pub(super) context: String,
    pub(super) reach: Reach,
    pub(super) guard: Option<Guard>,
    pub(super) connect: Duration,
    base: String,
    /// Keeps connections for the next question.
    kept: Client,
    /// Has a new connection for each change: one that was kept may be closed just as it is used, and what was sent
    /// may not be sent again.
    fresh: Client,
}

/// What a request carries.
pub enum Body {
    /// Nothing.
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// All that comes from here.
    Stream(Box<dyn AsyncRead + Send + Sync + Unpin>),
}

/// One request. It is changing unless its method is `GET` or `HEAD`.
pub struct Request<'a> {
    /// `GET` …
    pub method: &'a str,
    /// Path and query, as they are sent.
    pub path: &'a str,
    /// More headers.
    pub headers: &'a [(&'a str, &'a str)],
    /// What it carries.
    pub body: Body,
}

impl<'a> Request<'a> {
    /// A question.
    pub fn get(path: &'a str) -> Self {
        Self {
            method: "GET",
            path,
            headers: &[],
            body: Body::Empty,
        }
    }
}

/// An answer whose body was not read yet, whatever its status.
#[derive(Debug)]
pub struct Answer {
    response: Response,
    what: String,
}

impl Http {
    /// Connections are made within `connect`.
    ///
    /// # Errors
    /// `Invalid` where certificate or key cannot be used.
    pub fn new(context: &str, reach: Reach, connect: Duration) -> Result<Self> {
        let (guard, base) = match &reach {
            Reach::Socket(_) => (None, "http://localhost".to_owned()),
            Reach::Tls {
                host,
                port,
                trust,
                identity,
            } => (
                Some(Guard::new(trust.clone(), identity.as_deref())?),
                format!("https://{}", tls::endpoint(host, *port)),
            ),
        };
        let builder = || {
            let builder = ClientBuilder::new()
                .connect_timeout(connect)
                .pool_idle_timeout(IDLE)
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .user_agent(concat!("corral/", env!("CARGO_PKG_VERSION")));
            match (&reach, &guard) {
                (Reach::Socket(path), _) => {
                    // The backend is not asked for, but has to be named.
                    let builder = builder.unix_socket(path.clone());
                    Ok(builder.tls_backend_preconfigured(tls::with_system_roots()?))
                }
                (_, Some(guard)) => Ok(builder.tls_backend_preconfigured(guard.config().clone())),
                (_, None) => Err(Error::backend("internal: TLS without trust")),
            }
        };
        let set_up = |error: reqwest::Error| {
            Error::backend(format!("HTTP cannot be set up: {error}")).because(error)
        };
        Ok(Self {
            context: context.to_owned(),
            kept: builder()?.build().map_err(set_up)?,
            fresh: builder()?
                .pool_max_idle_per_host(0)
                .build()
                .map_err(set_up)?,
            reach,
            guard,
            connect,
            base,
        })
    }

    /// Sends, and waits for the head of the answer. There is no deadline but for the connection: the caller has one.
    ///
    /// # Errors
    /// `Unreachable`, `Refused` for a certificate that is not trusted.
    pub async fn send(&self, request: Request<'_>) -> Result<Answer> {
        let reads = matches!(request.method, "GET" | "HEAD");
        let method = Method::from_bytes(request.method.as_bytes())
            .map_err(|_| Error::invalid(format!("{:?} is no method", shown(request.method))))?;
        let client = if reads { &self.kept } else { &self.fresh };
        let mut sent = client.request(method, format!("{}{}", self.base, request.path));
        for (name, value) in request.headers {
            let value = HeaderValue::from_str(value)
                .map_err(|_| Error::invalid(format!("{:?} cannot be a header", shown(value))))?;
            sent = sent.header(*name, value);
        }
        sent = match request.body {
            Body::Empty => sent,
            Body::Bytes(bytes) => sent.body(bytes),
            Body::Stream(reader) => {
                let pieces = ReaderStream::with_capacity(reader, PIECE);
                sent.body(reqwest::Body::wrap_stream(pieces))
            }
        };
        let again = if reads { sent.try_clone() } else { None };
        let mut answered = sent.send().await;
        // A connection that was kept may be gone: a question is asked once more.
        if let (Err(error), Some(again)) = (&answered, again)
            && error.is_request()
            && !error.is_connect()
            && !error.is_timeout()
        {
            answered = again.send().await;
        }
        match answered {
            Ok(response) => Ok(Answer {
                response,
                what: self.called(),
            }),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Where the server is.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// How messages call the server.
    pub fn called(&self) -> String {
        match &self.reach {
            Reach::Socket(path) => shown(&path.display().to_string()).into_owned(),
            Reach::Tls { host, port, .. } => shown(&tls::endpoint(host, *port)).into_owned(),
        }
    }

    fn failed(&self, error: &reqwest::Error) -> Error {
        if let (Some(guard), Reach::Tls { host, port, .. }) = (&self.guard, &self.reach)
            && let Some(fault) = guard.fault(&self.context, host, *port)
        {
            return fault;
        }
        let (why, io) = innermost(error);
        let end = self.called();
        let error = match (&self.reach, io) {
            (Reach::Socket(_), Some(std::io::ErrorKind::NotFound)) => {
                Error::unreachable(format!("{end} is not there: its daemon does not run"))
            }
            (Reach::Socket(_), Some(std::io::ErrorKind::ConnectionRefused)) => {
                Error::unreachable(format!("nobody listens on {end}: its daemon does not run"))
            }
            (Reach::Socket(_), Some(std::io::ErrorKind::PermissionDenied)) => Error::new(
                ErrorKind::Unauthorized,
                format!("{end}: this user may not use it"),
            ),
            _ if error.is_timeout() => Error::unreachable(format!(
                "no connection to {end} in {} s",
                self.connect.as_secs().max(1)
            )),
            _ => Error::unreachable(format!("no answer from {end}: {}", shown(&why))),
        };
        error.in_context(&self.context)
    }
}

/// The innermost words are the ones that say something, and what the system called it.
fn innermost(error: &reqwest::Error) -> (String, Option<std::io::ErrorKind>) {
    let mut why = error.to_string();
    let mut io = None;
    let mut source = error.source();
    while let Some(inner) = source {
        why = inner.to_string();
        if let Some(inner) = inner.downcast_ref::<std::io::Error>() {
            io = Some(inner.kind());
        }
        source = inner.source();
    }
    (why, io)
}

impl Answer {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Length of the body, where the server says so.
    pub fn length(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// The whole body, of at most `most` bytes.
    ///
    /// # Errors
    /// `Backend` when it is longer, `Unreachable` when the connection breaks.
    pub async fn whole(self, most: u64) -> Result<Vec<u8>> {
        let what = self.what.clone();
        let mut all = Vec::new();
        let mut reader = self.reader().take(most + 1);
        reader.read_to_end(&mut all).await.map_err(|error| {
            Error::unreachable(format!(
                "{what} broke off in the middle of its answer: {error}"
            ))
        })?;
        if all.len() as u64 > most {
            return Err(Error::backend(format!(
                "{what} answers with more than {most} bytes"
            )));
        }
        Ok(all)
    }

    /// The body as it comes.
    pub fn reader(self) -> impl AsyncRead + Send + Sync + Unpin {
        let pieces = self.response.bytes_stream();
        Box::pin(StreamReader::new(pieces.map_err(std::io::Error::other)))
    }
}
