//! Fails items whose deadline passes while they wait, even while every device is busy.

use std::sync::Arc;

use tokio::time::timeout_at;

use crate::{Moment, shared::Shared};

/// Enforces deadlines; drive it with [`run`](Timekeeper::run). Costs nothing while nothing has a
/// deadline.
#[derive(Debug)]
pub struct Timekeeper<T, R, S = ()> {
    shared: Arc<Shared<T, R, S>>,
}

impl<T, R, S> Timekeeper<T, R, S> {
    pub(crate) const fn new(shared: Arc<Shared<T, R, S>>) -> Self {
        Self { shared }
    }

    /// Runs until the batcher is closed and nothing waits any more.
    pub async fn run(self) {
        loop {
            let moved = self.shared.deadline_moved.notified();
            let now = self.shared.now();
            let (left, until, n_waiting_for_room) = {
                let mut state = self.shared.lock();
                state.scheduler.expire(now);
                let until = state.scheduler.next_expiry();
                // Closed and empty of deadlines: whatever else waits needs no timekeeper.
                if until == Moment::NEVER && state.scheduler.is_closed() {
                    return;
                }
                state.keeper_until = until;
                (state.scheduler.take_left(), until, state.n_waiting_for_room)
            };
            self.shared.make_room(left.len(), n_waiting_for_room);
            self.shared.tell(left);
            if until == Moment::NEVER {
                moved.await;
            } else {
                // Either only wakes the loop, which looks again for itself.
                drop(timeout_at(self.shared.instant(until), moved).await);
            }
        }
    }
}
