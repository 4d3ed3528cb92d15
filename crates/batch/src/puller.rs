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
use tokio::time::{Sleep, sleep_until};

use crate::{
    Failure, Moment, Scheduler, WrongReplies,
    error::Dropped,
    executor::{Call, Reply},
    scheduler::{BatchFacts, Boarded, FlightId, Landing},
    shared::{Parcel, PullerId, Shared, tell},
    slot::ItemId,
    ticket::Ride,
};

/// One device's end of the batcher.
#[derive(Debug)]
pub struct Puller<T, R, S = ()> {
    shared: Arc<Shared<T, R, S>>,
    desk: Desk<T, R, S>,
}

/// What a puller keeps from one step to the next.
#[derive(Debug)]
struct Desk<T, R, S> {
    id: PullerId,
    /// Batches that it works on at once.
    n_seats: usize,
    /// A batch that was answered, to be reported under the lock that the next step takes anyway.
    landed: Option<Landed<S>>,
    /// A batch that has landed, to be used again for the next one.
    spare: Option<Box<Flight<T, R, S>>>,
}

/// What the scheduler must know of a batch that is done.
#[derive(Debug)]
struct Landed<S> {
    id: FlightId,
    n_items: usize,
    landing: Landing,
    given_up: Option<Dropped>,
    lanes: Vec<(usize, S)>,
    ended: Moment,
}

impl<S> Landed<S> {
    fn report<P>(self, scheduler: &mut Scheduler<P, S>) {
        let Self { id, landing, lanes, ended, .. } = self;
        match self.given_up {
            Some(reason) => scheduler.give_up(id, reason, lanes, ended),
            None => scheduler.finish(id, landing, lanes, ended),
        }
    }
}

/// How late tokio's timers may be.
const TASK_TIMER: Duration = Duration::from_millis(1);
/// How late a parked thread may be.
const THREAD_TIMER: Duration = Duration::from_micros(100);

enum Step<T, R, S> {
    Board(Box<Flight<T, R, S>>),
    RestUntil(Moment),
    Closed,
}

/// What there is for a device that cannot wait.
pub(crate) enum Pulled<T, R, S> {
    Board(Box<Flight<T, R, S>>),
    Rest,
    Closed,
}

impl<T, R, S> Puller<T, R, S> {
    pub(crate) fn new(shared: Arc<Shared<T, R, S>>, n_seats: usize) -> Self {
        let id = shared.lock().attach(n_seats);
        Self { shared, desk: Desk { id, n_seats, landed: None, spare: None } }
    }

