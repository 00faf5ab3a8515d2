//! `create`.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::engine::Engine;
use super::super::grammar::read_value;
use super::super::paths::{absolute_text, at_home, read_text};
use super::super::planner::{Planned, Shape, finish, prepare_all};
use super::super::row::{Group, Risk, Row, Run, Targets};
use super::ports;
use crate::backend::contract::Request;
use crate::backend::contract::{CloudInit, CreateRequest, DiskSource, Firmware, KindInfo};
use crate::backend::registry;
use crate::model::{
    Action, Body, Bytes, Data, Error, Field, FieldKind, GroupNoun, Instance, InstanceId,
    InstanceKind, Operation, Result, SecretText, Selector, State, nearest, shown,
};

const CREATE: Row = Row {
    examples: &[
        "create web --image debian-13 --start",
        "create web --disk 20G --cdrom debian.iso --cpus 4 --memory 4G",
        "create web --image cloud.qcow2 --ssh-key ~/.ssh/id_ed25519.pub --user admin --publish 2222:22 --start --wait",
    ],
    details: "Makes an instance in the default context, or in the one that --context names. The first disk is a copy of \
--image, an overlay of --backing, or blank. Both take a file, or the name of an image from corral image list. UEFI unless --firmware bios. Sizes are binary: 20G is 20 GiB.",
    noun: GroupNoun::NewInstance,
    targets: Targets::One,
    fields: &[
        Field::new(
            "image",
            FieldKind::Path,
            "Image that the first disk becomes a copy of: a file, or the name of a pulled one",
        ),
        Field::new(
            "backing",
            FieldKind::Path,
            "Image that the first disk becomes an overlay of",
        ),
        Field::new(
            "disk",
            FieldKind::Bytes,
            "Size of the first disk [default: the image's, or 20G]",
        ),
        Field::new(
            "cdrom",
            FieldKind::Path,
            "ISO image; may be given several times",
        )
        .many(),
        Field::new("cpus", FieldKind::Count, "Virtual CPUs").default("2"),
        Field::new("memory", FieldKind::Bytes, "Memory").default("2G"),
        Field::new(
            "firmware",
            FieldKind::Choice(&["uefi", "bios"]),
            "Firmware [default: uefi]",
        ),
        Field::new(
            "os",
            FieldKind::Choice(&["linux", "windows", "other"]),
            "Guest family, for defaults",
        ),
        Field::flag("tpm", "With a virtual TPM 2.0"),
        Field::flag("secure-boot", "With Secure Boot"),
        Field::new("user", FieldKind::Name, "Login user for the cloud image"),
        Field::new("ssh-key", FieldKind::Path, "Public key file for that user").many(),
        Field::new(
            "password-file",
            FieldKind::Path,
            "File with the password of that user",
        ),
        Field::new("user-data", FieldKind::Path, "cloud-init user-data file").typed(),
        Field::new(
            "hostname",
            FieldKind::Name,
            "Host name [default: the instance's name]",
        ),
        Field::new(
            "publish",
            FieldKind::Text,
            "[ADDRESS:]PORT:GUESTPORT on this host; PORT 0 picks one",
        )
        .many(),
        Field::new("tag", FieldKind::Name, "A tag").many(),
        Field::new("note", FieldKind::Text, "A note").lines(),
        Field::new(
            "set",
            FieldKind::KeyValue,
            "A field of the backend; --fields lists them",
        )
        .many(),
        Field::flag("start", "Starts it once it is made"),
        Field::flag("fields", "Lists what --set takes; makes nothing"),
    ],
    risk: Risk::Confirm,
    heavy: true,
    operations: &[Operation::Create],
    shapes: &[("fields", Run::Read(|e, a| Box::pin(list_fields(e, a))))],
    leads_to: &["running", "address", "agent", "stopped"],
    ..Row::new(
        "create",
        Group::Life,
        "Makes an instance",
        Run::Change(|e, a| Box::pin(create(e, a))),
    )
};

