//! A device's end of the batcher: pulls a batch when it is free, and answers it.

use std::{
    future::poll_fn,
    ops::Range,
    pin::pin,
    sync::Arc,
    task::{Poll, Wake, Waker},
    thread::Thread,
    time::Duration,
};

use rustc_hash::FxHashMap;
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep_until},
};

use crate::{
    Failure, Moment, WrongReplies,
    executor::{Call, Reply, Rider},
    scheduler::{Batch, BatchFacts, Boarded, FlightId, Next},
    shared::{Parcel, PullerId, Shared},
    slot::ItemId,
    ticket::{Answer, Ride},
};

/// One device's end of the batcher.
#[derive(Debug)]
pub struct Puller<T, R, S = ()> {
    shared: Arc<Shared<T, R, S>>,
    id: PullerId,
}

enum Step<T, R, S> {
    Board(Flight<T, R, S>),
    RestUntil(Moment),
    Closed,
}

impl<T, R, S> Puller<T, R, S> {
    pub(crate) fn new(shared: Arc<Shared<T, R, S>>) -> Self {
        let id = shared.lock().attach();
        Self { shared, id }
    }

    /// Waits for a batch; `None` once the batcher is closed and nothing waits any more. Dropping
    /// the future loses nothing.
    pub async fn pull(&mut self) -> Option<Flight<T, R, S>> {
        let resting = Resting { shared: &self.shared, id: self.id };
        let mut timer = pin!(None::<Sleep>);
        let flight = poll_fn(|context| {
            loop {
                match self.step(context.waker()) {
                    Step::Board(flight) => return Poll::Ready(Some(flight)),
                    Step::Closed => return Poll::Ready(None),
                    Step::RestUntil(Moment::NEVER) => return Poll::Pending,
                    Step::RestUntil(until) => {
                        timer.set(Some(sleep_until(self.shared.instant(until))));
                        let Some(timer) = timer.as_mut().as_pin_mut() else { continue };
                        if std::future::Future::poll(timer, context).is_pending() {
                            return Poll::Pending;
                        }
                    }
                }
            }
        })
        .await;
        std::mem::forget(resting);
        flight
    }

    /// As [`pull`](Self::pull), on a thread of its own, with timers as fine as the system's.
    pub fn pull_blocking(&mut self) -> Option<Flight<T, R, S>> {
        let waker = thread_waker();
        loop {
            match self.step(&waker) {
                Step::Board(flight) => return Some(flight),
                Step::Closed => return None,
                Step::RestUntil(Moment::NEVER) => std::thread::park(),
                Step::RestUntil(until) => {
                    std::thread::park_timeout(until.since(self.shared.now()));
                }
            }
        }
    }

    /// Teaches the batcher how long a call takes, as a warm-up run found it.
    pub fn learn(&self, length: u32, rows: usize, took: Duration) {
        self.shared.lock().scheduler.learn(length, rows, took);
    }

    pub(crate) fn split_calls(&self) -> u32 {
        self.shared.limits.split_calls
    }

    fn step(&self, waker: &Waker) -> Step<T, R, S> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.look_again();
        let next = state.scheduler.next(now);
        let n_waiting_for_room = state.n_waiting_for_room;
        let left =
            if state.scheduler.has_left() { state.scheduler.take_left() } else { Vec::new() };
        let (step, other) = match next {
            Next::Batch(batch) => {
                state.rise(self.id);
                // Another idle device may have to take what is left, or to look at what is held.
                let other = state.wake_for_arrival(now);
                (Step::Board(Flight::new(&self.shared, batch, now)), other)
            }
            Next::Nothing if state.scheduler.is_closed() && state.scheduler.n_waiting() == 0 => {
                state.rise(self.id);
                (Step::Closed, state.wake_one())
            }
            Next::HoldUntil(until) => {
                state.rest(self.id, waker, until);
                (Step::RestUntil(until), None)
            }
            Next::Nothing => {
                state.rest(self.id, waker, Moment::NEVER);
                (Step::RestUntil(Moment::NEVER), None)
            }
        };
        drop(state);
        if let Some(other) = other {
            other.wake();
        }
        let n_boarded = if let Step::Board(flight) = &step { flight.riders.len() } else { 0 };
        self.shared.make_room(n_boarded + left.len(), n_waiting_for_room);
        self.shared.tell(left);
        step
    }
}

/// Takes a puller whose wait was dropped off the list; if it had been woken, wakes another.
struct Resting<'a, T, R, S> {
    shared: &'a Shared<T, R, S>,
    id: PullerId,
}

impl<T, R, S> Drop for Resting<'_, T, R, S> {
    fn drop(&mut self) {
        let other = {
            let mut state = self.shared.lock();
            if state.rise(self.id) { None } else { state.wake_one() }
        };
        if let Some(other) = other {
            other.wake();
        }
    }
}

impl<T, R, S> Drop for Puller<T, R, S> {
    fn drop(&mut self) {
        let abandoned = {
            let mut state = self.shared.lock();
            state.rise(self.id);
            state.n_pullers -= 1;
            let n_pullers = state.n_pullers;
            state.scheduler.set_devices(n_pullers);
            if n_pullers == 0 { state.scheduler.abandon() } else { Vec::new() }
        };
        // Dropping the reply tells whoever holds the ticket.
        drop(abandoned);
        self.shared.room.notify_waiters();
        self.shared.deadline_moved.notify_one();
    }
}

