//! The loop of one executor: pull a batch, run it, answer it, find the bad item if it failed.

use std::{
    future::{Future, poll_fn},
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::{Context, Poll, Waker},
};

use crate::{
    Cause, Executor, Failure, Puller,
    executor::Reply,
    lent,
    puller::{Flight, Pulled, thread_waker},
};

/// Most calls that somebody who came with one item makes for others as well.
const CALLS_A_VISIT: usize = 8;

/// How a visit to an executor ended that was lent.
pub(crate) enum Visit {
    /// There is nothing to do for now, or enough was done.
    Over,
    /// The batcher is closed and empty.
    Closed,
}

/// One executor and its end of the batcher. Runs until the batcher is closed and empty.
#[derive(Debug)]
pub struct Runner<E, T, R, S = ()> {
    puller: Puller<T, R, S>,
    executor: E,
    /// Used again for every call.
    replies: Vec<Reply<R, S>>,
}

impl<E, T, R, S> Runner<E, T, R, S>
where
    E: Executor<T, R, S>,
    T: Send + Sync,
    R: Send,
    S: Send + Sync,
{
    /// Puts an executor to work on a batcher.
    pub const fn new(puller: Puller<T, R, S>, executor: E) -> Self {
        Self { puller, executor, replies: Vec::new() }
    }

    /// Runs as a task. Dropping the future in mid-call answers the items of that call.
    ///
    /// # Errors
    ///
    /// When the executor panicked and could not recover.
    pub async fn run(mut self) -> Result<(), Cause> {
        loop {
            self.executor.ready().await;
            let Some(flight) = self.puller.pull().await else { return Ok(()) };
            self.fly(flight).await?;
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
            block_on(self.fly(flight))?;
        }
    }

    /// Runs on the threads of those who submit, for models whose calls take microseconds and never
    /// wait: an item that comes while the executor is idle is run before `submit` returns. Those who
    /// come meanwhile leave theirs to whoever runs it. Whether it ended well is told to `ended`.
    pub fn lend(self, ended: impl FnOnce(Result<(), Cause>) + Send + 'static)
    where
        E: 'static,
        T: 'static,
        R: 'static,
        S: 'static,
    {
        lent::lend(self, Box::new(ended));
    }

    /// Runs what is due, within bounds, on the thread of whoever has woken it.
    pub(crate) fn visit(&mut self, waker: &Waker) -> Result<Visit, Cause> {
        for n_calls in 0.. {
            if n_calls == CALLS_A_VISIT && self.puller.gives_way(waker) {
                break;
            }
            block_on(self.executor.ready());
            match self.puller.pull_now(waker) {
                Pulled::Board(flight) => block_on(self.fly(flight))?,
                Pulled::Rest => return Ok(Visit::Over),
                Pulled::Closed => return Ok(Visit::Closed),
            }
        }
        Ok(Visit::Over)
    }

    /// Runs a batch and answers it.
    async fn fly(&mut self, mut flight: Box<Flight<T, R, S>>) -> Result<(), Cause> {
        let whole = 0..flight.n_items();
        if let Err(failure) = self.attempt(&mut flight, whole.clone()).await? {
            self.split(&mut flight, whole, failure).await?;
        }
        flight.land(&mut self.puller);
        Ok(())
    }

    /// Runs the halves of a part that failed, the halves of those that fail again, and so on,
    /// until whoever is to blame stands alone or no more calls may be spent on finding out.
    async fn split(
        &mut self,
        flight: &mut Flight<T, R, S>,
        failed: Range<usize>,
        failure: Failure,
    ) -> Result<(), Cause> {
        let mut n_calls = self.puller.split_calls();
        let mut suspects = vec![(failed, failure)];
        while let Some((part, failure)) = suspects.pop() {
            if part.len() == 1 || n_calls < 2 {
                tracing::debug!(%failure, items = part.len(), "call failed");
                flight.fail(part, &failure);
                continue;
            }
            n_calls -= 2;
            let middle = part.start + part.len() / 2;
            for half in [part.start..middle, middle..part.end] {
                if let Err(failure) = self.attempt(flight, half.clone()).await? {
                    suspects.push((half, failure));
                }
            }
        }
        Ok(())
    }

    /// Runs a part of a batch and answers it, unless it failed as a whole. A panic is an answer:
    /// it is not tried again.
    async fn attempt(
        &mut self,
        flight: &mut Flight<T, R, S>,
        part: Range<usize>,
    ) -> Result<Result<(), Failure>, Cause> {
        self.replies.clear();
        let outcome = self.execute(flight, part.clone()).await;
        let took = flight.note_end();
        match outcome {
            Some(Ok(())) => {
                let answered = flight.answer(part, &mut self.replies, took);
                Ok(answered.map_err(Failure::WrongReplies))
            }
            Some(Err(cause)) => Ok(Err(Failure::Model(cause))),
            None => {
                flight.fail(part, &Failure::Panicked);
                self.executor.recover().await?;
                Ok(Ok(()))
            }
        }
    }

    /// One call; `None` if it panicked.
    async fn execute(
        &mut self,
        flight: &Flight<T, R, S>,
        part: Range<usize>,
    ) -> Option<Result<(), Cause>> {
        let call = flight.call(part);
        let (executor, replies) = (&mut self.executor, &mut self.replies);
        // In a block of its own, because making the future may panic as well as polling it.
        let mut future = pin!(async { executor.execute(&call, replies).await });
        poll_fn(|context| {
            // UNWIND SAFETY: what panicked is not used again until `recover` has seen to it.
            if let Ok(poll) = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                poll.map(Some)
            } else {
                tracing::error!("a model panicked; its batch is answered with an error");
                Poll::Ready(None)
            }
        })
        .await
    }
}

/// Drives a future on the calling thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // Most have nothing to wait for; only what has needs a way to be woken.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let waker = thread_waker();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
