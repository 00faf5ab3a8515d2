//! `context trust`: look at a server's certificate, and pin it.

use std::sync::Arc;
use std::time::Duration;

use super::change::{Deed, Target, plan, simple};
use super::known::known;
use crate::action::engine::Engine;
use crate::action::planner::{Planned, Shape};
use crate::action::row::Risk;
use crate::backend::contract::Prepared;
use crate::link::tls::{self, Presented};
use crate::link::trust::{Offer, Pin, PinKind, Trust, TrustStore, Verdict};
use crate::link::x509::read_fingerprint;
use crate::model::{
    Action, Body, ContextSpec, Data, Error, Outcome, Result, Selector, Step, TrustRow, shown,
};

/// Where a context's TLS server is.
fn endpoint(spec: &ContextSpec) -> Result<(String, u16)> {
    let none = || {
        Error::unsupported(format!(
            "context {} uses no TLS: there is nothing to pin",
            spec.name
        ))
    };
    let url = spec.text("url").ok_or_else(none)?;
    let rest = url.strip_prefix("https://").ok_or_else(none)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let bad = || Error::invalid(format!("{:?} is no URL of a server", shown(url)));
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, tail) = rest.split_once(']').ok_or_else(bad)?;
            (host, tail.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Ok(443), str::parse).map_err(|_| bad())?;
    if host.is_empty() {
        return Err(bad());
    }
    Ok((host.to_owned(), port))
}

fn stored(engine: &Engine) -> TrustStore {
    TrustStore::new(&engine.env().dirs)
}

pub(super) async fn list(engine: Arc<Engine>, action: Action) -> Result<Data> {
    let wanted: Vec<&str> = action.targets.iter().map(Selector::as_str).collect();
    for name in &wanted {
        known(&engine, name)?;
    }
    let pins = if engine.is_in_memory() {
        Vec::new()
    } else {
        stored(&engine).all()?
    };
    let rows = pins
        .into_iter()
        .filter(|pin| wanted.is_empty() || wanted.contains(&pin.context.as_str()))
        .map(|pin| TrustRow {
            context: pin.context,
            endpoint: pin.endpoint,
            fingerprint: pin.fingerprint,
            subject: format!("{} {}", word(pin.what), shown(&pin.subject)),
        })
        .collect();
    Ok(Data::new(Body::Pins(rows)))
}

fn word(what: PinKind) -> &'static str {
    match what {
        PinKind::Ca => "CA",
        PinKind::Leaf => "server",
    }
}

pub(super) async fn pin(engine: Arc<Engine>, action: Action) -> Result<Planned> {
    let [selector] = action.targets.as_slice() else {
        return Err(Error::invalid("corral context trust: which one?")
            .remedy("One context at a time; see corral context list"));
    };
    let spec = known(&engine, selector.as_str())?.spec();
    let (host, port) = endpoint(&spec)?;
    let end = tls::endpoint(&host, port);
    let asked = match action.args.text("fingerprint") {
        None => None,
        Some(text) => Some(read_fingerprint(text).ok_or_else(|| {
            Error::invalid(format!("{:?} is no SHA-256 fingerprint", shown(text)))
                .remedy("It has 64 hex digits, with or without colons")
        })?),
    };
    let pinned = stored(&engine).pins(&spec.name, &end)?;
    let trust = Trust {
        pins: pinned.iter().map(|pin| pin.fingerprint.clone()).collect(),
        exclusive: false,
    };
    let limit = Duration::from_secs(spec.connect_timeout.unwrap_or(5));
    let seen = tls::probe(&host, port, &trust, limit)
        .await
        .map_err(|error| error.in_context(&spec.name))?;
    let mut shape = Shape::of(&action)?;
    "Trust the certificate of".clone_into(&mut shape.ask);
    let first = pinned.is_empty();
    let prepared = prepare(&spec, &host, &seen, asked.as_deref(), &pinned);
    // The user who brings the fingerprint has compared it; a change still needs the name.
    if first && asked.is_some() {
        shape.risk = Risk::Confirm;
    }
    let offer = choose(&seen, asked.as_deref());
    let store = stored(&engine);
    let pin = offer.map(|offer| Pin {
        context: spec.name.clone(),
        endpoint: seen.endpoint.clone(),
        fingerprint: offer.certificate.fingerprint,
        what: offer.what,
        subject: offer.certificate.subject,
    });
    let deed: Deed = Box::new(move || {
        let pin = pin
            .clone()
            .ok_or_else(|| Error::refused("there is no certificate to pin"))?;
        let text = format!("pinned {} {}", word(pin.what), pin.fingerprint);
        store.replace(pin)?;
        Ok(Outcome::changed(text))
    });
    let target = Target {
        name: spec.name.clone(),
        kind: spec.kind,
        protected: spec.protected,
        prepared,
        reopen: true,
        work: simple(deed),
    };
    plan(&engine, action, shape, vec![target])
}

