//! What the guest wrote to its serial line, and what QEMU said.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::ctx::{Ctx, Paths};
use super::inventory::load;
use crate::backend::contract::{Logs, ReadCx};
use crate::link::lines;
use crate::model::{Bytes, Error, Instance, InstanceId, LogSource, Result};

/// The logs family.
#[derive(Clone, Debug)]
pub struct Written(pub Arc<Ctx>);

/// Word and title of each log.
const SOURCES: [(&str, &str); 2] = [
    ("serial", "the guest's serial line"),
    (
        "qemu",
        "QEMU: how it was started, and what it complained of",
    ),
];

fn file(paths: &Paths, source: &str) -> Option<PathBuf> {
    match source {
        "serial" => Some(paths.serial_log.clone()),
        "qemu" => Some(paths.log.clone()),
        _ => None,
    }
}

impl Written {
    fn file(&self, id: &InstanceId, source: &str) -> Result<PathBuf> {
        let paths = self.0.paths(&load(&self.0, id)?.uuid)?;
        file(&paths, source).ok_or_else(|| Error::not_found(format!("{id} has no log {source:?}")))
    }
}

#[async_trait]
impl Logs for Written {
    async fn sources(&self, _: &ReadCx, on: &Instance) -> Result<Vec<LogSource>> {
        let paths = self.0.paths(&load(&self.0, &on.id)?.uuid)?;
        Ok(SOURCES
            .into_iter()
            .map(|(name, title)| LogSource {
                name: name.to_owned(),
                title: title.to_owned(),
                size_bytes: file(&paths, name)
                    .and_then(|file| std::fs::metadata(file).ok())
                    .map(|meta| Bytes(meta.len())),
            })
            .collect())
    }

    async fn read(
        &self,
        _: &ReadCx,
        on: &Instance,
        source: &str,
        tail: usize,
    ) -> Result<Vec<String>> {
        let file = self.file(&on.id, source)?;
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
        match self.file(&on.id, source) {
            Ok(file) => lines::follow(file, tail).boxed(),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }
}
