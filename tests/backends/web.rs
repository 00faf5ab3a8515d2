//! A small web server on loopback that does what servers do on their worse days.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test takes what it needs, and may end where it stands"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// One request: its path, where it begins to read, and how many of this path came before.
pub struct Asked {
    pub path: String,
    pub from: Option<usize>,
    pub if_range: Option<String>,
    pub before: usize,
}

/// Paths that were asked for, and from where on.
type Log = Arc<Mutex<Vec<(String, Option<usize>)>>>;

/// What is answered.
pub enum Say {
    /// A head and a body, sent as they are; then the connection is closed.
    Raw(Vec<u8>),
    /// The same, but then nothing more comes.
    Stall(Vec<u8>),
}

/// The server; it ends with the test.
pub struct Web {
    port: u16,
    asked: Log,
}

impl Web {
    pub async fn start(answer: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&log), Arc::clone(&answer)));
            }
        });
        Self { port, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// From where each request for a path wanted to read.
    pub fn asked(&self, path: &str) -> Vec<Option<usize>> {
        let all = self.asked.lock().unwrap();
        all.iter()
            .filter(|(p, _)| p == path)
            .map(|(_, from)| *from)
            .collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: Log,
    answer: Arc<impl Fn(&Asked) -> Say + Send + Sync + 'static>,
) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let from = header("range").and_then(|r| {
        r.strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse::<usize>()
            .ok()
    });
    let before = {
        let mut log = log.lock().unwrap();
        let before = log.iter().filter(|(p, _)| *p == path).count();
        log.push((path.clone(), from));
        before
    };
    let asked = Asked {
        path,
        from,
        if_range: header("if-range"),
        before,
    };
    match answer(&asked) {
        Say::Raw(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Say::Stall(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            tokio::time::sleep(Duration::from_secs(120)).await;
        }
    }
}

/// An answer with `Content-Length: length`, whatever the body is.
pub fn answer(status: &str, headers: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// All of a file, or the rest that was asked for; `ETag: "one"`.
pub fn ranged(asked: &Asked, file: &[u8]) -> Vec<u8> {
    match asked.from {
        Some(from) if asked.if_range.as_deref().is_none_or(|tag| tag == "\"one\"") => {
            let rest = &file[from..];
            let range = format!(
                "ETag: \"one\"\r\nContent-Range: bytes {from}-{}/{}\r\n",
                file.len() - 1,
                file.len()
            );
            answer("206 Partial Content", &range, rest.len(), rest)
        }
        _ => answer("200 OK", "ETag: \"one\"\r\n", file.len(), file),
    }
}

/// Half of a file, as if the line had been cut.
pub fn half(file: &[u8], headers: &str) -> Vec<u8> {
    answer("200 OK", headers, file.len(), &file[..file.len() / 2])
}
