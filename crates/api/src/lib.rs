//! The doors: every wire protocol that Paceline speaks, and nothing behind them.

pub mod http;
pub mod oip;
