//! What handles, tickets, pullers and the timekeeper share: the scheduler behind one short lock.
//!
//! No call into a model and no wake-up runs under the lock. Waking is decided under
//! it and done after it. The lock spins before it sleeps: it is held for a microsecond at most,
//! and a sleep and its wake-up cost more than the whole submission.

use std::{sync::Arc, task::Waker};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, sync::oneshot, time::Instant};

use crate::{
    Failure, Limits, Moment, Scheduler, Stats,
    error::Dropped,
    slot::ItemId,
    ticket::{Answer, Withdraw},
};

/// An item and the way back to whoever submitted it.
#[derive(Debug)]
pub(crate) struct Parcel<T, R> {
    pub(crate) item: T,
    /// Gone once it was answered.
    pub(crate) reply: Option<oneshot::Sender<Answer<R>>>,
}

impl<T, R> Parcel<T, R> {
    /// Whether its ticket was dropped.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Answers it, once.
    pub(crate) fn answer(&mut self, answer: Answer<R>) {
        if let Some(reply) = self.reply.take() {
            // The ticket may have been dropped meanwhile; then nobody is left to tell.
            drop(reply.send(answer));
        }
    }
}

/// Answers items that left without a call, outside the lock.
pub(crate) fn tell<T, R>(left: Vec<(Parcel<T, R>, Dropped)>) {
    for (mut parcel, reason) in left {
        let failure = match reason {
            Dropped::TooLate => Failure::TooLate,
            Dropped::GaveWay => Failure::GaveWay,
            Dropped::Expired | Dropped::Cancelled => Failure::Expired,
        };
        parcel.answer(Err(failure));
    }
}

/// How often the lock is tried before a thread gives way: a few microseconds, which is longer than
/// it is ever held, and shorter than a sleep and its wake-up.
const SPINS: u32 = 100;

pub(crate) struct Shared<T, R, S> {
    state: Mutex<State<T, R, S>>,
    epoch: Instant,
    pub(crate) limits: Limits,
    /// Wakes the timekeeper when there is an earlier deadline than it knows of.
    pub(crate) deadline_moved: Notify,
    /// Wakes submitters that wait for room.
    pub(crate) room: Notify,
}

