//! What an instance is made of: sizes, disks, NICs, media, published ports.

mod disks;
mod media;
mod nics;
mod publish;
mod resize;
