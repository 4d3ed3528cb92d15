//! Whether an instance can run calls, as seen from outside its thread.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// Why an instance cannot run calls, if it cannot. Its clones are one.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<State>);

#[derive(Debug, Default)]
struct State {
    trouble: Mutex<Option<String>>,
    n_restarts: AtomicU64,
}

impl Health {
    /// What is wrong, in a sentence; `None` while all is well.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what is wrong, or that all is well.
    pub fn set(&self, trouble: Option<String>) {
        *self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// How often the instance was made anew.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.0.n_restarts.load(Ordering::Relaxed)
    }

    /// Notes that the instance is made anew.
    pub fn restarted(&self) {
        self.0.n_restarts.fetch_add(1, Ordering::Relaxed);
    }
}