pub(super) const ROWS: &[&Row] = &[&CREATE];

/// The context that a command without a target goes to.
pub(super) fn home(engine: &Engine, action: &Action) -> Result<String> {
    let view = engine.fleet().view();
    match action.scope.contexts.as_slice() {
        [] => {}
        [context] if view.context(context).is_some() => return Ok(context.clone()),
        [context] => {
            let names = view.contexts.iter().map(|c| c.name.as_str());
            let near = nearest(context, names).map_or_else(
                || "See corral context list".to_owned(),
                |n| format!("Did you mean {n}?"),
            );
            return Err(
                Error::not_found(format!("there is no context {:?}", shown(context))).remedy(near),
            );
        }
        _ => return Err(Error::invalid("one context at a time")),
    }
    let name = default_name(engine).ok_or_else(|| {
        Error::not_found("there is no context").remedy("corral context add NAME --backend KIND")
    })?;
    if view.context(&name).is_some() {
        return Ok(name);
    }
    let config = engine.config();
    let off = config.contexts.iter().any(|entry| entry.name == name);
    let why = if off { "is disabled" } else { "does not exist" };
    Err(Error::not_found(format!(
        "the default context {:?} {why} ({})",
        shown(&name),
        config.default_place()
    ))
    .remedy("Name another one: --context NAME, or for good: corral context use NAME"))
}

/// The name of the default context, whether it is there or not.
pub(in crate::action) fn default_name(engine: &Engine) -> Option<String> {
    if let Some(default) = &engine.config().settings.default_context {
        return Some(default.clone());
    }
    let view = engine.fleet().view();
    let local = view.contexts.iter().find(|c| c.name == "local");
    let context = local.or(view.contexts.first())?;
    Some(context.name.clone())
}

/// What `--set` takes in the context on hand. Offline.
async fn list_fields(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let context = home(&engine, &action)?;
    let kind = engine
        .fleet()
        .view()
        .context(&context)
        .map(|c| c.kind.clone());
    let fields = kind
        .as_ref()
        .and_then(registry::find)
        .map_or(&[][..], |info| info.create_fields);
    let mut text = String::new();
    for field in fields {
        text.push_str(&format!("{}\t{}\n", field.name, field.doc));
    }
    if text.is_empty() {
        text = format!("{context} takes no --set fields\n");
    }
    Ok(Data::new(Body::Text(text)))
}

/// Where a new instance is to be, and its name. An ID says both; a name that only looks like one is
/// written `name:…`.
fn place(engine: &Engine, action: &Action) -> Result<(String, String)> {
    let typed = action.targets.first().map_or("", Selector::as_str);
    if let Some(name) = typed.strip_prefix("name:") {
        return Ok((home(engine, action)?, name.to_owned()));
    }
    let id = typed.strip_prefix("id:").unwrap_or(typed);
    if id == typed && !typed.contains('/') {
        return Ok((home(engine, action)?, typed.to_owned()));
    }
    let hint = format!("If all of it is the name: name:{}", shown(typed));
    let id: InstanceId = id
        .parse()
        .map_err(|error: Error| error.remedy(hint.clone()))?;
    let bad = |why: String| Err(Error::invalid(why).remedy(hint.clone()));
    let context = id.context().to_owned();
    if engine.fleet().view().context(&context).is_none() {
        return bad(format!("there is no context {:?}", shown(&context)));
    }
    if action.scope.contexts.iter().any(|other| *other != context) {
        return bad(format!(
            "{id} is not in {}",
            action.scope.contexts.join(", ")
        ));
    }
    if id.namespace().is_some() {
        return bad(format!("{id}: a new instance is CONTEXT/NAME"));
    }
    Ok((context, id.key().to_owned()))
}

async fn create(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let (context, name) = place(&engine, &action)?;
    let kind = engine
        .fleet()
        .view()
        .context(&context)
        .map(|c| c.kind.clone());
    let info = kind.as_ref().and_then(registry::find);
    let request = Request::Create(request(&engine, &action, &name, info)?);
    let mut shape = Shape::of(&action)?;
    shape.tail = format!("in {context}");
    finish_new(&engine, action, shape, context, &name, request).await
}

