//! The request that moves a running instance.

use crate::model::ContextSpec;

/// Where an instance goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Destination {
    /// Another host of the same context.
    Host(String),
    /// Another context of the same kind.
    Context(Box<ContextSpec>),
}

/// Request of the migrate family.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command"
)]
pub struct MigrateRequest {
    /// Where to.
    pub to: Destination,
    /// Copy its disks: there is no storage that both have.
    pub copy_storage: bool,
    /// The servers speak to each other, instead of both with corral.
    pub peer: bool,
    /// The memory goes through the servers' own connection.
    pub tunnelled: bool,
    /// Once all memory was sent once, it goes on over there and fetches the rest.
    pub postcopy: bool,
    /// Although the backend doubts that the storage is shared.
    pub unsafe_too: bool,
    /// Address at which the other host takes the memory; `None` is its name.
    pub address: Option<String>,
}
