//! What is said of a domain and changes nothing about it: tags and template in corral's own element of its metadata,
//! the note as its description, autostart; and its name.

use std::collections::BTreeSet;

use super::change::{affects, check_name, not_hibernated, off, persistent, scripted};
use super::ctx::{Ctx, Seen};
use super::domain::Marks;
use super::power::same;
use super::script::{Act, Besides, Script};
use super::wire::{Call, Meta};
use crate::backend::contract::{
    AutostartRequest, NoteRequest, Prepared, ReadCx, RenameRequest, TagsRequest, TemplateRequest,
    check_note, check_tag,
};
use crate::model::{Error, Instance, Result, shown};

scripted!(TagsRequest, tags);
scripted!(NoteRequest, note);
scripted!(AutostartRequest, autostart);
scripted!(TemplateRequest, template);
scripted!(RenameRequest, rename);

/// Writes corral's own element.
fn own(seen: &Seen, title: impl Into<String>, marks: &Marks) -> Act {
    let (live, config) = affects(seen);
    let call = Call::SetMeta {
        dom: seen.dom(),
        meta: Meta::Own,
        text: marks.element(),
        live,
        config,
    };
    Act::call(title, call)
}

async fn tags(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: TagsRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    let id = &seen.id;
    for tag in &request.add {
        check_tag(tag)?;
    }
    if let Some(both) = request.add.iter().find(|tag| request.remove.contains(tag)) {
        return Err(Error::invalid(format!(
            "the tag \"{}\" is to be added and removed",
            shown(both)
        ))
        .remedy("Leave one of the two out."));
    }
    let now = &seen.config.marks;
    let before: BTreeSet<String> = now.tags.iter().cloned().collect();
    let mut after = before.clone();
    after.extend(request.add.iter().cloned());
    after.retain(|tag| !request.remove.contains(tag));
    if after == before {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{id} has these tags already"),
        ));
    }
    let list = |tags: Vec<&String>| {
        let tags: Vec<_> = tags.into_iter().map(|tag| shown(tag)).collect();
        tags.join(", ")
    };
    let added = list(after.difference(&before).collect());
    let removed = list(before.difference(&after).collect());
    let title = match (added.is_empty(), removed.is_empty()) {
        (false, true) => format!("Add the tags {added}"),
        (true, _) => format!("Remove the tags {removed}"),
        (false, false) => format!("Add the tags {added}, remove {removed}"),
    };
    let flags = |word: &str, tags: Vec<&String>| -> String {
        tags.iter()
            .map(|tag| format!(" --{word} '{tag}'"))
            .collect()
    };
    let undo = format!(
        "corral tag {id}{}{}",
        flags("remove", after.difference(&before).collect()),
        flags("add", before.difference(&after).collect())
    );
    let marks = Marks {
        tags: after.into_iter().collect(),
        ..now.clone()
    };
    let script = Script::on(&seen, format!("{id} is tagged anew"));
    script
        .act(own(&seen, title, &marks).undo(undo))
        .prepared(ctx, cx)
        .await
}

async fn note(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: NoteRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    let id = &seen.id;
    let text = request.text.filter(|text| !text.trim().is_empty());
    if let Some(text) = &text {
        check_note(text)?;
    }
    if seen.config.note.as_deref() == text.as_deref().map(str::trim) {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{id} has this note already"),
        ));
    }
    let title = match (&seen.config.note, &text) {
        (None, _) => "Set the note",
        (Some(_), Some(_)) => "Replace the note",
        (Some(_), None) => "Remove the note",
    };
    let undo = match &seen.config.note {
        Some(old) => format!("corral note {id} --text '{}'", shown(old)),
        None => format!("corral note {id} --clear"),
    };
    let (live, config) = affects(&seen);
    let call = Call::SetMeta {
        dom: seen.dom(),
        meta: Meta::Description,
        text,
        live,
        config,
    };
    let script = Script::on(&seen, format!("the note of {id} is written"));
    script
        .act(Act::call(title, call).undo(undo))
        .prepared(ctx, cx)
        .await
}

