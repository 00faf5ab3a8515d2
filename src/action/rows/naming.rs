//! How new snapshots are called: by a name, or by a template.

use std::time::Duration;

use jiff::Timestamp;

use crate::backend::contract::NUMBER;
use crate::model::{Action, Args, Error, Instance, Result, shown};

/// What is used with `--keep` alone.
const DEFAULT: &str = "corral-{date}-{time}";
/// What a template may hold besides [`NUMBER`].
const INSTANCE: &str = "{instance}";
const DATE: &str = "{date}";
const TIME: &str = "{time}";

/// How the snapshots of one action are called.
pub(super) struct Naming {
    name: Option<String>,
    template: Option<String>,
    at: Timestamp,
}

impl Naming {
    /// Out of `--name`, `--name-template`, `--keep` and `--at`. What depends on the clock is fixed in
    /// the action, so that the plan that was shown and the one that runs agree.
    ///
    /// # Errors
    /// `Invalid` for what excludes each other or means nothing.
    pub(super) fn of(action: &mut Action, name: Option<String>) -> Result<Self> {
        let args = &mut action.args;
        let mut template = args.text("name-template").map(str::to_owned);
        if name.is_some() && template.is_some() {
            return Err(Error::invalid(
                "--name and --name-template exclude each other",
            ));
        }
        if args.has("keep") && template.is_none() {
            if name.is_some() {
                return Err(Error::invalid(
                    "--keep counts the snapshots of a template, not of one name",
                )
                .remedy("Use --name-template, for example '{instance}-{date}'."));
            }
            template = Some(DEFAULT.to_owned());
        }
        if let Some(template) = &template {
            check(template)?;
        }
        let at = asked(args)?;
        let name = match (name, &template) {
            (None, None) => Some(format!("corral-{}", stamp(at))),
            (name, _) => name,
        };
        if let Some(name) = &name {
            args.set("name", name.clone());
        }
        if template.is_some() || args.has("expires") {
            args.set("at", at.to_string());
        }
        Ok(Self { name, template, at })
    }

    /// The name, or the template.
    pub(super) fn shown(&self) -> String {
        let text = self.name.as_ref().or(self.template.as_ref());
        text.map(|text| shown(text).into_owned())
            .unwrap_or_default()
    }

    /// The name for an instance, and the rule that made it.
    pub(super) fn name_of(&self, instance: &Instance) -> (String, Option<String>) {
        match (&self.name, &self.template) {
            (Some(name), _) => (name.clone(), None),
            (None, template) => {
                let rule = template.clone().unwrap_or_default();
                // The instance's name last: what it holds is no template.
                let name = rule
                    .replace(DATE, &self.at.strftime("%Y%m%d").to_string())
                    .replace(TIME, &self.at.strftime("%H%M%S").to_string())
                    .replace(INSTANCE, &instance.name);
                (name, Some(rule))
            }
        }
    }

    /// When what is taken then has expired.
    ///
    /// # Errors
    /// `Invalid` for a time that no calendar has.
    pub(super) fn end(&self, after: Option<Duration>) -> Result<Option<Timestamp>> {
        let Some(after) = after else { return Ok(None) };
        if after.is_zero() {
            return Err(
                Error::invalid("--expires 0s would let it expire as it is made")
                    .remedy("Give a time, as 7d, or leave it out."),
            );
        }
        self.at
            .checked_add(after)
            .map(Some)
            .map_err(|_| Error::invalid("--expires is too far away").remedy("Leave it out."))
    }
}

/// A template that makes the same name each time would work once.
fn check(template: &str) -> Result<()> {
    let known = [INSTANCE, DATE, TIME, NUMBER];
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        let Some(word) = known.iter().find(|word| rest[start..].starts_with(**word)) else {
            return Err(Error::invalid(format!(
                "--name-template {:?}: {:?} stands for nothing",
                shown(template),
                shown(&rest[start..])
            ))
            .remedy(format!("Use {}.", known.join(" "))));
        };
        rest = &rest[start + word.len()..];
    }
    if [DATE, TIME, NUMBER]
        .iter()
        .any(|word| template.contains(word))
    {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "--name-template {:?} would make the same name each time",
        shown(template)
    ))
    .remedy("Put {date}, {time} or {n} into it, or use --name."))
}

