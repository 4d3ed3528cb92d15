//! Whether an instance can run calls, as seen from outside its thread.

use std::sync::{Arc, Mutex, PoisonError};

/// Why an instance cannot run calls, if it cannot. Its clones are one.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<Option<String>>>);

impl Health {
    /// What is wrong, in a sentence; `None` while all is well.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what is wrong, or that all is well.
    pub fn set(&self, trouble: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}
