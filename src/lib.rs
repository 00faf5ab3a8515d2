//! corral: one terminal for every VM and container you run.
//!
//! The floors, from below: [`model`] · [`link`] and [`config`] · [`backend`] · [`fleet`] ·
//! [`doctor`] · [`action`] · the fronts [`cli`] and [`tui`]. `ARCHITECTURE.md` has the picture;
//! `tests/edges.rs` holds the edges.

pub mod action;
pub mod backend;
pub mod cli;
pub mod config;
pub mod doctor;
pub mod fleet;
pub mod link;
pub mod model;
pub mod tui;