/// A batch under way. Every item in it gets exactly one answer: dropping it answers those that
/// have none with [`Failure::ExecutorGone`](crate::Failure).
#[derive(Debug)]
pub struct Flight<T, R, S = ()> {
    shared: Arc<Shared<T, R, S>>,
    riders: Vec<Rider<T, S>>,
    /// One per rider, until it is answered.
    replies: Vec<Option<oneshot::Sender<Answer<R>>>>,
    facts: BatchFacts,
    id: FlightId,
    started: Moment,
    /// How long the one call took, once it was good.
    took: Option<Duration>,
    n_failed: usize,
}

impl<T, R, S> Flight<T, R, S> {
    fn new(shared: &Arc<Shared<T, R, S>>, batch: Batch<Parcel<T, R>, S>, now: Moment) -> Self {
        let Batch { boarded, facts, flight } = batch;
        let mut riders = Vec::with_capacity(boarded.len());
        let mut replies = Vec::with_capacity(boarded.len());
        for boarded in boarded {
            let Boarded { id, payload: Parcel { item, reply }, rows, length, waited, lane } =
                boarded;
            let (lane, state) = lane.unzip();
            riders.push(Rider { id, item, rows, length, waited, state, lane });
            replies.push(Some(reply));
        }
        Self {
            shared: Arc::clone(shared),
            riders,
            replies,
            facts,
            id: flight,
            started: now,
            took: None,
            n_failed: 0,
        }
    }

    /// Its items; never none.
    #[must_use]
    pub fn riders(&self) -> &[Rider<T, S>] {
        &self.riders
    }

    /// What it is made of and why it left.
    #[must_use]
    pub const fn facts(&self) -> &BatchFacts {
        &self.facts
    }

    /// The call that runs some of its items.
    pub(crate) fn call(&self, range: Range<usize>) -> Call<'_, T, S> {
        let riders = &self.riders[range];
        let rows = riders.iter().map(|rider| rider.rows).sum();
        Call {
            riders,
            key: self.facts.key,
            rows,
            padded_rows: self.shared.limits.padded_rows(rows),
            padded_length: riders.iter().map(|rider| rider.length).max().unwrap_or(0),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.shared.now()
    }

    /// Notes how long the call that ran the whole batch took.
    pub(crate) const fn note_time(&mut self, took: Duration) {
        self.took = Some(took);
    }

    /// Answers some of its items by what the model replied; all or, where the replies cannot be
    /// told apart, none of them.
    pub(crate) fn answer(
        &mut self,
        range: Range<usize>,
        mut replies: Vec<Reply<R, S>>,
        took: Duration,
    ) -> Result<(), WrongReplies> {
        let asked = &self.riders[range.clone()];
        sort_by_asked(asked, &mut replies)?;
        let (items, rows) = (asked.len(), asked.iter().map(|rider| rider.rows).sum());
        for (position, reply) in replies.into_iter().enumerate() {
            let rider = &mut self.riders[range.start + position];
            if let (Ok(_), Some(state)) = (&reply.outcome, reply.state) {
                rider.state = Some(state);
            }
            let ride = Ride {
                batch: self.facts.number,
                items,
                rows,
                position,
                waited: rider.waited,
                took,
                fired: self.facts.fired,
            };
            let answer = match reply.outcome {
                Ok(result) => Ok((result, ride)),
                Err(cause) => Err(Failure::Model(cause)),
            };
            self.reply(range.start + position, answer);
        }
        Ok(())
    }

    /// Answers some of its items with a failure.
    pub(crate) fn fail(&mut self, range: Range<usize>, failure: &Failure) {
        for at in range {
            self.reply(at, Err(failure.clone()));
        }
    }

    fn reply(&mut self, at: usize, answer: Answer<R>) {
        self.n_failed += usize::from(answer.is_err());
        if let Some(reply) = self.replies[at].take() {
            // The ticket may have been dropped meanwhile; then nobody is left to tell.
            drop(reply.send(answer));
        }
    }
}

impl<T, R, S> Drop for Flight<T, R, S> {
    fn drop(&mut self) {
        let n_unanswered = self.replies.iter().flatten().count();
        let now = self.shared.now();
        let states = self.riders.iter_mut().filter_map(|rider| rider.lane.zip(rider.state.take()));
        let waker = {
            let mut state = self.shared.lock();
            state.scheduler.finish(self.id, self.took, states, now);
            // Lanes that are free again may have something to run.
            state.wake_for_arrival(now)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        let n_failed = self.n_failed + n_unanswered;
        let took = now.since(self.started);
        self.shared.observer.answered(&self.facts, self.riders.len(), n_failed, took);
    }
}

/// Puts replies into the order in which their items were asked.
fn sort_by_asked<T, R, S>(
    asked: &[Rider<T, S>],
    replies: &mut Vec<Reply<R, S>>,
) -> Result<(), WrongReplies> {
    if replies.len() != asked.len() {
        return Err(WrongReplies::Count { expected: asked.len(), actual: replies.len() });
    }
    // Most models reply in order, and then this is all there is to do.
    let in_order = |replies: &[Reply<R, S>]| {
        replies.iter().zip(asked).all(|(reply, rider)| reply.id == rider.id)
    };
    if in_order(replies) {
        return Ok(());
    }
    let place: FxHashMap<ItemId, usize> =
        asked.iter().enumerate().map(|(at, rider)| (rider.id, at)).collect();
    // Strangers sort to the end, twins next to each other; either breaks the order.
    replies.sort_by_key(|reply| place.get(&reply.id).copied().unwrap_or(usize::MAX));
    if in_order(replies) { Ok(()) } else { Err(WrongReplies::UnknownItem) }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Wakes the thread that asks for it.
pub(crate) fn thread_waker() -> Waker {
    Arc::new(Unpark(std::thread::current())).into()
}
