//! Waiting on a thread that others need, too: what it has to do besides is given to another thread
//! first.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Whether this is a thread that serves clients, on which instant models are run.
pub(crate) fn is_needed() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Runs what may wait for long.
pub(crate) fn step_aside<T>(wait: impl FnOnce() -> T) -> T {
    if is_needed() { tokio::task::block_in_place(wait) } else { wait() }
}
