//! The loop of one executor that works in steps: whoever waits comes on board while there is a
//! seat, whoever is done gets off, whoever has left or is too late is put off.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

use rustc_hash::FxHashMap;

use crate::{
    Cause, Failure, Puller, WrongReplies,
    puller::Flight,
    runner::block_on,
    slot::ItemId,
    stepping::{Done, Stepping},
};

/// One executor that works in steps and its end of the batcher, with as many seats as that has.
/// Runs until the batcher is closed and empty.
///
/// To the batcher each item is a call of its own, so its limits must allow no more than one item in
/// a call.
#[derive(Debug)]
pub struct Stepper<E, T, R, S = ()> {
    puller: Puller<T, R, S>,
    executor: E,
    aboard: FxHashMap<ItemId, Seat<T, R, S>>,
    /// Used again for every step.
    done: Vec<Done<R>>,
}

/// One item on board.
#[derive(Debug)]
struct Seat<T, R, S> {
    flight: Box<Flight<T, R, S>>,
    /// The most that were on board with it, itself included.
    company: usize,
}

/// What went wrong with everybody on board.
type Wreck = Failure;

impl<E, T, R, S> Stepper<E, T, R, S>
where
    E: Stepping<T, R>,
    T: Send + Sync,
    R: Send,
    S: Send + Sync,
{
    /// Puts an executor to work on a batcher.
    ///
    /// # Panics
    ///
    /// When the batcher's limits allow more than one item in a call.
    #[must_use]
    pub fn new(puller: Puller<T, R, S>, executor: E) -> Self {
        assert_eq!(puller.max_items(), 1, "each item of a stepper is a call of its own");
        puller.count_steps();
        Self { puller, executor, aboard: FxHashMap::default(), done: Vec::new() }
    }

    /// Runs as a task. Dropping the future answers those on board.
    ///
    /// # Errors
    ///
    /// When the executor panicked and could not recover.
    pub async fn run(mut self) -> Result<(), Cause> {
        loop {
            self.executor.ready().await;
            let Some(flight) = self.puller.pull().await else { return Ok(()) };
            self.travel(flight).await?;
        }
    }

    /// Runs on the calling thread, for models that compute rather than wait.
    ///
    /// # Errors
    ///
    /// When the executor panicked and could not recover.
    pub fn run_blocking(mut self) -> Result<(), Cause> {
        loop {
            block_on(self.executor.ready());
            let Some(flight) = self.puller.pull_blocking() else { return Ok(()) };
            block_on(self.travel(flight))?;
        }
    }

    /// Steps until nobody is on board, beginning with one item.
    async fn travel(&mut self, first: Box<Flight<T, R, S>>) -> Result<(), Cause> {
        let mut next = Some(first);
        loop {
            let went = self.go_on(&mut next).await;
            if let Err(wreck) = went {
                for (_, seat) in self.aboard.drain() {
                    seat.end(Err(wreck.clone()));
                }
                self.executor.recover().await?;
            }
            if self.aboard.is_empty() && next.is_none() {
                return Ok(());
            }
        }
    }

    /// Lets people on and off, and makes one step.
    async fn go_on(&mut self, next: &mut Option<Box<Flight<T, R, S>>>) -> Result<(), Wreck> {
        self.put_off()?;
        while let Some(flight) = next.take().or_else(|| self.take_now()) {
            self.board(flight)?;
        }
        if self.aboard.is_empty() {
            return Ok(());
        }
        let stepped = self.step().await;
        // What was done before a panic is good all the same.
        self.let_off()?;
        stepped
    }

    fn take_now(&mut self) -> Option<Box<Flight<T, R, S>>> {
        if self.aboard.len() < self.puller.n_seats() { self.puller.take_now() } else { None }
    }

    /// Those whom nobody waits for, or not any more in time.
    fn put_off(&mut self) -> Result<(), Wreck> {
        let now = self.puller.now();
        let is_pointless = |seat: &Seat<T, R, S>| seat.flight.is_pointless(now);
        for (id, mut seat) in self.aboard.extract_if(|_, seat| is_pointless(seat).is_some()) {
            if let Some(reason) = is_pointless(&seat) {
                seat.flight.give_up(reason);
            }
            let executor = &mut self.executor;
            unwind(|| executor.leave(id))?;
        }
        Ok(())
    }

    fn board(&mut self, flight: Box<Flight<T, R, S>>) -> Result<(), Wreck> {
        let Some((id, item)) = flight.only() else { return Ok(()) };
        let executor = &mut self.executor;
        match unwind(|| executor.board(id, item)) {
            Ok(Ok(())) => {
                self.aboard.insert(id, Seat { flight, company: 1 });
                Ok(())
            }
            Ok(Err(cause)) => {
                Seat { flight, company: 1 }.end(Err(Failure::Model(cause)));
                Ok(())
            }
            Err(wreck) => {
                Seat { flight, company: 1 }.end(Err(wreck.clone()));
                Err(wreck)
            }
        }
    }

    async fn step(&mut self) -> Result<(), Wreck> {
        let n_aboard = self.aboard.len();
        self.puller.stepped(n_aboard);
        for seat in self.aboard.values_mut() {
            seat.company = seat.company.max(n_aboard);
        }
        let (executor, done) = (&mut self.executor, &mut self.done);
        // In a block of its own, because making the future may panic as well as polling it.
        let mut future = pin!(async { executor.step(done).await });
        poll_fn(|context| match unwind(|| future.as_mut().poll(context)) {
            Ok(poll) => poll.map(Ok),
            Err(wreck) => Poll::Ready(Err(wreck)),
        })
        .await
    }

    /// Answers those that are done.
    fn let_off(&mut self) -> Result<(), Wreck> {
        for (id, outcome) in self.done.drain(..) {
            let Some(seat) = self.aboard.remove(&id) else {
                tracing::error!("a model answered an item that is not on board");
                return Err(WrongReplies::UnknownItem.into());
            };
            seat.end(outcome.map_err(Failure::Model));
        }
        Ok(())
    }
}

impl<T, R, S> Seat<T, R, S> {
    /// Answers its item.
    fn end(mut self, outcome: Result<R, Failure>) {
        self.flight.answer_only(outcome, self.company);
    }
}

/// Runs something of the executor's; a panic is told, not passed on.
fn unwind<A>(run: impl FnOnce() -> A) -> Result<A, Wreck> {
    // UNWIND SAFETY: what panicked is not used again until `recover` has seen to it.
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
        tracing::error!("a model panicked; everybody on board is answered with an error");
        Failure::Panicked
    })
}
