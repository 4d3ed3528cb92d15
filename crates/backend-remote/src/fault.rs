//! What can go wrong with a remote call, and what follows from it. Pure.

use std::{error::Error, time::Duration};

use paceline_backend::BackendError;

/// Longest text of a remote server that is repeated.
const MAX_WORDS: usize = 300;

/// Why a call has no answer that could be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// It cannot be asked; nothing was sent.
    #[error("cannot be asked: {0}")]
    NotSent(String),
    /// It says that it did not take the call.
    #[error("it refuses: {0}")]
    Refused(String),
    /// It says that the call failed.
    #[error("{0}")]
    Failed(String),
    /// The connection was lost after something had been sent.
    #[error("the connection was lost: {0}")]
    Broken(String),
    /// It did not answer in time.
    #[error("it did not answer within {0:?}")]
    TimedOut(Duration),
    /// Its answer cannot be believed.
    #[error("its answer cannot be used: {0}")]
    Garbage(String),
}

impl Fault {
    /// Whether the call was certainly not run, so that it may be sent to another endpoint.
    pub(crate) const fn was_not_run(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::Refused(_))
    }

    /// Whether the call could be sent again if the model bears being run twice. Time that is over
    /// does not come back.
    pub(crate) const fn may_be_sent_again(&self) -> bool {
        self.was_not_run() || matches!(self, Self::Broken(_) | Self::Garbage(_))
    }

    /// Whether the endpoint is to blame, and not the call.
    pub(crate) const fn blames_endpoint(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    /// Whether the endpoint may be another server, or the same with another model, from now on.
    pub(crate) const fn forgets(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::Broken(_) | Self::Garbage(_))
    }

    /// As the executor is told, of the endpoint that is called `place`.
    pub(crate) fn to_backend(&self, place: &str) -> BackendError {
        match self {
            Self::Failed(words) => BackendError::Failed(words.clone()),
            Self::NotSent(_) | Self::Refused(_) => {
                BackendError::Unavailable(format!("{place}: {self}"))
            }
            Self::Broken(_) | Self::TimedOut(_) | Self::Garbage(_) => {
                BackendError::Crashed(format!("{place}: {self}"))
            }
        }
    }
}

/// An error's causes, the nearest first.
pub(crate) fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause);
        next = cause.source();
    }
    causes
}

/// A stranger's words, clipped and escaped.
pub(crate) fn words(text: &str) -> String {
    text.chars().take(MAX_WORDS).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_run_is_sent_again_without_leave() {
        let text = String::new;
        for (fault, safe, with_leave) in [
            (Fault::NotSent(text()), true, true),
            (Fault::Refused(text()), true, true),
            (Fault::Broken(text()), false, true),
            (Fault::Garbage(text()), false, true),
            (Fault::TimedOut(Duration::ZERO), false, false),
            (Fault::Failed(text()), false, false),
        ] {
            assert_eq!((fault.was_not_run(), fault.may_be_sent_again()), (safe, with_leave));
        }
    }

    #[test]
    fn words_are_clipped_and_escaped() {
        assert_eq!(words("a\n\u{1b}[31m"), "a\\n\\u{1b}[31m");
        assert_eq!(words(&"x".repeat(1000)).len(), MAX_WORDS);
    }
}
