//! How a command can end, and the exit code for each.

use std::{
    error::Error,
    io::{self, Write as _},
    iter,
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
    drop(writeln!(io::stderr(), "paceline: {}", with_causes(&failure)));
    ExitCode::from(match failure {
        Failure::Failed(_) => 1,
        Failure::Refused(_) => 3,
    })
}

/// An error and why, each once: many an error repeats its cause in its own words.
fn with_causes(error: &dyn Error) -> String {
    iter::successors(error.source(), |&cause| cause.source()).fold(
        error.to_string(),
        |text, cause| {
            let cause = cause.to_string();
            if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
        },
    )
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

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("Redis: {0}")]
        struct Repeats(#[source] io::Error);

        let refused = || io::Error::other("refused");
        let told = |error: anyhow::Error| with_causes(&Failure::from(error));
        let both = anyhow::Error::from(Repeats(refused())).context("no Redis there");
        assert_eq!(told(both), "no Redis there: Redis: refused");
        assert_eq!(told(anyhow::Error::from(refused()).context("no file")), "no file: refused");
        assert_eq!(told(anyhow!("alone")), "alone");
    }
}
