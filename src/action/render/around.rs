//! One block per host, storage or network.

use super::listing::{part_text, volumes};
use super::style::Role;
use super::table::Layout;
use crate::action::around::id_of;
use crate::model::{Host, Network, Result, StorageDetail, age, shown};

/// Column where the value stands.
const VALUE: usize = 14;

/// Blocks, an empty line between them.
pub(super) fn joined<T>(all: &[T], block: impl Fn(&T) -> String) -> String {
    all.iter().map(block).collect::<Vec<_>>().join("\n")
}

struct Block(String);

impl Block {
    fn new(name: &str, id: &str, colour: bool) -> Self {
        let head = format!("{}    {id}", shown(name));
        Self(format!("{}\n", Role::Strong.paint(&head, colour)))
    }

    fn line(&mut self, label: &str, text: &str) {
        let label = shown(label);
        let line = format!("  {label:<VALUE$} {}", shown(text));
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }

    fn maybe(&mut self, label: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.line(label, text);
        }
    }
}

pub(super) fn host(host: &Host, colour: bool) -> String {
    let mut block = Block::new(&host.name, &id_of(host), colour);
    block.line("Online", if host.online { "yes" } else { "no" });
    block.maybe("CPUs", host.cpus.map(|n| n.to_string()).as_deref());
    let load = host
        .load
        .map(|[one, five, fifteen]| format!("{one:.2} {five:.2} {fifteen:.2}"));
    block.maybe("Load", load.as_deref());
    let memory = match (host.memory_used_bytes, host.memory_bytes) {
        (Some(used), Some(all)) => Some(format!("{} in use", part_text(used, all))),
        (_, all) => all.map(|all| all.to_string()),
    };
    block.maybe("Memory", memory.as_deref());
    block.maybe("Running", host.running.map(|n| n.to_string()).as_deref());
    block.maybe("Acceleration", host.acceleration.as_deref());
    block.maybe("Kernel", host.kernel.as_deref());
    block.maybe("Up", host.uptime_seconds.map(age).as_deref());
    for (label, text) in &host.facts {
        block.line(label, text);
    }
    block.0
}

pub(super) fn network(network: &Network, colour: bool) -> String {
    let mut block = Block::new(&network.name, &id_of(network), colour);
    block.line("Type", &network.kind);
    block.maybe("Up", network.active.map(|up| if up { "yes" } else { "no" }));
    if !network.addresses.is_empty() {
        block.line("Addresses", &network.addresses.join(", "));
    }
    block.maybe("Host", network.host.as_deref());
    let usable = network
        .fault
        .as_ref()
        .map_or_else(|| "yes".to_owned(), |fault| format!("no: {fault}"));
    block.line("Usable", &usable);
    block.maybe("Note", network.note.as_deref());
    if let Some(users) = &network.used_by {
        let ids: Vec<String> = users.iter().map(ToString::to_string).collect();
        block.line(
            "Used by",
            if ids.is_empty() {
                "nobody".to_owned()
            } else {
                ids.join(", ")
            }
            .as_str(),
        );
    }
    block.0
}

pub(super) fn pools(all: &[StorageDetail], layout: &Layout) -> Result<String> {
    let blocks: Vec<String> = all
        .iter()
        .map(|detail| pool(detail, layout))
        .collect::<Result<_>>()?;
    Ok(blocks.join("\n"))
}

fn pool(detail: &StorageDetail, layout: &Layout) -> Result<String> {
    let pool = &detail.pool;
    let mut block = Block::new(&pool.name, &id_of(pool), layout.colour);
    block.line("Type", &pool.kind);
    block.maybe("Place", pool.place.as_deref());
    block.maybe("Host", pool.host.as_deref());
    let space = match (pool.used_bytes, pool.size_bytes) {
        (Some(used), Some(all)) => Some(format!("{} in use", part_text(used, all))),
        (_, all) => all.map(|all| all.to_string()),
    };
    block.maybe("Space", space.as_deref());
    block.maybe("Fault", pool.fault.as_deref());
    let table = volumes(&detail.volumes).table;
    if table.rows.is_empty() {
        block.line("Volumes", "none");
        return Ok(block.0);
    }
    for line in table.print(layout)?.lines() {
        block.0.push_str(&format!("  {line}\n"));
    }
    Ok(block.0)
}
