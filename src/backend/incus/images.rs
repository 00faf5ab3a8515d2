//! Images: those of the server, those of the image servers its client knows, and files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::call::{self, Call};
use super::ctx::{Ctx, DEFAULT};
use super::json::Look as _;
use super::remotes::{Client, Remote};
use super::source::{self, Origin};
use super::upload;
use super::work::{self, Act, Todo, Work};
use crate::backend::contract::{Changes, ImageRequest, Images, Prepared, ReadCx, TaskCx};
use crate::backend::portable::sums;
use crate::link::files::fault;
use crate::link::http::{Http, Reach, Request};
use crate::link::trust::Trust;
use crate::link::x509::pem_fingerprint;
use crate::model::{
    Bytes, Error, ErrorKind, Image, Instance, Outcome, Result, Sum, is_image_name, shown,
};

/// The images families.
#[derive(Clone, Debug)]
pub struct Shelf(pub Arc<Ctx>);

/// Longest list of images.
const LONGEST: u64 = 64 << 20;

fn read(context: &str, value: &Value) -> Option<Image> {
    let fingerprint = value.text("fingerprint")?;
    let alias = value
        .list("aliases")
        .iter()
        .find_map(|alias| alias.text("name"));
    let properties = value.get("properties").unwrap_or(&Value::Null);
    Some(Image {
        context: context.to_owned(),
        name: alias.map_or_else(|| fingerprint.chars().take(12).collect(), str::to_owned),
        title: properties.text("description").map(str::to_owned),
        arch: value.text("architecture").map(str::to_owned),
        url: value
            .get("update_source")
            .and_then(|from| Some(format!("{}/{}", from.text("server")?, from.text("alias")?))),
        path: Some(format!("/1.0/images/{fingerprint}")),
        size_bytes: value.number("size").map(Bytes),
        checksum: Some(format!("sha256:{fingerprint}")),
        pulled_at: value.time("uploaded_at"),
        used_by: None,
    })
}

/// One row per alias: each is a name that instances are made from.
fn named(context: &str, value: &Value) -> Vec<Image> {
    let Some(first) = read(context, value) else {
        return Vec::new();
    };
    let aliases = value
        .list("aliases")
        .iter()
        .filter_map(|alias| alias.text("name"));
    let mut all: Vec<Image> = aliases
        .map(|name| Image {
            name: name.to_owned(),
            ..first.clone()
        })
        .collect();
    if all.is_empty() {
        all.push(first);
    }
    all
}

fn fits(image: &Image, query: &[String]) -> bool {
    let title = image.title.as_deref().unwrap_or_default();
    let text = format!("{} {title}", image.name).to_lowercase();
    query.iter().all(|word| text.contains(&word.to_lowercase()))
}

/// Asks another server; what only those it knows may see is asked with our certificate.
async fn remote_get(
    ctx: &Ctx,
    cx: &ReadCx,
    client: &Client,
    remote: &Remote,
    path: &str,
) -> Result<Vec<u8>> {
    let (host, port) = match super::target::place(&remote.address) {
        Ok((host, 8443)) if remote.simple && !remote.address.ends_with(":8443") => (host, 443),
        other => other?,
    };
    let mut trust = Trust::default();
    if let Some(file) = &remote.certificate {
        let pem = std::fs::read(file)
            .map_err(|error| Error::invalid(format!("{}: {error}", file.display())))?;
        trust.pins.extend(pem_fingerprint(&pem));
    }
    let identity = if remote.public {
        None
    } else {
        let pair = client.identity(Some(&remote.name));
        pair.map(|(certificate, key)| super::target::identity_of(&certificate, &key))
            .transpose()?
    };
    let reach = Reach::Tls {
        host,
        port,
        trust,
        identity: identity.map(Box::new),
    };
    let http = Http::new(&ctx.spec.name, reach, std::time::Duration::from_secs(5))?;
    let asked = async {
        let answer = http.send(Request::get(path)).await?;
        match answer.status() {
            200 => answer.whole(LONGEST).await,
            status => Err(Error::backend(format!(
                "{} answers with HTTP {status}",
                remote.address
            ))),
        }
    };
    cx.within(&remote.name, asked).await
}

