//! Instances as files: a folder with `portable.json`, or one package. Nothing here knows a backend.

pub mod folder;
pub mod gzip;
pub mod ova;
pub mod ovf;
pub mod ovf_read;
pub mod sums;
pub mod tarball;

/// A new file that only its user can read: it holds a guest's data.
pub fn private(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}
