//! Images: what is here, what can be had, and how it comes and goes.

use async_trait::async_trait;

use crate::backend::contract::{Changes, ImageRequest, Images, Prepared, ReadCx, TaskCx};
use crate::backend::demo::backend::Demo;
use crate::backend::demo::dialect::Dialect;
use crate::backend::demo::random::Random;
use crate::model::{Bytes, Error, Image, Instance, InstanceId, Outcome, Result, Step, Sum, shown};

/// Name, title, MiB: what can be had.
const CATALOGUE: &[(&str, &str, u64)] = &[
    ("alpine-3.22", "Alpine Linux 3.22, cloud", 178),
    ("debian-13", "Debian 13 trixie, cloud", 408),
    ("fedora-42", "Fedora 42, cloud", 508),
    ("rocky-10", "Rocky Linux 10, cloud", 1020),
    ("ubuntu-24.04", "Ubuntu 24.04 LTS noble, cloud", 596),
];

fn entry(context: &str, name: &str, title: &str, mib: u64) -> Image {
    let mut sum = String::from("sha256:");
    let mut random = Random::new(0, name);
    for _ in 0..4 {
        sum.push_str(&format!("{:016x}", random.next()));
    }
    Image {
        context: context.to_owned(),
        name: name.to_owned(),
        title: Some(title.to_owned()),
        arch: Some("x86_64".into()),
        url: Some(format!("https://images.example/{name}.qcow2")),
        path: None,
        size_bytes: Some(Bytes::mib(mib)),
        checksum: Some(sum),
        pulled_at: None,
        used_by: None,
    }
}

fn catalogue(context: &str) -> Vec<Image> {
    CATALOGUE
        .iter()
        .map(|(name, title, mib)| entry(context, name, title, *mib))
        .collect()
}

/// The images that are here from the beginning.
pub(super) fn here(dialect: Dialect, context: &str) -> Vec<Image> {
    let mut images = catalogue(context);
    images.retain(|image| matches!(image.name.as_str(), "debian-13" | "alpine-3.22"));
    for image in &mut images {
        image.path = Some(dialect.image_place(&image.name));
        image.used_by = Some(Vec::new());
    }
    images
}

#[async_trait]
impl Images for Demo {
    async fn images(&self, cx: &ReadCx) -> Result<Vec<Image>> {
        self.world.answer(cx, "images").await?;
        let guests = self.world.guests();
        let mut images = self.world.with_stores(|stores| stores.images.clone());
        for image in &mut images {
            let needs =
                |backing: &str| backing == image.name || image.path.as_deref() == Some(backing);
            let users = guests.iter().filter(|g| {
                g.disks
                    .iter()
                    .any(|d| d.backing.as_deref().is_some_and(needs))
            });
            image.used_by = Some(users.map(|g| g.id().clone()).collect());
        }
        Ok(images)
    }

    async fn search(&self, cx: &ReadCx, query: &[String]) -> Result<Vec<Image>> {
        self.world.answer(cx, "search").await?;
        let mut found = catalogue(self.world.name());
        found.retain(|image| {
            let text = format!("{} {}", image.name, image.title.as_deref().unwrap_or(""));
            let text = text.to_lowercase();
            query.iter().all(|word| text.contains(&word.to_lowercase()))
        });
        Ok(found)
    }
}

/// What a plan of this family hands to its run.
enum Job {
    Pull(Box<Image>),
    Delete(String),
}

