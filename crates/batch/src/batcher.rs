//! The handle through which items come in.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    BatchRecord, Explanation, Limits, Moment, Refused, Stats, Tag, Ticket, Timekeeper,
    puller::Puller,
    scheduler::Scheduler,
    shared::{Handle, Parcel, Shared, tell},
};

/// A cheap handle to one batcher. The batcher closes when the last handle (lanes included) is
/// dropped, or by [`close`](Batcher::close); everything accepted is answered all the same.
///
/// `T` is what is submitted, `R` what comes back, `S` the state of a lane, for models that have
/// any.
#[derive(Debug)]
pub struct Batcher<T, R, S = ()> {
    handle: Arc<Handle<T, R, S>>,
}

impl<T, R, S> Clone for Batcher<T, R, S> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle) }
    }
}

impl<T: Send + 'static, R: Send + 'static, S: Send + 'static> Batcher<T, R, S> {
    /// A batcher, and the timekeeper that enforces its deadlines and must be run.
    #[must_use]
    pub fn pair(limits: Limits) -> (Self, Timekeeper<T, R, S>) {
        let shared = Arc::new(Shared::new(Scheduler::new(limits)));
        let handle = Arc::new(Handle(Arc::clone(&shared)));
        (Self { handle }, Timekeeper::new(shared))
    }

    /// Submits an item if there is room for it now.
    ///
    /// # Errors
    ///
    /// When it is refused; nothing is kept of it.
    pub fn try_submit(&self, item: T, tag: &Tag) -> Result<Ticket<R>, Refused> {
        self.offer(item, tag, None).map_err(|(refused, _)| refused)
    }

    /// Submits an item, waiting for room as long as it takes, so that pressure reaches whoever
    /// sends. The item's timeout counts from when it is accepted.
    ///
    /// # Errors
    ///
    /// When it is refused for any other reason than room.
    pub async fn submit(&self, item: T, tag: &Tag) -> Result<Ticket<R>, Refused> {
        self.submit_to(item, tag, None).await
    }

    /// Opens a lane: a stream's row in a stateful model, beginning in this state.
    #[must_use]
    pub fn open_lane(&self, state: S) -> Lane<T, R, S> {
        let lane = self.shared().lock().scheduler.open_lane(state);
        Lane { batcher: self.clone(), lane }
    }

    /// Attaches one more device. A batcher whose last device is dropped closes, and fails what
    /// waits, since nobody would ever run it.
    #[must_use]
    pub fn attach(&self) -> Puller<T, R, S> {
        self.attach_seats(1)
    }

    /// As [`attach`](Self::attach), a device that works on so many batches at once: a
    /// [`Stepper`](crate::Stepper)'s.
    #[must_use]
    pub fn attach_seats(&self, n_seats: usize) -> Puller<T, R, S> {
        Puller::new(Arc::clone(self.shared()), n_seats.max(1))
    }

    /// Takes no more items. Those that wait are run at once, without waiting for company.
    pub fn close(&self) {
        self.shared().close();
    }

    /// Teaches the batcher how long a call takes, as a warm-up run found it.
    pub fn learn(&self, length: u32, rows: usize, took: std::time::Duration) {
        self.shared().lock().scheduler.learn(length, rows, took);
    }

    /// How long ago it was made.
    #[must_use]
    pub fn age(&self) -> std::time::Duration {
        self.shared().now().since(Moment::START)
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared().stats()
    }

    /// The batches that landed after the one with this sequence number: at most the newest so
    /// many, of those that are kept, oldest first.
    #[must_use]
    pub fn landed_after(&self, sequence: u64, most: usize) -> Vec<BatchRecord> {
        self.shared().lock().scheduler.landed_after(sequence, most)
    }

    /// What is believed now, and what would be done about it.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        let now = self.shared().now();
        self.shared().lock().scheduler.explain(now)
    }

    fn shared(&self) -> &Arc<Shared<T, R, S>> {
        &self.handle.0
    }

    async fn submit_to(
        &self,
        mut item: T,
        tag: &Tag,
        lane: Option<usize>,
    ) -> Result<Ticket<R>, Refused> {
        let shared = self.shared();
        loop {
            let room = shared.room.notified();
            let refused = match self.offer(item, tag, lane) {
                Ok(ticket) => return Ok(ticket),
                Err((refused @ (Refused::QueueFull(_) | Refused::QueueBytesFull(_)), back)) => {
                    item = back;
                    refused
                }
                Err((refused, _)) => return Err(refused),
            };
            tracing::trace!(%refused, "waiting for room");
            let _waiting = WaitingForRoom::begin(shared);
            // Room may have been made between the refusal and the registration.
            if shared.lock().scheduler.has_room(tag) {
                continue;
            }
            // CANCEL SAFETY: a dropped `notified` that was chosen hands its turn on.
            room.await;
        }
    }

    fn offer(&self, item: T, tag: &Tag, lane: Option<usize>) -> Result<Ticket<R>, (Refused, T)> {
        let shared = self.shared();
        let (reply, answer) = oneshot::channel();
        let now = shared.now();
        let (id, waker, is_earlier, left, n_waiting_for_room) = {
            let mut state = shared.lock();
            let id = state
                .scheduler
                .offer(Parcel { item, reply: Some(reply) }, tag, lane, now)
                .map_err(|(refused, parcel)| (refused, parcel.item))?;
            let is_earlier = state.scheduler.next_expiry() < state.keeper_until;
            let left = state.scheduler.take_left();
            (id, state.wake_for_arrival(now), is_earlier, left, state.n_waiting_for_room)
        };
        // Whoever gave way may have left more room than was needed.
        shared.make_room(left.len(), n_waiting_for_room);
        tell(left);
        if let Some(waker) = waker {
            waker.wake();
        }
        if is_earlier {
            shared.deadline_moved.notify_one();
        }
        Ok(Ticket::new(answer, Arc::clone(shared) as _, id))
    }
}

