//! Which QEMU is here, and which machines and CPUs it offers.

use std::time::Duration;

use super::accel;
use super::ctx::Ctx;
use crate::link::child::{Cmd, run_ok};
use crate::link::files;
use crate::model::{Error, Result, nearest, shown};

/// It only prints.
const LIMIT: Duration = Duration::from_secs(10);

/// QEMU's version, as it was told last by this very file: every list names it, and to start QEMU costs more than to
/// read hundreds of definitions.
///
/// # Errors
/// As [`ask_version`].
pub async fn version(ctx: &Ctx) -> Result<String> {
    let build = accel::fingerprint(&ctx.qemu()?);
    let file = ctx.state_dir().join("version.json");
    let known = std::fs::read(&file).ok();
    let known = known.and_then(|bytes| serde_json::from_slice::<(String, String)>(&bytes).ok());
    if let Some((_, version)) = known.filter(|(of, _)| *of == build) {
        return Ok(version);
    }
    let version = ask_version(ctx).await?;
    // Without it QEMU is asked again: no failure.
    let _ = files::write_unsynced(&file, |out| {
        Ok(serde_json::to_writer(out, &(build, &version))?)
    });
    Ok(version)
}

/// QEMU's version: `7.2.22`.
///
/// # Errors
/// Without QEMU.
pub async fn ask_version(ctx: &Ctx) -> Result<String> {
    version_of(&ctx.qemu()?).await
}

/// `qemu-img`'s version.
///
/// # Errors
/// Without it.
pub async fn tool_version(ctx: &Ctx) -> Result<String> {
    version_of(&super::image::tool(&ctx.env)?).await
}

async fn version_of(program: &std::path::Path) -> Result<String> {
    let output = run_ok(&Cmd::new(program).arg("--version"), LIMIT).await?;
    let text = output.text();
    let version = text
        .split_whitespace()
        .skip_while(|word| *word != "version")
        .nth(1);
    version
        .map(|version| shown(version).into_owned())
        .ok_or_else(|| Error::backend(format!("{} --version names no version", program.display())))
}

/// What this QEMU can be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// What `q35` stands for.
    newest: String,
    /// Versioned q35 machines, the newest first.
    machines: Vec<String>,
    /// CPU models.
    models: Vec<String>,
}

impl Offer {
    /// Asks QEMU.
    ///
    /// # Errors
    /// Without QEMU, or when it has no q35.
    pub async fn ask(ctx: &Ctx) -> Result<Self> {
        let qemu = ctx.qemu()?;
        let (machines, models) = (
            Cmd::new(&qemu).args(["-machine", "help"]),
            Cmd::new(&qemu).args(["-cpu", "help"]),
        );
        let (machines, models) =
            tokio::try_join!(run_ok(&machines, LIMIT), run_ok(&models, LIMIT))?;
        Self::read(&machines.text(), &models.text()).ok_or_else(|| {
            Error::unsupported("this QEMU has no q35 machine").remedy("apt install qemu-system-x86")
        })
    }

