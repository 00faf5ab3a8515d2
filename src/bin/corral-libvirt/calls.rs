//! Each call as libvirt has it.

use corral::backend::libvirt::wire::{
    Call, Fault, Listed, Located, Looked, Meta, Move, NAMESPACE, Server, Snap, Thing,
};
use serde_json::Value;
use virt::connect::Connect;
use virt::domain::{Domain, MigrateParameters};
use virt::domain_snapshot::DomainSnapshot;
use virt::error::Error;
use virt::network::Network;
use virt::storage_pool::StoragePool;
use virt::storage_vol::StorageVol;
use virt::sys;

use crate::{ffi, value};

type Answer = Result<Value, Fault>;

/// How long keys are held, milliseconds.
const HOLD: u32 = 40;
/// Between two chords: the first was let go by then.
const BETWEEN: std::time::Duration = std::time::Duration::from_millis(100);

/// An error of libvirt, to be told.
pub fn fault(error: &Error) -> Fault {
    Fault {
        code: error.code().to_raw_number(),
        message: error.message().to_owned(),
    }
}

trait Raw {
    fn to_raw_number(self) -> u32;
}

impl Raw for virt::error::ErrorNumber {
    fn to_raw_number(self) -> u32 {
        self.to_raw()
    }
}

fn ok<T>(result: Result<T, Error>) -> Answer {
    result.map(|_| Value::Null).map_err(|e| fault(&e))
}

fn domain(connect: &Connect, uuid: &str) -> Result<Domain, Fault> {
    Domain::lookup_by_uuid_string(connect, uuid).map_err(|e| fault(&e))
}

fn pool(connect: &Connect, name: &str) -> Result<StoragePool, Fault> {
    StoragePool::lookup_by_name(connect, name).map_err(|e| fault(&e))
}

/// A volume.
pub fn volume(connect: &Connect, of: &str, name: &str) -> Result<StorageVol, Fault> {
    StorageVol::lookup_by_name(&pool(connect, of)?, name).map_err(|e| fault(&e))
}

/// `LIVE` and `CONFIG`, which have these numbers for all functions that take them.
fn affect(live: bool, config: bool) -> u32 {
    u32::from(live) | (u32::from(config) << 1)
}

