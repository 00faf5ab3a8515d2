//! The definition as libvirt has it, edited as text.

use std::sync::Arc;

use async_trait::async_trait;

use super::change::{Changing, persistent, scripted, settled};
use super::ctx::{Ctx, Seen};
use super::domain::Domain;
use super::power::same;
use super::script::{Act, Script};
use super::wire::Call;
use crate::backend::contract::{EditNative, EditRequest, Prepared, ReadCx};
use crate::model::{Error, Instance, NativeFormat, NativeText, Result, shown};

scripted!(EditRequest, edit);

#[async_trait]
impl EditNative for Changing {
    async fn native(&self, cx: &ReadCx, on: &Instance) -> Result<NativeText> {
        let ctx: &Arc<Ctx> = &self.0;
        let seen = ctx.look(cx, &on.id).await?;
        persistent(&seen)?;
        Ok(NativeText {
            format: NativeFormat::Xml,
            token: text_token(&seen),
            text: seen.config_xml,
        })
    }
}

fn text_token(seen: &Seen) -> String {
    use sha2::{Digest as _, Sha256};
    let digest = Sha256::digest(seen.config_xml.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} {hex}", seen.listed.uuid)
}

async fn edit(ctx: &Ctx, cx: &ReadCx, on: &Instance, request: EditRequest) -> Result<Prepared> {
    let seen = ctx.look(cx, &on.id).await?;
    same(&seen, on)?;
    persistent(&seen)?;
    settled(&seen)?;
    let id = &seen.id;
    if text_token(&seen) != request.base {
        return Err(Error::conflict(format!(
            "the definition of {id} was changed since it was read. Nothing was done"
        ))
        .remedy(format!("Edit the new one: corral edit {id}")));
    }
    if request.text == seen.config_xml {
        return Ok(Prepared::unchanged(
            seen.token(),
            format!("{id} is defined so already"),
        ));
    }
    let wrong = |why: String| {
        Error::invalid(format!("{}: {why}", shown(&request.label)))
            .remedy("Mend the text; nothing was done.")
    };
    let new = Domain::read(&request.text).map_err(|error| wrong(error.message))?;
    if new.uuid != seen.listed.uuid {
        return Err(wrong("the UUID is its identity, and stays".to_owned()));
    }
    if new.name != seen.listed.name {
        return Err(wrong(format!(
            "another name is given by: corral rename {id} --to NAME"
        )));
    }
    if seen.listed.saved {
        super::change::not_hibernated(&seen)?;
    }
    let call = Call::Define {
        name: seen.listed.name.clone(),
        xml: request.text,
    };
    let script = Script::on(&seen, format!("{id} is defined anew"))
        .act(Act::call("Define it anew; libvirt checks it first", call));
    let mut plan = script.prepared(ctx, cx).await?;
    if seen.is_active() {
        plan.notes
            .push("it counts from its next start on".to_owned());
    }
    Ok(plan)
}
