//! What a user of the command line sees: argv in, standard output, standard error and exit code out.

#![allow(clippy::unwrap_used, clippy::panic)]

mod changes;
mod contexts;
mod doctor;
mod harness;
mod looks;
mod reading;
mod schema;
mod secrets;
mod selectors;
mod usage;
