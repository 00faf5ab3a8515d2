//! Snapshots inside of the images: by `qemu-img` while the VM is off, by its monitor while it runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::definition::Definition;
use super::super::disks::live;
use super::super::image::{self, Image, Internal};
use crate::backend::contract::Env;
use crate::link::child::{Cmd, run};
use crate::link::qmp::Qmp;
use crate::model::{Error, Result, shown};

/// QEMU answers nothing while it writes RAM to disk; a change is never cut by a read's deadline.
const JOB_ANSWER: Duration = Duration::from_secs(3600);
/// What the names of our jobs begin with.
const JOB: &str = "corral-";
/// Between looks at a job when its event does not come.
const POLL: Duration = Duration::from_millis(500);
/// Commands that are no jobs.
const ANSWER: Duration = Duration::from_secs(30);
/// A job that was left is waited for.
const SETTLE: Duration = Duration::from_secs(120);
/// `qemu-img snapshot` writes tables only; a slow disk may take its time.
const OFFLINE: Duration = Duration::from_secs(600);

/// How the images of a VM are reached right now.
pub enum Reach<'a> {
    /// It is off.
    Files(&'a Env),
    /// It runs.
    Monitor(&'a mut Qmp),
}

/// One image of a VM: its node and its file.
pub type Node = (String, PathBuf);

/// What is inside of each node's image.
pub type Inside = BTreeMap<String, Vec<Internal>>;

impl Reach<'_> {
    /// The snapshots in each image, as they are on disk.
    pub async fn list(&mut self, nodes: &[Node]) -> Result<Inside> {
        let mut found = Inside::new();
        match self {
            Self::Files(env) => {
                for (node, path) in nodes {
                    let image = image::info(env, path, true).await?;
                    found.insert(node.clone(), image.snapshots);
                }
            }
            Self::Monitor(qmp) => {
                let answer = qmp
                    .execute("query-named-block-nodes", Value::Null, ANSWER)
                    .await?;
                for ((node, _), now) in nodes.iter().zip(present(qmp, nodes).await?) {
                    let image = answer
                        .as_array()
                        .into_iter()
                        .flatten()
                        .find(|item| item.get("node-name").and_then(Value::as_str) == Some(&now))
                        .and_then(|item| Image::from_json(item.get("image")?))
                        .ok_or_else(|| {
                            Error::backend(format!("its QEMU says nothing of {}", shown(node)))
                        })?;
                    found.insert(node.clone(), image.snapshots);
                }
            }
        }
        Ok(found)
    }

    /// Takes a snapshot in every image, or in none.
    pub async fn create(&mut self, nodes: &[Node], tag: &str, memory: bool) -> Result<()> {
        let taken = match self {
            Self::Files(env) => {
                let mut taken = Ok(());
                for (_, path) in nodes {
                    taken = offline(env, "-c", tag, path).await;
                    if taken.is_err() {
                        break;
                    }
                }
                taken
            }
            Self::Monitor(qmp) if memory => {
                let nodes = present(qmp, nodes).await?;
                let state = nodes.first().cloned().unwrap_or_default();
                job(
                    qmp,
                    "snapshot-save",
                    json!({"tag": tag, "vmstate": state, "devices": nodes}),
                )
                .await
            }
            Self::Monitor(_) => self.mark(nodes, tag, JOB_ANSWER).await,
        };
        if let Err(error) = taken {
            // What one image has got already would block the name.
            let _ = self.delete(nodes, tag).await;
            return Err(error);
        }
        Ok(())
    }

    /// Marks every image of a running VM at the same moment, without RAM.
    pub async fn mark(&mut self, nodes: &[Node], tag: &str, limit: Duration) -> Result<()> {
        let Self::Monitor(qmp) = self else {
            return Err(Error::refused("it does not run"));
        };
        // One transaction: in all images or in none.
        let actions: Vec<Value> = present(qmp, nodes)
            .await?
            .iter()
            .map(|node| {
                json!({"type": "blockdev-snapshot-internal-sync",
                    "data": {"device": node, "name": tag}})
            })
            .collect();
        qmp.execute("transaction", json!({"actions": actions}), limit)
            .await
            .map(drop)
    }

    /// Deletes a snapshot from every image that has it.
    pub async fn delete(&mut self, nodes: &[Node], tag: &str) -> Result<()> {
        let inside = self.list(nodes).await?;
        let having: Vec<Node> = nodes
            .iter()
            .filter(|(node, _)| {
                inside
                    .get(node)
                    .is_some_and(|s| s.iter().any(|i| i.tag == tag))
            })
            .cloned()
            .collect();
        if having.is_empty() {
            return Ok(());
        }
        match self {
            Self::Files(env) => {
                for (_, path) in &having {
                    offline(env, "-d", tag, path).await?;
                }
                Ok(())
            }
            Self::Monitor(qmp) => {
                let having = present(qmp, &having).await?;
                job(
                    qmp,
                    "snapshot-delete",
                    json!({"tag": tag, "devices": having}),
                )
                .await
            }
        }
    }

    /// Takes every image back. Only while the VM is off.
    pub async fn apply(&mut self, nodes: &[Node], tag: &str) -> Result<()> {
        let Self::Files(env) = self else {
            return Err(Error::refused("it is running"));
        };
        for (_, path) in nodes {
            offline(env, "-a", tag, path).await?;
        }
        Ok(())
    }
}

