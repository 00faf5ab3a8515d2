//! Layered settings and contexts: built-in, file, `CORRAL_*`, flags.
//!
//! Nothing here fails: every fault is a [`ConfigProblem`](crate::model::ConfigProblem) with its
//! line, the faulty key is dropped and the rest works. A guard (`readonly`, `protected`) that cannot
//! be read counts as set, so a typo never takes a protection away. Secrets stay references.

mod check;
mod contexts;
mod dropped;
pub mod edit;
mod file;
mod images;
mod layers;
mod load;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

pub use contexts::{ContextEntry, is_context_name};
pub use dropped::Dropped;
pub use file::{fault, position};
pub use images::ImageEntry;
pub use load::{LoadInput, Loaded, load};
pub use schema::{COLUMNS, COMMON_CONTEXT_KEYS, SORTS, WIDTHS, value_of};
pub use settings::{Discover, Settings, UiSettings};
