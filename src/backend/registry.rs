//! Every kind that corral drives.

use super::contract::KindInfo;
use crate::model::Kind;

/// All kinds, in the order of the matrix.
pub const KINDS: &[KindInfo] = &[super::qemu::INFO, super::libvirt::INFO, super::incus::INFO];

/// The kind with this word.
pub fn find(kind: &Kind) -> Option<&'static KindInfo> {
    KINDS.iter().find(|info| info.id == kind.as_str())
}
