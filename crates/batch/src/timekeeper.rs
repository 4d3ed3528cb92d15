//! Fails items whose deadline passes while they wait, even while every device is busy; and wakes
//! devices that have no timer of their own.

use std::{future::poll_fn, sync::Arc, task::Poll};

use tokio::time::timeout_at;

use crate::{
    Moment,
    shared::{Shared, tell},
};

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
            let device = self.shared.lock().wake_due(now);
            if let Some(device) = device {
                // This may be to run it here, so the others of this thread have a turn then.
                device.wake();
                yield_now().await;
            }
            let (left, until, n_waiting_for_room) = {
                let mut state = self.shared.lock();
                state.scheduler.expire(now);
                let until = state.scheduler.next_expiry().min(state.keeper_wakes);
                // Closed and empty of deadlines: whatever else waits needs no timekeeper.
                if until == Moment::NEVER && state.scheduler.is_closed() {
                    return;
                }
                state.keeper_until = until;
                (state.scheduler.take_left(), until, state.n_waiting_for_room)
            };
            self.shared.make_room(left.len(), n_waiting_for_room);
            tell(left);
            if until == Moment::NEVER {
                moved.await;
            } else {
                // Either only wakes the loop, which looks again for itself.
                drop(timeout_at(self.shared.instant(until), moved).await);
            }
        }
    }
}

/// Lets the others of this thread have a turn.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
