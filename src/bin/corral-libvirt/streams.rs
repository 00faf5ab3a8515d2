//! Talks that carry bytes: volumes in and out, pictures. Pieces are frames; an empty one ends them, and then comes the
//! answer, so that what was cut off is never taken for all of it.

use std::io;

use corral::backend::libvirt::wire::{self, Ask, Call, Fault, PIECE, Told};
use serde_json::Value;
use virt::connect::Connect;
use virt::domain::Domain;
use virt::stream::Stream;

use crate::calls::{fault, volume};
use crate::{Out, value};

/// Runs the one call of this talk.
pub fn run(connect: &Connect, out: &Out, ask: Ask) -> io::Result<()> {
    let result = match ask.call {
        Call::Upload { pool, name, .. } => upload(connect, out, ask.id, &pool, &name),
        Call::Download { pool, name } => download(connect, out, &pool, &name),
        Call::Screenshot { dom } => screenshot(connect, out, &dom.uuid),
        _ => Ok(Value::Null),
    };
    let (value, fault) = match result {
        Ok(value) => (Some(value), None),
        Err(fault) => (None, Some(fault)),
    };
    out.json(&Told::Answer {
        id: ask.id,
        value,
        fault,
    })
}

fn ended(error: io::Error) -> Fault {
    Fault {
        code: 0,
        message: format!("the stream ended: {error}"),
    }
}

fn upload(connect: &Connect, out: &Out, id: u64, pool: &str, name: &str) -> Result<Value, Fault> {
    let volume = volume(connect, pool, name)?;
    let stream = Stream::new(connect, 0).map_err(|e| fault(&e))?;
    volume.upload(&stream, 0, 0, 0).map_err(|e| fault(&e))?;
    // Go ahead.
    out.json(&Told::Answer {
        id,
        value: Some(Value::Null),
        fault: None,
    })
    .map_err(ended)?;
    let mut total = 0_u64;
    loop {
        let Some(piece) = wire::read(&mut io::stdin().lock()).map_err(ended)? else {
            // Cut off: what is there is not what was meant.
            let _ = stream.abort();
            return Err(ended(io::ErrorKind::UnexpectedEof.into()));
        };
        if piece.is_empty() {
            break;
        }
        let mut rest = piece.as_slice();
        while !rest.is_empty() {
            let sent = stream.send(rest).map_err(|e| fault(&e))?;
            rest = &rest[sent..];
        }
        total += piece.len() as u64;
    }
    stream.finish().map_err(|e| fault(&e))?;
    value(total)
}

fn pieces(stream: Stream, out: &Out) -> Result<Value, Fault> {
    let mut buffer = vec![0; PIECE];
    let mut total = 0_u64;
    loop {
        let got = stream.recv(&mut buffer).map_err(|e| fault(&e))?;
        if got == 0 {
            break;
        }
        out.bytes(&buffer[..got]).map_err(ended)?;
        total += got as u64;
    }
    stream.finish().map_err(|e| fault(&e))?;
    out.bytes(&[]).map_err(ended)?;
    value(total)
}

/// An empty piece ends what came before a fault, too: the fault is told behind it.
fn or_end(result: Result<Value, Fault>, out: &Out) -> Result<Value, Fault> {
    if result.is_err() {
        out.bytes(&[]).map_err(ended)?;
    }
    result
}

fn download(connect: &Connect, out: &Out, pool: &str, name: &str) -> Result<Value, Fault> {
    let begun = || {
        let volume = volume(connect, pool, name)?;
        let stream = Stream::new(connect, 0).map_err(|e| fault(&e))?;
        volume.download(&stream, 0, 0, 0).map_err(|e| fault(&e))?;
        pieces(stream, out)
    };
    or_end(begun(), out)
}

fn screenshot(connect: &Connect, out: &Out, uuid: &str) -> Result<Value, Fault> {
    let begun = || {
        let domain = Domain::lookup_by_uuid_string(connect, uuid).map_err(|e| fault(&e))?;
        let stream = Stream::new(connect, 0).map_err(|e| fault(&e))?;
        let media = domain.screenshot(&stream, 0, 0).map_err(|e| fault(&e))?;
        pieces(stream, out)?;
        value(media)
    };
    or_end(begun(), out)
}
