//! Fetches files over HTTP: resumable, with a deadline on silence, from servers that the system's roots vouch for.

use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, IF_RANGE, LAST_MODIFIED, RANGE,
};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Response, StatusCode, Url};

use super::tls;
use crate::model::{Error, ErrorKind, Result, decode_segment, shown};

/// More redirects than any mirror network needs.
const REDIRECTS: usize = 10;

/// Where something is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `https://…`, `http://…`.
    Web(String),
    /// A file of this machine.
    File(PathBuf),
}

impl Place {
    /// Reads a URL; `None` for what is none.
    ///
    /// # Errors
    /// `Invalid` for URLs that cannot be fetched.
    pub fn read(text: &str) -> Result<Option<Self>> {
        if !text.contains("://") {
            return Ok(None);
        }
        let bad = |why: String| Err(Error::invalid(format!("{}: {why}", shown(text))));
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => return bad(format!("this is no URL: {error}")),
        };
        match url.scheme() {
            "http" | "https" => {
                if !url.username().is_empty() || url.password().is_some() {
                    // It would stand in the history, and in the image's own record.
                    return bad("a URL must not hold a password".to_owned());
                }
                Ok(Some(Self::Web(url.to_string())))
            }
            "file" => match url.to_file_path() {
                Ok(path) => Ok(Some(Self::File(path))),
                Err(()) => bad("this names no file of this machine: file:///PATH".to_owned()),
            },
            other => bad(format!("nothing is fetched by {}", shown(other))),
        }
    }

    /// The last part of its path, decoded.
    pub fn file_name(&self) -> Option<String> {
        match self {
            Self::Web(url) => {
                let url = Url::parse(url).ok()?;
                let last = url.path_segments()?.next_back()?.to_owned();
                let decoded = decode_segment(&last)?;
                (!decoded.is_empty()).then_some(decoded)
            }
            Self::File(path) => Some(path.file_name()?.to_str()?.to_owned()),
        }
    }

    /// Nobody on the way can change what is fetched.
    pub fn is_safe(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Web(url) => Url::parse(url).is_ok_and(|url| {
                let local = match url.host_str() {
                    Some("localhost" | "[::1]") => true,
                    Some(host) => host
                        .parse()
                        .is_ok_and(|ip: std::net::Ipv4Addr| ip.is_loopback()),
                    None => false,
                };
                url.scheme() == "https" || local
            }),
        }
    }
}

/// What is here already of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// So many bytes.
    pub have: u64,
    /// What the server called this version: a strong `ETag`, or a date. Without, the rest is asked for all the same:
    /// only for files whose checksum is known.
    pub version: Option<String>,
}

/// An answer whose body is read piece by piece.
#[derive(Debug)]
pub struct Answer {
    response: Response,
    url: String,
    silence: Duration,
    /// The body goes on where `Begun` ended; else it is the whole file.
    pub goes_on: bool,
    /// Size of the whole file, as the server says.
    pub total: Option<u64>,
    /// What the server calls this version.
    pub version: Option<String>,
    /// `text/html` …
    pub media_type: Option<String>,
}

/// Fetches.
#[derive(Clone, Debug)]
pub struct Client {
    client: reqwest::Client,
    silence: Duration,
}