fn autostart_act(seen: &Seen, on: bool) -> Act {
    let id = &seen.id;
    let (title, undo) = if on {
        ("Start it with its host", "off")
    } else {
        ("No longer start it with its host", "on")
    };
    let call = Call::Autostart {
        dom: seen.dom(),
        on,
    };
    Act::call(title, call).undo(format!("corral autostart {id} --{undo}"))
}

async fn autostart(
    ctx: &Ctx,
    cx: &ReadCx,
    on: &Instance,
    request: AutostartRequest,
) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    let id = &seen.id;
    if seen.listed.autostart == Some(request.on) {
        let said = if request.on {
            "starts with its host already"
        } else {
            "does not start with its host"
        };
        return Ok(Prepared::unchanged(seen.token(), format!("{id} {said}")));
    }
    persistent(&seen)?;
    if request.on && seen.config.marks.template {
        return Err(
            Error::refused(format!("{id} is a template and is not started"))
                .remedy("Make a copy of it and let that start."),
        );
    }
    let said = if request.on {
        "starts with its host"
    } else {
        "no longer starts with its host"
    };
    let script = Script::on(&seen, format!("{id} {said}")).act(autostart_act(&seen, request.on));
    script.prepared(ctx, cx).await
}

async fn template(
    ctx: &Ctx,
    cx: &ReadCx,
    on: &Instance,
    request: TemplateRequest,
) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    let id = &seen.id;
    if seen.config.marks.template == request.on {
        let said = if request.on {
            "is a template already"
        } else {
            "is no template"
        };
        return Ok(Prepared::unchanged(seen.token(), format!("{id} {said}")));
    }
    persistent(&seen)?;
    let marks = Marks {
        template: request.on,
        ..seen.config.marks.clone()
    };
    if !request.on {
        let act = own(&seen, "Make it an ordinary domain again", &marks)
            .undo(format!("corral template {id} --on"));
        let script = Script::on(&seen, format!("{id} is an ordinary domain again")).act(act);
        return script.prepared(ctx, cx).await;
    }
    off(&seen)?;
    if seen.listed.saved {
        return Err(Error::refused(format!(
            "{id} is hibernated: a template is not started, so its memory would wait for ever"
        ))
        .remedy(format!(
            "Let it go on and shut it down: corral start {id}, corral stop {id}"
        )));
    }
    let act = own(
        &seen,
        "Make it a template: it is cloned, and not started",
        &marks,
    )
    .undo(format!("corral template {id} --off"));
    let started = seen.listed.autostart == Some(true);
    let script = Script::on(&seen, format!("{id} is a template"))
        .act(act)
        .acts(started.then(|| autostart_act(&seen, false)));
    let mut plan = script.prepared(ctx, cx).await?;
    plan.notes
        .push("virsh and others know nothing of this mark, and start it".to_owned());
    Ok(plan)
}

async fn rename(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: RenameRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    let (id, to) = (&seen.id, request.to);
    if to == seen.listed.name {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{id} is called so already"),
        ));
    }
    check_name(&to)?;
    super::change::free(ctx, cx, &to).await?;
    persistent(&seen)?;
    off(&seen)?;
    not_hibernated(&seen)?;
    let snapshots = super::snapshots::known(ctx, cx, &seen).await?;
    if !snapshots.is_empty() {
        return Err(Error::refused(format!(
            "{id} has snapshots: libvirt keeps them under its name"
        ))
        .remedy(format!(
            "Delete them first: corral snapshot list {id}. Or clone it: corral clone {id} --name NAME"
        )));
    }
    let new = ctx.id(&to);
    let call = Call::Rename {
        dom: seen.dom(),
        to,
    };
    let undo = format!("corral rename {new} --to '{}'", shown(&seen.listed.name));
    let script = Script::on(&seen, format!("{id} is {new} now"))
        .besides(Besides::Snapshots)
        .act(Act::call("Write its new name", call).undo(undo))
        .to(new.clone());
    let mut plan = script.prepared(ctx, cx).await?;
    plan.notes = vec![
        format!("its ID is {new} from now on"),
        "the host name inside of the guest, and the names of its volumes, stay".to_owned(),
    ];
    Ok(plan)
}
