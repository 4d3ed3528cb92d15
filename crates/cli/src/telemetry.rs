//! Logs: for a person on a terminal, as JSON lines otherwise. `RUST_LOG` chooses what is logged.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt};

/// Begins to log to standard error.
pub(crate) fn start() {
    let filter =
        EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
    let logs = fmt().with_env_filter(filter).with_writer(io::stderr);
    if io::stderr().is_terminal() {
        logs.with_target(false).init();
    } else {
        logs.json().flatten_event(true).init();
    }
}
