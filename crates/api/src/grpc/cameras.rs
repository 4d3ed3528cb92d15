//! The messages and the service by which frames of cameras are pushed, generated from
//! `proto/cameras.proto`; see `proto/generate.rs`.
#![allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code is not edited"
)]

/// The descriptors of all of it, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/paceline.v1.bin");

include!("generated/paceline.v1.rs");