/// Makes the call.
#[allow(clippy::too_many_lines, reason = "one arm per call")]
pub fn call(connect: &Connect, call: Call) -> Answer {
    let dom = |dom: &corral::backend::libvirt::wire::Dom| domain(connect, &dom.uuid);
    match call {
        Call::Server {} => value(server(connect)?),
        Call::List { all } => value(list(connect, all)?),
        Call::Look { key } => value(look(connect, &key)?),
        Call::Xml { uuids, config } => value(definitions(connect, &uuids, config)),
        Call::Addresses { dom: of, source } => value(addresses(&dom(&of)?, &source)?),
        Call::DiskErrors { dom: of } => value(ffi::disk_errors(&dom(&of)?).map_err(|e| fault(&e))?),
        Call::Agent {
            dom: of,
            command,
            seconds,
        } => {
            let said = dom(&of)?
                .qemu_agent_command(&command, seconds, 0)
                .map_err(|e| fault(&e))?;
            value(said)
        }
        Call::Snapshots { dom: of } => value(snapshots(&dom(&of)?)?),
        Call::Pools {} => value(pools(connect)?),
        Call::Volumes { pool: of } => value(volumes(&pool(connect, &of)?)?),
        Call::VolumeAt { path } => {
            let volume = StorageVol::lookup_by_path(connect, &path).map_err(|e| fault(&e))?;
            let of = StoragePool::lookup_by_volume(&volume).map_err(|e| fault(&e))?;
            value((of.get_name().map_err(|e| fault(&e))?, thing_of(&volume)))
        }
        Call::VolumeIn { pool, name } => value(thing_of(&volume(connect, &pool, &name)?)),
        Call::Networks {} => value(networks(connect)?),
        Call::JobOf { dom: of } => value(ffi::job(&dom(&of)?).map_err(|e| fault(&e))?),
        Call::BlockJobOf { dom: of, disk } => {
            value(ffi::block_job(&dom(&of)?, &disk).map_err(|e| fault(&e))?)
        }
        Call::DomainCaps {
            arch,
            machine,
            virt,
        } => {
            let xml = connect.get_domain_capabilities(
                None,
                arch.as_deref(),
                machine.as_deref(),
                virt.as_deref(),
                0,
            );
            value(xml.map_err(|e| fault(&e))?)
        }
        Call::CompareCpu { xml } => {
            let result = connect.compare_cpu(&xml, 0);
            value(i64::from(result.map_err(|e| fault(&e))?))
        }
        Call::Start {
            dom: of,
            paused,
            fresh,
        } => {
            let flags = flag(paused, sys::VIR_DOMAIN_START_PAUSED)
                | flag(fresh, sys::VIR_DOMAIN_START_FORCE_BOOT);
            ok(dom(&of)?.create_with_flags(flags))
        }
        Call::Shutdown { dom: of, agent } => {
            let by = if agent {
                sys::VIR_DOMAIN_SHUTDOWN_GUEST_AGENT
            } else {
                sys::VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN
            };
            let of = dom(&of)?;
            match of.shutdown_flags(by) {
                // A driver without ways to choose from has one.
                Err(e) if !agent && e.code() == virt::error::ErrorNumber::InvalidArg => {
                    ok(of.shutdown())
                }
                other => ok(other),
            }
        }
        Call::Destroy { dom: of } => ok(dom(&of)?.destroy()),
        Call::Reboot { dom: of, agent } => {
            let by = if agent {
                sys::VIR_DOMAIN_REBOOT_GUEST_AGENT
            } else {
                sys::VIR_DOMAIN_REBOOT_ACPI_POWER_BTN
            };
            let of = dom(&of)?;
            match of.reboot(by) {
                Err(e) if !agent && e.code() == virt::error::ErrorNumber::InvalidArg => {
                    ok(of.reboot(0))
                }
                other => ok(other),
            }
        }
        Call::Reset { dom: of } => ok(dom(&of)?.reset()),
        Call::Suspend { dom: of } => ok(dom(&of)?.suspend()),
        Call::Resume { dom: of } => ok(dom(&of)?.resume()),
        Call::Wakeup { dom: of } => ok(dom(&of)?.pm_wakeup(0)),
        Call::ManagedSave { dom: of } => ok(dom(&of)?.managed_save(0)),
        Call::ManagedSaveRemove { dom: of } => ok(dom(&of)?.managed_save_remove(0)),
        Call::Define { xml, .. } => {
            let flags = sys::VIR_DOMAIN_DEFINE_VALIDATE;
            let defined = match Domain::define_xml_flags(connect, &xml, flags) {
                // A driver without flags checks in its own way.
                Err(e)
                    if e.code() == virt::error::ErrorNumber::InvalidArg
                        || e.code() == virt::error::ErrorNumber::NoSupport =>
                {
                    Domain::define_xml(connect, &xml)
                }
                other => other,
            };
            let defined = defined.map_err(|e| fault(&e))?;
            value(defined.get_uuid_string().map_err(|e| fault(&e))?)
        }
        Call::Undefine {
            dom: of,
            keep_nvram,
        } => undefine(&dom(&of)?, keep_nvram),
        Call::Rename { dom: of, to } => ok(dom(&of)?.rename(&to, 0)),
        Call::Autostart { dom: of, on } => ok(dom(&of)?.set_autostart(on)),
        Call::SetMeta {
            dom: of,
            meta,
            text,
            live,
            config,
        } => {
            let (kind, key, uri) = match meta {
                Meta::Description => (sys::VIR_DOMAIN_METADATA_DESCRIPTION, None, None),
                Meta::Own => (
                    sys::VIR_DOMAIN_METADATA_ELEMENT,
                    text.as_deref().map(|_| "corral"),
                    Some(NAMESPACE),
                ),
            };
            ok(dom(&of)?.set_metadata(
                kind.cast_signed(),
                text.as_deref(),
                key,
                uri,
                affect(live, config),
            ))
        }
        Call::SetVcpus {
            dom: of,
            count,
            maximum,
            live,
            config,
        } => {
            let flags = affect(live, config) | flag(maximum, sys::VIR_DOMAIN_VCPU_MAXIMUM);
            ok(dom(&of)?.set_vcpus_flags(count, flags))
        }
        Call::SetMemory {
            dom: of,
            kib,
            maximum,
            live,
            config,
        } => {
            let flags = affect(live, config) | flag(maximum, sys::VIR_DOMAIN_MEM_MAXIMUM);
            ok(dom(&of)?.set_memory_flags(kib, flags))
        }
        Call::Attach {
            dom: of,
            xml,
            live,
            config,
            ..
        } => ok(dom(&of)?.attach_device_flags(&xml, affect(live, config))),
        Call::Detach {
            dom: of,
            xml,
            live,
            config,
            ..
        } => ok(dom(&of)?.detach_device_flags(&xml, affect(live, config))),
        Call::Update {
            dom: of,
            xml,
            live,
            config,
            force,
            ..
        } => {
            let flags = affect(live, config) | flag(force, sys::VIR_DOMAIN_DEVICE_MODIFY_FORCE);
            ok(dom(&of)?.update_device_flags(&xml, flags))
        }
        Call::BlockResize {
            dom: of,
            disk,
            size,
        } => ok(dom(&of)?.block_resize(&disk, size, sys::VIR_DOMAIN_BLOCK_RESIZE_BYTES)),
        Call::BlockCopy {
            dom: of, disk, xml, ..
        } => ok(ffi::block_copy(&dom(&of)?, &disk, &xml)),
        Call::BlockJobAbort {
            dom: of,
            disk,
            pivot,
        } => ok(ffi::block_job_abort(&dom(&of)?, &disk, pivot)),
        Call::SnapshotCreate {
            dom: of,
            xml,
            disk_only,
            quiesce,
            ..
        } => {
            let flags = flag(disk_only, sys::VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY)
                | flag(disk_only, sys::VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC)
                | flag(quiesce, sys::VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE);
            ok(DomainSnapshot::create_xml(&dom(&of)?, &xml, flags))
        }
        Call::SnapshotRevert { dom: of, name } => {
            let snapshot = DomainSnapshot::lookup_by_name(&dom(&of)?, &name, 0);
            ok(snapshot.map_err(|e| fault(&e))?.revert(0))
        }
        Call::SnapshotDelete {
            dom: of,
            name,
            metadata_only,
        } => {
            let snapshot = DomainSnapshot::lookup_by_name(&dom(&of)?, &name, 0);
            let flags = flag(metadata_only, sys::VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY);
            ok(snapshot.map_err(|e| fault(&e))?.delete(flags))
        }
        Call::VolCreate { pool: of, xml, .. } => {
            let volume = StorageVol::create_xml(&pool(connect, &of)?, &xml, 0);
            let volume = volume.map_err(|e| fault(&e))?;
            value(volume.get_path().map_err(|e| fault(&e))?)
        }
        Call::VolClone {
            pool: of,
            xml,
            from_pool,
            from,
            ..
        } => {
            let source = volume(connect, &from_pool, &from)?;
            let copy = StorageVol::create_xml_from(&pool(connect, &of)?, &xml, &source, 0);
            let copy = copy.map_err(|e| fault(&e))?;
            value(copy.get_path().map_err(|e| fault(&e))?)
        }
        Call::VolResize { pool, name, size } => ok(volume(connect, &pool, &name)?.resize(size, 0)),
        Call::VolDelete { pool, name } => ok(volume(connect, &pool, &name)?.delete(0)),
        Call::PoolRefresh { pool: of } => ok(pool(connect, &of)?.refresh(0)),
        Call::SendKey {
            dom: of, chords, ..
        } => {
            let of = dom(&of)?;
            for mut keys in chords {
                let count = i32::try_from(keys.len()).unwrap_or(0);
                let linux = sys::VIR_KEYCODE_SET_LINUX;
                of.send_key(linux, HOLD, keys.as_mut_ptr(), count, 0)
                    .map_err(|e| fault(&e))?;
                // The emulated keyboard has little room: what comes too fast is lost without a word.
                std::thread::sleep(BETWEEN);
            }
            Ok(Value::Null)
        }
        Call::Migrate { dom: of, by } => migrate(&dom(&of)?, &by),
        Call::AbortJob { dom: of } => ok(ffi::abort_job(&dom(&of)?)),
        Call::StartPostCopy { dom: of } => ok(ffi::start_postcopy(&dom(&of)?)),
        Call::Upload { .. } | Call::Download { .. } | Call::Screenshot { .. } => Err(Fault {
            code: 0,
            message: "bytes have a helper of their own".to_owned(),
        }),
    }
}

