//! ONNX models as a [`Backend`](paceline_backend::Backend), through one of two engines.
//!
//! `rten` is pure Rust, needs nothing installed and is the default. ONNX Runtime runs more graphs,
//! more element types and CUDA, and is loaded at run time from a library that the user has. The
//! file is read once here, before an engine sees it: names, element types and extents come from
//! that one reading, so both engines have the same signature, and weights that lie outside the
//! model's folder are refused for both.
//!
//! What is deliberately absent: stacking, padding and lane state (the executor's work) and any
//! look at the environment (the configuration loader's).

mod backend;
mod engine;
mod error;
mod external;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod graph;
mod library;
mod options;
mod plan;
mod wire;

pub use backend::OnnxBackend;
pub use options::{Engine, GraphLevel, OnnxOptions, StateLink};
