//! What `doctor --fix` would do about a change that was interrupted, for its plan.

use std::path::Path;

use super::super::ctx::Ctx;
use super::super::image::quoted;
use super::super::op::{self, Change, Leftover, Phase};
use super::super::store::DEFINITION;
use super::super::transfer;
use crate::model::{Step, shown};

/// A step that removes a file or a folder.
pub(super) fn removal(title: &str, path: &Path) -> Step {
    let option = if path.is_dir() { " -r" } else { "" };
    Step::new(title, format!("rm{option} {}", quoted(path)))
}

/// All that [`super::recover::recover`] would do.
pub(super) fn steps(ctx: &Ctx, left: &Leftover) -> Vec<Step> {
    let Ok(dir) = ctx.store.dir(&left.name) else {
        return Vec::new();
    };
    let Some(Ok(op)) = &left.op else {
        return vec![removal("Remove the empty folder", &dir)];
    };
    let record = dir.join(op::FILE);
    let forget = |why: &str| removal(&format!("Forget it: {why}"), &record);
    let title = op.change.title();
    let mut steps = match &op.change {
        Change::Create | Change::Import if dir.join(DEFINITION).exists() => Vec::new(),
        Change::Create | Change::Import => {
            return vec![removal("Remove the unfinished VM", &dir)];
        }
        Change::BackupRestore { files } if op.phase < Phase::Recording => files
            .iter()
            .filter(|swap| swap.staged.exists())
            .map(|swap| removal("Remove a copy that is in no place yet", &swap.staged))
            .collect(),
        Change::BackupRestore { files } => files
            .iter()
            .filter(|swap| swap.staged.exists())
            .map(|swap| {
                let native = format!("mv {} {}", quoted(&swap.staged), quoted(&swap.place));
                Step::new(
                    "Complete it: put the disk of the backup in its place",
                    native,
                )
            })
            .collect(),
        Change::Export { .. } => transfer::half_written(op)
            .filter(|partial| partial.exists())
            .map(|partial| removal("Remove the unfinished export", partial))
            .collect(),
        _ if op.phase == Phase::Begun => Vec::new(),
        Change::Delete { files, keep } => {
            let mut steps: Vec<Step> = files
                .iter()
                .filter(|file| file.exists())
                .map(|file| removal("Complete the delete", file))
                .collect();
            let kept: Vec<String> = keep.iter().map(|file| quoted(file)).collect();
            let native = match kept.as_slice() {
                [] => format!("rm -r {}", quoted(&dir)),
                kept => format!("rm -r {} but {}", quoted(&dir), kept.join(", ")),
            };
            steps.push(Step::new("Complete the delete", native));
            return steps;
        }
        Change::Rename { to, overlays, .. } => {
            let mut steps = vec![Step::new(
                format!("Complete the rename to {}", shown(to)),
                format!("{} with its paths", quoted(&dir.join(DEFINITION))),
            )];
            if !overlays.is_empty() {
                steps.push(Step::new(
                    format!(
                        "Lead {} to the new place",
                        crate::model::counted(overlays.len(), "overlay")
                    ),
                    "qemu-img rebase -u",
                ));
            }
            steps
        }
        Change::SnapshotCreate { record, .. } => {
            let tag = shown(&record.name);
            vec![Step::new(
                format!(
                    "Keep the snapshot {tag} if all disks have it, else delete what there is of it"
                ),
                format!("qemu-img snapshot -l, -d {tag}; QMP snapshot-delete where it runs"),
            )]
        }
        Change::SnapshotDelete { tag } => vec![Step::new(
            format!(
                "Complete it: delete the snapshot {} from all disks",
                shown(tag)
            ),
            format!(
                "qemu-img snapshot -d {}; QMP snapshot-delete where it runs",
                shown(tag)
            ),
        )],
        Change::SnapshotRestore { tag } => vec![Step::new(
            format!("Complete it: take all disks back to {}", shown(tag)),
            format!("qemu-img snapshot -a {}", shown(tag)),
        )],
        Change::DiskAdd { disk, made, .. } => vec![Step::new(
            format!("Complete or take back: {title}"),
            if *made {
                format!("vm.toml with {0}, or: rm {0}", quoted(&disk.path))
            } else {
                format!("vm.toml with {}, or without it", quoted(&disk.path))
            },
        )],
        Change::DiskMove { from, to, .. } => vec![Step::new(
            format!("Complete or take back: {title}"),
            format!(
                "vm.toml with {1}, or: rm {1} ({0} stays then)",
                quoted(from),
                quoted(to)
            ),
        )],
        _ => vec![Step::new(
            format!("Complete or take back: {title}"),
            "vm.toml as the VM is",
        )],
    };
    let why = if steps.is_empty() {
        match op.change {
            Change::Create | Change::Import => "it was made completely",
            _ => "nothing of it was done yet",
        }
    } else {
        "it is in order then"
    };
    steps.push(forget(why));
    steps
}
