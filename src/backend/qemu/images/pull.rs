//! `image pull`: fetched beside, compared, looked into, and only then an image.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::Plan;
use super::checksum::in_list;
use super::fetch::Fetch;
use super::partial::{Partial, drop_partial};
use super::shelf::{Record, Shelf};
use super::source::{Expected, Wanted};
use crate::backend::contract::{Prepared, TaskCx};
use crate::backend::qemu::ctx::Ctx;
use crate::backend::qemu::image::{self, Header, header};
use crate::backend::qemu::storage::apart;
use crate::link::download::{Client, Place};
use crate::link::files::{self, fault, make_dir};
use crate::model::{Bytes, Error, Outcome, Result, Step, Sum, shown};

/// Lists of checksums have a few KiB.
const LIST: usize = 4 << 20;

/// What architecture guests of this backend have.
const ARCH: &str = "amd64";

/// Says what a pull would do. Asks no server.
pub(super) fn prepare(ctx: &Ctx, wanted: Wanted) -> Result<Prepared> {
    let shelf = Shelf::of(ctx);
    if let Some(kept) = shelf.find(&wanted.name)? {
        let name = &kept.name;
        let token = kept.stamp();
        let when = kept.record.pulled_at.map_or(String::new(), |at| {
            format!(", pulled {}", at.strftime("%Y-%m-%d"))
        });
        if kept.record.url.as_deref() == Some(&wanted.from) {
            return Ok(Prepared::unchanged(
                token,
                format!(
                    "{name} is here already{when}. For what is there now: --name OTHER, or corral image delete {name} first"
                ),
            ));
        }
        return Ok(Prepared::refused(
            token,
            format!("there is another image called {name}{when}"),
            Some(format!(
                "Choose another name: --name NAME, or corral image delete {name}"
            )),
        ));
    }
    let partial = shelf.partial(&wanted.name);
    let to = partial.display().to_string();
    let mut steps = vec![Step::new(
        format!("Fetch {}", wanted.file),
        match &wanted.place {
            Place::Web(url) => format!("GET {url} > {to}"),
            Place::File(path) => format!("cp {} {to}", image::quoted(path)),
        },
    )];
    match &wanted.expected {
        Expected::Sum(sum) => steps.push(Step::new("Compare its checksum", sum.to_string())),
        Expected::List(url) => steps.push(Step::new(
            "Compare its checksum with the published one",
            format!("GET {url}"),
        )),
        Expected::Anything => {}
    }
    steps.push(
        Step::new(
            "Keep it",
            format!("mv {to} {}.*", shelf.dir().join(&wanted.name).display()),
        )
        .undo(format!("corral image delete {}", wanted.name)),
    );
    let mut prepared = Prepared::new(format!("new {}", wanted.name), steps);
    if let Ok(meta) = std::fs::metadata(&partial)
        && meta.len() > 0
    {
        prepared
            .notes
            .push("Goes on with what came before".to_owned());
    }
    if wanted.expected == Expected::Anything {
        prepared.notes.push(
            "Not compared with any checksum: none is known; --checksum sha256:… says what must come"
                .to_owned(),
        );
    }
    if let Some(arch) = wanted.arch.as_deref().filter(|arch| *arch != ARCH) {
        prepared.notes.push(format!(
            "It is for {arch}: no VM of this context can run it"
        ));
    }
    Ok(prepared.with(Plan::Pull(Box::new(wanted))))
}

/// Pulls it.
pub(super) async fn run(ctx: &Ctx, cx: &TaskCx, wanted: &Wanted) -> Result<Outcome> {
    let pulled = pull(ctx, cx, wanted);
    match cx.timeout {
        None => pulled.await,
        Some(limit) => match tokio::time::timeout(limit, pulled).await {
            Ok(result) => result,
            Err(_) => Err(Error::timed_out(format!(
                "{} did not come in {} s. What came is kept",
                wanted.name,
                limit.as_secs()
            ))
            .remedy("Go on: give the same command again")),
        },
    }
}

async fn pull(ctx: &Ctx, cx: &TaskCx, wanted: &Wanted) -> Result<Outcome> {
    let shelf = Shelf::of(ctx);
    make_dir(shelf.dir())?;
    let _lock = lock(&shelf, &wanted.name)?;
    if shelf.find(&wanted.name)?.is_some() {
        return Err(Error::conflict(format!(
            "{} came here since the plan was made. Nothing was done",
            wanted.name
        )));
    }
    let seconds = |given: Option<u64>, usual| Duration::from_secs(given.unwrap_or(usual));
    let client = Client::new(
        seconds(ctx.spec.connect_timeout, 5),
        seconds(ctx.spec.read_timeout, 15),
    )?;
    let expected = match &wanted.expected {
        Expected::Anything => None,
        Expected::Sum(sum) => Some(sum.clone()),
        Expected::List(url) => {
            cx.step("Fetch the published checksum");
            Some(published(&client, url, &wanted.file).await?)
        }
    };
    cx.checkpoint()?;
    cx.step(format!("Fetch {}", wanted.file));
    let path = shelf.partial(&wanted.name);
    let (at, from, sum) = (path.clone(), wanted.from.clone(), expected.clone());
    let mut partial = apart(move || Partial::open(&at, &from, sum.as_ref())).await??;
    let fetch = Fetch {
        cx,
        client: &client,
        wanted,
        dir: shelf.dir(),
        sure: expected.is_some(),
    };
    if let Err(error) = fetch.all(&mut partial).await {
        return Err(stopped(error, partial, &path, wanted));
    }
    let counted = apart(move || partial.end()).await??;
    if let Some(expected) = expected.as_ref().filter(|sum| **sum != counted) {
        drop_partial(&path)?;
        return Err(Error::backend(format!(
            "{} is not what was promised: {counted} came, {expected} was expected. Nothing was kept",
            wanted.file
        ))
        .remedy("Try again; if it stays so, the server or the checksum is wrong"));
    }
    cx.step("Look into it");
    let found = match look(ctx, &path, wanted).await {
        Ok(found) => found,
        Err(error) => {
            drop_partial(&path)?;
            return Err(error);
        }
    };
    let record = Record {
        title: wanted.title.clone(),
        arch: wanted.arch.clone(),
        url: Some(wanted.from.clone()),
        checksum: Some(counted.to_string()),
        verified: expected.is_some(),
        pulled_at: Some(Timestamp::now()),
    };
    keep(&shelf, &path, wanted, &found, &record)?;
    let checked = if record.verified {
        ""
    } else {
        ", not compared with any checksum"
    };
    Ok(Outcome::changed(format!(
        "{} is here{checked}",
        wanted.name
    )))
}