/// `--at`, else this second.
fn asked(args: &Args) -> Result<Timestamp> {
    let Some(text) = args.text("at") else {
        let now = Timestamp::now();
        return Ok(Timestamp::from_second(now.as_second()).unwrap_or(now));
    };
    text.parse().map_err(|_| {
        Error::invalid(format!("--at {:?} is no time", shown(text)))
            .remedy("Write it like 2026-11-30T05:14:02Z.")
    })
}

/// The moment that an action counts from: `--at`, else now. It is fixed in the action, so that the
/// plan that was shown and the one that runs agree.
///
/// # Errors
/// `Invalid` for what is no time.
pub(super) fn moment(action: &mut Action) -> Result<Timestamp> {
    let at = asked(&action.args)?;
    action.args.set("at", at.to_string());
    Ok(at)
}

/// A moment as a part of a name.
pub(super) fn stamp(at: Timestamp) -> String {
    at.strftime("%Y%m%d-%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InstanceId, InstanceKind, Kind, State};

    fn instance(name: &str) -> Instance {
        Instance::new(
            InstanceId::new("local", None, name),
            Kind::new("test"),
            InstanceKind::Vm,
            State::Running,
            Timestamp::UNIX_EPOCH,
        )
    }

    fn named(pairs: &[(&str, &str)]) -> Result<(Naming, Action)> {
        let mut action = Action::new("snapshot create");
        for (key, value) in pairs {
            action.args.set(key, *value);
        }
        let name = action.args.text("name").map(str::to_owned);
        Ok((Naming::of(&mut action, name)?, action))
    }

    #[test]
    fn templates_are_filled_in_and_the_moment_is_fixed() {
        let at = ("at", "2026-11-30T05:14:02Z");
        let (naming, action) =
            named(&[("name-template", "{instance}-{date}-{time}-{n}"), at]).unwrap();
        let (name, policy) = naming.name_of(&instance("a{date}"));
        assert_eq!(name, "a{date}-20261130-051402-{n}");
        assert_eq!(policy.as_deref(), Some("{instance}-{date}-{time}-{n}"));
        assert_eq!(action.args.text("at"), Some("2026-11-30T05:14:02Z"));

        let (naming, action) = named(&[at]).unwrap();
        assert_eq!(naming.name_of(&instance("a")).0, "corral-20261130-051402");
        assert_eq!(action.args.text("name"), Some("corral-20261130-051402"));
        let (again, _) = named(&[("name", "corral-20261130-051402")]).unwrap();
        assert_eq!(
            again.name_of(&instance("a")),
            naming.name_of(&instance("a"))
        );
        let end = naming.end(Some(Duration::from_secs(86_400))).unwrap();
        assert_eq!(end.unwrap().to_string(), "2026-12-01T05:14:02Z");
    }

    #[test]
    fn the_moment_of_an_action_stays_the_same_when_it_is_planned_again() {
        let mut action = Action::new("backup create");
        let first = moment(&mut action).unwrap();
        assert_eq!(first.subsec_nanosecond(), 0);
        assert_eq!(action.args.text("at"), Some(&*first.to_string()));
        action.args.set("at", "2026-11-30T05:14:02Z");
        let again = moment(&mut action).unwrap();
        assert_eq!(again.to_string(), "2026-11-30T05:14:02Z");
        action.args.set("at", "yesterday");
        assert!(moment(&mut action).is_err());
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for pairs in [
            &[("name", "a"), ("name-template", "{n}")][..],
            &[("name", "a"), ("keep", "3")],
            &[("name-template", "{instance}")],
            &[("name-template", "{dat}")],
            &[("name-template", "{date")],
            &[("name-template", "{n}"), ("at", "yesterday")],
        ] {
            assert!(named(pairs).is_err(), "{pairs:?}");
        }
    }
}