/// Images another server offers, each named so that it can be pulled: `REMOTE:NAME`.
async fn offered(ctx: &Ctx, cx: &ReadCx, client: &Client, remote: &Remote) -> Result<Vec<Image>> {
    if remote.simple {
        let bytes = remote_get(ctx, cx, client, remote, "/streams/v1/images.json").await?;
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Error::backend(format!("{}: {error}", remote.address)))?;
        return Ok(streams(&ctx.spec.name, remote, &value));
    }
    let bytes = remote_get(ctx, cx, client, remote, "/1.0/images?recursion=1").await?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Error::backend(format!("{}: {error}", remote.address)))?;
    let list = value
        .list("metadata")
        .iter()
        .flat_map(|image| named(&ctx.spec.name, image));
    Ok(list
        .map(|image| Image {
            name: format!("{}:{}", remote.name, image.name),
            url: Some(remote.address.clone()),
            path: None,
            pulled_at: None,
            ..image
        })
        .collect())
}

/// A `simplestreams` product list: <https://images.linuxcontainers.org/streams/v1/images.json>.
fn streams(context: &str, remote: &Remote, value: &Value) -> Vec<Image> {
    let products = value.object("products").into_iter().flatten();
    products
        .filter_map(|(_, product)| {
            let alias = product.text("aliases")?.split(',').next()?.trim();
            let word = |key: &str| product.text(key).unwrap_or_default();
            let title = format!(
                "{} {} ({})",
                word("os"),
                word("release_title"),
                word("variant")
            );
            Some(Image {
                context: context.to_owned(),
                name: format!("{}:{alias}", remote.name),
                title: Some(title),
                arch: product.text("arch").map(str::to_owned),
                url: Some(remote.address.clone()),
                path: None,
                size_bytes: None,
                checksum: None,
                pulled_at: None,
                used_by: None,
            })
        })
        .collect()
}

#[async_trait]
impl Images for Shelf {
    async fn images(&self, cx: &ReadCx) -> Result<Vec<Image>> {
        let ctx = &*self.0;
        let api = ctx.api()?;
        let path = format!("/1.0/images?recursion=1&{}", ctx.scope());
        let reply = match api.get(cx, &path).await {
            // Servers before images_all_projects.
            Err(error) if error.kind == ErrorKind::Backend => {
                api.get(cx, "/1.0/images?recursion=1").await?
            }
            other => other?,
        };
        let list = reply.metadata.as_array().cloned().unwrap_or_default();
        let mut images: Vec<Image> = list.iter().flat_map(|v| named(&ctx.spec.name, v)).collect();
        images.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(images)
    }

    async fn search(&self, cx: &ReadCx, query: &[String]) -> Result<Vec<Image>> {
        let ctx = &*self.0;
        let client = Client::read(&ctx.env)?;
        let asked = client
            .remotes
            .values()
            .filter(|remote| remote.address.starts_with("https://"));
        let asked: Vec<_> = asked
            .map(|remote| offered(ctx, cx, &client, remote))
            .collect();
        let (mut found, mut failed) = (Vec::new(), None);
        for answer in futures::future::join_all(asked).await {
            match answer {
                Ok(images) => found.extend(images),
                Err(error) => failed = Some(error),
            }
        }
        // One that is away hides no other; where nobody answers that is said.
        match failed {
            Some(error) if found.is_empty() => Err(error),
            _ => {
                found.retain(|image| fits(image, query));
                found.sort_by(|a, b| a.name.cmp(&b.name));
                Ok(found)
            }
        }
    }
}