fn flag(on: bool, flag: u32) -> u32 {
    if on { flag } else { 0 }
}

fn server(connect: &Connect) -> Result<Server, Fault> {
    let node = connect.get_node_info().ok();
    Ok(Server {
        hostname: connect.get_hostname().ok(),
        driver: connect.get_type().map_err(|e| fault(&e))?,
        version: connect.get_lib_version().map_err(|e| fault(&e))?,
        hypervisor: connect.get_hyp_version().ok(),
        cpu: node.map(|node| (node.model, node.cpus, node.memory.saturating_mul(1024))),
        free: ffi::free_memory(connect).or_else(|| connect.get_free_memory().ok()),
        capabilities: connect.get_capabilities().ok(),
    })
}

/// What the list needs.
const BRIEF: u32 = sys::VIR_DOMAIN_STATS_STATE
    | sys::VIR_DOMAIN_STATS_CPU_TOTAL
    | sys::VIR_DOMAIN_STATS_BALLOON
    | sys::VIR_DOMAIN_STATS_VCPU;
/// And what it needs for rates and sizes.
const ALL: u32 = BRIEF | sys::VIR_DOMAIN_STATS_INTERFACE | sys::VIR_DOMAIN_STATS_BLOCK;

fn uuids(connect: &Connect, flags: u32) -> Result<Vec<String>, Error> {
    let domains = connect.list_all_domains(flags)?;
    domains.iter().map(Domain::get_uuid_string).collect()
}

