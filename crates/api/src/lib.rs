//! The doors: every wire protocol that Paceline speaks, and nothing behind them.

pub mod access;
mod app;
mod client;
mod error;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod gate;
pub mod grpc;
pub mod http;
pub mod insight;
pub mod live;
pub mod oip;
mod speak;
pub mod speech;
pub mod tls;
mod trace;
pub mod ws;

pub use app::{App, Exposition, Readiness};
pub use error::ApiError;
