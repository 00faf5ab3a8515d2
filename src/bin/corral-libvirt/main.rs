//! corral's helper that speaks to libvirt. It is started by corral and ends with it: frames come on standard input and
//! go to standard output (`corral::backend::libvirt::wire`). Every call has a thread of its own, so that a slow one
//! holds up no other.

mod calls;
mod events;
mod ffi;
mod streams;

use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use corral::backend::libvirt::wire::{self, Ask, Call, Fault, Hello, Open, PROTOCOL, Told};
use serde::Serialize;
use serde_json::Value;
use virt::connect::Connect;

/// Where answers go, one at a time.
#[derive(Clone)]
pub struct Out(Arc<Mutex<io::Stdout>>);

impl Out {
    fn json(&self, what: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(what).map_err(io::Error::other)?;
        self.bytes(&bytes)
    }

    fn bytes(&self, frame: &[u8]) -> io::Result<()> {
        let mut out = self.0.lock().map_err(|_| io::ErrorKind::BrokenPipe)?;
        wire::write(&mut *out, frame)
    }

    /// Whoever cannot be told anything is gone.
    fn tell(&self, told: &Told) {
        if self.json(told).is_err() {
            std::process::exit(0);
        }
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--version") {
        let line = format!("corral-libvirt {} (protocol {PROTOCOL})\n", wire::BUILD);
        let _ = io::stdout().write_all(line.as_bytes());
        return ExitCode::SUCCESS;
    }
    match talk() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn frame<T: serde::de::DeserializeOwned>() -> io::Result<Option<T>> {
    match wire::read(&mut io::stdin().lock())? {
        None => Ok(None),
        Some(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(io::Error::other),
    }
}

fn talk() -> io::Result<()> {
    let out = Out(Arc::new(Mutex::new(io::stdout())));
    out.json(&Hello::own())?;
    let Some(hello) = frame::<Hello>()? else {
        return Ok(());
    };
    if hello.protocol != PROTOCOL {
        // The other side saw our version, and says so.
        return Ok(());
    }
    let Some(open) = frame::<Open>()? else {
        return Ok(());
    };
    // The library prints every error itself, unless it has somewhere else to put it.
    virt::error::clear_error_callback();
    ffi::register_loop();
    events::run_loop();
    let opened = open_connection(&open);
    let connect = match opened {
        Ok(connect) => connect,
        Err(error) => {
            let fault = Some(calls::fault(&error));
            out.tell(&Told::Opened { fault });
            return Ok(());
        }
    };
    // Not all drivers can: those without a connection have none to lose.
    let _ = connect.set_keep_alive(5, 3);
    events::watch(&connect, &out, open.events);
    out.tell(&Told::Opened { fault: None });
    while let Some(ask) = frame::<Ask>()? {
        if let Call::Upload { .. } | Call::Download { .. } | Call::Screenshot { .. } = ask.call {
            // The rest of this talk is bytes.
            return streams::run(&connect, &out, ask);
        }
        let (connect, out) = (connect.clone(), out.clone());
        std::thread::spawn(move || answer(&connect, &out, ask));
    }
    // Nobody is there any more; what still runs at the server goes on there.
    std::process::exit(0);
}

fn open_connection(open: &Open) -> Result<Connect, virt::error::Error> {
    if open.readonly {
        Connect::open_read_only(Some(&open.uri))
    } else {
        Connect::open(Some(&open.uri))
    }
}

fn answer(connect: &Connect, out: &Out, ask: Ask) {
    // The wrappers panic for what C cannot take, such as a NUL in a name.
    let result = catch_unwind(AssertUnwindSafe(|| calls::call(connect, ask.call)));
    let (value, fault) = match result {
        Ok(Ok(value)) => (Some(value), None),
        Ok(Err(fault)) => (None, Some(fault)),
        Err(_) => (None, Some(cannot())),
    };
    out.tell(&Told::Answer {
        id: ask.id,
        value,
        fault,
    });
}

/// A call that C cannot take.
fn cannot() -> Fault {
    Fault {
        code: virt::sys::VIR_ERR_INVALID_ARG,
        message: "libvirt cannot take that".to_owned(),
    }
}

/// An answer as JSON.
pub fn value(of: impl Serialize) -> Result<Value, Fault> {
    serde_json::to_value(of).map_err(|error| Fault {
        code: 0,
        message: error.to_string(),
    })
}
