//! The doors: every wire protocol that Paceline speaks, and nothing behind them.

mod app;
mod error;
pub mod grpc;
pub mod http;
pub mod oip;
pub mod ws;

pub use app::{App, Readiness};
pub use error::ApiError;
