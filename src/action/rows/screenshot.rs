//! `screenshot`: the screen as a picture, in a file or on standard output.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::super::engine::Engine;
use super::super::paths::at_home;
use super::super::row::{Group, Row, Run, Targets};
use super::one::One;
use crate::link::files;
use crate::model::{
    Action, Body, Bytes, Data, Error, Field, FieldKind, GroupNoun, Instance, Operation, Picture,
    Result, Screenshot, encode_segment,
};

pub(super) const ROWS: &[&Row] = &[&Row {
    examples: &[
        "screenshot local/web",
        "screenshot local/web --to web.png --overwrite",
        "screenshot local/web --to -",
    ],
    details: "Without --to it is written to NAME-TIME.png in the current folder.",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    fields: &[
        Field::new(
            "to",
            FieldKind::Path,
            "File or folder; - is standard output",
        ),
        Field::flag("overwrite", "Replaces a file that is there"),
    ],
    operations: &[Operation::Screenshot],
    ..Row::new(
        "screenshot",
        Group::Reach,
        "Takes a picture of the screen",
        Run::Read(|e, a| Box::pin(screenshot(e, a))),
    )
}];

async fn screenshot(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let one = One::of(&engine, &action).await?;
    let families = one.backend.families();
    let family = families
        .screenshot()
        .ok_or_else(|| one.cannot(Operation::Screenshot))?;
    let to = action.args.text("to");
    let on_stdout = to == Some("-");
    let to = to
        .filter(|_| !on_stdout)
        .map(|to| at_home(&engine.env().home, to));
    let overwrite = action.args.flag("overwrite");
    // What cannot be written need not be taken.
    if let Some(to) = &to
        && !to.is_dir()
    {
        files::can_place(to, overwrite)?;
    }
    let (cx, instance) = (&one.cx, &one.instance);
    let picture = cx
        .within(&instance.context, family.screenshot(cx, instance))
        .await?;
    let mut taken = Screenshot {
        instance: instance.id.clone(),
        media_type: picture.media_type.clone(),
        size_bytes: Bytes(picture.bytes.len() as u64),
        path: None,
        bytes: Vec::new(),
    };
    if on_stdout {
        taken.bytes = picture.bytes;
    } else {
        let file = file(to.as_deref(), instance, &picture)?;
        files::place(&file, &picture.bytes, overwrite)?;
        taken.path = Some(file.display().to_string());
    }
    Ok(Data::new(Body::Screenshots(vec![taken])))
}

/// Where a picture goes. A name that says another format than it has is refused.
fn file(to: Option<&Path>, on: &Instance, picture: &Picture) -> Result<PathBuf> {
    let ending = match picture.media_type.as_str() {
        "image/png" => "png",
        "image/x-portable-pixmap" => "ppm",
        "image/jpeg" => "jpg",
        _ => "img",
    };
    let at = Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let own = format!("{}-{at}.{ending}", encode_segment(&on.name));
    let own = own.trim_start_matches('.');
    let Some(to) = to else {
        return Ok(PathBuf::from(own));
    };
    if to.is_dir() {
        return Ok(to.join(own));
    }
    let said = to.extension().and_then(|e| e.to_str()).unwrap_or("");
    let differs = |word: &str| said.eq_ignore_ascii_case(word) && word != ending;
    if ["png", "ppm", "jpg"].into_iter().any(differs) {
        return Err(Error::unsupported(format!(
            "{} gives pictures as {}, not as {said}",
            on.context, picture.media_type
        ))
        .remedy(format!(
            "Name it so: --to {}",
            to.with_extension(ending).display()
        )));
    }
    Ok(to.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InstanceId, InstanceKind, Kind, State};

    #[test]
    fn a_name_that_says_another_format_is_refused() {
        let on = Instance::new(
            InstanceId::new("local", None, "a/b"),
            Kind::read("k"),
            InstanceKind::Vm,
            State::Running,
            Timestamp::UNIX_EPOCH,
        );
        let picture = |media: &str| Picture {
            media_type: media.to_owned(),
            bytes: Vec::new(),
        };
        let (png, ppm) = (picture("image/png"), picture("image/x-portable-pixmap"));
        assert!(file(Some(Path::new("x.png")), &on, &png).is_ok());
        assert!(file(Some(Path::new("x")), &on, &ppm).is_ok());
        let error = file(Some(Path::new("x.PNG")), &on, &ppm).unwrap_err();
        assert!(error.to_string().contains("x.ppm"), "{error}");
        let own = file(None, &on, &ppm).unwrap();
        assert!(own.to_string_lossy().starts_with("a%2Fb-"), "{own:?}");
        assert!(own.extension().is_some_and(|e| e == "ppm"), "{own:?}");
    }
}
