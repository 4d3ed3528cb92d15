//! The answer to come for one submitted item.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{Failure, FireReason, slot::ItemId};

/// The answer to come. Dropping it withdraws the item if it has not left yet.
#[must_use = "dropping a ticket withdraws its item"]
pub struct Ticket<R> {
    answer: oneshot::Receiver<Answer<R>>,
    /// Where the item is withdrawn from; gone once there is an answer.
    home: Option<Arc<dyn Withdraw>>,
    id: ItemId,
}

/// How one item travelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ride {
    /// Which batch, counted from 1.
    pub batch: u64,
    /// Items that shared the call.
    pub items: usize,
    /// Their rows.
    pub rows: usize,
    /// This item's place among them, from 0.
    pub position: usize,
    /// From when it was accepted until its batch left.
    pub waited: Duration,
    /// From when the batch left until it was answered.
    pub took: Duration,
    /// Why the batch left.
    pub fired: FireReason,
}

pub(crate) type Answer<R> = Result<(R, Ride), Failure>;

/// What a ticket needs of its batcher, without knowing what is batched.
pub(crate) trait Withdraw: Send + Sync {
    fn withdraw(&self, id: ItemId);
}

impl<R> Ticket<R> {
    pub(crate) fn new(
        answer: oneshot::Receiver<Answer<R>>,
        home: Arc<dyn Withdraw>,
        id: ItemId,
    ) -> Self {
        Self { answer, home: Some(home), id }
    }

    /// Waits for the result and for how the item travelled.
    ///
    /// # Errors
    ///
    /// When the item has no result.
    pub fn with_ride(mut self) -> impl Future<Output = Result<(R, Ride), Failure>> + use<R> {
        std::future::poll_fn(move |context| self.poll_answer(context))
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Answer<R>> {
        let answer = ready!(Pin::new(&mut self.answer).poll(context));
        self.home = None;
        // The sender is dropped unanswered only when whoever ran the batch is gone.
        Poll::Ready(answer.unwrap_or(Err(Failure::ExecutorGone)))
    }
}

impl<R> Future for Ticket<R> {
    type Output = Result<R, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(context).map_ok(|(result, _)| result)
    }
}

impl<R> Drop for Ticket<R> {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.withdraw(self.id);
        }
    }
}

impl<R> std::fmt::Debug for Ticket<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("id", &self.id).finish_non_exhaustive()
    }
}