/// A file as an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// An image of Incus in one file, as `incus image export` makes it.
    Whole,
    /// A VM's disk: it goes into an image of Incus.
    Disk,
}

/// What a file is, by its beginning.
///
/// # Errors
/// `Invalid` for what is neither.
pub fn form(file: &Path) -> Result<Form> {
    let odd = |error: std::io::Error| {
        Error::not_found(format!("{}: {error}", shown(&file.display().to_string())))
    };
    let mut head = Vec::new();
    let opened = std::fs::File::open(file).map_err(odd)?;
    if !opened.metadata().map_err(odd)?.is_file() {
        return Err(Error::invalid(format!(
            "{} is no file",
            shown(&file.display().to_string())
        )));
    }
    std::io::Read::read_to_end(&mut std::io::Read::take(opened, 1024), &mut head).map_err(odd)?;
    let starts = |magic: &[u8]| head.starts_with(magic);
    let packed = starts(b"\x1f\x8b")
        || starts(b"\xfd7zXZ\0")
        || starts(b"\x28\xb5\x2f\xfd")
        || starts(b"BZh")
        || starts(b"hsqs");
    if packed || head.get(257..262) == Some(b"ustar") {
        return Ok(Form::Whole);
    }
    let bootable = head.get(510..512) == Some(b"\x55\xaa");
    if starts(b"QFI\xfb") || bootable {
        return Ok(Form::Disk);
    }
    Err(Error::invalid(format!(
        "{} is neither an image of Incus nor a disk that boots (qcow2, raw)",
        shown(&file.display().to_string())
    ))
    .remedy("Convert it: qemu-img convert -O qcow2 FILE NEW.qcow2"))
}

/// Fetching an image from a file: what `work` does for it.
#[derive(Clone, Debug)]
pub struct Taking {
    /// The file.
    pub file: PathBuf,
    /// What it is.
    pub form: Form,
    /// The project that gets it.
    pub project: String,
    /// What it is called.
    pub alias: String,
}

impl Taking {
    /// As a plan shows it.
    pub fn shown(&self) -> String {
        format!(
            "{} from {}",
            Call::new(
                "POST",
                call::at(&["images"], &self.project),
                json!({"aliases": [{"name": self.alias}]})
            )
            .shown(),
            shown(&self.file.display().to_string())
        )
    }

    /// Sends it, and gives it its name.
    ///
    /// # Errors
    /// What the server says.
    pub async fn run(&self, ctx: &Ctx, cx: &TaskCx) -> Result<()> {
        let path = call::at(&["images"], &self.project);
        let name = self
            .file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let plain: String = name.chars().filter(char::is_ascii_graphic).collect();
        let headers = [
            ("content-type", "application/octet-stream"),
            ("x-incus-filename", plain.as_str()),
            ("x-lxd-filename", plain.as_str()),
        ];
        let odd = |error: std::io::Error| {
            Error::invalid(format!("{}: {error}", self.file.display())).because(error)
        };
        let file = tokio::fs::File::open(&self.file).await.map_err(odd)?;
        let size = file.metadata().await.map_err(odd)?.len();
        let sent = match self.form {
            Form::Whole => {
                upload::stream(ctx, cx, &path, &headers, Box::new(file), Some(size)).await
            }
            Form::Disk => {
                let (before, after) = around(&self.alias, size)?;
                let whole = std::io::Cursor::new(before)
                    .chain(file)
                    .chain(std::io::Cursor::new(after));
                upload::stream(ctx, cx, &path, &headers, Box::new(whole), Some(size)).await
            }
        };
        let left = sent?;
        let fingerprint = left
            .text("fingerprint")
            .ok_or_else(|| Error::backend("the server does not say what became of the image"))?;
        let alias = Call::new(
            "POST",
            call::at(&["images", "aliases"], &self.project),
            json!({"name": self.alias, "target": fingerprint}),
        );
        ctx.api()?.change(cx, &alias, None).await.map(drop)
    }
}

