//! The check before a change, and the proof that it was made.

use crate::model::{Consent, Error, Gate, Result, Support};

/// Everything the check before a change looks at.
#[derive(Debug)]
pub struct PermitRequest<'a> {
    /// The context or the whole of corral refuses changes; why.
    pub readonly: Option<String>,
    /// What the gate wants, protection already included.
    pub gate: &'a Gate,
    /// What the user said.
    pub consent: &'a Consent,
    /// What the backend says of the operation for this instance.
    pub support: &'a Support,
    /// The headless command, for the remedy.
    pub command: &'a str,
}

/// Proof that a change was checked. The only way to a [`TaskCx`].
#[derive(Debug)]
pub struct Permit(());

impl Permit {
    /// Checks read-only, support and consent, in this order.
    ///
    /// # Errors
    /// `Refused` or `Unsupported` with the remedy; nothing was done.
    pub fn issue(request: &PermitRequest<'_>) -> Result<Self> {
        if let Some(why) = &request.readonly {
            return Err(Error::refused(format!("{why}. Nothing was done")));
        }
        if let Support::No(why) = request.support {
            return Err(Error::unsupported(why.clone()));
        }
        let command = request.command;
        match request.gate {
            Gate::Free => {}
            Gate::Confirm if request.consent.yes || request.consent.typed.is_some() => {}
            Gate::Confirm => {
                return Err(Error::refused("this needs a yes. Nothing was done")
                    .remedy(format!("Add -y: {command} -y")));
            }
            Gate::Type { text } if request.consent.typed.as_deref() == Some(text) => {}
            Gate::Type { text } => {
                let quoted = if text.contains(' ') {
                    format!("'{text}'")
                } else {
                    text.clone()
                };
                let message = if request.consent.typed.is_some() {
                    "the confirmation does not match. Nothing was done"
                } else {
                    "this needs to be confirmed by name. Nothing was done"
                };
                return Err(Error::refused(message).remedy(format!(
                    "Add --confirm {quoted}: {command} --confirm {quoted}"
                )));
            }
        }
        Ok(Self(()))
    }
}
