//! `WebSockets` of a server that is spoken to by HTTP.

use futures::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};

use super::http::{Http, Reach};
use crate::model::{Error, ErrorKind, Result, shown};

/// Longest message that is taken: a lifecycle event has some hundred bytes, an operation's a few thousand.
const MESSAGE: usize = 4 << 20;

/// Opens the `WebSocket` at `path` for texts that come one by one; it ends when the server or the line does.
///
/// # Errors
/// As for a connection; what the server says where it refuses.
pub async fn texts(
    http: &Http,
    path: &str,
) -> Result<impl Stream<Item = Result<String>> + Send + use<>> {
    let context = http.context.clone();
    let open = async {
        match (&http.reach, &http.guard) {
            (Reach::Socket(socket), _) => {
                let stream = UnixStream::connect(socket).await.map_err(|error| {
                    Error::unreachable(format!("no connection to {}: {error}", http.called()))
                        .because(error)
                })?;
                shaken(http, stream, "ws", path)
                    .await
                    .map(futures::StreamExt::boxed)
            }
            (Reach::Tls { host, port, .. }, Some(guard)) => {
                let stream = guard
                    .connect(&http.context, host, *port, http.connect)
                    .await?;
                shaken(http, stream, "wss", path)
                    .await
                    .map(futures::StreamExt::boxed)
            }
            _ => Err(Error::backend("internal: TLS without trust")),
        }
    };
    match tokio::time::timeout(http.connect, open).await {
        Ok(opened) => opened.map_err(|error| error.in_context(&context)),
        Err(_) => Err(Error::unreachable(format!(
            "{} does not answer in {} s",
            http.called(),
            http.connect.as_secs().max(1)
        ))
        .in_context(&context)),
    }
}

async fn shaken<S>(
    http: &Http,
    stream: S,
    scheme: &str,
    path: &str,
) -> Result<impl Stream<Item = Result<String>> + Send + use<S>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let host = match &http.reach {
        Reach::Socket(_) => "localhost".to_owned(),
        Reach::Tls { host, port, .. } => super::tls::endpoint(host, *port),
    };
    let called = http.called();
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE))
        .max_frame_size(Some(MESSAGE));
    let url = format!("{scheme}://{host}{path}");
    let (socket, _) = client_async_with_config(url, stream, Some(config))
        .await
        .map_err(|error| refused(&called, &error))?;
    Ok(socket.filter_map(move |message| {
        let item = match message {
            Ok(Message::Text(text)) => Some(Ok(text.as_str().to_owned())),
            Ok(_) => None,
            Err(error) => Some(Err(Error::unreachable(format!(
                "{called} ended the stream: {}",
                shown(&error.to_string())
            )))),
        };
        futures::future::ready(item)
    }))
}

fn refused(called: &str, error: &tungstenite::Error) -> Error {
    if let tungstenite::Error::Http(answer) = error {
        let status = answer.status();
        let kind = match status.as_u16() {
            401 | 403 => ErrorKind::Unauthorized,
            404 => ErrorKind::NotFound,
            _ => ErrorKind::Backend,
        };
        return Error::new(kind, format!("{called} refuses the stream: {status}"));
    }
    Error::unreachable(format!(
        "{called} gives no stream: {}",
        shown(&error.to_string())
    ))
}
