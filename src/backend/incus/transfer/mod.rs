//! Instances out of the server and into it, as the server's own backups in one file.

pub mod backup;
mod kept;
pub mod moves;
mod stream;