/// One at a time fetches an image of this name.
pub(super) fn lock(shelf: &Shelf, name: &str) -> Result<std::fs::File> {
    let file = shelf.file(&format!(".{name}.lock"));
    files::lock(&file, &format!("the image {name}"), Duration::ZERO)
}

async fn published(client: &Client, url: &str, file: &str) -> Result<Sum> {
    let list = client.small(url, LIST).await?;
    let list = String::from_utf8_lossy(&list);
    in_list(&list, file).ok_or_else(|| {
        Error::backend(format!("{} has no checksum of {}", shown(url), shown(file)))
            .remedy("Look at it; then say what must come: --checksum sha256:…")
    })
}

/// Why it stopped, and what of it stays.
fn stopped(error: Error, partial: Partial, path: &Path, wanted: &Wanted) -> Error {
    let have = Bytes(partial.have());
    let goes_on = matches!(wanted.place, Place::Web(_))
        && have.0 > 0
        && (partial.version().is_some() || wanted.expected != Expected::Anything);
    drop(partial);
    if !goes_on {
        let _ = drop_partial(path);
        return error;
    }
    let mut error = error;
    error.message = format!("{}; {have} are kept", error.message.trim_end_matches('.'));
    error.remedy(format!(
        "Go on: give the same command again ({0}). To begin anew, first: corral image delete {0}",
        wanted.name
    ))
}

/// Makes sure that it is a disk image or an ISO, and that it stands on no other file: what came from elsewhere must not
/// name files of this machine.
async fn look(ctx: &Ctx, path: &Path, wanted: &Wanted) -> Result<Header> {
    let from = shown(&wanted.from).into_owned();
    let refuse = |why: &str, remedy: &str| {
        Err(Error::invalid(format!("{from} {why}. Nothing was kept")).remedy(remedy))
    };
    if is_descriptor(path)? {
        return refuse(
            "only names other files as its disk",
            "Make it one whole image: qemu-img convert -O qcow2 IMAGE WHOLE",
        );
    }
    let found = header(path).unwrap_or_default();
    if found.format == Some("iso") {
        return Ok(found);
    }
    if let Err(error) = image::recognise(path, false) {
        let what = error.message.replace(&path.display().to_string(), "");
        return refuse(
            what.trim(),
            "Give the URL of a disk image or an ISO; unpack it first, then: corral image pull ./FILE",
        );
    }
    if super::super::transfer::import::guard::stands_alone(path).is_err() {
        return refuse(
            "names another file as its base, or as the place of its data",
            "Make it one whole image: qemu-img convert -O qcow2 IMAGE WHOLE",
        );
    }
    // A raw disk has nothing that could be damaged, and names no other file.
    if let Some(format) = found.format {
        let info = image::info(&ctx.env, path, false).await;
        let info = info.map_err(|mut error| {
            error.message = error.message.replace(&path.display().to_string(), &from);
            error
        })?;
        if info.backing.is_some() || info.data_file.is_some() {
            return refuse(
                "names another file as its base",
                "Make it one whole image: qemu-img convert -O qcow2 IMAGE WHOLE",
            );
        }
        if info.encrypted || info.corrupt {
            return refuse("is encrypted or damaged", "Get another one");
        }
        if let Some(why) = image::check(&ctx.env, path, format).await? {
            return refuse(
                &format!("is damaged: {}", why.trim_end_matches('.')),
                "Get it again; mend a copy of it where it came from: qemu-img check -r all IMAGE",
            );
        }
    }
    Ok(found)
}

/// A VMDK that is a text about files beside it.
fn is_descriptor(path: &Path) -> Result<bool> {
    use std::io::Read as _;
    let file = std::fs::File::open(path).map_err(|e| fault("read", path, e))?;
    let mut start = Vec::new();
    let read = file.take(512).read_to_end(&mut start);
    read.map_err(|e| fault("read", path, e))?;
    Ok(String::from_utf8_lossy(&start).contains("# Disk DescriptorFile"))
}

fn keep(
    shelf: &Shelf,
    partial: &Path,
    wanted: &Wanted,
    found: &Header,
    record: &Record,
) -> Result<()> {
    let ending = match found.format {
        Some("vpc") => "vhd",
        Some(format) => format,
        None => "img",
    };
    let to: PathBuf = shelf.file(&format!("{}.{ending}", wanted.name));
    // The record first: an image without one would not know where it is from.
    shelf.note(&to, record)?;
    std::fs::rename(partial, &to).map_err(|e| fault("write", &to, e))?;
    let _ = drop_partial(partial);
    // The rename must survive a power cut.
    std::fs::File::open(shelf.dir())
        .and_then(|dir| dir.sync_all())
        .map_err(|e| fault("write", shelf.dir(), e))
}
