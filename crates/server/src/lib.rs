//! The composition root, as a library: configuration in, a running server out.

mod access;
mod cameras;
mod certificates;
pub mod config;
mod control;
mod onnx;
mod python;
mod remote;
mod repository;
mod speakers;
mod supervise;
mod triton;
mod wire;

pub use access::{AccessError, check as check_access};
pub use repository::{LoadError, load};
pub use supervise::{RunError, StageResult, Supervisor};
pub use wire::{Server, StartError};
