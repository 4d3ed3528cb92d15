//! How a command can end, and the exit code for each.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// A command that did not do what it was for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The configuration or a model is refused.
    #[error("{0}")]
    Refused(String),
    /// Something failed while running.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

/// Says what went wrong, and turns it into an exit code.
pub(crate) fn code(done: Result<(), Failure>) -> ExitCode {
    let Err(failure) = done else { return ExitCode::SUCCESS };
    // Standard error may be closed; then the code must do.
    drop(writeln!(io::stderr(), "paceline: {failure:#}"));
    ExitCode::from(match failure {
        Failure::Failed(_) => 1,
        Failure::Refused(_) => 3,
    })
}

/// Says what went wrong with a part, where the rest goes on.
pub(crate) fn complain(text: &str) {
    // As above.
    drop(writeln!(io::stderr(), "paceline: {text}"));
}

/// Prints a command's result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever read it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written.map_err(anyhow::Error::from)?),
    }
}