/// One stream's row in a stateful model. Its items go one at a time and in order, and each finds
/// the state that the one before it left. The lane's state is dropped once the lane is dropped
/// and its last item answered.
#[derive(Debug)]
pub struct Lane<T: Send + 'static, R: Send + 'static, S: Send + 'static> {
    batcher: Batcher<T, R, S>,
    lane: usize,
}

impl<T: Send + 'static, R: Send + 'static, S: Send + 'static> Lane<T, R, S> {
    /// Submits the lane's next item if there is room for it now.
    ///
    /// # Errors
    ///
    /// When it is refused; nothing is kept of it.
    pub fn try_submit(&self, item: T, tag: &Tag) -> Result<Ticket<R>, Refused> {
        let offered = self.batcher.offer(item, tag, Some(self.lane));
        offered.map_err(|(refused, _)| refused)
    }

    /// Submits the lane's next item, waiting for room as long as it takes.
    ///
    /// # Errors
    ///
    /// When it is refused for any other reason than room.
    pub async fn submit(&self, item: T, tag: &Tag) -> Result<Ticket<R>, Refused> {
        self.batcher.submit_to(item, tag, Some(self.lane)).await
    }
}

impl<T: Send + 'static, R: Send + 'static, S: Send + 'static> Drop for Lane<T, R, S> {
    fn drop(&mut self) {
        self.batcher.shared().lock().scheduler.close_lane(self.lane);
    }
}

/// Counts a submitter that waits for room, for as long as it lives.
struct WaitingForRoom<'a, T, R, S>(&'a Shared<T, R, S>);

impl<'a, T, R, S> WaitingForRoom<'a, T, R, S> {
    fn begin(shared: &'a Shared<T, R, S>) -> Self {
        shared.lock().n_waiting_for_room += 1;
        Self(shared)
    }
}

impl<T, R, S> Drop for WaitingForRoom<'_, T, R, S> {
    fn drop(&mut self) {
        self.0.lock().n_waiting_for_room -= 1;
    }
}
