//! Media in drives.

use super::change::{affects, not_hibernated, scripted, settled};
use super::ctx::{Ctx, Seen};
use super::disks::{disk_xml, find};
use super::domain::DiskDef;
use super::power::same;
use super::script::{Act, Script};
use super::wire::Call;
use super::xml::{Edit, child, escaped};
use crate::backend::contract::{MediaRequest, Prepared, ReadCx};
use crate::model::{Error, ErrorKind, Instance, Result, shown};

scripted!(MediaRequest, media);

fn drive<'a>(seen: &'a Seen, wanted: Option<&str>) -> Result<&'a DiskDef> {
    let id = &seen.id;
    let all: Vec<&DiskDef> = seen
        .live
        .disks
        .iter()
        .filter(|disk| disk.is_drive())
        .collect();
    let names = || {
        let names: Vec<&str> = all.iter().map(|disk| disk.target.as_str()).collect();
        names.join(", ")
    };
    match (wanted, all.as_slice()) {
        (_, []) => Err(
            Error::not_found(format!("{id} has no drive")).remedy(format!(
                "Stop it and add one to its definition: corral edit {id}"
            )),
        ),
        (None, [one]) => Ok(one),
        (None, _) => Err(
            Error::new(ErrorKind::Ambiguous, format!("{id} has several drives"))
                .remedy(format!("Say which, by --drive: {}", names())),
        ),
        (Some(wanted), _) => all
            .iter()
            .find(|disk| disk.target == wanted)
            .copied()
            .ok_or_else(|| {
                Error::not_found(format!("{id} has no drive {}", shown(wanted)))
                    .remedy(format!("It has: {}", names()))
            }),
    }
}

/// Where a medium is, as the host reads it.
async fn medium(ctx: &Ctx, cx: &ReadCx, text: &str) -> Result<String> {
    if std::path::Path::new(text).is_absolute() {
        return Ok(text.to_owned());
    }
    match super::image::find(ctx, cx, text).await? {
        super::image::Image::Volume(vol) => Ok(vol.path),
        super::image::Image::File(path, ..) => Ok(path.display().to_string()),
    }
}

async fn media(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: MediaRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    settled(&seen)?;
    let id = &seen.id;
    let (wanted, image, force) = match &request {
        MediaRequest::Insert {
            drive,
            image,
            force,
        } => (
            drive.as_deref(),
            Some(medium(ctx, cx, image).await?),
            *force,
        ),
        MediaRequest::Eject { drive, force } => (drive.as_deref(), None, *force),
    };
    let drive = drive(&seen, wanted)?;
    let slot = &drive.target;
    if drive.path() == image.as_deref() {
        let said = match &image {
            Some(_) => format!("it is in {slot} of {id} already"),
            None => format!("{slot} of {id} is empty already"),
        };
        return Ok(Prepared::unchanged(seen.token(), said));
    }
    not_hibernated(&seen)?;
    let (live, config) = affects(&seen);
    let text = if live {
        &seen.live_xml
    } else {
        &seen.config_xml
    };
    let xml = disk_xml(text, slot)
        .ok_or_else(|| Error::backend(format!("the drive {slot} of {id} cannot be read")))?;
    let xml = changed(&xml, slot, image.as_deref())?;
    let call = Call::Update {
        dom: seen.dom(),
        what: slot.clone(),
        xml,
        live,
        config,
        force,
    };
    let (title, undo) = match (&image, drive.path()) {
        (Some(image), _) => (
            format!("Put {} into {slot}", shown(image)),
            format!("corral media eject {id} --drive {slot}"),
        ),
        (None, before) => (
            format!("Empty {slot}"),
            before.map_or_else(
                || format!("corral media eject {id} --drive {slot}"),
                |path| {
                    format!(
                        "corral media insert {id} --drive {slot} --image '{}'",
                        shown(path)
                    )
                },
            ),
        ),
    };
    let script = Script::on(&seen, format!("{slot} of {id} is changed"));
    script
        .act(Act::call(title, call).undo(undo))
        .prepared(ctx, cx)
        .await
}

/// The drive with another medium in it, or none.
fn changed(disk: &str, target: &str, image: Option<&str>) -> Result<String> {
    // The tree's helpers look for a disk among devices.
    let mut edit = Edit::new(&format!("<domain><devices>{disk}</devices></domain>"))?;
    edit.remove(|root| {
        let disk = find(root, target);
        disk.into_iter()
            .flat_map(|disk| [child(disk, "source"), child(disk, "backingStore")])
            .flatten()
            .collect()
    });
    edit.set_attr_of(|root| find(root, target), "type", Some("file"));
    if let Some(image) = image {
        let target_text =
            super::xml::piece(edit.text(), |root| child(find(root, target)?, "target"))
                .ok_or_else(|| Error::backend("the drive has no place"))?;
        let source = format!("<source file='{}'/>", escaped(image));
        edit.replace(
            |root| child(find(root, target)?, "target"),
            &format!("{source}{target_text}"),
        );
    }
    disk_xml(edit.text(), target).ok_or_else(|| Error::backend("the drive was lost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_medium_changes() {
        let disk = "<disk type='block' device='cdrom'>\n  <driver name='qemu' type='raw'/>\n  <source dev='/dev/sr0'/>\n  <odd x='1'/>\n  <target dev='sda' bus='sata'/>\n</disk>";
        let full = changed(disk, "sda", Some("/a & b.iso")).unwrap();
        assert!(full.contains("<source file='/a &amp; b.iso'/>") && full.contains("<odd x='1'/>"));
        assert!(full.starts_with("<disk type='file'"), "{full}");
        let empty = changed(&full, "sda", None).unwrap();
        assert!(!empty.contains("<source") && empty.contains("<target dev='sda' bus='sata'/>"));
    }
}
