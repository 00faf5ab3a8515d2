//! What an instance is made from: an image of the server, of another server, or of a file.

use serde_json::{Value, json};

use super::call;
use super::ctx::Ctx;
use super::json::Look as _;
use super::remotes::{Client, Remote};
use super::work::Todo;
use crate::backend::contract::ReadCx;
use crate::model::{Error, ErrorKind, Result, shown};

/// Where the disk of something new comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// `source` of the call that makes an instance.
    pub source: Value,
    /// A VM's, a container's; `None`: nobody says.
    pub vm: Option<bool>,
    /// What has to be done first.
    pub before: Vec<Todo>,
    /// Worth knowing.
    pub notes: Vec<String>,
}

impl Origin {
    /// From nothing.
    pub fn nothing() -> Self {
        Self::of(json!({"type": "none"}), None)
    }

    /// From what `source` says.
    pub fn of(source: Value, vm: Option<bool>) -> Self {
        Self {
            source,
            vm,
            before: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// An image of the server, by alias or by the first digits of its fingerprint.
///
/// # Errors
/// As a read; `Ambiguous` where the digits fit two.
pub async fn local(ctx: &Ctx, cx: &ReadCx, project: &str, name: &str) -> Result<Option<Value>> {
    let api = ctx.api()?;
    let found = match api
        .get(cx, &call::at(&["images", "aliases", name], project))
        .await
    {
        Ok(alias) => alias.metadata.text("target").map(str::to_owned),
        Err(error) if error.kind == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let digits = name.len() >= 6 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let Some(fingerprint) = found.or_else(|| digits.then(|| name.to_ascii_lowercase())) else {
        return Ok(None);
    };
    match api
        .get(cx, &call::at(&["images", &fingerprint], project))
        .await
    {
        Ok(image) => Ok(Some(image.metadata)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) if error.message.contains("More than one") => Err(Error::new(
            ErrorKind::Ambiguous,
            format!("{} is the beginning of several images", shown(name)),
        )
        .remedy("Write more digits: corral image list")),
        Err(error) => Err(error),
    }
}

/// Whether an image is of a VM.
pub fn is_vm(image: &Value) -> Option<bool> {
    match image.text("type")? {
        "virtual-machine" => Some(true),
        "container" => Some(false),
        _ => None,
    }
}

/// A server of images and what is meant of it: `images:debian/12`.
///
/// # Errors
/// `NotFound` for a remote that nobody knows.
pub fn remote<'a>(client: &'a Client, name: &'a str) -> Result<Option<(&'a Remote, &'a str)>> {
    let Some((remote, alias)) = name.split_once(':') else {
        return Ok(None);
    };
    if remote.contains('/') || alias.is_empty() {
        return Ok(None);
    }
    client.remote(remote).map(|remote| Some((remote, alias)))
}

/// How a server is told to fetch from another: `source` of an image or an instance.
///
/// # Errors
/// `Invalid` where the certificate that was kept of it cannot be read.
pub fn fetched(remote: &Remote, alias: &str) -> Result<Value> {
    if !remote.address.starts_with("https://") {
        return Err(Error::unsupported(format!(
            "the remote {} is a socket of this machine: another server cannot fetch from it",
            shown(&remote.name)
        ))
        .remedy("Use a remote with an https:// address"));
    }
    let digits = alias.len() >= 12 && alias.bytes().all(|b| b.is_ascii_hexdigit());
    let mut source = json!({
        "type": "image",
        "mode": "pull",
        "server": remote.address,
        "protocol": if remote.simple { "simplestreams" } else { "incus" },
    });
    source[if digits { "fingerprint" } else { "alias" }] = json!(alias);
    if let Some(file) = &remote.certificate {
        let pem = std::fs::read_to_string(file)
            .map_err(|error| Error::invalid(format!("{}: {error}", file.display())))?;
        source["certificate"] = json!(pem);
    }
    Ok(source)
}

/// Finds what `image` names: an image of the server, of a remote, a file.
///
/// # Errors
/// `NotFound` with what helps.
pub async fn find(ctx: &Ctx, cx: &ReadCx, project: &str, image: &str) -> Result<Origin> {
    if image.starts_with('/') {
        return super::images::from_file(ctx, cx, project, image).await;
    }
    if let Some(local) = local(ctx, cx, project, image).await? {
        let fingerprint = local.text("fingerprint").unwrap_or(image);
        let source = json!({"type": "image", "fingerprint": fingerprint});
        return Ok(Origin::of(source, is_vm(&local)));
    }
    let client = Client::read(&ctx.env)?;
    let Some((remote, alias)) = remote(&client, image)? else {
        return Err(
            Error::not_found(format!("there is no image {:?}", shown(image))).remedy(
                "See corral image list; of an image server: REMOTE:NAME, as images:debian/12",
            ),
        );
    };
    let mut origin = Origin::of(fetched(remote, alias)?, None);
    origin.notes.push(format!(
        "the server fetches the image from {}",
        shown(&remote.address)
    ));
    Ok(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_a_remote_is_named_with_it() {
        let client = Client::default();
        assert!(remote(&client, "debian").unwrap().is_none());
        assert!(remote(&client, "a/b:c").unwrap().is_none());
        assert_eq!(
            remote(&client, "x:y").unwrap_err().kind,
            ErrorKind::NotFound
        );
        let images = Remote {
            name: "images".into(),
            address: "https://i".into(),
            simple: true,
            public: true,
            project: None,
            certificate: None,
        };
        let source = fetched(&images, "debian/12").unwrap();
        assert_eq!(source["alias"], "debian/12");
        assert_eq!(source["protocol"], "simplestreams");
        assert_eq!(
            fetched(&images, "0123456789ab").unwrap()["fingerprint"],
            "0123456789ab"
        );
        let local = Remote {
            address: "unix://".into(),
            ..images
        };
        assert!(fetched(&local, "x").is_err());
    }
}
