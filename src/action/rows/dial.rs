//! `dial`: a guest's port on standard input and output.

use std::sync::Arc;

use super::super::engine::Engine;
use super::super::row::{Group, Row, Run, Targets};
use super::super::session::OpenSession;
use super::one::One;
use crate::backend::contract::Way;
use crate::link::dial;
use crate::model::{Action, Error, Field, FieldKind, GroupNoun, Operation, Result};

pub(super) const ROWS: &[&Row] = &[&Row {
    examples: &["dial local/web", "dial local/web --port 80"],
    details: "The best known way to a port of the guest, on standard input and output. It serves as a ProxyCommand of ssh: \
ssh -o ProxyCommand='corral dial local/web' user@web",
    noun: GroupNoun::Instances,
    targets: Targets::One,
    fields: &[Field::new("port", FieldKind::Count, "The guest's port").default("22")],
    operations: &[Operation::Route],
    ..Row::new(
        "dial",
        Group::Reach,
        "Connects standard input and output to a guest's port",
        Run::Open(|e, a| Box::pin(open(e, a))),
    )
}];

async fn open(engine: Arc<Engine>, action: Action) -> Result<OpenSession> {
    let port = action.args.count("port").unwrap_or(22);
    let port = u16::try_from(port)
        .ok()
        .filter(|p| *p > 0)
        .ok_or_else(|| Error::invalid(format!("{port} is not a port")))?;
    let one = One::of(&engine, &action).await?;
    let families = one.backend.families();
    let routes = families
        .routes()
        .ok_or_else(|| one.cannot(Operation::Route))?;
    let (cx, instance) = (&one.cx, &one.instance);
    let routes = cx
        .within(&instance.context, routes.routes(cx, instance, port))
        .await?;
    let mut last = None;
    for route in routes {
        let opened = match &route.way {
            Way::Tcp(host, port) => dial::tcp(host, *port, cx.left()).await,
            Way::Stream(opener) => opener.open().await,
            Way::Jump { host, .. } => Err(Error::unsupported(format!(
                "the way leads through {host}, which needs ssh"
            ))
            .remedy(format!("ssh -J {host} is the same way"))),
        };
        match opened {
            Ok(stream) => {
                return Ok(OpenSession {
                    id: instance.id.clone(),
                    way: route.why,
                    stream,
                });
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        Error::not_found(format!("no way to port {port} of {} is known", instance.id))
    }))
}
