//! The composition root, as a library: configuration in, a running server out.

mod access;
mod cameras;
mod certificates;
pub mod config;
mod control;
mod metrics;
mod onnx;
mod python;
mod remote;
mod repository;
mod spans;
mod speakers;
mod supervise;
pub mod trial;
mod triton;
mod wire;

pub use access::{AccessError, check as check_access};
pub use repository::{LoadError, load};
pub use spans::EndpointError;
pub use supervise::{RunError, StageResult, Supervisor};
pub use wire::{Server, StartError};
