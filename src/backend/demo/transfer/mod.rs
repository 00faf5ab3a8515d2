//! Data in and out. The simulation touches no file of this machine: it keeps in mind what would be
//! written, and says so.

mod backup;
mod export;
mod files;
mod import;
mod source;

/// What is added to every plan that would write or read a file.
const SIMULATED: &str = "Simulated: no file of this machine is touched";
