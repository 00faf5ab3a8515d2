//! `image list|search|pull|delete`.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::around::{Gathered, gather, id_of, pick};
use super::super::engine::Engine;
use super::super::paths::absolute_text;
use super::super::planner::{Planned, Shape, finish, prepare_all};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::create::home;
use crate::backend::contract::{ImageRequest, Request};
use crate::config::ImageEntry;
use crate::model::{
    Action, Body, Data, Error, Field, FieldKind, GroupNoun, Image, Instance, InstanceId,
    InstanceKind, Operation, Result, Selector, State, shown,
};

const LIST: Row = Row {
    aliases: &["image ls"],
    examples: &["image list", "image list --unused -o name"],
    noun: GroupNoun::Images,
    fields: &[Field::flag("unused", "Only those that no instance needs")],
    operations: &[Operation::Images],
    ..Row::new(
        "image list",
        Group::Around,
        "Lists the images that are here",
        Run::Read(|e, a| Box::pin(list(e, a))),
    )
};

const SEARCH: Row = Row {
    examples: &["image search debian", "image search ubuntu arm64"],
    details: "Asks no server: the catalogue is part of corral. Images of your own are added as [[image]] with name, url \
and checksum in the configuration.",
    noun: GroupNoun::ImageSources,
    targets: Targets::Any,
    operations: &[Operation::Images],
    ..Row::new(
        "image search",
        Group::Around,
        "Looks for images that can be pulled",
        Run::Read(|e, a| Box::pin(search(e, a))),
    )
};

const PULL: Row = Row {
    examples: &[
        "image pull debian-13",
        "image pull https://example.org/disk.qcow2 --checksum sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad --name mine",
        "image pull file:///srv/disk.img",
    ],
    details: "Fetches it beside, compares it with its checksum, and only then keeps it. A pull that was broken off or \
cancelled goes on where it was when it is given again. Proxies are taken from https_proxy and no_proxy.",
    noun: GroupNoun::ImageSources,
    targets: Targets::Some,
    fields: &[
        Field::new(
            "checksum",
            FieldKind::Text,
            "sha256:… or sha512:… that must come, or the https URL of a list with it",
        ),
        Field::new("name", FieldKind::Name, "Name to keep it under"),
    ],
    operations: &[Operation::ImagePull],
    ..Row::new(
        "image pull",
        Group::Around,
        "Fetches an image",
        Run::Change(|e, a| Box::pin(pull(e, a))),
    )
};