/// Plans an instance that does not exist yet.
pub(super) async fn finish_new(
    engine: &Arc<Engine>,
    mut action: Action,
    shape: Shape,
    context: String,
    name: &str,
    request: Request,
) -> Result<Planned> {
    let member = engine.fleet().member(&context).ok_or_else(|| {
        Error::not_found(format!("there is no context {context:?}"))
            .remedy("See corral context list")
    })?;
    let cx = engine.asking(engine.fleet().read_cx(&context));
    let ready = cx.within(&context, member.backend.ready(&cx)).await;
    ready.map_err(|error| error.in_context(&context))?;
    let id = InstanceId::new(&context, None, name);
    let stub = Instance::new(
        id,
        member.spec.kind.clone(),
        InstanceKind::Vm,
        State::Provisioning,
        Timestamp::now(),
    );
    let prepared = prepare_all(engine, vec![(Arc::new(stub), request)]).await?;
    // The context is fixed here, so that a changed default does not change what was shown.
    action.scope.contexts = vec![context];
    finish(engine, action, shape, prepared, Vec::new())
}

/// What `--firmware` says.
pub(super) fn firmware(action: &Action) -> Option<Firmware> {
    action.args.text("firmware").map(|word| {
        if word == "bios" {
            Firmware::Bios
        } else {
            Firmware::Uefi
        }
    })
}

fn request(
    engine: &Engine,
    action: &Action,
    name: &str,
    info: Option<&KindInfo>,
) -> Result<CreateRequest> {
    let args = &action.args;
    let source = match (args.text("image"), args.text("backing")) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("--image and --backing exclude each other"));
        }
        (Some(image), None) => DiskSource::Copy(image_file(engine, "image", image)?),
        (None, Some(image)) => DiskSource::Backed(image_file(engine, "backing", image)?),
        (None, None) => DiskSource::Blank,
    };
    let cpus = args.count("cpus").unwrap_or(2);
    let cpus = u32::try_from(cpus)
        .ok()
        .filter(|n| (1..=1024).contains(n))
        .ok_or_else(|| Error::invalid(format!("--cpus: {cpus} is not between 1 and 1024")))?;
    let memory = args.bytes("memory").unwrap_or(Bytes::gib(2));
    if memory < Bytes::mib(16) {
        return Err(Error::invalid(format!("--memory: {memory} is too little"))
            .remedy("Sizes need a unit: 2G, 512M"));
    }
    Ok(CreateRequest {
        name: name.to_owned(),
        cpus,
        memory,
        disk_size: args.bytes("disk"),
        source,
        cdroms: args
            .many("cdrom")
            .iter()
            .map(|path| image_file(engine, "cdrom", path))
            .collect::<Result<_>>()?,
        firmware: firmware(action),
        os: args.text("os").map(str::to_owned),
        tpm: args.flag("tpm"),
        secure_boot: args.flag("secure-boot"),
        cloud_init: cloud_init(engine, action)?,
        publish: args
            .many("publish")
            .iter()
            .map(|text| publish(text))
            .collect::<Result<_>>()?,
        tags: args.many("tag"),
        note: args.text("note").map(str::to_owned),
        start: args.flag("start"),
        set: set(action, info)?,
    })
}

