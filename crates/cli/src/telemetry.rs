//! Logs: for a person on a terminal, as JSON lines otherwise. `RUST_LOG` chooses what is logged.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt};

/// Begins to log to standard error.
pub(crate) fn start() {
    let filter =
        EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).from_env_lossy();
    // What cannot be written is dropped. To say so would take the same way, and panic on it: a full
    // disk, or a reader that is gone, must not end a server.
    let logs = fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    if io::stderr().is_terminal() {
        logs.with_target(false).init();
    } else {
        logs.json().flatten_event(true).init();
    }
}
