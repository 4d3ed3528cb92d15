//! The loop of one executor: pull a batch, run it, answer it, find the bad item if it failed.

use std::{
    future::{Future, poll_fn},
    marker::PhantomData,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::{Context, Poll},
};

use crate::{
    Cause, Executor, Failure, Puller,
    executor::Reply,
    puller::{Flight, thread_waker},
};

/// One executor and its end of the batcher. Runs until the batcher is closed and empty.
#[derive(Debug)]
pub struct Runner<E, T, R, S = ()> {
    puller: Puller<T, R, S>,
    executor: E,
    _items: PhantomData<fn(T, S) -> R>,
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
        Self { puller, executor, _items: PhantomData }
    }

    /// Runs as a task. Dropping the future in mid-call answers the items of that call.
    ///
    /// # Errors
    ///
    /// When the executor panicked and could not recover.
    pub async fn run(mut self) -> Result<(), Cause> {
        while let Some(flight) = self.puller.pull().await {
            self.fly(flight).await?;
        }
        Ok(())
    }

    /// Runs on the calling thread, for models that compute rather than wait.
    ///
    /// # Errors
    ///
    /// When the executor panicked and could not recover.
    pub fn run_blocking(mut self) -> Result<(), Cause> {
        while let Some(flight) = self.puller.pull_blocking() {
            block_on(self.fly(flight))?;
        }
        Ok(())
    }

    /// Runs a batch; if it fails, runs its halves, and so on, while calls may be spent on that.
    async fn fly(&mut self, mut flight: Flight<T, R, S>) -> Result<(), Cause> {
        let whole = 0..flight.riders().len();
        let mut split_calls = self.puller.split_calls();
        let mut parts = vec![whole.clone()];
        while let Some(part) = parts.pop() {
            let started = flight.now();
            let outcome = self.execute(&flight, part.clone()).await;
            let took = flight.now().since(started);
            let failure = match outcome {
                Some(Ok(replies)) => match flight.answer(part.clone(), replies, took) {
                    Ok(()) => {
                        if part == whole {
                            flight.note_time(took);
                        }
                        continue;
                    }
                    Err(wrong) => Failure::WrongReplies(wrong),
                },
                Some(Err(cause)) => Failure::Model(cause),
                None => {
                    flight.fail(part, &Failure::Panicked);
                    self.executor.recover().await?;
                    continue;
                }
            };
            if part.len() == 1 || split_calls < 2 {
                tracing::debug!(%failure, items = part.len(), "call failed");
                flight.fail(part, &failure);
            } else {
                split_calls -= 2;
                let middle = part.start + part.len() / 2;
                parts.push(middle..part.end);
                parts.push(part.start..middle);
            }
        }
        Ok(())
    }

    /// One call; `None` if it panicked.
    async fn execute(
        &mut self,
        flight: &Flight<T, R, S>,
        part: Range<usize>,
    ) -> Option<Result<Vec<Reply<R, S>>, Cause>> {
        let call = flight.call(part);
        let executor = &mut self.executor;
        // In a block of its own, because making the future may panic as well as polling it.
        let mut future = pin!(async { executor.execute(&call).await });
        poll_fn(|context| {
            // UNWIND SAFETY: what panicked is not used again until `recover` has seen to it.
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                Ok(poll) => poll.map(Some),
                Err(_) => {
                    tracing::error!("a model panicked; its batch is answered with an error");
                    Poll::Ready(None)
                }
            }
        })
        .await
    }
}

/// Drives a future on the calling thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = thread_waker();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
