//! Ports of this machine.

use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpSocket;

/// Whether programs of this machine can listen on that address.
pub fn is_here(host: &str) -> bool {
    is_free_udp(host, 0)
}

/// Whether a program could take UDP there now.
pub fn is_free_udp(host: &str, port: u16) -> bool {
    host.parse::<IpAddr>()
        .is_ok_and(|ip| std::net::UdpSocket::bind(SocketAddr::new(ip, port)).is_ok())
}

/// Whether a program could listen there now. What is no address of this machine is not free.
pub fn is_free(host: &str, port: u16) -> bool {
    let Ok(ip) = host.parse::<IpAddr>() else {
        return false;
    };
    let socket = match ip {
        IpAddr::V4(_) => TcpSocket::new_v4(),
        IpAddr::V6(_) => TcpSocket::new_v6(),
    };
    // Connections that linger after their listener's end are no hindrance: QEMU sets this too.
    socket.is_ok_and(|socket| {
        socket.set_reuseaddr(true).is_ok() && socket.bind(SocketAddr::new(ip, port)).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_is_listened_on_is_not_free() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!is_free("127.0.0.1", port));
        drop(listener);
        assert!(is_free("127.0.0.1", port));
        assert!(!is_free("not an address", 80));
        assert!(!is_free("203.0.113.1", 4000));
        assert!(!is_here("203.0.113.1") && is_here("127.0.0.1") && is_here("0.0.0.0"));
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(!is_free_udp("127.0.0.1", port) && is_free("127.0.0.1", port));
        drop(taken);
        assert!(is_free_udp("127.0.0.1", port));
    }
}