/// What is before and behind a disk in the one file that is an image of a VM: a tar of `metadata.yaml` and `rootfs.img`.
fn around(name: &str, size: u64) -> Result<(Vec<u8>, Vec<u8>)> {
    let arch = std::env::consts::ARCH;
    let now = jiff::Timestamp::now().as_second();
    let metadata = format!(
        "architecture: {arch}\ncreation_date: {now}\nproperties:\n  description: {}\n  name: {}\n",
        Value::from(format!("{name} (a disk image)")),
        Value::from(name),
    );
    let failed = |error: std::io::Error| Error::backend(format!("internal: {error}"));
    let header = |name: &str, size: u64| -> Result<tar::Header> {
        let mut header = tar::Header::new_gnu();
        header.set_path(name).map_err(failed)?;
        header.set_size(size);
        header.set_mode(0o644);
        header.set_mtime(u64::try_from(now).unwrap_or_default());
        header.set_cksum();
        Ok(header)
    };
    let mut before = header("metadata.yaml", metadata.len() as u64)?
        .as_bytes()
        .to_vec();
    before.extend_from_slice(metadata.as_bytes());
    before.resize(before.len().next_multiple_of(512), 0);
    before.extend_from_slice(header("rootfs.img", size)?.as_bytes());
    let pad = size.next_multiple_of(512) - size;
    Ok((before, vec![0; pad as usize + 1024]))
}

/// A file as what something new is made from: it becomes an image first.
///
/// # Errors
/// As [`form`].
pub async fn from_file(ctx: &Ctx, cx: &ReadCx, project: &str, file: &str) -> Result<Origin> {
    let path = PathBuf::from(file);
    let form = form(&path)?;
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("image");
    let stem: String = stem
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(60)
        .collect();
    // The same file is the same image.
    let meta =
        std::fs::metadata(&path).map_err(|error| Error::not_found(format!("{file}: {error}")))?;
    let stamp = super::seen::digest(&json!([
        file,
        meta.len(),
        format!("{:?}", meta.modified().ok())
    ]));
    let alias = format!("corral/{stem}-{}", &stamp[..8]);
    let vm = (form == Form::Disk).then_some(true);
    let mut origin = Origin::of(json!({"type": "image", "alias": alias}), vm);
    if let Some(there) = source::local(ctx, cx, project, &alias).await? {
        origin.vm = source::is_vm(&there);
        return Ok(origin);
    }
    let title = format!("Bring {} to the server as the image {alias}", shown(file));
    let taking = Taking {
        file: path,
        form,
        project: project.to_owned(),
        alias: alias.clone(),
    };
    origin
        .before
        .push(Todo::new(title, Act::Image(taking)).undo(format!("corral image delete {alias}")));
    Ok(origin)
}

