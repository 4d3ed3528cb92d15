//! The composition root, as a library: configuration in, a running server out.

pub mod config;
mod control;
mod onnx;
mod repository;
mod supervise;
mod triton;
mod wire;

pub use repository::{LoadError, load};
pub use supervise::{RunError, StageResult, Supervisor};
pub use wire::{Server, StartError};
