//! The command line: words in, answers out.

pub mod exit;
pub mod render;
pub mod schema;