async fn pull(
    ctx: &Ctx,
    cx: &ReadCx,
    request: &(String, Option<String>, Option<String>),
) -> Result<Prepared> {
    let (from, checksum, name) = request;
    let project = ctx.project().unwrap_or(DEFAULT).to_owned();
    let alias = match name {
        Some(name) => name.clone(),
        None => {
            let last = from.rsplit(['/', ':']).next().unwrap_or(from);
            let whole = from
                .split_once(':')
                .map_or(from.as_str(), |(_, alias)| alias);
            if from.starts_with('/') {
                last.split('.').next().unwrap_or(last).to_owned()
            } else {
                whole.to_owned()
            }
        }
    };
    if !alias.split('/').all(is_image_name) {
        return Err(Error::invalid(format!(
            "\"{}\" cannot be the name of an image",
            shown(&alias)
        ))
        .remedy("Give it another: --name NAME"));
    }
    if let Some(there) = source::local(ctx, cx, &project, &alias).await? {
        let fingerprint = there.text("fingerprint").unwrap_or_default();
        return Ok(Prepared::unchanged(
            format!("there {fingerprint}"),
            format!("the image {} is here already", shown(&alias)),
        ));
    }
    let title = format!("Fetch {} as the image {}", shown(from), shown(&alias));
    let todo = if from.starts_with('/') {
        let path = PathBuf::from(from);
        let form = form(&path)?;
        let hashed = path.clone();
        let sum = tokio::task::spawn_blocking(move || whole_sum(&hashed));
        let sum = sum
            .await
            .map_err(|error| Error::backend(format!("internal: {error}")))??;
        check(checksum.as_deref(), &sum, from)?;
        let same = if form == Form::Whole {
            source::local(ctx, cx, &project, &sum).await?
        } else {
            None
        };
        if same.is_some() {
            // The server has it under another name.
            let body = json!({"name": alias, "target": sum});
            let call = Call::new("POST", call::at(&["images", "aliases"], &project), body);
            Todo::call(
                format!("Call the image {} {} as well", &sum[..12], shown(&alias)),
                call,
            )
        } else {
            let taking = Taking {
                file: path,
                form,
                project: project.clone(),
                alias: alias.clone(),
            };
            Todo::new(title, Act::Image(taking))
        }
    } else {
        let client = Client::read(&ctx.env)?;
        let Some((remote, wanted)) = source::remote(&client, from)? else {
            return Err(Error::not_found(format!(
                "{} is no image that can be fetched",
                shown(from)
            ))
            .remedy("Write REMOTE:NAME, as images:debian/12, or a file; see corral image search"));
        };
        let mut body =
            json!({"source": source::fetched(remote, wanted)?, "aliases": [{"name": alias}]});
        if let Some(sum) = checksum {
            body["source"]["fingerprint"] = json!(Sum::read(sum)?.hex());
        }
        Todo::call(
            title,
            Call::new("POST", call::at(&["images"], &project), body),
        )
    };
    let work = Work {
        on: None,
        todos: vec![todo.undo(format!("corral image delete {}", shown(&alias)))],
        said: format!("the image {} is here", shown(&alias)),
        id: None,
    };
    let mut prepared = work.clone().plan("absent", "");
    prepared = prepared.with(Fetching {
        work,
        alias,
        project,
        there: false,
    });
    Ok(prepared)
}

fn whole_sum(file: &Path) -> Result<String> {
    let opened = std::fs::File::open(file).map_err(|error| fault("read", file, error))?;
    sums::of_file(file, &opened, |_| Ok(())).map(|(sum, _)| sum)
}

fn check(wanted: Option<&str>, found: &str, from: &str) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let wanted = Sum::read(wanted)?;
    if wanted.hex() == found {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} has the SHA-256 {found}, not {}",
        shown(from),
        wanted.hex()
    )))
}

/// What `run` needs: the work, and whether the name is to be there when it begins.
struct Fetching {
    work: Work,
    alias: String,
    project: String,
    there: bool,
}

async fn delete(ctx: &Ctx, cx: &ReadCx, image: &str) -> Result<Prepared> {
    let project = ctx.project().unwrap_or(DEFAULT).to_owned();
    let Some(there) = source::local(ctx, cx, &project, image).await? else {
        return Ok(Prepared::unchanged(
            "gone",
            format!("there is no image {}", shown(image)),
        ));
    };
    let fingerprint = there.text("fingerprint").unwrap_or_default().to_owned();
    let aliases: Vec<&str> = there
        .list("aliases")
        .iter()
        .filter_map(|a| a.text("name"))
        .collect();
    let others: Vec<&str> = aliases
        .iter()
        .copied()
        .filter(|alias| *alias != image)
        .collect();
    let mut losses = Vec::new();
    let todo = if aliases.contains(&image) && !others.is_empty() {
        let call = Call::new(
            "DELETE",
            call::at(&["images", "aliases", image], &project),
            Value::Null,
        );
        Todo::call(
            format!("Take the name {} from the image", shown(image)),
            call,
        )
    } else {
        losses.push(format!(
            "the image {} ({})",
            shown(image),
            Bytes(there.number("size").unwrap_or_default())
        ));
        let call = Call::new(
            "DELETE",
            call::at(&["images", &fingerprint], &project),
            Value::Null,
        );
        Todo::call(format!("Delete the image {}", shown(image)), call)
    };
    let work = Work {
        on: None,
        todos: vec![todo],
        said: format!("the image {} is gone", shown(image)),
        id: None,
    };
    let mut prepared = work.clone().plan(fingerprint, "");
    prepared.losses = losses;
    if !others.is_empty() && aliases.contains(&image) {
        prepared
            .notes
            .push(format!("it stays as {}", shown(&others.join(", "))));
    }
    prepared
        .notes
        .push("instances made from it stay as they are".to_owned());
    Ok(prepared.with(Fetching {
        work,
        alias: image.to_owned(),
        project,
        there: true,
    }))
}