#[async_trait]
impl Changes<ImageRequest> for Demo {
    async fn prepare(
        &self,
        cx: &ReadCx,
        _on: &Instance,
        request: ImageRequest,
    ) -> Result<Prepared> {
        let images = self.images(cx).await?;
        let token = self
            .world
            .with_stores(|stores| stores.images_turn.to_string());
        Ok(match request {
            ImageRequest::Pull {
                source,
                checksum,
                name,
            } => self.pull(&images, token, &source, checksum, name),
            ImageRequest::Delete { image } => self.drop_image(&images, token, image),
        })
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let world = &self.world;
        let job: Job = prepared.take()?;
        world.calls.method("run");
        tokio::time::sleep(world.knobs.latency_of(world.name())).await;
        world.connect().await?;
        cx.checkpoint()?;
        let claimed = world.with_stores(|stores| {
            let same = stores.images_turn.to_string() == prepared.token;
            stores.images_turn += u64::from(same);
            same
        });
        if !claimed {
            return Err(Error::conflict(
                "the images have changed since the plan was made. Nothing was done",
            )
            .in_context(world.name()));
        }
        if world.fails() {
            return Err(Error::backend(format!(
                "{} failed: internal error (simulated)",
                world.name()
            ))
            .in_context(world.name()));
        }
        for step in &prepared.steps {
            cx.step(step.title.clone());
            cx.log(step.native.clone());
            world.calls.change(&step.native);
        }
        match job {
            Job::Pull(image) => self.fetch(cx, *image).await,
            Job::Delete(name) => {
                tokio::time::sleep(world.span(150)).await;
                world.with_stores(|stores| stores.images.retain(|i| i.name != name));
                Ok(Outcome::changed(format!(
                    "image {} is deleted",
                    shown(&name)
                )))
            }
        }
    }
}

impl Demo {
    fn pull(
        &self,
        images: &[Image],
        token: String,
        source: &str,
        checksum: Option<String>,
        name: Option<String>,
    ) -> Prepared {
        let world = &self.world;
        let known = catalogue(world.name())
            .into_iter()
            .find(|i| i.name == source);
        let is_place = source.contains("://") || source.contains('/');
        if known.is_none() && !is_place {
            return Prepared::refused(
                token,
                format!("the catalogue has no image {}", shown(source)),
                Some("See: corral image search".into()),
            );
        }
        let mut image = known.unwrap_or_else(|| {
            let file = source.rsplit('/').next().unwrap_or(source);
            let stem = file.split_once(".qcow2").map_or(file, |(stem, _)| stem);
            let mut image = entry(world.name(), stem, stem, 512);
            image.title = None;
            image.url = Some(source.to_owned());
            image
        });
        if let Some(name) = name {
            image.name = name;
        }
        if let Some(sum) = checksum.filter(|sum| !sum.starts_with("https://")) {
            match Sum::read(&sum) {
                Ok(sum) => image.checksum = Some(sum.to_string()),
                Err(error) => return Prepared::refused(token, error.message, error.remedy),
            }
        }
        if let Some(here) = images.iter().find(|i| i.name == image.name) {
            if here.checksum == image.checksum {
                return Prepared::unchanged(token, format!("image {} is here", shown(&here.name)));
            }
            return Prepared::refused(
                token,
                format!("another image {} is here", shown(&here.name)),
                Some("Keep it under another --name, or delete that one first.".into()),
            );
        }
        image.path = Some(world.dialect.image_place(&image.name));
        let url = image.url.clone().unwrap_or_default();
        let native = world.dialect.image_pull(&url, &image.name);
        let title = format!("Fetch {url} as {}", image.name);
        let undo = format!("corral image delete {}", image.name);
        let step = Step::new(title, native).undo(undo);
        let mut prepared = Prepared::new(token, vec![step]);
        if let Some(sum) = &image.checksum {
            prepared.notes.push(format!("Checked against {sum}"));
        }
        if let Some(size) = image.size_bytes {
            prepared.notes.push(format!("{size} to fetch"));
        }
        prepared.detachable = world.dialect.is_server_side();
        prepared.with(Job::Pull(Box::new(image)))
    }

    fn drop_image(&self, images: &[Image], token: String, name: String) -> Prepared {
        let world = &self.world;
        let Some(image) = images.iter().find(|i| i.name == name) else {
            return Prepared::unchanged(
                token,
                format!("{} has no image {}", world.name(), shown(&name)),
            );
        };
        let users: Vec<String> = image
            .used_by
            .iter()
            .flatten()
            .map(InstanceId::to_string)
            .collect();
        if !users.is_empty() {
            return Prepared::refused(
                token,
                format!("image {} is needed by {}", shown(&name), users.join(", ")),
                Some(format!(
                    "Delete them first: corral delete {}",
                    users.join(" ")
                )),
            );
        }
        let native = world.dialect.image_delete(&name);
        let step = Step::new(format!("Delete image {name}"), native);
        let mut prepared = Prepared::new(token, vec![step]);
        let size = image.size_bytes.unwrap_or_default();
        prepared
            .losses
            .push(format!("image {} {size}", shown(&name)));
        prepared.with(Job::Delete(name))
    }