impl Client {
    /// `connect` limits each connection's making, `silence` each wait for the next bytes. Proxies are taken from
    /// the environment: `https_proxy`, `no_proxy` …
    pub fn new(connect: Duration, silence: Duration) -> Result<Self> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::with_system_roots()?)
            .connect_timeout(connect)
            // A server may close a connection just as it is used again; two requests are not worth that.
            .pool_max_idle_per_host(0)
            .redirect(Policy::custom(follow))
            .user_agent(concat!("corral/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::backend(format!("HTTP cannot be set up: {error}")))?;
        Ok(Self { client, silence })
    }

    /// Asks for a file, or for the rest of one.
    ///
    /// # Errors
    /// `Unreachable`, `TimedOut`, `NotFound`, and what else the server says.
    pub async fn get(&self, url: &str, begun: Option<&Begun>) -> Result<Answer> {
        let mut request = self.client.get(url).header(ACCEPT_ENCODING, "identity");
        let begun = begun.filter(|begun| begun.have > 0);
        if let Some(begun) = begun {
            request = request.header(RANGE, format!("bytes={}-", begun.have));
            if let Some(version) = &begun.version {
                request = request.header(IF_RANGE, version);
            }
        }
        let sent = tokio::time::timeout(self.silence, request.send()).await;
        let response = sent
            .map_err(|_| silent(url, self.silence))?
            .map_err(|error| failed(url, &error))?;
        let status = response.status();
        let headers = response.headers();
        if status == StatusCode::RANGE_NOT_SATISFIABLE && begun.is_some() {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("{}: there is another file now", shown(url)),
            ));
        }
        if !status.is_success() {
            return Err(refused(url, status));
        }
        let have = begun.map_or(0, |begun| begun.have);
        let (goes_on, total) = if status == StatusCode::PARTIAL_CONTENT {
            match content_range(headers) {
                Some((from, total)) if from == have => (true, total),
                _ => {
                    return Err(Error::backend(format!(
                        "{}: the server answers with another part than it was asked for",
                        shown(url)
                    )));
                }
            }
        } else {
            (false, response.content_length())
        };
        Ok(Answer {
            goes_on,
            total,
            version: version(headers),
            media_type: text(headers, &CONTENT_TYPE).map(|kind| {
                kind.split(';')
                    .next()
                    .unwrap_or(kind)
                    .trim()
                    .to_ascii_lowercase()
            }),
            url: url.to_owned(),
            silence: self.silence,
            response,
        })
    }

    /// A small file as a whole.
    ///
    /// # Errors
    /// As [`Self::get`]; `Invalid` when it is longer than `most`.
    pub async fn small(&self, url: &str, most: usize) -> Result<Vec<u8>> {
        let mut answer = self.get(url, None).await?;
        let mut all = Vec::new();
        while let Some(piece) = answer.piece().await? {
            if all.len() + piece.len() > most {
                return Err(Error::invalid(format!(
                    "{} is longer than {most} bytes",
                    shown(url)
                )));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

impl Answer {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// `Unreachable` when the connection breaks, `TimedOut` on silence.
    pub async fn piece(
        &mut self,
    ) -> Result<Option<impl AsRef<[u8]> + std::ops::Deref<Target = [u8]> + use<>>> {
        match tokio::time::timeout(self.silence, self.response.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => Err(failed(&self.url, &error)),
            Err(_) => Err(silent(&self.url, self.silence)),
        }
    }
}

fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let before = attempt.previous();
    if before.contains(attempt.url()) {
        return attempt.error("it redirects in a circle");
    }
    if before.len() > REDIRECTS {
        return attempt.error(format!("it redirects more than {REDIRECTS} times"));
    }
    let downgraded = before.last().is_some_and(|url| url.scheme() == "https");
    if downgraded && attempt.url().scheme() != "https" {
        return attempt.error("it redirects from https to plain http");
    }
    attempt.follow()
}

fn text<'h>(headers: &'h HeaderMap, name: &reqwest::header::HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// A weak tag says nothing about single bytes.
fn version(headers: &HeaderMap) -> Option<String> {
    let tag = text(headers, &ETAG).filter(|tag| tag.starts_with('"'));
    tag.or_else(|| text(headers, &LAST_MODIFIED))
        .map(str::to_owned)
}

/// `bytes 5-9/10`: from where, and of how many.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let range = text(headers, &CONTENT_RANGE)?.strip_prefix("bytes ")?;
    let (range, total) = range.split_once('/')?;
    let (from, _) = range.split_once('-')?;
    Some((from.trim().parse().ok()?, total.trim().parse().ok()))
}

fn silent(url: &str, limit: Duration) -> Error {
    Error::timed_out(format!(
        "{} said nothing for {} s",
        shown(url),
        limit.as_secs().max(1)
    ))
}

fn failed(url: &str, error: &reqwest::Error) -> Error {
    // The outermost words are only that something failed.
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        why = inner.to_string();
        source = inner.source();
    }
    let message = format!("{}: {}", shown(url), shown(&why));
    if error.is_redirect() {
        return Error::refused(message).remedy("Look where it leads: curl -LI URL");
    }
    if error.is_timeout() {
        return Error::timed_out(message);
    }
    Error::unreachable(message)
}

fn refused(url: &str, status: StatusCode) -> Error {
    let kind = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => ErrorKind::NotFound,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorKind::Unauthorized,
        _ => ErrorKind::Backend,
    };
    Error::new(kind, format!("{}: the server says {status}", shown(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_odd_ones_refused() {
        let read = |text: &str| Place::read(text).unwrap().unwrap();
        assert_eq!(Place::read("debian-13").unwrap(), None);
        assert_eq!(
            read("file:///a%20b/c.img"),
            Place::File(PathBuf::from("/a b/c.img"))
        );
        let web = read("https://h/x/a%2B.qcow2?y=1");
        assert_eq!(web.file_name().unwrap(), "a+.qcow2");
        assert!(web.is_safe() && read("http://127.0.0.1:8/x").is_safe());
        assert!(read("http://localhost/x").is_safe() && read("http://[::1]/x").is_safe());
        assert!(!read("http://h/x").is_safe() && !read("http://127.0.0.1.h/x").is_safe());
        for bad in ["ftp://h/x", "https://", "https://u:p@h/x", "file://h/x"] {
            assert!(Place::read(bad).is_err(), "{bad}");
        }
        assert_eq!(read("https://h/").file_name(), None);
    }

    #[test]
    fn ranges_and_versions() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_RANGE, "bytes 5-9/10".parse().unwrap());
        headers.insert(ETAG, "W/\"1\"".parse().unwrap());
        assert_eq!(content_range(&headers), Some((5, Some(10))));
        assert_eq!(version(&headers), None);
        headers.insert(ETAG, "\"1\"".parse().unwrap());
        assert_eq!(version(&headers).unwrap(), "\"1\"");
        for odd in ["bytes */10", "bytes a-b/c", "5-9/10"] {
            headers.insert(CONTENT_RANGE, odd.parse().unwrap());
            assert_eq!(content_range(&headers), None, "{odd}");
        }
    }
}
