//! How bytes reach anything. Sockets, processes and HTTP clients live only here.

pub mod duplex;

pub use duplex::{Control, Duplex, Exit};
