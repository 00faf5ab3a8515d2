//! The native definition, as it is edited.

use async_trait::async_trait;

use super::act::Act;
use super::backend::Demo;
use super::detail::native;
use super::guest::Guest;
use super::work::{Work, run};
use crate::backend::contract::{Changes, EditNative, EditRequest, Prepared, ReadCx, TaskCx};
use crate::model::{
    Bytes, Error, Instance, NativeFormat, NativeText, Outcome, Result, State, shown,
};

#[async_trait]
impl EditNative for Demo {
    async fn native(&self, cx: &ReadCx, on: &Instance) -> Result<NativeText> {
        self.world.answer(cx, "edit.native").await?;
        let guest = self.world.guest_as(on)?;
        if guest.state() == State::Broken {
            let why = guest.base.reason.as_deref().unwrap_or("no reason given");
            return Err(
                Error::backend(format!("{} cannot be read: {why}", guest.id()))
                    .in_context(self.world.name()),
            );
        }
        let native = native(self.world.dialect, &guest);
        Ok(NativeText {
            format: native.format,
            text: native.text,
            token: guest.token(),
        })
    }
}

#[async_trait]
impl Changes<EditRequest> for Demo {
    async fn prepare(&self, cx: &ReadCx, on: &Instance, request: EditRequest) -> Result<Prepared> {
        let guest = match self.look(cx, "edit.prepare", on).await? {
            Ok(guest) => guest,
            Err(refused) => return Ok(refused),
        };
        let id = guest.id();
        if request.base != guest.token() {
            return Err(Error::conflict(format!(
                "{id} has changed since its definition was read. Nothing was done"
            ))
            .remedy(format!("Edit it again: corral edit {id}"))
            .in_context(self.world.name()));
        }
        let now = native(self.world.dialect, &guest);
        if request.text == now.text {
            return Ok(Prepared::unchanged(
                guest.token(),
                format!("the definition of {id} is as it was"),
            ));
        }
        let Some(read) = Read::of(now.format, &request.text) else {
            return Ok(Self::refuse(
                &guest,
                format!("the new definition of {id} cannot be read"),
                format!("Mend it: corral edit {id}"),
            ));
        };
        if read
            .name
            .is_some_and(|name| name != shown(&guest.base.name))
        {
            return Ok(Self::refuse(
                &guest,
                format!("the name of {id} is not changed like that"),
                format!("Leave it, and then: corral rename {id} NAME"),
            ));
        }
        let act = Act::Rewrite { text: request.text };
        let done = format!("{id} has another definition");
        let mut prepared = Work::new(vec![act], done).plan(&self.world, &guest);
        if guest.state().is_active() {
            prepared.notes.push(format!(
                "What a running one does not take waits for: corral restart --cold {id}"
            ));
        }
        Ok(prepared)
    }

    async fn run(&self, cx: &TaskCx, prepared: Prepared) -> Result<Outcome> {
        run(&self.world, cx, prepared).await
    }
}

/// Takes over what a definition says of sizes; what the simulation does not know is dropped.
pub(super) fn adopt(guest: &mut Guest, text: &str) {
    let formats = [
        NativeFormat::Json,
        NativeFormat::Toml,
        NativeFormat::Xml,
        NativeFormat::Yaml,
        NativeFormat::Text,
    ];
    let read = formats.iter().find_map(|format| Read::of(*format, text));
    if let Some(read) = read {
        guest.base.cpus = read.cpus.or(guest.base.cpus);
        guest.base.memory_bytes = read.memory.map(Bytes::mib).or(guest.base.memory_bytes);
    }
}

/// What is read of a definition.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    name: Option<String>,
    cpus: Option<u32>,
    /// MiB.
    memory: Option<u64>,
}

impl Read {
    /// `None`: it is no text of this form, or names no sizes.
    fn of(format: NativeFormat, text: &str) -> Option<Self> {
        let read = match format {
            NativeFormat::Toml => {
                let table: toml::Table = text.parse().ok()?;
                let memory = table.get("memory")?.as_str()?;
                Self {
                    name: table.get("name")?.as_str().map(str::to_owned),
                    cpus: u32::try_from(table.get("cpus")?.as_integer()?).ok(),
                    memory: memory.strip_suffix("MiB")?.trim().parse().ok(),
                }
            }
            NativeFormat::Json => {
                let value: serde_json::Value = serde_json::from_str(text).ok()?;
                Self {
                    name: value.get("name")?.as_str().map(str::to_owned),
                    cpus: u32::try_from(value.get("numCpu")?.as_u64()?).ok(),
                    memory: value.get("memoryMiB")?.as_u64(),
                }
            }
            NativeFormat::Xml => {
                let whole = text.trim();
                if !whole.starts_with("<domain") || !whole.ends_with("</domain>") {
                    return None;
                }
                let between = |open: &str, close: &str| {
                    let rest = whole.split_once(open)?.1;
                    Some(rest.split_once(close)?.0.trim().to_owned())
                };
                Self {
                    name: None,
                    cpus: between("<vcpu>", "</vcpu>")?.parse().ok(),
                    memory: between("<memory unit='MiB'>", "</memory>")?.parse().ok(),
                }
            }
            NativeFormat::Yaml | NativeFormat::Text => Self::of_lines(text)?,
        };
        (read.cpus? > 0 && read.memory? >= 16).then_some(read)
    }

    fn of_lines(text: &str) -> Option<Self> {
        let value = |keys: &[&str]| {
            text.lines().find_map(|line| {
                let (key, value) = line.trim().split_once(": ")?;
                let value = value.trim().trim_matches('"');
                keys.contains(&key).then(|| value.to_owned())
            })
        };
        let memory = value(&["limits.memory", "memory"])?;
        Some(Self {
            name: None,
            cpus: value(&["limits.cpu", "cores"])?.parse().ok(),
            memory: memory.trim_end_matches("MiB").parse().ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_as_it_is_written() {
        let texts = [
            (
                NativeFormat::Toml,
                "name = \"a\"\ncpus = 3\nmemory = \"512MiB\"\n",
            ),
            (
                NativeFormat::Json,
                "{\"name\":\"a\",\"numCpu\":3,\"memoryMiB\":512}",
            ),
            (
                NativeFormat::Xml,
                "<domain type='kvm'><memory unit='MiB'>512</memory><vcpu>3</vcpu></domain>\n",
            ),
            (
                NativeFormat::Yaml,
                "config:\n  limits.cpu: \"3\"\n  limits.memory: 512MiB\n",
            ),
            (NativeFormat::Text, "cores: 3\nmemory: 512\n"),
        ];
        for (format, text) in texts {
            let read = Read::of(format, text).unwrap();
            assert_eq!((read.cpus, read.memory), (Some(3), Some(512)), "{format:?}");
            for bad in ["", "nonsense", "\u{0}", "<domain>", "{}", "cpus = 0"] {
                assert_eq!(Read::of(format, bad), None, "{format:?} {bad:?}");
            }
        }
    }
}
