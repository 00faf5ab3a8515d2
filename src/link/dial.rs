//! Plain TCP to a guest's port.

use std::time::Duration;

use tokio::net::TcpStream;

use super::Duplex;
use crate::model::{Error, Result};

/// Connects within `limit`.
pub async fn tcp(host: &str, port: u16, limit: Duration) -> Result<Duplex> {
    match tokio::time::timeout(limit, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) => {
            // Interactive bytes must not wait for more.
            let _ = stream.set_nodelay(true);
            Ok(Duplex::from_stream(stream))
        }
        Ok(Err(error)) => Err(Error::unreachable(format!(
            "no connection to {host}:{port}: {error}"
        ))
        .because(error)),
        Err(_) => Err(Error::unreachable(format!(
            "no connection to {host}:{port} in time"
        ))),
    }
}
