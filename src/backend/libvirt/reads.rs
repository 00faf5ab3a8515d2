//! What is only looked at: the screen, ways in, logs of the hypervisor.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::accel::is_here;
use super::ctx::Ctx;
use super::wire::Call;
use super::{addresses, streams};
use crate::backend::contract::{Logs, ReadCx, Route, Routes, Screenshots, Way};
use crate::link::lines;
use crate::model::{Bytes, Error, Instance, LogSource, Picture, Result, shown};

/// The screenshot family.
pub struct Screen(pub Arc<Ctx>);
/// The routes family.
pub struct Ways(pub Arc<Ctx>);
/// The logs family.
pub struct Written(pub Arc<Ctx>);

/// Larger than any screen is: 8k with 4 bytes for each pixel.
const LARGEST: usize = 256 << 20;
/// Where libvirt has QEMU's logs.
const LOGS: &str = "/var/log/libvirt/qemu";

#[async_trait]
impl Screenshots for Screen {
    async fn screenshot(&self, cx: &ReadCx, on: &Instance) -> Result<Picture> {
        let ctx = &self.0;
        let seen = ctx.look(cx, &on.id).await?;
        if !seen.is_active() {
            return Err(Error::refused(format!("{} does not run", on.id))
                .remedy(format!("Start it: corral start {}", on.id)));
        }
        let call = Call::Screenshot { dom: seen.dom() };
        let taken = cx.within("the screen", streams::picture(ctx, call, LARGEST));
        let (media_type, bytes) = taken.await.map_err(|e| e.in_context(&ctx.spec.name))?;
        Ok(Picture { media_type, bytes })
    }
}

/// The login and host of a `+ssh` URI.
fn jump(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once("://")?;
    let ssh = scheme
        .split_once('+')
        .is_some_and(|(_, t)| matches!(t, "ssh" | "libssh" | "libssh2"));
    let host = rest
        .split(['/', '?'])
        .next()
        .filter(|host| !host.is_empty())?;
    ssh.then(|| host.to_owned())
}

#[async_trait]
impl Routes for Ways {
    async fn routes(&self, cx: &ReadCx, on: &Instance, port: u16) -> Result<Vec<Route>> {
        let ctx = &self.0;
        let seen = ctx.look(cx, &on.id).await?;
        if !seen.is_active() {
            return Err(Error::refused(format!("{} is stopped", on.id))
                .remedy(format!("Start it: corral start {}", on.id)));
        }
        let (found, problems) = addresses::of(ctx, cx, &seen).await;
        let host = jump(ctx.client.uri());
        let ways: Vec<Route> = found
            .into_iter()
            .map(|address| Route {
                why: match address.source.as_deref() {
                    Some("lease") => "DHCP lease",
                    Some("agent") => "guest agent",
                    Some("arp") => "ARP table of the host",
                    _ => "address",
                }
                .to_owned(),
                way: match &host {
                    Some(host) => Way::Jump {
                        host: host.clone(),
                        address: address.ip,
                        port,
                    },
                    None => Way::Tcp(address.ip, port),
                },
                age: None,
            })
            .collect();
        if ways.is_empty() {
            let error = Error::unreachable(format!("no address of {} is known", on.id));
            let why = problems.first().cloned();
            return Err(error.remedy(why.unwrap_or_else(|| {
                "It may not have one yet; with a guest agent in it more is known".to_owned()
            })));
        }
        Ok(ways)
    }
}

impl Written {
    fn file(&self, on: &Instance, source: &str) -> Result<PathBuf> {
        let ctx = &self.0;
        if source != "qemu" {
            return Err(Error::not_found(format!(
                "{} has no log {:?}",
                on.id,
                shown(source)
            )));
        }
        if !is_here(ctx.client.uri()) {
            return Err(Error::unsupported(format!(
                "the log of {} is on its host, and libvirt does not hand it out",
                on.id
            )));
        }
        // A name with a / would lead elsewhere; libvirt takes none.
        let dir = ctx.spec.text("logs").unwrap_or(LOGS);
        Ok(PathBuf::from(dir).join(format!("{}.log", on.name.replace('/', "_"))))
    }
}

#[async_trait]
impl Logs for Written {
    async fn sources(&self, _: &ReadCx, on: &Instance) -> Result<Vec<LogSource>> {
        let file = self.file(on, "qemu")?;
        let Ok(meta) = std::fs::metadata(&file) else {
            return Ok(Vec::new());
        };
        Ok(vec![LogSource {
            name: "qemu".to_owned(),
            title: "QEMU: how it was started, and what it complained of".to_owned(),
            size_bytes: Some(Bytes(meta.len())),
        }])
    }

    async fn read(
        &self,
        _: &ReadCx,
        on: &Instance,
        source: &str,
        tail: usize,
    ) -> Result<Vec<String>> {
        let file = self.file(on, source)?;
        let read = tokio::task::spawn_blocking(move || lines::last(&file, tail));
        read.await
            .map_err(|e| Error::backend(format!("internal: {e}")))?
    }

    fn follow(
        &self,
        on: &Instance,
        source: &str,
        tail: usize,
    ) -> BoxStream<'static, Result<String>> {
        match self.file(on, source) {
            Ok(file) => lines::follow(file, tail).boxed(),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ssh_is_a_way_through() {
        assert_eq!(
            jump("qemu+ssh://me@hv:22/system").as_deref(),
            Some("me@hv:22")
        );
        assert_eq!(jump("qemu+ssh://hv/system?no_tty=1").as_deref(), Some("hv"));
        for uri in ["qemu:///system", "qemu+tls://hv/system", "x"] {
            assert_eq!(jump(uri), None, "{uri}");
        }
    }
}
