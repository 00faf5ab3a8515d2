//! What must hold before a change: read-only, protection, gates. Fronts cannot loosen it.

use super::row::Risk;
use crate::model::{Consent, Gate, Plan, TargetPlan};

/// More targets than this always need their number typed.
pub const MANY: usize = 10;

/// A name longer than this, or with characters a keyboard may lack, is not asked for: its ID is.
const TYPEABLE: usize = 40;

/// The gate of a plan: the row's own risk, raised by number, spread and protection.
pub fn gate(risk: Risk, verb: &str, targets: &[TargetPlan], relaxed: bool) -> Gate {
    let running: Vec<&TargetPlan> = targets.iter().filter(|t| t.changes()).collect();
    let count = running.len();
    let protected = running.iter().any(|t| t.protected);
    // corral's own files are no context to be mistaken for another.
    let contexts = running
        .iter()
        .filter(|t| !t.id.is_own())
        .map(|t| t.id.context())
        .collect::<std::collections::BTreeSet<_>>();
    let mut wanted = risk;
    if wanted == Risk::Free && count >= 2 {
        wanted = Risk::Confirm;
    }
    if wanted >= Risk::Confirm && (protected || count > MANY || contexts.len() > 1) {
        wanted = if risk == Risk::Free && count <= MANY && !protected {
            Risk::Confirm
        } else {
            Risk::TypeName
        };
    }
    if relaxed && !protected && count <= 1 && wanted == Risk::TypeName {
        wanted = Risk::Confirm;
    }
    match wanted {
        Risk::Free => Gate::Free,
        Risk::Confirm => Gate::Confirm,
        Risk::TypeName => Gate::Type {
            text: text_to_type(verb, &running, targets),
        },
    }
}

fn text_to_type(verb: &str, running: &[&TargetPlan], all: &[TargetPlan]) -> String {
    match running {
        [] => all
            .first()
            .map_or_else(|| verb.to_owned(), |t| t.name.clone()),
        [one] if is_typeable(&one.name) => one.name.clone(),
        [one] => one.id.to_string(),
        many => format!("{} {}", word_to_type(verb), many.len()),
    }
}

/// What is done, in the word that tells it from everything else that is done to the same things: `snapshot
/// delete` is a delete. What makes them is called as they are.
fn word_to_type(verb: &str) -> &str {
    match verb.rsplit_once(' ') {
        Some((things, "create")) => things,
        Some((_, word)) => word,
        None => verb,
    }
}

/// The user's answer, where an ID is asked for in place of a name that a keyboard may lack and the name was given
/// all the same.
pub fn as_asked(gate: &Gate, targets: &[TargetPlan], consent: &Consent) -> Consent {
    let mut consent = consent.clone();
    let mut running = targets.iter().filter(|t| t.changes());
    if let (Gate::Type { text }, Some(one), None) = (gate, running.next(), running.next())
        && *text == one.id.to_string()
        && consent.typed.as_ref() == Some(&one.name)
    {
        consent.typed = Some(text.clone());
    }
    consent
}

/// Whether a name can be typed on any keyboard.
pub fn is_typeable(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= TYPEABLE
        && name.chars().all(|c| c.is_ascii_graphic() || c == ' ')
        && !name.starts_with(' ')
        && !name.ends_with(' ')
}

/// On the command line one explicit target (no glob, no filter, not protected) is itself the
/// answer to a plain question, as users of other tools of the field expect.
pub fn implied_consent(plan: &Plan) -> Consent {
    let explicit = plan.action.scope.filter.is_none()
        && plan.action.targets.len() == 1
        && plan.action.targets.iter().all(|t| !t.is_glob())
        && plan.targets.len() == 1
        && plan.targets.iter().all(|t| !t.protected);
    Consent {
        yes: explicit && plan.gate == Gate::Confirm,
        typed: None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::model::{InstanceId, Kind, State};

    fn target(context: &str, name: &str, protected: bool) -> TargetPlan {
        TargetPlan {
            id: InstanceId::new(context, None, name),
            uid: None,
            name: name.to_owned(),
            backend: Kind::read("k"),
            state: State::Running,
            host: None,
            observed_at: Timestamp::UNIX_EPOCH,
            protected,
            unchanged: false,
            steps: Vec::new(),
            losses: Vec::new(),
            notes: Vec::new(),
            refusals: Vec::new(),
            token: String::new(),
            detachable: false,
        }
    }

    fn typed(text: &str) -> Gate {
        Gate::Type {
            text: text.to_owned(),
        }
    }

    #[test]
    fn req_14_gates_rise_with_number_spread_and_protection() {
        let one = [target("a", "web", false)];
        assert_eq!(gate(Risk::Free, "start", &one, false), Gate::Free);
        assert_eq!(gate(Risk::Confirm, "stop", &one, false), Gate::Confirm);
        assert_eq!(gate(Risk::TypeName, "delete", &one, false), typed("web"));
        let two = [target("a", "x", false), target("a", "y", false)];
        assert_eq!(gate(Risk::Free, "start", &two, false), Gate::Confirm);
        let spread = [target("a", "x", false), target("b", "y", false)];
        assert_eq!(gate(Risk::Confirm, "stop", &spread, false), typed("stop 2"));
        let many: Vec<_> = (0..11)
            .map(|i| target("a", &format!("n{i}"), false))
            .collect();
        assert_eq!(gate(Risk::Confirm, "stop", &many, false), typed("stop 11"));
        assert_eq!(
            gate(Risk::Free, "snapshot create", &many, false),
            typed("snapshot 11")
        );
        // What is lost is in what is typed: the phrase for one is never the phrase for the other.
        for (verb, phrase) in [
            ("snapshot delete", "delete 2"),
            ("snapshot restore", "restore 2"),
            ("backup create", "backup 2"),
            ("disk remove", "remove 2"),
            ("delete", "delete 2"),
        ] {
            assert_eq!(gate(Risk::TypeName, verb, &two, false), typed(phrase));
        }
        let guarded = [target("a", "web", true)];
        assert_eq!(gate(Risk::Confirm, "stop", &guarded, false), typed("web"));
        assert_eq!(gate(Risk::Confirm, "stop", &guarded, true), typed("web"));
        assert_eq!(gate(Risk::TypeName, "delete", &one, true), Gate::Confirm);
        // corral's own files beside a context's are no second context.
        let mixed = [target(".corral", "a", false), target("local", "b", false)];
        assert_eq!(gate(Risk::Confirm, "doctor", &mixed, false), Gate::Confirm);
    }

    #[test]
    fn names_that_cannot_be_typed_ask_for_the_id() {
        let odd = [target("a", "wéb", false)];
        assert_eq!(
            gate(Risk::TypeName, "delete", &odd, false),
            typed("a/w%C3%A9b")
        );
        let asked = gate(Risk::TypeName, "delete", &odd, false);
        let answer = |targets: &[TargetPlan], text: &str| {
            let consent = Consent {
                typed: Some(text.to_owned()),
                ..Consent::default()
            };
            as_asked(&asked, targets, &consent).typed.unwrap()
        };
        assert_eq!(answer(&odd, "wéb"), "a/w%C3%A9b", "as it is called");
        assert_eq!(answer(&odd, "web"), "web");
        let two = [target("a", "wéb", false), target("b", "x", false)];
        assert_eq!(answer(&two, "wéb"), "wéb", "one of several says nothing");
    }
}