#[async_trait]
impl Changes<ImageRequest> for Shelf {
    async fn prepare(&self, cx: &ReadCx, _: &Instance, request: ImageRequest) -> Result<Prepared> {
        let planned = match request {
            ImageRequest::Pull {
                source,
                checksum,
                name,
            } => pull(&self.0, cx, &(source, checksum, name)).await,
            ImageRequest::Delete { image } => delete(&self.0, cx, &image).await,
        };
        planned.or_else(|error| match error.kind {
            ErrorKind::Unreachable | ErrorKind::TimedOut => Err(error),
            _ => Ok(Prepared::failed("", &error)),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let ctx = &*self.0;
        let fetching: Fetching = prepared.take()?;
        let cx_read = cx.read(work::LOOK);
        let there = source::local(ctx, &cx_read, &fetching.project, &fetching.alias).await?;
        if there.is_some() != fetching.there {
            let how = if there.is_some() {
                "is here by now"
            } else {
                "is gone by now"
            };
            return Err(Error::conflict(format!(
                "the image {} {how}. Nothing was done",
                shown(&fetching.alias)
            ))
            .remedy("Look at it and ask again."));
        }
        work::carry_out(ctx, cx, fetching.work, "").await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_becomes_an_image_in_one_file() {
        let disk = vec![7_u8; 1000];
        let (before, after) = around("x\"y", 1000).unwrap();
        let whole = [before, disk.clone(), after].concat();
        assert_eq!(whole.len() % 512, 0);
        let mut archive = tar::Archive::new(whole.as_slice());
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
            names.push((entry.path().unwrap().display().to_string(), content));
        }
        assert_eq!(names[1], ("rootfs.img".to_owned(), disk));
        let metadata: Value = serde_saphyr::from_slice(&names[0].1).unwrap();
        assert_eq!(metadata["properties"]["name"], "x\"y");
    }

    #[test]
    fn files_are_known_by_their_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let of = |bytes: &[u8]| {
            let file = dir.path().join("f");
            std::fs::write(&file, bytes).unwrap();
            form(&file).ok()
        };
        assert_eq!(of(b"\x1f\x8brest"), Some(Form::Whole));
        assert_eq!(of(b"QFI\xfbrest"), Some(Form::Disk));
        assert_eq!(of(b"text"), None);
        assert!(form(dir.path()).is_err());
    }

    #[test]
    fn an_odd_image_hides_no_other() {
        let list = [
            json!({"fingerprint": "aabbccddeeff00", "aliases": [{"name": "a"}, {"name": "b"}], "size": "x"}),
            json!({"aliases": null}),
            json!(3),
            json!({"fingerprint": "112233445566778899", "aliases": null}),
        ];
        let names: Vec<String> = list
            .iter()
            .flat_map(|v| named("c", v))
            .map(|i| i.name)
            .collect();
        assert_eq!(names, ["a", "b", "112233445566"]);
    }
}