    /// Waits for a batch; `None` once the batcher is closed and nothing waits any more. Dropping
    /// the future loses nothing.
    pub async fn pull(&mut self) -> Option<Box<Flight<T, R, S>>> {
        let Self { shared, desk } = self;
        let resting = Resting { shared, id: desk.id };
        let mut timer = pin!(None::<Sleep>);
        let mut has_crowd = desk.has_crowd();
        let flight = poll_fn(|context| {
            // A crowd that was just answered may have more. Letting it run first makes a larger
            // batch and spares it a wake-up.
            if std::mem::take(&mut has_crowd) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            loop {
                match desk.step(shared, Some(context.waker()), TASK_TIMER) {
                    Step::Board(flight) => return Poll::Ready(Some(flight)),
                    Step::Closed => return Poll::Ready(None),
                    Step::RestUntil(Moment::NEVER) => return Poll::Pending,
                    Step::RestUntil(until) => {
                        timer.set(Some(sleep_until(shared.instant(until))));
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
    pub fn pull_blocking(&mut self) -> Option<Box<Flight<T, R, S>>> {
        let waker = thread_waker();
        // As in `pull`: a crowd that was just answered may have more.
        if self.desk.has_crowd() {
            std::thread::yield_now();
        }
        loop {
            match self.desk.step(&self.shared, Some(&waker), THREAD_TIMER) {
                Step::Board(flight) => return Some(flight),
                Step::Closed => return None,
                Step::RestUntil(Moment::NEVER) => std::thread::park(),
                Step::RestUntil(until) => {
                    std::thread::park_timeout(until.since(self.shared.now()));
                }
            }
        }
    }

    /// As [`pull`](Self::pull) for a device that cannot wait: the timekeeper wakes it when it meant
    /// to look again.
    pub(crate) fn pull_now(&mut self, waker: &Waker) -> Pulled<T, R, S> {
        match self.desk.step(&self.shared, Some(waker), TASK_TIMER) {
            Step::Board(flight) => Pulled::Board(flight),
            Step::Closed => Pulled::Closed,
            Step::RestUntil(until) => {
                self.shared.look_for_me(until);
                Pulled::Rest
            }
        }
    }

    /// Rests although there may be more to do, so that somebody else sees to that; `false` where
    /// nobody will, because the batcher is closed.
    pub(crate) fn gives_way(&mut self, waker: &Waker) -> bool {
        {
            let mut state = self.shared.lock();
            if state.scheduler.is_closed() {
                return false;
            }
            self.desk.report(&mut state.scheduler);
            state.rest(self.desk.id, waker, Moment::NEVER);
        }
        self.shared.look_for_me(Moment::START);
        true
    }

    /// A batch that can leave now, if there is one; waits for nothing.
    pub(crate) fn take_now(&mut self) -> Option<Box<Flight<T, R, S>>> {
        match self.desk.step(&self.shared, None, THREAD_TIMER) {
            Step::Board(flight) => Some(flight),
            Step::Closed | Step::RestUntil(_) => None,
        }
    }

    /// From now on a batch counts as what a step was made for, which [`stepped`](Self::stepped) tells.
    pub(crate) fn count_steps(&self) {
        self.shared.lock().scheduler.count_steps();
    }

    /// A step was made for so many.
    pub(crate) fn stepped(&self, n_aboard: usize) {
        self.shared.lock().scheduler.stepped(n_aboard);
    }

    pub(crate) const fn n_seats(&self) -> usize {
        self.desk.n_seats
    }

    pub(crate) fn max_items(&self) -> usize {
        self.shared.limits.max_items
    }

    pub(crate) fn now(&self) -> Moment {
        self.shared.now()
    }

    /// Teaches the batcher how long a call takes, as a warm-up run found it.
    pub fn learn(&self, length: u32, rows: usize, took: Duration) {
        self.shared.lock().scheduler.learn(length, rows, took);
    }

    pub(crate) fn split_calls(&self) -> u32 {
        self.shared.limits.split_calls
    }
}

impl<T, R, S> Desk<T, R, S> {
    /// Whether several were just answered.
    fn has_crowd(&self) -> bool {
        self.landed.as_ref().is_some_and(|landed| 1 < landed.n_items)
    }

    /// Reports the batch that was answered last, if it is not reported yet.
    fn report(&mut self, scheduler: &mut Scheduler<Parcel<T, R>, S>) {
        if let Some(landed) = self.landed.take() {
            landed.report(scheduler);
        }
    }

    /// Takes a batch if one can leave; else waits to be woken, where there is somebody to wake.
    fn step(
        &mut self,
        shared: &Arc<Shared<T, R, S>>,
        waker: Option<&Waker>,
        resolution: Duration,
    ) -> Step<T, R, S> {
        // A lone item's batch has landed this very moment.
        let landed = self.landed.as_ref().filter(|landed| landed.n_items == 1);
        let now = landed.map_or_else(|| shared.now(), |landed| landed.ended);
        let mut state = shared.lock();
        self.report(&mut state.scheduler);
        state.look_again();
        state.scheduler.set_resolution(resolution);
        let mut flight = self.spare.take().unwrap_or_else(|| Box::new(Flight::new(shared)));
        let next = state.scheduler.next_into(&mut flight.boarded, now);
        let n_waiting_for_room = state.n_waiting_for_room;
        let left =
            if state.scheduler.has_left() { state.scheduler.take_left() } else { Vec::new() };
        let (step, other) = match next {
            Ok((facts, id)) => {
                flight.depart(facts, id, now);
                state.rise(self.id);
                // Another idle device may have to take what is left, or to look at what is held.
                let other = state.wake_for_arrival(now);
                (Step::Board(flight), other)
            }
            Err(Moment::NEVER)
                if state.scheduler.is_closed() && state.scheduler.n_waiting() == 0 =>
            {
                state.rise(self.id);
                (Step::Closed, state.wake_one())
            }
            Err(until) => {
                self.spare = Some(flight);
                if let Some(waker) = waker {
                    state.rest(self.id, waker, until);
                }
                (Step::RestUntil(until), None)
            }
        };
        drop(state);
        if let Some(other) = other {
            other.wake();
        }
        let n_boarded = if let Step::Board(flight) = &step { flight.n_items() } else { 0 };
        shared.make_room(n_boarded + left.len(), n_waiting_for_room);
        tell(left);
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
            self.desk.report(&mut state.scheduler);
            state.rise(self.desk.id);
            state.detach(self.desk.n_seats);
            if state.n_pullers == 0 { state.scheduler.abandon() } else { Vec::new() }
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
    boarded: Vec<Boarded<Parcel<T, R>, S>>,
    facts: BatchFacts,
    id: FlightId,
    started: Moment,
    /// Whether there is nothing more to report of it.
    is_closed: bool,
    /// When the last call ended.
    ended: Option<Moment>,
    /// How long the one call took, once it was good.
    took: Option<Duration>,
    /// Why it was given up before its end, if it was.
    given_up: Option<Dropped>,
    n_answered: usize,
    /// Of these, after their deadline.
    n_late: usize,
}

impl<T, R, S> Flight<T, R, S> {
    /// Room for a batch.
    fn new(shared: &Arc<Shared<T, R, S>>) -> Self {
        Self {
            shared: Arc::clone(shared),
            boarded: Vec::new(),
            facts: BatchFacts::NONE,
            id: FlightId::NONE,
            started: Moment::START,
            is_closed: true,
            ended: None,
            took: None,
            given_up: None,
            n_answered: 0,
            n_late: 0,
        }
    }

    /// The batch that has boarded leaves.
    fn depart(&mut self, facts: BatchFacts, id: FlightId, now: Moment) {
        (self.facts, self.id, self.started) = (facts, id, now);
        (self.is_closed, self.ended, self.took) = (false, None, None);
        (self.n_answered, self.n_late, self.given_up) = (0, 0, None);
    }

    /// How many items it has; never none.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.boarded.len()
    }

    /// What it is made of and why it left.
    #[must_use]
    pub const fn facts(&self) -> &BatchFacts {
        &self.facts
    }

    /// The call that runs some of its items.
    pub(crate) fn call(&self, part: Range<usize>) -> Call<'_, T, R, S> {
        let is_whole = part.len() == self.boarded.len();
        let boarded = &self.boarded[part];
        let (rows, padded_rows, padded_length) = if is_whole {
            (self.facts.rows, self.facts.padded_rows, self.facts.padded_length)
        } else {
            let rows = boarded.iter().map(|item| item.rows).sum();
            let longest = boarded.iter().map(|item| item.length).max();
            (rows, self.shared.limits.padded_rows(rows), longest.unwrap_or(0))
        };
        Call { boarded, key: self.facts.key, rows, padded_rows, padded_length }
    }

    /// Notes that a call has ended, and says how long it took.
    pub(crate) fn note_end(&mut self) -> Duration {
        let began = self.ended.unwrap_or(self.started);
        let now = self.shared.now();
        self.ended = Some(now);
        now.since(began)
    }

    /// Answers some of its items by what the model replied; all or, where the replies cannot be
    /// told apart, none of them.
    pub(crate) fn answer(
        &mut self,
        part: Range<usize>,
        replies: &mut Vec<Reply<R, S>>,
        took: Duration,
    ) -> Result<(), WrongReplies> {
        let n_items = self.boarded.len();
        let asked = &mut self.boarded[part];
        sort_by_asked(asked, replies)?;
        // A call without one good answer, say of a worker that died, says nothing about the next.
        if asked.len() == n_items && replies.iter().any(|reply| reply.outcome.is_ok()) {
            self.took = Some(took);
        }
        let (items, rows) = (asked.len(), asked.iter().map(|item| item.rows).sum());
        // A call has ended, or there would be no replies.
        let now = self.ended.unwrap_or(Moment::START);
        for (position, (boarded, reply)) in asked.iter_mut().zip(replies.drain(..)).enumerate() {
            boarded.payload.answer(match reply.outcome {
                Ok(result) => {
                    if let (Some((_, state)), Some(next)) = (&mut boarded.lane, reply.state) {
                        *state = next;
                    }
                    self.n_answered += 1;
                    self.n_late += usize::from(boarded.deadline < now);
                    let ride = Ride {
                        batch: self.facts.number,
                        items,
                        rows,
                        position,
                        waited: boarded.waited,
                        took,
                        fired: self.facts.fired,
                    };
                    Ok((result, ride))
                }
                Err(cause) => Err(Failure::Model(cause)),
            });
        }
        Ok(())
    }

    /// The one item of a batch of one.
    pub(crate) fn only(&self) -> Option<(ItemId, &T)> {
        self.boarded.first().map(|boarded| (boarded.id, &boarded.payload.item))
    }

    /// Why a batch of one need not be gone on with: its item's owner has left, or it is too late.
    pub(crate) fn is_pointless(&self, now: Moment) -> Option<Dropped> {
        let boarded = self.boarded.first()?;
        if boarded.payload.is_abandoned() {
            Some(Dropped::Cancelled)
        } else {
            (boarded.deadline <= now).then_some(Dropped::Expired)
        }
    }

    /// Gives a batch up before its end.
    pub(crate) fn give_up(&mut self, reason: Dropped) {
        self.given_up = Some(reason);
        self.fail(0..self.boarded.len(), &Failure::Expired);
    }

    /// Answers the one item of a batch of one, which had so much company at most.
    pub(crate) fn answer_only(&mut self, outcome: Result<R, Failure>, company: usize) {
        let took = self.note_end();
        let Some(boarded) = self.boarded.first_mut() else { return };
        boarded.payload.answer(outcome.map(|result| {
            (self.took, self.n_answered) = (Some(took), 1);
            self.n_late = usize::from(boarded.deadline < self.ended.unwrap_or(Moment::START));
            let ride = Ride {
                batch: self.facts.number,
                items: company,
                rows: company,
                position: 0,
                waited: boarded.waited,
                took,
                fired: self.facts.fired,
            };
            (result, ride)
        }));
    }

    /// Answers some of its items with a failure.
    pub(crate) fn fail(&mut self, part: Range<usize>, failure: &Failure) {
        for boarded in &mut self.boarded[part] {
            boarded.payload.answer(Err(failure.clone()));
        }
    }
}

impl<T, R, S> Flight<T, R, S> {
    /// Hands the batch in to the puller, which reports it with its next step.
    pub(crate) fn land(mut self: Box<Self>, puller: &mut Puller<T, R, S>) {
        puller.desk.landed = self.close();
        self.boarded.clear();
        puller.desk.spare = Some(self);
    }

    /// What is to be reported, once.
    fn close(&mut self) -> Option<Landed<S>> {
        if std::mem::replace(&mut self.is_closed, true) {
            return None;
        }
        let ended = self.ended.unwrap_or_else(|| self.shared.now());
        let n_items = self.boarded.len();
        let n_failed = n_items - self.n_answered;
        let lanes = self.boarded.iter_mut().filter_map(|boarded| boarded.lane.take()).collect();
        let landing = Landing { took: self.took, failed: n_failed, late: self.n_late };
        Some(Landed { id: self.id, n_items, landing, given_up: self.given_up, lanes, ended })
    }
}

impl<T, R, S> Drop for Flight<T, R, S> {
    fn drop(&mut self) {
        let Some(landed) = self.close() else { return };
        let ended = landed.ended;
        let waker = {
            let mut state = self.shared.lock();
            landed.report(&mut state.scheduler);
            // Lanes that are free again may have something to run.
            state.wake_for_arrival(ended)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Puts replies into the order in which their items were asked.
fn sort_by_asked<P, R, S>(
    asked: &[Boarded<P, S>],
    replies: &mut [Reply<R, S>],
) -> Result<(), WrongReplies> {
    if replies.len() != asked.len() {
        return Err(WrongReplies::Count { expected: asked.len(), actual: replies.len() });
    }
    // Most models reply in order, and then this is all there is to do.
    let in_order = |replies: &[Reply<R, S>]| {
        replies.iter().zip(asked).all(|(reply, boarded)| reply.id == boarded.id)
    };
    if in_order(replies) {
        return Ok(());
    }
    let place: FxHashMap<ItemId, usize> =
        asked.iter().enumerate().map(|(at, boarded)| (boarded.id, at)).collect();
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