pub(crate) struct State<T, R, S> {
    pub(crate) scheduler: Scheduler<Parcel<T, R>, S>,
    /// Pullers that wait for a batch, the last to come first to go: it is the warmest.
    idle: Vec<(PullerId, Waker)>,
    /// When the first of the idle pullers will look again by itself.
    looks_again: Moment,
    pub(crate) n_pullers: usize,
    /// Batches that they work on at once.
    n_seats: usize,
    next_puller: usize,
    /// When the timekeeper must wake a device that has no timer.
    pub(crate) keeper_wakes: Moment,
    /// What the timekeeper is asleep until.
    pub(crate) keeper_until: Moment,
    /// Submitters that wait for room.
    pub(crate) n_waiting_for_room: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PullerId(usize);

impl<T, R, S> Shared<T, R, S> {
    pub(crate) fn new(scheduler: Scheduler<Parcel<T, R>, S>) -> Self {
        Self {
            limits: scheduler.limits().clone(),
            state: Mutex::new(State {
                scheduler,
                idle: Vec::new(),
                looks_again: Moment::NEVER,
                n_pullers: 0,
                n_seats: 0,
                next_puller: 0,
                keeper_wakes: Moment::NEVER,
                keeper_until: Moment::NEVER,
                n_waiting_for_room: 0,
            }),
            epoch: Instant::now(),
            deadline_moved: Notify::new(),
            room: Notify::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T, R, S>> {
        for _ in 0..SPINS {
            if let Some(state) = self.state.try_lock() {
                return state;
            }
            std::hint::spin_loop();
        }
        self.state.lock()
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::at(self.epoch.elapsed())
    }

    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.epoch + moment.since(Moment::START)
    }

    /// Lets as many submitters look for room as items left. One that still finds none waits for
    /// the next item to leave, and there is one as long as anything waits.
    pub(crate) fn make_room(&self, n_left: usize, n_waiting_for_room: usize) {
        for _ in 0..n_left.min(n_waiting_for_room) {
            self.room.notify_one();
        }
    }

    /// Has the timekeeper wake a device then that has no timer.
    pub(crate) fn look_for_me(&self, at: Moment) {
        if at == Moment::NEVER {
            return;
        }
        let is_earlier = {
            let mut state = self.lock();
            state.keeper_wakes = state.keeper_wakes.min(at);
            at < state.keeper_until
        };
        if is_earlier {
            self.deadline_moved.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        let idle = {
            let mut state = self.lock();
            state.scheduler.close();
            std::mem::take(&mut state.idle)
        };
        for (_, waker) in idle {
            waker.wake();
        }
        self.deadline_moved.notify_one();
        self.room.notify_waiters();
    }

    pub(crate) fn stats(&self) -> Stats {
        self.lock().scheduler.stats()
    }
}

impl<T, R, S> State<T, R, S> {
    pub(crate) fn attach(&mut self, n_seats: usize) -> PullerId {
        self.n_pullers += 1;
        self.n_seats += n_seats;
        self.next_puller += 1;
        self.scheduler.set_devices(self.n_seats);
        PullerId(self.next_puller)
    }

    pub(crate) fn detach(&mut self, n_seats: usize) {
        self.n_pullers -= 1;
        self.n_seats -= n_seats;
        self.scheduler.set_devices(self.n_seats);
    }

    /// Whether somebody must be woken now that an item came: the puller that should take it, or
    /// that should look again earlier than it meant to.
    pub(crate) fn wake_for_arrival(&mut self, now: Moment) -> Option<Waker> {
        if self.idle.is_empty() {
            return None;
        }
        match self.scheduler.peek(now) {
            Ok(()) => self.wake_one(),
            Err(until) if until < self.looks_again => self.wake_one(),
            Err(_) => None,
        }
    }

    /// The device that meant to look again by now and has no timer to do so.
    pub(crate) fn wake_due(&mut self, now: Moment) -> Option<Waker> {
        if now < self.keeper_wakes {
            return None;
        }
        self.keeper_wakes = Moment::NEVER;
        self.wake_one()
    }

    /// A puller looks for itself; what others meant to look at is not counted on any more.
    pub(crate) const fn look_again(&mut self) {
        self.looks_again = Moment::NEVER;
    }

    pub(crate) fn wake_one(&mut self) -> Option<Waker> {
        self.look_again();
        self.idle.pop().map(|(_, waker)| waker)
    }

    /// Notes that a puller waits, and until when at most.
    pub(crate) fn rest(&mut self, puller: PullerId, waker: &Waker, until: Moment) {
        self.looks_again = self.looks_again.min(until);
        match self.idle.iter_mut().find(|(id, _)| *id == puller) {
            Some((_, known)) => known.clone_from(waker),
            None => self.idle.push((puller, waker.clone())),
        }
    }

    /// Takes a puller off the list of those that wait; `false` if it was woken already.
    pub(crate) fn rise(&mut self, puller: PullerId) -> bool {
        let at = self.idle.iter().position(|(id, _)| *id == puller);
        at.map(|at| self.idle.remove(at)).is_some()
    }
}

impl<T: Send, R: Send, S: Send> Withdraw for Shared<T, R, S> {
    fn withdraw(&self, id: ItemId) {
        let now = self.now();
        let (parcel, waiting) = {
            let mut state = self.lock();
            (state.scheduler.withdraw(id, now), state.n_waiting_for_room)
        };
        // Dropped here, outside the lock: an item may be large, or drop slowly.
        if parcel.is_some() {
            self.make_room(1, waiting);
        }
    }
}

impl<T, R, S> std::fmt::Debug for Shared<T, R, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A handle that closes the batcher when the last of its kind is dropped.
#[derive(Debug)]
pub(crate) struct Handle<T, R, S>(pub(crate) Arc<Shared<T, R, S>>);

impl<T, R, S> Drop for Handle<T, R, S> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn shared() -> Shared<u32, u32, ()> {
        Shared::new(Scheduler::new(Settings::default().validate().unwrap()))
    }

    #[test]
    fn a_device_without_a_timer_is_woken_once_its_time_has_come_however_late() {
        let at = |nanos| Moment::at(std::time::Duration::from_nanos(nanos));
        for now in [5, 7] {
            let shared = shared();
            shared.look_for_me(at(5));
            let mut state = shared.lock();
            let puller = state.attach(1);
            state.rest(puller, Waker::noop(), Moment::NEVER);

            assert!(state.wake_due(at(4)).is_none());
            assert!(state.wake_due(at(now)).is_some());
            assert_eq!(state.keeper_wakes, Moment::NEVER, "once");
        }
    }

    #[test]
    fn only_a_device_that_rests_can_be_woken() {
        let shared = shared();
        let mut state = shared.lock();
        let [first, second] = [1, 1].map(|n_seats| state.attach(n_seats));
        for puller in [first, second, first] {
            state.rest(puller, Waker::noop(), Moment::NEVER);
        }

        assert!(state.rise(first));
        assert!(!state.rise(first), "it works");
        assert!(state.wake_one().is_some());
        assert!(state.wake_one().is_none());
        assert!(!state.rise(second), "it was woken");
    }
}