const DELETE: Row = Row {
    aliases: &["image rm"],
    examples: &[
        "image delete debian-13",
        "image delete local/debian-12 --dry-run",
    ],
    details: "An image that an instance needs is refused. What has come of an image that is not whole goes the same way.",
    noun: GroupNoun::Images,
    targets: Targets::Some,
    risk: Risk::Confirm,
    operations: &[Operation::ImagePull],
    ..Row::new(
        "image delete",
        Group::Around,
        "Deletes images",
        Run::Change(|e, a| Box::pin(delete(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&LIST, &SEARCH, &PULL, &DELETE];

async fn images(engine: &Arc<Engine>, action: &Action) -> Result<Gathered<Image>> {
    gather(engine, action, Operation::Images, &|backend, cx| {
        backend.families().images().map(|family| family.images(cx))
    })
    .await
}

async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let mut found = images(&engine, &action).await?;
    let mut nothing = None;
    if action.args.flag("unused") {
        nothing = (!found.found.is_empty()).then_some("no unused images");
        // Where nobody could tell, it may be needed.
        let unused = |image: &Image| image.used_by.as_ref().is_some_and(Vec::is_empty);
        found.found.retain(unused);
    }
    let mut data = found.data(Body::Images);
    data.nothing = nothing;
    Ok(data)
}

async fn search(engine: Arc<Engine>, mut action: Action) -> Result<Data> {
    let words: Vec<String> = std::mem::take(&mut action.targets)
        .iter()
        .map(|word| word.as_str().to_owned())
        .collect();
    let own = engine.config().images.clone();
    let found = gather(&engine, &action, Operation::Images, &|backend, cx| {
        let family = backend.families().images()?;
        let words = words.clone();
        Some(Box::pin(async move { family.search(cx, &words).await }))
    })
    .await?;
    // The user's own stand in the context where they would go without being told.
    let here = home(&engine, &action).ok();
    let can_pull = here.as_ref().and_then(|name| engine.fleet().member(name));
    let can_pull = can_pull.is_some_and(|m| m.backend.families().image_pull().is_some());
    let own = own.iter().filter(|image| can_pull && fits(image, &words));
    let own: Vec<Image> = own
        .map(|image| of_config(image, here.as_deref().unwrap_or_default()))
        .collect();
    let found = found.map(|mut all| {
        all.retain(|image| own.iter().all(|mine| id_of(mine) != id_of(image)));
        own.into_iter().chain(all).collect()
    });
    if found.found.is_empty() && found.errors.is_empty() && !words.is_empty() {
        return Err(Error::not_found(format!(
            "no image of the catalogue fits \"{}\"",
            shown(&words.join(" "))
        ))
        .remedy("All there are: corral image search. Any other: corral image pull URL"));
    }
    Ok(found.data(Body::Images))
}

fn fits(image: &ImageEntry, words: &[String]) -> bool {
    let title = image.title.as_deref().unwrap_or_default();
    let text = format!("{} {title} {}", image.name, image.url).to_lowercase();
    words.iter().all(|word| text.contains(&word.to_lowercase()))
}

fn of_config(image: &ImageEntry, context: &str) -> Image {
    Image {
        context: context.to_owned(),
        name: image.name.clone(),
        title: image.title.clone(),
        arch: image.arch.clone(),
        url: Some(image.url.clone()),
        path: None,
        size_bytes: None,
        checksum: image.checksum.clone(),
        pulled_at: None,
        used_by: None,
    }
}

/// What the plan is about: an image is no instance, but has an address like one.
fn stub(engine: &Engine, context: &str, name: &str) -> Result<Arc<Instance>> {
    let member = engine.fleet().member(context).ok_or_else(|| {
        Error::not_found(format!("there is no context {context:?}"))
            .remedy("See corral context list")
    })?;
    Ok(Arc::new(Instance::new(
        InstanceId::new(context, None, name),
        member.spec.kind.clone(),
        InstanceKind::Vm,
        State::Stopped,
        Timestamp::now(),
    )))
}

/// The last part of a URL or path, as a name for people.
fn short(source: &str) -> &str {
    let path = source.split(['?', '#']).next().unwrap_or(source);
    let last = path.trim_end_matches('/').rsplit('/').next();
    last.filter(|last| !last.is_empty()).unwrap_or(source)
}

async fn pull(engine: Arc<Engine>, mut action: Action) -> Result<Planned> {
    let context = home(&engine, &action)?;
    let checksum = action.args.text("checksum").map(str::to_owned);
    let name = action.args.text("name").map(str::to_owned);
    if action.targets.len() > 1 && (checksum.is_some() || name.is_some()) {
        return Err(Error::invalid(
            "--checksum and --name are of one image: pull the others by themselves",
        ));
    }
    let member = engine.fleet().member(&context);
    if let Some(member) = member {
        let cx = engine.asking(engine.fleet().read_cx(&context));
        let ready = cx.within(&context, member.backend.ready(&cx)).await;
        ready.map_err(|error| error.in_context(&context))?;
    }
    let config = engine.config();
    let mut wanted = Vec::new();
    for target in &action.targets {
        let typed = target.as_str();
        let own = config.images.iter().find(|image| image.name == typed);
        let request = ImageRequest::Pull {
            source: own.map_or_else(|| source(&engine, typed), |image| image.url.clone()),
            checksum: checksum
                .clone()
                .or_else(|| own.and_then(|image| image.checksum.clone())),
            name: name.clone().or_else(|| own.map(|image| image.name.clone())),
        };
        let label = name.as_deref().unwrap_or_else(|| short(typed));
        wanted.push((stub(&engine, &context, label)?, Request::Image(request)));
    }
    let prepared = prepare_all(&engine, wanted).await?;
    let mut shape = Shape::of(&action)?;
    "Pull".clone_into(&mut shape.ask);
    "images".clone_into(&mut shape.noun);
    shape.tail = format!("into {context}");
    // The context is fixed here, so that a changed default does not change what was shown.
    action.scope.contexts = vec![context];
    finish(&engine, action, shape, prepared, Vec::new())
}

/// What is fetched: an address or a name as it is, a path in full.
fn source(engine: &Engine, typed: &str) -> String {
    let is_path = !typed.contains("://") && (typed.contains('/') || typed.starts_with(['~', '.']));
    if !is_path {
        return typed.to_owned();
    }
    absolute_text(&engine.env().home, typed)
}

async fn delete(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let mut wanted = Vec::new();
    let all = images(&engine, &action).await?;
    for target in &action.targets {
        let (context, name) = place(&engine, &action, &all, target)?;
        let request = Request::Image(ImageRequest::Delete {
            image: name.clone(),
        });
        wanted.push((stub(&engine, &context, &name)?, request));
    }
    wanted.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    wanted.dedup_by(|(a, _), (b, _)| a.id == b.id);
    let prepared = prepare_all(&engine, wanted).await?;
    let mut shape = Shape::of(&action)?;
    "Delete image".clone_into(&mut shape.ask);
    "images".clone_into(&mut shape.noun);
    finish(&engine, action, shape, prepared, Vec::new())
}

/// Where an image is. One that is in no list may be there in part: the backend of the context on hand knows.
fn place(
    engine: &Engine,
    action: &Action,
    all: &Gathered<Image>,
    target: &Selector,
) -> Result<(String, String)> {
    let listed = Gathered {
        found: all.found.clone(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    match pick(listed, std::slice::from_ref(target), "image") {
        Ok(picked) => match picked.found.first() {
            Some(image) => Ok((image.context.clone(), image.name.clone())),
            None => Err(Error::not_found("there is no such image")),
        },
        Err(error) if error.kind == crate::model::ErrorKind::NotFound => {
            let typed = target.as_str();
            match typed.split_once('/') {
                Some((context, name)) if engine.fleet().member(context).is_some() => {
                    Ok((context.to_owned(), name.to_owned()))
                }
                Some(_) => Err(error),
                None => Ok((home(engine, action)?, typed.to_owned())),
            }
        }
        Err(error) => Err(error),
    }
}
