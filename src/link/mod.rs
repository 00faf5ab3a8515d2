//! How bytes reach anything. Sockets, processes and HTTP clients live only here.

pub mod child;
pub mod dial;
pub mod download;
pub mod duplex;
pub mod files;
pub mod foreground;
pub mod frames;
pub mod http;
pub mod lines;
pub mod nbd;
pub mod ports;
pub mod qga;
pub mod qmp;
pub mod signal;
pub mod tls;
pub mod trust;
pub mod websocket;
pub mod x509;

pub use duplex::{Control, Duplex, Exit};
