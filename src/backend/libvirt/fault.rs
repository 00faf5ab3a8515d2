//! Errors of libvirt as corral's.

use super::wire::Fault;
use crate::model::{Error, ErrorKind, shown};

// `virErrorNumber`, of include/libvirt/virterror.h.
const SYSTEM_ERROR: u32 = 38;
const RPC: u32 = 39;
const AUTH_FAILED: u32 = 45;
const NO_DOMAIN: u32 = 42;
const NO_NETWORK: u32 = 43;
const NO_POOL: u32 = 49;
const NO_VOLUME: u32 = 50;
const NO_SNAPSHOT: u32 = 72;
const NO_SUPPORT: u32 = 3;
const OPERATION_DENIED: u32 = 29;
const CONFIG_UNSUPPORTED: u32 = 67;
const ARGUMENT_UNSUPPORTED: u32 = 74;
const OPERATION_TIMEOUT: u32 = 68;
const AUTH_CANCELLED: u32 = 79;
const AUTH_UNAVAILABLE: u32 = 80;
const AGENT_UNRESPONSIVE: u32 = 86;
const ACCESS_DENIED: u32 = 88;

/// An error of a call.
pub fn error(fault: &Fault) -> Error {
    let kind = match fault.code {
        NO_DOMAIN | NO_NETWORK | NO_POOL | NO_VOLUME | NO_SNAPSHOT => ErrorKind::NotFound,
        AUTH_FAILED | AUTH_CANCELLED | AUTH_UNAVAILABLE | OPERATION_DENIED | ACCESS_DENIED => {
            ErrorKind::Unauthorized
        }
        NO_SUPPORT | ARGUMENT_UNSUPPORTED | CONFIG_UNSUPPORTED => ErrorKind::Unsupported,
        OPERATION_TIMEOUT | AGENT_UNRESPONSIVE => ErrorKind::TimedOut,
        RPC => ErrorKind::Unreachable,
        _ => ErrorKind::Backend,
    };
    Error::new(kind, format!("libvirt: {}", shown(fault.message.trim())))
}

/// An error of connecting, with what helps.
pub fn connecting(fault: &Fault, uri: &str) -> Error {
    let text = fault.message.as_str();
    let unauthorized = matches!(
        fault.code,
        AUTH_FAILED | AUTH_CANCELLED | AUTH_UNAVAILABLE | ACCESS_DENIED | OPERATION_DENIED
    );
    let denied = fault.code == SYSTEM_ERROR && text.contains("Permission denied");
    let message = format!("no connection to {uri}: {}", shown(text.trim()));
    if unauthorized || denied {
        return Error::new(ErrorKind::Unauthorized, message).remedy(if uri.contains("+ssh") {
            "Let the SSH user log in without a question, and be in the group libvirt over there"
        } else {
            "Join the group libvirt, and log in anew: sudo usermod -aG libvirt $USER"
        });
    }
    let error = Error::unreachable(message);
    if text.contains("No such file") || text.contains("Connection refused") {
        return error.remedy(
            "Start its daemon: sudo systemctl start libvirtd (or virtqemud); apt install libvirt-daemon-system",
        );
    }
    error.remedy("Try the same by hand: virsh -c URI list")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_goes_with_the_cause() {
        let fault = |code, message: &str| Fault {
            code,
            message: message.to_owned(),
        };
        let gone = error(&fault(NO_DOMAIN, "Domain not found"));
        assert_eq!(gone.kind, ErrorKind::NotFound);
        let denied = fault(
            SYSTEM_ERROR,
            "Failed to connect socket to '/run/libvirt/libvirt-sock': Permission denied",
        );
        let error = connecting(&denied, "qemu:///system");
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        assert!(error.remedy.unwrap().contains("group libvirt"));
        let absent = fault(
            SYSTEM_ERROR,
            "Failed to connect socket: No such file or directory",
        );
        let error = connecting(&absent, "qemu:///system");
        assert_eq!(error.kind, ErrorKind::Unreachable);
        assert!(error.remedy.unwrap().contains("libvirtd"));
    }
}
