//! Images that VMs are made from: those that are here, those of the catalogue, and how they come and go.

mod checksum;
mod delete;
mod fetch;
mod partial;
mod pull;
mod shelf;
mod source;

use std::sync::Arc;

use async_trait::async_trait;

use super::ctx::Ctx;
use super::storage::{Users, apart};
use crate::backend::catalogue::{self, CloudImage};
use crate::backend::contract::{Changes, ImageRequest, Images, Prepared, ReadCx, TaskCx};
use crate::backend::qemu::locks;
use crate::model::{Image, Instance, Outcome, Result};
use delete::Deleting;
use shelf::Kept;
pub use shelf::Shelf;
use source::Wanted;

/// The images families.
#[derive(Clone, Debug)]
pub struct Pulled(pub Arc<Ctx>);

#[async_trait]
impl Images for Pulled {
    async fn images(&self, _: &ReadCx) -> Result<Vec<Image>> {
        let ctx = Arc::clone(&self.0);
        apart(move || here(&ctx)).await?
    }

    async fn search(&self, _: &ReadCx, query: &[String]) -> Result<Vec<Image>> {
        let (ctx, query) = (Arc::clone(&self.0), query.to_vec());
        apart(move || {
            let here = Shelf::of(&ctx).list()?;
            let all = catalogue::all().iter();
            Ok(all
                .filter(|image| fits(image, &query))
                .map(|image| offered(&ctx, image, &here))
                .collect())
        })
        .await?
    }
}

fn here(ctx: &Ctx) -> Result<Vec<Image>> {
    let all = Shelf::of(ctx).list()?;
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let users = Users::read(ctx)?;
    Ok(all
        .into_iter()
        .map(|kept| Image {
            used_by: Some(users.of(&kept.path)),
            ..image(ctx, kept)
        })
        .collect())
}

fn image(ctx: &Ctx, kept: Kept) -> Image {
    Image {
        context: ctx.spec.name.clone(),
        name: kept.name,
        title: kept.record.title,
        arch: kept.record.arch,
        url: kept.record.url,
        path: Some(kept.path.display().to_string()),
        size_bytes: Some(kept.size),
        checksum: kept.record.checksum,
        pulled_at: kept.record.pulled_at,
        used_by: None,
    }
}

/// Every word stands somewhere in what is known of it.
fn fits(image: &CloudImage, query: &[String]) -> bool {
    let text = format!("{} {} {}", image.name, image.title, image.arch).to_lowercase();
    query.iter().all(|word| text.contains(&word.to_lowercase()))
}

fn offered(ctx: &Ctx, offer: &CloudImage, here: &[Kept]) -> Image {
    let kept = here
        .iter()
        .find(|kept| kept.name == offer.name && kept.record.url.as_deref() == Some(&offer.url));
    match kept {
        Some(kept) => image(ctx, kept.clone()),
        None => Image {
            context: ctx.spec.name.clone(),
            name: offer.name.clone(),
            title: Some(offer.title.clone()),
            arch: Some(offer.arch.clone()),
            url: Some(offer.url.clone()),
            path: None,
            size_bytes: None,
            checksum: None,
            pulled_at: None,
            used_by: None,
        },
    }
}

enum Plan {
    Pull(Box<Wanted>),
    Delete(Deleting),
}

#[async_trait]
impl Changes<ImageRequest> for Pulled {
    async fn prepare(&self, _: &ReadCx, _: &Instance, request: ImageRequest) -> Result<Prepared> {
        let ctx = Arc::clone(&self.0);
        apart(move || match request {
            ImageRequest::Pull {
                source,
                checksum,
                name,
            } => match Wanted::read(&source, checksum.as_deref(), name.as_deref()) {
                Ok(wanted) => pull::prepare(&ctx, wanted),
                Err(error) => Ok(Prepared::failed("new", &error)),
            },
            ImageRequest::Delete { image } => delete::prepare(&ctx, &image),
        })
        .await?
    }

    async fn run(&self, cx: &TaskCx, mut prepared: Prepared) -> Result<Outcome> {
        let token = prepared.token.clone();
        match prepared.take()? {
            Plan::Pull(wanted) => pull::run(&self.0, cx, &wanted).await,
            Plan::Delete(plan) => {
                let (ctx, cx) = (Arc::clone(&self.0), cx.clone());
                let _files = locks::files(&ctx).await?;
                apart(move || delete::run(&ctx, &cx, &plan, &token)).await?
            }
        }
    }
}
