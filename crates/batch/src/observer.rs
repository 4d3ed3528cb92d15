//! Hooks for whoever exports metrics. All have empty defaults, and none is called under a lock.

use std::time::Duration;

use crate::{Refused, error::Dropped, scheduler::BatchFacts};

/// Hears what happens as it happens; [`Stats`](crate::Stats) tells what has happened.
pub trait Observer: Send + Sync {
    /// An item was not taken.
    fn refused(&self, _reason: &Refused) {}

    /// An item left the queue without a call.
    fn dropped(&self, _reason: Dropped) {}

    /// A batch was answered. `took` is the time from when it left until all its items were
    /// answered; `failed` is how many of `items` have no result.
    fn answered(&self, _batch: &BatchFacts, _items: usize, _failed: usize, _took: Duration) {}
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deaf;

impl Observer for Deaf {}