fn list(connect: &Connect, all: bool) -> Result<Vec<Listed>, Fault> {
    let kinds = if all { ALL } else { BRIEF };
    let mut listed = match ffi::stats(connect, kinds) {
        Ok(listed) => listed,
        // A driver without statistics has a list all the same.
        Err(e) if e.code() == virt::error::ErrorNumber::NoSupport => plain(connect)?,
        Err(e) => return Err(fault(&e)),
    };
    // Three more lists say what the first does not, however many domains there are.
    let persistent = uuids(connect, sys::VIR_CONNECT_LIST_DOMAINS_PERSISTENT);
    let autostart = uuids(connect, sys::VIR_CONNECT_LIST_DOMAINS_AUTOSTART).ok();
    let saved = uuids(connect, sys::VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE).unwrap_or_default();
    let persistent = persistent.map_err(|e| fault(&e))?;
    for one in &mut listed {
        one.persistent = persistent.contains(&one.uuid);
        one.autostart = autostart.as_ref().map(|all| all.contains(&one.uuid));
        one.saved = saved.contains(&one.uuid);
    }
    Ok(listed)
}

fn plain(connect: &Connect) -> Result<Vec<Listed>, Fault> {
    let domains = connect.list_all_domains(0).map_err(|e| fault(&e))?;
    Ok(domains.iter().filter_map(plain_one).collect())
}

/// `None` for one that is gone by now.
fn plain_one(domain: &Domain) -> Option<Listed> {
    let mut stats = std::collections::BTreeMap::new();
    if let Ok((state, reason)) = domain.get_state() {
        stats.insert("state.state".to_owned(), state.into());
        stats.insert("state.reason".to_owned(), reason.into());
    }
    Some(Listed {
        uuid: domain.get_uuid_string().ok()?,
        name: domain.get_name().ok()?,
        id: domain.get_id(),
        stats,
        ..Listed::default()
    })
}

fn look(connect: &Connect, key: &str) -> Result<Looked, Fault> {
    let domain = Domain::lookup_by_uuid_string(connect, key)
        .or_else(|_| Domain::lookup_by_name(connect, key))
        .map_err(|e| fault(&e))?;
    let listed = match ffi::stats_of(&domain, ALL) {
        Ok(Some(listed)) => Some(listed),
        _ => plain_one(&domain),
    };
    let mut listed = listed.ok_or_else(|| Fault {
        code: sys::VIR_ERR_NO_DOMAIN,
        message: "it is gone".to_owned(),
    })?;
    listed.persistent = domain.is_persistent().map_err(|e| fault(&e))?;
    listed.autostart = domain.get_autostart().ok();
    listed.saved = domain.has_managed_save(0).unwrap_or(false);
    let live = domain.get_xml_desc(0).map_err(|e| fault(&e))?;
    // With passwords: what is defined anew without them would lose them. Who may only read gets none.
    let inactive = sys::VIR_DOMAIN_XML_INACTIVE;
    let config = domain
        .get_xml_desc(inactive | sys::VIR_DOMAIN_XML_SECURE)
        .or_else(|_| domain.get_xml_desc(inactive))
        .map_err(|e| fault(&e))?;
    Ok(Looked {
        listed,
        live,
        config,
    })
}

fn definitions(
    connect: &Connect,
    uuids: &[String],
    config: bool,
) -> Vec<(String, Result<String, Fault>)> {
    let flags = if config {
        sys::VIR_DOMAIN_XML_INACTIVE
    } else {
        0
    };
    let read = |uuid: &String| {
        let xml = domain(connect, uuid)
            .and_then(|domain| domain.get_xml_desc(flags).map_err(|e| fault(&e)));
        (uuid.clone(), xml)
    };
    // A few at once: the daemon answers as many callers.
    const AT_ONCE: usize = 4;
    let part = uuids.len().div_ceil(AT_ONCE).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = uuids
            .chunks(part)
            .map(|part| scope.spawn(move || part.iter().map(read).collect::<Vec<_>>()))
            .collect();
        parts
            .into_iter()
            .filter_map(|part| part.join().ok())
            .flatten()
            .collect()
    })
}

