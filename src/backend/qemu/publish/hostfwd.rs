//! Forwards of a running QEMU. They are a thing of its human monitor alone: each answer is a text.

use serde_json::json;

use super::super::definition::{Forward, Protocol};
use super::super::process;
use crate::link::qmp::Qmp;
use crate::model::{Error, Result, shown};

/// A forward as QEMU lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The network backend's ID: the NIC's name.
    pub nic: String,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Address it listens on.
    pub host: String,
    /// Port it listens on.
    pub port: u16,
    /// Port inside the guest.
    pub guest: u16,
}

impl Listed {
    /// Whether this is that forward of that NIC.
    pub fn is(&self, nic: &str, forward: &Forward) -> bool {
        self.nic == nic
            && self.protocol == forward.protocol
            && self.port == forward.port
            && self.guest == forward.guest
            && same_address(&self.host, &forward.host)
    }
}

fn same_address(a: &str, b: &str) -> bool {
    let any = |text: &str| matches!(text, "" | "*" | "0.0.0.0");
    a == b || (any(a) && any(b))
}

/// The command that makes one.
pub fn add_line(nic: &str, forward: &Forward) -> String {
    format!("hostfwd_add {nic} {}", forward.rule())
}

/// The command that ends one.
pub fn remove_line(nic: &str, forward: &Forward) -> String {
    format!("hostfwd_remove {nic} {}", forward.listener())
}

async fn say(qmp: &mut Qmp, line: &str) -> Result<String> {
    let answer = qmp
        .execute(
            "human-monitor-command",
            json!({"command-line": line}),
            process::MONITOR,
        )
        .await?;
    answer
        .as_str()
        .map(|text| text.trim().to_owned())
        .ok_or_else(|| Error::backend(format!("QEMU's answer to \"{line}\" is no text")))
}

/// All forwards that there are.
///
/// # Errors
/// Those of the monitor.
pub async fn list(qmp: &mut Qmp) -> Result<Vec<Listed>> {
    say(qmp, "info usernet").await.map(|text| read(&text))
}

/// Whether it is there.
///
/// # Errors
/// Those of the monitor.
pub async fn is_there(qmp: &mut Qmp, nic: &str, forward: &Forward) -> Result<bool> {
    Ok(list(qmp).await?.iter().any(|there| there.is(nic, forward)))
}

/// Makes one, and looks whether it is there: the answer is empty also where nothing was done.
///
/// # Errors
/// `Conflict` when the port is taken, `Backend` with QEMU's words.
pub async fn add(qmp: &mut Qmp, nic: &str, forward: &Forward) -> Result<()> {
    if is_there(qmp, nic, forward).await? {
        return Ok(());
    }
    let said = say(qmp, &add_line(nic, forward)).await?;
    if is_there(qmp, nic, forward).await? {
        return Ok(());
    }
    let at = super::place(forward);
    if said.starts_with("Could not set up") {
        return Err(Error::conflict(format!("{at} cannot be listened on"))
            .remedy("Take another port, or 0 for one that is free"));
    }
    let why = if said.is_empty() {
        "it says nothing, and the port is not there".to_owned()
    } else {
        shown(&said).into_owned()
    };
    Err(Error::backend(format!("QEMU does not publish {at}: {why}")))
}

/// Ends one, and looks whether it is gone.
///
/// # Errors
/// `Backend` with QEMU's words when it stays.
pub async fn remove(qmp: &mut Qmp, nic: &str, forward: &Forward) -> Result<()> {
    let said = say(qmp, &remove_line(nic, forward)).await?;
    if is_there(qmp, nic, forward).await? {
        return Err(Error::backend(format!(
            "QEMU still publishes {}:{}: {}",
            forward.host,
            forward.port,
            shown(&said)
        )));
    }
    Ok(())
}

/// Reads `info usernet`. Connections stand in the same table, and are left out.
fn read(text: &str) -> Vec<Listed> {
    let mut nic = String::new();
    let mut out = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some((_, name)) = line
            .strip_suffix("):")
            .and_then(|line| line.split_once('('))
        {
            name.clone_into(&mut nic);
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, _, host, port, _, guest, ..] = words.as_slice() else {
            continue;
        };
        let protocol = match *what {
            "TCP[HOST_FORWARD]" => Protocol::Tcp,
            "UDP[HOST_FORWARD]" => Protocol::Udp,
            _ => continue,
        };
        let (Ok(port), Ok(guest)) = (port.parse(), guest.parse()) else {
            continue;
        };
        out.push(Listed {
            nic: nic.clone(),
            protocol,
            host: (*host).to_owned(),
            port,
            guest,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_and_noise_is_not() {
        let text = "Hub -1 (net0):\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\n  \
            TCP[ESTABLISHED]   12       127.0.0.1  2201       10.0.2.15    22     0     0\n  \
            TCP[HOST_FORWARD]   9       127.0.0.1 33001       10.0.2.15    22     0     0\n  \
            UDP[HOST_FORWARD]   8               * 33001       10.0.2.15    53     0     0\n  \
            TCP[HOST_FORWARD]   9       127.0.0.1 99999       10.0.2.15    22     0     0\n\
            VLAN 0 (net1):\n  TCP[HOST_FORWARD] 9 127.0.0.1 80 10.0.2.15 80 0 0\nTCP[HOST_FORWARD]\n";
        let all = read(text);
        let short: Vec<String> = all
            .iter()
            .map(|l| {
                format!(
                    "{} {} {}:{} {}",
                    l.nic,
                    l.protocol.as_str(),
                    l.host,
                    l.port,
                    l.guest
                )
            })
            .collect();
        assert_eq!(
            short,
            [
                "net0 tcp 127.0.0.1:33001 22",
                "net0 udp *:33001 53",
                "net1 tcp 127.0.0.1:80 80"
            ]
        );
        let open = Forward {
            host: "0.0.0.0".into(),
            port: 33001,
            guest: 53,
            protocol: Protocol::Udp,
            picked: false,
        };
        assert!(all[1].is("net0", &open) && !all[0].is("net0", &open));
    }
}