/// Takes RAM and images of a VM back whose CPUs are halted, and leaves them so. A failure leaves
/// it in QEMU's state "restore-vm".
///
/// # Errors
/// QEMU's own words.
pub async fn load(qmp: &mut Qmp, nodes: &[Node], tag: &str) -> Result<()> {
    let nodes = present(qmp, nodes).await?;
    let state = nodes.first().cloned().unwrap_or_default();
    job(
        qmp,
        "snapshot-load",
        json!({"tag": tag, "vmstate": state, "devices": nodes}),
    )
    .await
}

/// Loads RAM and images as [`load`] does, and lets the CPUs go on: from the disks alone where that
/// failed.
///
/// # Errors
/// As [`load`].
pub async fn load_and_go(qmp: &mut Qmp, nodes: &[Node], tag: &str) -> Result<()> {
    let loaded = load(qmp, nodes, tag).await;
    if loaded.is_err() {
        // QEMU stays at "restore-vm" otherwise, with devices half of them loaded.
        qmp.execute("system_reset", Value::Null, ANSWER).await?;
    }
    qmp.execute("cont", Value::Null, ANSWER).await?;
    loaded
}

/// Whether its CPUs run.
///
/// # Errors
/// Those of the monitor.
pub async fn goes(qmp: &mut Qmp) -> Result<bool> {
    let status = qmp.execute("query-status", Value::Null, ANSWER).await?;
    Ok(status.get("status").and_then(Value::as_str) == Some("running"))
}

/// What the nodes are called in the running QEMU: a disk that was moved while it ran is another one
/// than it was started with.
///
/// # Errors
/// Those of the monitor.
pub async fn present(qmp: &mut Qmp, nodes: &[Node]) -> Result<Vec<String>> {
    let drives = qmp.execute("query-block", Value::Null, ANSWER).await?;
    Ok(nodes
        .iter()
        .map(|(node, _)| {
            live::items(&drives)
                .find(|drive| live::is_drive(drive, node))
                .and_then(live::node_in)
                .unwrap_or(node)
                .to_owned()
        })
        .collect())
}

/// The command for one image.
pub fn offline_cmd(tool: &std::path::Path, what: &str, tag: &str, path: &std::path::Path) -> Cmd {
    Cmd::new(tool).args(["snapshot", "-q", what, tag]).arg(path)
}