/// What would be pinned: what was asked for, else what the verdict offers.
fn choose(seen: &Presented, asked: Option<&str>) -> Option<Offer> {
    if let Some(asked) = asked {
        let (at, certificate) = seen
            .chain
            .iter()
            .enumerate()
            .find(|(_, certificate)| certificate.fingerprint == asked)?;
        return Some(Offer {
            what: if at == 0 { PinKind::Leaf } else { PinKind::Ca },
            certificate: certificate.clone(),
        });
    }
    match &seen.verdict {
        Verdict::NotKnown { offer } | Verdict::Changed { offer, .. } => Some((**offer).clone()),
        _ => None,
    }
}

fn prepare(
    spec: &ContextSpec,
    host: &str,
    seen: &Presented,
    asked: Option<&str>,
    pinned: &[Pin],
) -> Prepared {
    let server = seen.chain.first().map_or("", |c| c.fingerprint.as_str());
    let token = format!("{server}:{}", pinned.len());
    if let Verdict::Ok(_) = seen.verdict
        && asked.is_none_or(|asked| pinned.iter().any(|pin| pin.fingerprint == asked))
    {
        return Prepared::unchanged(
            token,
            format!("the certificate of {host} is trusted already"),
        );
    }
    if let Verdict::Expired { .. } | Verdict::NotYet { .. } | Verdict::Unusable { .. } =
        seen.verdict
    {
        // A pin would not make it good.
        let error = seen
            .verdict
            .clone()
            .into_result(&spec.name, host, &seen.endpoint);
        let (message, remedy) = error.err().map_or_else(
            || ("it cannot be used".to_owned(), None),
            |error| (error.message, error.remedy),
        );
        return Prepared::refused(token, message, remedy);
    }
    let Some(offer) = choose(seen, asked) else {
        if asked.is_some() {
            return Prepared::refused(
                token,
                format!(
                    "{host} presents another certificate than the one that was named (server: {server})"
                ),
                Some("Compare again on the host, and stop here if it differs".to_owned()),
            );
        }
        let error = seen
            .verdict
            .clone()
            .into_result(&spec.name, host, &seen.endpoint);
        let (message, remedy) = error.err().map_or_else(
            || ("nothing to pin".to_owned(), None),
            |error| (error.message, error.remedy),
        );
        return Prepared::refused(token, message, remedy);
    };
    let certificate = &offer.certificate;
    let mut prepared = Prepared::new(
        token,
        vec![Step::new(
            format!(
                "Pins {}: {}, SHA-256 {}",
                word(offer.what),
                certificate.subject,
                certificate.fingerprint
            ),
            format!(
                "trust.toml: {} = {}",
                seen.endpoint, certificate.fingerprint
            ),
        )],
    );
    prepared.notes.push(format!(
        "Valid to {}, issued by {}",
        certificate.not_after.strftime("%Y-%m-%d"),
        certificate.issuer
    ));
    prepared.notes.push(format!(
        "Compare on the host: openssl x509 -noout -fingerprint -sha256 -in {}",
        if offer.what == PinKind::Ca {
            "CA.pem"
        } else {
            "SERVER.pem"
        }
    ));
    for pin in pinned {
        prepared.losses.push(format!(
            "the pin of {} ({})",
            shown(&pin.subject),
            pin.fingerprint
        ));
    }
    prepared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Kind;

    #[test]
    fn the_server_is_read_from_the_url() {
        let of = |url: &str| {
            let mut spec = ContextSpec::new("a", Kind::read("k"));
            spec.fields.insert("url".to_owned(), url.into());
            endpoint(&spec).ok()
        };
        let some = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(
            of("https://pve.example:8006/api"),
            some("pve.example", 8006)
        );
        assert_eq!(of("https://u:p@pve.example"), some("pve.example", 443));
        assert_eq!(of("https://[::1]:1/"), some("::1", 1));
        for bad in [
            "http://x",
            "https://",
            "https://x:y",
            "https://[::1",
            "qemu+ssh://x/system",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
