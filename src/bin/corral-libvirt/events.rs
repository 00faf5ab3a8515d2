//! What happens at the other end: events of domains, and the end of the connection.

use corral::backend::libvirt::wire::Told;
use virt::connect::Connect;

use crate::{Out, ffi};

/// Turns libvirt's event loop for as long as this process lives.
pub fn run_loop() {
    std::thread::spawn(|| while ffi::turn_loop() {});
}

/// Tells of events where they are wanted, and of the end of the connection in any case.
pub fn watch(connect: &Connect, out: &Out, events: bool) {
    let end = out.clone();
    ffi::on_close(
        connect,
        Box::new(move |reason| {
            let why = match reason {
                1 => "the server ended the connection",
                2 => "the server does not answer any more",
                _ => "the connection was lost",
            };
            end.tell(&Told::Closed {
                why: why.to_owned(),
            });
            std::process::exit(0);
        }),
    );
    if events {
        let out = out.clone();
        ffi::on_events(
            connect,
            Box::new(move |happened| out.tell(&Told::Happened(happened))),
        );
    }
}