    fn read(machines: &str, models: &str) -> Option<Self> {
        let versioned = machines
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| name.starts_with("pc-q35-"));
        Some(Self {
            newest: newest_q35(machines)?,
            machines: versioned.map(str::to_owned).collect(),
            models: cpu_models(models),
        })
    }

    /// What a new VM is pinned to.
    pub fn newest(&self) -> &str {
        &self.newest
    }

    /// The versioned machine that `wanted` means: `q35` is another one with the next QEMU, and the
    /// guest would see other hardware.
    ///
    /// # Errors
    /// `Invalid` with what there is.
    pub fn machine(&self, wanted: &str) -> Result<String> {
        if wanted == "q35" {
            return Ok(self.newest.clone());
        }
        let all = || self.machines.iter().map(String::as_str);
        if all().any(|name| name == wanted) {
            return Ok(wanted.to_owned());
        }
        let remedy = if wanted.starts_with("pc-q35-") {
            near(wanted, all())
        } else {
            None
        };
        let list: Vec<&str> = all().take(6).collect();
        let remedy = remedy.unwrap_or_else(|| {
            format!(
                "One of: {} … All: qemu-system-x86_64 -machine help | grep q35",
                list.join(", ")
            )
        });
        Err(Error::invalid(format!(
            "--set machine: this QEMU has no q35 called \"{}\"",
            shown(wanted)
        ))
        .remedy(remedy))
    }

    /// Makes sure that there is such a CPU. One that cannot list any is believed.
    ///
    /// # Errors
    /// `Invalid` with what is nearest.
    pub fn cpu_model(&self, wanted: &str) -> Result<()> {
        let all = || self.models.iter().map(String::as_str);
        if self.models.is_empty() || all().any(|name| name == wanted) {
            return Ok(());
        }
        let remedy = near(wanted, all())
            .unwrap_or_else(|| "List them: qemu-system-x86_64 -cpu help".to_owned());
        Err(Error::invalid(format!(
            "--set cpu-model: this QEMU has no CPU called \"{}\"",
            shown(wanted)
        ))
        .remedy(remedy))
    }
}

fn near<'a>(wanted: &str, all: impl Iterator<Item = &'a str>) -> Option<String> {
    nearest(wanted, all).map(|name| format!("Did you mean {name}?"))
}

/// `q35   Standard PC (Q35 + ICH9, 2009) (alias of pc-q35-7.2)`
fn newest_q35(help: &str) -> Option<String> {
    let line = help.lines().find(|line| line.starts_with("q35 "))?;
    let name = line
        .rsplit_once("(alias of ")?
        .1
        .trim_end()
        .strip_suffix(')')?;
    name.starts_with("pc-q35-").then(|| name.to_owned())
}

/// `x86 EPYC-v4   AMD EPYC Processor`; newer QEMUs leave the first word out. The list ends at an
/// empty line, after which flags follow.
fn cpu_models(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| !line.starts_with("Available CPUs"))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            match words.next()? {
                "x86" => words.next(),
                name => Some(name),
            }
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINES: &str = "Supported machines are:\n\
        pc                   Standard PC (i440FX + PIIX, 1996) (alias of pc-i440fx-7.2)\n\
        q35                  Standard PC (Q35 + ICH9, 2009) (alias of pc-q35-7.2)\n\
        pc-q35-7.2           Standard PC (Q35 + ICH9, 2009)\n\
        pc-q35-6.1           Standard PC (Q35 + ICH9, 2009)\n";

    #[test]
    fn only_what_is_offered_is_taken_and_an_alias_is_pinned() {
        for models in [
            "Available CPUs:\nx86 EPYC-v4   AMD\nx86 host  all\n\nRecognized CPUID flags:\n  3dnow\n",
            "Available CPUs:\n  EPYC-v4   AMD\n  host   all\n\nRecognized CPUID flags:\n  3dnow\n",
        ] {
            let offer = Offer::read(MACHINES, models).unwrap();
            assert_eq!(offer.models, ["EPYC-v4", "host"]);
            assert_eq!(offer.machine("q35").unwrap(), "pc-q35-7.2");
            assert_eq!(offer.machine("pc-q35-6.1").unwrap(), "pc-q35-6.1");
            for odd in ["pc-q35-99.9", "pc-i440fx-7.2", "pc"] {
                let error = offer.machine(odd).unwrap_err();
                assert!(error.to_string().contains("pc-q35-"), "{error}");
            }
            assert!(offer.cpu_model("EPYC-v4").is_ok());
            assert!(offer.cpu_model("host").is_ok());
            for odd in ["bogus", "3dnow"] {
                let error = offer.cpu_model(odd).unwrap_err();
                assert!(error.message.contains(odd) && error.remedy.is_some());
            }
        }
        for none in ["none", "", "q35 (alias of \n"] {
            assert_eq!(Offer::read(none, ""), None);
        }
    }
}