async fn offline(env: &Env, what: &str, tag: &str, path: &std::path::Path) -> Result<()> {
    let cmd = offline_cmd(&image::tool(env)?, what, tag, path);
    let output = run(&cmd, OFFLINE).await?;
    if output.status.success() {
        return Ok(());
    }
    Err(image::complaint(path, &output))
}

/// Runs a job to its end. The reply to its command only means that the job was made.
async fn job(qmp: &mut Qmp, command: &str, mut arguments: Value) -> Result<()> {
    let id = format!("{JOB}{}", uuid::Uuid::new_v4().simple());
    if let Some(map) = arguments.as_object_mut() {
        map.insert("job-id".to_owned(), Value::from(id.as_str()));
    }
    qmp.execute(command, arguments, JOB_ANSWER).await?;
    loop {
        let event = qmp.event(POLL).await?;
        let worth_a_look = event.is_none_or(|event| {
            event.name == "JOB_STATUS_CHANGE"
                && event.data.get("id").and_then(Value::as_str) == Some(&id)
                && matches!(
                    event.data.get("status").and_then(Value::as_str),
                    Some("concluded" | "null")
                )
        });
        if !worth_a_look {
            continue;
        }
        let jobs = qmp.execute("query-jobs", Value::Null, JOB_ANSWER).await?;
        let found = jobs.as_array().and_then(|jobs| {
            jobs.iter()
                .find(|job| job.get("id").and_then(Value::as_str) == Some(&id))
        });
        let Some(found) = found else {
            return Err(Error::backend(format!("{command}: QEMU lost the job")));
        };
        if found.get("status").and_then(Value::as_str) != Some("concluded") {
            continue;
        }
        let failure = found
            .get("error")
            .and_then(Value::as_str)
            .map(|why| shown(why).into_owned());
        let _ = qmp.execute("job-dismiss", json!({"id": id}), ANSWER).await;
        return match failure {
            Some(why) => Err(Error::backend(format!("{command}: {why}"))),
            None => Ok(()),
        };
    }
}

/// Waits for jobs whose corral is gone, and clears them away.
///
/// # Errors
/// `TimedOut` when one does not end.
pub async fn settle(qmp: &mut Qmp) -> Result<()> {
    let until = tokio::time::Instant::now() + SETTLE;
    loop {
        let jobs = qmp.execute("query-jobs", Value::Null, JOB_ANSWER).await?;
        let mut waits = false;
        for job in jobs.as_array().into_iter().flatten() {
            let word = |key: &str| job.get(key).and_then(Value::as_str);
            let Some(id) = word("id").filter(|id| id.starts_with(JOB)) else {
                continue;
            };
            if word("status") == Some("concluded") {
                qmp.execute("job-dismiss", json!({"id": id}), ANSWER)
                    .await?;
            } else {
                waits = true;
            }
        }
        if !waits {
            return Ok(());
        }
        if tokio::time::Instant::now() >= until {
            return Err(
                Error::timed_out("a snapshot that was begun is still being written")
                    .remedy("Try again later: corral doctor --fix"),
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The images of a VM that a snapshot covers.
///
/// # Errors
/// `Unsupported` where the guest writes an image that cannot hold snapshots.
pub fn nodes(vm: &Definition) -> Result<Vec<Node>> {
    if let Some(disk) = vm
        .disks
        .iter()
        .find(|disk| !disk.readonly && disk.format != "qcow2")
    {
        return Err(Error::unsupported(format!(
            "{} is {}, which holds no snapshots",
            shown(&disk.name),
            shown(&disk.format)
        ))
        .remedy(format!(
            "Turn it into qcow2 while the VM is off: qemu-img convert -O qcow2 {} NEW",
            image::quoted(&disk.path)
        )));
    }
    let nodes = vm.snapshot_nodes();
    if vm.disks.iter().all(|disk| disk.readonly) {
        return Err(
            Error::unsupported("it has no disk that could hold a snapshot")
                .remedy("Give it a qcow2 disk."),
        );
    }
    Ok(nodes)
}