fn addresses(domain: &Domain, source: &str) -> Result<Vec<Located>, Fault> {
    let source = match source {
        "arp" => sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP,
        _ => sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
    };
    let found = domain
        .interface_addresses(source, 0)
        .map_err(|e| fault(&e))?;
    let each = found.into_iter().flat_map(|interface| {
        let (name, mac) = (interface.name, interface.hwaddr);
        interface.addrs.into_iter().map(move |address| Located {
            interface: (!name.is_empty()).then(|| name.clone()),
            mac: (!mac.is_empty()).then(|| mac.to_lowercase()),
            ip: address.addr,
        })
    });
    Ok(each.collect())
}

fn snapshots(domain: &Domain) -> Result<Vec<Snap>, Fault> {
    let all = domain.list_all_snapshots(0).map_err(|e| fault(&e))?;
    Ok(all
        .iter()
        .filter_map(|one| {
            Some(Snap {
                name: one.get_name().ok()?,
                xml: one.get_xml_desc(0).map_err(|e| fault(&e)),
                current: one.is_current(0).unwrap_or(false),
            })
        })
        .collect())
}

fn pools(connect: &Connect) -> Result<Vec<Thing>, Fault> {
    let all = connect.list_all_storage_pools(0).map_err(|e| fault(&e))?;
    Ok(all
        .iter()
        .filter_map(|one| {
            Some(Thing {
                name: one.get_name().ok()?,
                xml: one.get_xml_desc(0).map_err(|e| fault(&e)),
                active: one.is_active().ok(),
            })
        })
        .collect())
}

fn thing_of(volume: &StorageVol) -> Thing {
    Thing {
        name: volume.get_name().unwrap_or_default(),
        xml: volume.get_xml_desc(0).map_err(|e| fault(&e)),
        active: None,
    }
}

fn volumes(pool: &StoragePool) -> Result<Vec<Thing>, Fault> {
    // Files come and go beside libvirt; a pool that cannot look again still has its last look.
    let _ = pool.refresh(0);
    let all = pool.list_all_volumes(0).map_err(|e| fault(&e))?;
    Ok(all.iter().map(thing_of).collect())
}

fn networks(connect: &Connect) -> Result<Vec<Thing>, Fault> {
    let all = connect.list_all_networks(0).map_err(|e| fault(&e))?;
    Ok(all
        .iter()
        .filter_map(|one: &Network| {
            Some(Thing {
                name: one.get_name().ok()?,
                xml: one.get_xml_desc(0).map_err(|e| fault(&e)),
                active: one.is_active().ok(),
            })
        })
        .collect())
}

fn undefine(domain: &Domain, keep_nvram: bool) -> Answer {
    let nvram = if keep_nvram {
        sys::VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
    } else {
        sys::VIR_DOMAIN_UNDEFINE_NVRAM
    };
    let all = sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        | sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        | nvram;
    match domain.undefine_flags(all) {
        // A driver that knows fewer flags has fewer things to leave behind.
        Err(e) if e.code() == virt::error::ErrorNumber::InvalidArg => {
            let fewer =
                sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA;
            ok(domain.undefine_flags(fewer))
        }
        other => ok(other),
    }
}

fn migrate(domain: &Domain, by: &Move) -> Answer {
    let flags = sys::VIR_MIGRATE_LIVE
        | sys::VIR_MIGRATE_PERSIST_DEST
        | sys::VIR_MIGRATE_UNDEFINE_SOURCE
        | flag(by.peer, sys::VIR_MIGRATE_PEER2PEER)
        | flag(by.tunnelled, sys::VIR_MIGRATE_TUNNELLED)
        | flag(by.copy_disks, sys::VIR_MIGRATE_NON_SHARED_DISK)
        | flag(by.unsafe_too, sys::VIR_MIGRATE_UNSAFE)
        | flag(by.postcopy, sys::VIR_MIGRATE_POSTCOPY);
    let parameters = MigrateParameters {
        uri: by.meet.clone(),
        listen_address: by.listen.clone(),
        ..MigrateParameters::default()
    };
    if by.peer {
        return ok(domain.migrate_to_uri3(Some(&by.to), parameters, flags));
    }
    let other = Connect::open(Some(&by.to)).map_err(|e| fault(&e))?;
    let _ = other.set_keep_alive(5, 3);
    ok(domain.migrate3(&other, parameters, flags))
}
