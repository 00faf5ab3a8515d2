//! Ways in: a stream of canned text that looks like a server at the other end.

use async_trait::async_trait;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::backend::Demo;
use crate::backend::contract::{Opener, ReadCx, Route, Routes, Way};
use crate::link::Duplex;
use crate::model::{Error, Instance, Result, State, shown};

/// Bytes on their way in one direction: what a terminal shows at once fits many times.
const PIPE: usize = 16 * 1024;

#[async_trait]
impl Routes for Demo {
    async fn routes(&self, cx: &ReadCx, on: &Instance, port: u16) -> Result<Vec<Route>> {
        self.world.answer(cx, "routes").await?;
        let guest = self.world.guest_as(on)?;
        let id = guest.id();
        if guest.state() != State::Running {
            return Err(Error::refused(format!("{id} is {}", guest.state()))
                .remedy(format!("Start it: corral start {id}"))
                .in_context(self.world.name()));
        }
        let forwarded = guest
            .base
            .ports
            .iter()
            .flatten()
            .find(|p| p.guest == port && p.is_tcp())
            .map(|p| (format!("forwarded port {}", p.host), None));
        let address = guest.addresses.first().map(|a| {
            let source = a.source.as_deref().unwrap_or("list");
            (format!("{} ({source})", a.ip), Some(3))
        });
        let (why, age) = forwarded.or(address).ok_or_else(|| {
            Error::unreachable(format!("no address known for {id}: no lease, agent silent"))
                .remedy("Install the guest agent inside for next time.")
                .in_context(self.world.name())
        })?;
        Ok(vec![Route {
            way: Way::Stream(Box::new(Canned {
                host: shown(&guest.base.name).into_owned(),
                port,
            })),
            why: format!("{why}, simulated"),
            age,
        }])
    }
}

/// Opens the canned stream.
struct Canned {
    host: String,
    port: u16,
}

#[async_trait]
impl Opener for Canned {
    async fn open(&self) -> Result<Duplex> {
        let (near, far) = tokio::io::duplex(PIPE);
        let (host, port) = (self.host.clone(), self.port);
        // Ends by itself when the near side is dropped.
        tokio::spawn(async move {
            let _ = serve(far, &host, port).await;
        });
        Ok(Duplex::from_stream(near))
    }
}

/// Greets, then echoes each line and answers it like a shell with few words.
async fn serve(mut far: DuplexStream, host: &str, port: u16) -> std::io::Result<()> {
    if port == 22 {
        far.write_all(b"SSH-2.0-OpenSSH_9.2p1 corral-demo\r\n")
            .await?;
    }
    far.write_all(format!("{host} login: ").as_bytes()).await?;
    let mut line = Vec::new();
    let mut user = None;
    let mut buffer = [0_u8; 512];
    loop {
        let read = far.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        for &byte in &buffer[..read] {
            match byte {
                b'\r' | b'\n' => {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    line.clear();
                    far.write_all(b"\r\n").await?;
                    let leave = matches!(text.trim(), "exit" | "logout") && user.is_some();
                    if leave {
                        far.write_all(b"logout\r\n").await?;
                        return far.shutdown().await;
                    }
                    match &user {
                        None if text.trim().is_empty() => {
                            far.write_all(format!("{host} login: ").as_bytes()).await?;
                            continue;
                        }
                        None => {
                            user = Some(text.trim().to_owned());
                            let hello = format!("Welcome to {host}, a simulated machine.\r\n");
                            far.write_all(hello.as_bytes()).await?;
                        }
                        Some(user) => {
                            let answer = match text.trim() {
                                "" => String::new(),
                                "whoami" => format!("{user}\r\n"),
                                "hostname" => format!("{host}\r\n"),
                                other => format!("{other}: simulated, does nothing\r\n"),
                            };
                            far.write_all(answer.as_bytes()).await?;
                        }
                    }
                    let prompt = format!("{}@{host}:~$ ", user.as_deref().unwrap_or("demo"));
                    far.write_all(prompt.as_bytes()).await?;
                }
                0x7f | 0x08 => {
                    let erased: &[u8] = line.pop().map_or(b"", |_| b"\x08 \x08");
                    far.write_all(erased).await?;
                }
                byte if line.len() < 1024 => {
                    line.push(byte);
                    far.write_all(&[byte]).await?;
                }
                _ => {}
            }
        }
    }
}
