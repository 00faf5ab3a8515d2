//! `doctor`: one block per context, remedies below what they mend.

use super::style::{Role, of_check};
use crate::model::{Check, CheckStatus, counted, shown, shown_width};

const WIDTH: usize = 72;

/// The blocks, and the line that sums up.
pub(crate) fn blocks(
    checks: &[Check],
    kinds: &dyn Fn(&str) -> Option<String>,
    colour: bool,
) -> String {
    let mut groups: Vec<(Option<&str>, Vec<&Check>)> = Vec::new();
    for check in checks {
        let context = check.context.as_deref();
        match groups.iter_mut().find(|(known, _)| *known == context) {
            Some((_, list)) => list.push(check),
            None => groups.push((context, vec![check])),
        }
    }
    let mut out = String::new();
    for (context, list) in groups {
        let title = match context {
            None => "corral".to_owned(),
            Some(name) => match kinds(name) {
                Some(kind) => format!("{} ({kind})", shown(name)),
                None => shown(name).into_owned(),
            },
        };
        let worst = list
            .iter()
            .map(|c| c.status)
            .max()
            .unwrap_or(CheckStatus::Ok);
        let count = list.iter().filter(|c| c.status == worst).count();
        let verdict = match worst {
            CheckStatus::Ok => "ok".to_owned(),
            CheckStatus::Warn => counted(count, "warning"),
            CheckStatus::Fail => format!("{count} failed"),
        };
        let pad = WIDTH
            .saturating_sub(shown_width(&title) + verdict.len())
            .max(2);
        out.push_str(&Role::Strong.paint(&title, colour));
        out.push_str(&" ".repeat(pad));
        out.push_str(&of_check(worst).paint(&verdict, colour));
        out.push('\n');
        for check in list {
            let word = match check.status {
                CheckStatus::Ok => "ok  ",
                CheckStatus::Warn => "warn",
                CheckStatus::Fail => "FAIL",
            };
            let word = of_check(check.status).paint(word, colour);
            out.push_str(&format!("  {word}  {}\n", shown(&check.message)));
            if check.status != CheckStatus::Ok
                && let Some(remedy) = &check.remedy
            {
                out.push_str(&format!("        -> {}\n", shown(remedy)));
            }
        }
    }
    out.push_str(&summary(checks));
    out.push('\n');
    out
}

fn summary(checks: &[Check]) -> String {
    let count = |status| checks.iter().filter(|c| c.status == status).count();
    let fixes: Vec<&str> = checks
        .iter()
        .filter(|c| c.status != CheckStatus::Ok && c.fix.is_some())
        .map(|c| c.id.as_str())
        .collect();
    let fixes = if fixes.is_empty() {
        "nothing".to_owned()
    } else {
        fixes.join(", ")
    };
    format!(
        "{} ok, {}, {} failed    (--fix would change: {fixes})",
        count(CheckStatus::Ok),
        counted(count(CheckStatus::Warn), "warning"),
        count(CheckStatus::Fail)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn req_04_health_is_said_per_check_and_summed_up() {
        let mut checks = vec![
            Check::ok("qemu.version", "qemu 10.0.2"),
            Check::warn("qemu.disk", "state disk 91 % full").remedy("corral image list"),
            Check::fail("pve.token", "token lacks VM.Audit\x1b[31m").remedy("pveum acl modify"),
        ];
        checks[0].context = Some("local".to_owned());
        checks[1].context = Some("local".to_owned());
        checks[2].context = Some("pve".to_owned());
        let text = blocks(
            &checks,
            &|name| (name == "local").then(|| "q".to_owned()),
            false,
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("local (q)  ") && lines[0].ends_with("1 warning"));
        assert_eq!(lines[1], "  ok    qemu 10.0.2");
        assert_eq!(lines[3], "        -> corral image list");
        assert!(lines[4].starts_with("pve ") && lines[4].ends_with("1 failed"));
        assert_eq!(lines[5], "  FAIL  token lacks VM.Audit\\x1b[31m");
        assert_eq!(
            lines[7],
            "1 ok, 1 warning, 1 failed    (--fix would change: nothing)"
        );
    }
}