/// An image by its path. An address is told apart here: as a path it would read as nonsense.
pub(super) fn image_file(engine: &Engine, flag: &str, path: &str) -> Result<String> {
    let address = path.split_once("://").filter(|(scheme, _)| {
        !scheme.is_empty()
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    match address {
        Some((scheme, rest)) if !std::path::Path::new(path).exists() => {
            let remedy = if scheme == "file" {
                format!("Give the path: --{flag} {}", crate::model::shown(rest))
            } else {
                format!(
                    "Fetch it first: corral image pull {}; then: --{flag} NAME",
                    shown(path)
                )
            };
            Err(Error::invalid(format!(
                "--{flag}: {} is an address; a file or the name of an image is wanted",
                crate::model::shown(path)
            ))
            .remedy(remedy))
        }
        // A file of that name comes first; ./NAME is always one.
        _ if is_bare(path) && !std::path::Path::new(path).exists() => Ok(path.to_owned()),
        _ => Ok(absolute_text(&engine.env().home, path)),
    }
}

/// May be the name of an image that was pulled.
fn is_bare(path: &str) -> bool {
    !path.is_empty() && !path.contains('/') && !path.starts_with(['~', '.'])
}

fn read_file(engine: &Engine, flag: &str, path: &str) -> Result<String> {
    read_text(&at_home(&engine.env().home, path)).map_err(|mut error| {
        error.message = format!("--{flag}: {}", error.message);
        error
    })
}

fn cloud_init(engine: &Engine, action: &Action) -> Result<Option<CloudInit>> {
    let args = &action.args;
    let flags = ["user", "ssh-key", "password-file", "user-data", "hostname"];
    if !flags.iter().any(|flag| args.has(flag)) {
        return Ok(None);
    }
    let mut ssh_keys = Vec::new();
    for path in args.many("ssh-key") {
        let text = read_file(engine, "ssh-key", &path)?;
        if text.contains("PRIVATE KEY") {
            return Err(
                Error::invalid(format!("--ssh-key: {path} is a private key"))
                    .remedy(format!("Give {path}.pub")),
            );
        }
        ssh_keys.extend(
            text.lines()
                .map(str::trim)
                .filter(|l| !l.is_empty() && !l.starts_with('#'))
                .map(str::to_owned),
        );
    }
    let secret = |flag: &str| -> Result<Option<SecretText>> {
        args.text(flag)
            .map(|path| {
                read_file(engine, flag, path)
                    .map(|text| SecretText::from(text.trim_end_matches('\n').to_owned()))
            })
            .transpose()
    };
    Ok(Some(CloudInit {
        user_data: secret("user-data")?,
        ssh_keys,
        user: args.text("user").map(str::to_owned),
        password: secret("password-file")?,
        hostname: args.text("hostname").map(str::to_owned),
    }))
}

/// `[ADDRESS:]PORT:GUESTPORT`.
fn publish(text: &str) -> Result<(String, u16, u16)> {
    let typed = ports::read("publish", text)?;
    let Some(port) = typed.port.filter(|_| typed.protocol == "tcp") else {
        return Err(Error::invalid(format!(
            "--publish: {:?} is not [ADDRESS:]PORT:GUESTPORT",
            shown(text)
        ))
        .remedy("Write it like 2222:22; UDP is published afterwards: corral ports publish"));
    };
    let address = typed.address.unwrap_or_else(|| "127.0.0.1".to_owned());
    Ok((address, port, typed.guest))
}

pub(super) fn set(action: &Action, info: Option<&KindInfo>) -> Result<Vec<(String, String)>> {
    let fields = info.map_or(&[][..], |info| info.create_fields);
    let pairs = action.args.pairs("set");
    for (n, (key, value)) in pairs.iter().enumerate() {
        if pairs[..n].iter().any(|(before, _)| before == key) {
            let key = crate::model::shown(key);
            return Err(Error::invalid(format!("--set {key} is given twice"))
                .remedy("Leave one of them out"));
        }
        let Some(field) = fields.iter().find(|field| field.name == key) else {
            let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
            let remedy = nearest(key, known.iter().copied()).map_or_else(
                || {
                    format!(
                        "It takes: {}",
                        if known.is_empty() {
                            "nothing".to_owned()
                        } else {
                            known.join(", ")
                        }
                    )
                },
                |n| format!("Did you mean {n}?"),
            );
            return Err(
                Error::invalid(format!("--set: there is no field {:?}", shown(key))).remedy(remedy),
            );
        };
        read_value(field, value)?;
    }
    Ok(pairs)
}