    async fn fetch(&self, cx: &TaskCx, mut image: Image) -> Result<Outcome> {
        const PARTS: u64 = 10;
        let world = &self.world;
        let total = image.size_bytes.unwrap_or_default().0;
        for part in 1..=PARTS {
            if cx.cancel.is_cancelled() {
                return Err(Error::refused(
                    "cancelled; what was fetched is removed again",
                ));
            }
            tokio::time::sleep(world.span(200)).await;
            cx.progress(total / PARTS * part, total);
        }
        image.pulled_at = Some(world.now());
        image.used_by = Some(Vec::new());
        let name = shown(&image.name).into_owned();
        world.with_stores(|stores| stores.images.push(image));
        Ok(Outcome::changed(format!("image {name} is here")))
    }
}

impl Dialect {
    /// Where an image is once it is here.
    fn image_place(self, name: &str) -> String {
        match self {
            Self::Qemu => format!("~/.local/share/corral/images/{name}.qcow2"),
            Self::Libvirt => format!("/var/lib/libvirt/images/{name}.qcow2"),
            Self::Incus => format!("local:{name}"),
            Self::Kubevirt => format!("datasource/{name}"),
            Self::Proxmox => format!("local:import/{name}.qcow2"),
            Self::Virtualbox => format!("~/VirtualBox VMs/{name}.vdi"),
            Self::Vsphere => format!("library/{name}"),
            Self::Xen => format!("sr-nfs/{name}.vhd"),
            Self::Nutanix => format!("images/{name}"),
            Self::Peer => format!("site2:images/{name}"),
        }
    }

    fn image_pull(self, url: &str, name: &str) -> String {
        match self {
            Self::Qemu => format!("GET {url} to images/{name}.qcow2"),
            Self::Libvirt => format!("virStorageVolUpload default {name}.qcow2 from {url}"),
            Self::Incus => format!("POST /1.0/images {{\"alias\":{name:?},\"source\":{url:?}}}"),
            Self::Kubevirt => {
                format!("POST /apis/cdi.kubevirt.io/v1beta1/datavolumes {name} http {url}")
            }
            Self::Proxmox => {
                format!(
                    "POST /nodes/pve1/storage/local/download-url url={url} filename={name}.qcow2"
                )
            }
            Self::Vsphere => format!("POST /api/content/library/item {name} source={url}"),
            Self::Nutanix => format!("POST /api/vmm/v4.0/content/images {name} url={url}"),
            Self::Peer => {
                format!("POST /v1/actions {{\"verb\":\"image pull\",\"source\":{url:?}}}")
            }
            Self::Virtualbox | Self::Xen => "none".into(),
        }
    }

    fn image_delete(self, name: &str) -> String {
        match self {
            Self::Qemu => format!("remove images/{name}.qcow2"),
            Self::Libvirt => format!("virStorageVolDelete default {name}.qcow2"),
            Self::Incus => format!("DELETE /1.0/images/{name}"),
            Self::Kubevirt => {
                format!("DELETE /apis/cdi.kubevirt.io/v1beta1/datavolumes/{name}")
            }
            Self::Proxmox => {
                format!("DELETE /nodes/pve1/storage/local/content/import/{name}.qcow2")
            }
            Self::Vsphere => format!("DELETE /api/content/library/item/{name}"),
            Self::Nutanix => format!("DELETE /api/vmm/v4.0/content/images/{name}"),
            Self::Peer => {
                format!("POST /v1/actions {{\"verb\":\"image delete\",\"image\":{name:?}}}")
            }
            Self::Virtualbox | Self::Xen => "none".into(),
        }
    }
}
