//! The batcher as a whole: real tasks, paused clock, exact durations.

mod batching;
mod cancellation;
mod chaos;
mod deadlines;
mod failure;
mod fairness;
mod lanes;
mod lent;
mod shutdown;
mod stepping;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use paceline_batch::{Batcher, Call, Cause, Executor, Reply, Runner, Settings, Tag};
use tokio::time::sleep;

/// Echoes items after a time that depends on how many there are, and remembers each call.
#[derive(Debug, Clone)]
pub(crate) struct Echo {
    pub(crate) fixed: Duration,
    pub(crate) per_item: Duration,
    pub(crate) calls: Arc<Mutex<Vec<Vec<u32>>>>,
    pub(crate) rule: fn(&[u32]) -> Outcome,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    Fails,
    Panics,
    /// The replies come in reverse.
    Reversed,
    /// The last item gets no reply.
    OneShort,
    /// The first item gets two replies, the last none.
    Twin,
    /// This item alone fails.
    ItemFails(u32),
}

impl Echo {
    pub(crate) fn taking(fixed_ms: u64) -> Self {
        Self {
            fixed: Duration::from_millis(fixed_ms),
            per_item: Duration::ZERO,
            calls: Arc::default(),
            rule: |_| Outcome::Good,
        }
    }

    pub(crate) fn with_rule(mut self, rule: fn(&[u32]) -> Outcome) -> Self {
        self.rule = rule;
        self
    }

    pub(crate) fn calls(&self) -> Vec<Vec<u32>> {
        self.calls.lock().unwrap().clone()
    }
}

impl Executor<u32, u32> for Echo {
    async fn execute(
        &mut self,
        call: &Call<'_, u32, u32>,
        replies: &mut Vec<Reply<u32>>,
    ) -> Result<(), Cause> {
        let items: Vec<u32> = call.riders().map(|rider| *rider.item).collect();
        assert_eq!(call.n_items(), items.len());
        assert_eq!(call.rows, call.riders().map(|rider| rider.rows).sum::<usize>());
        self.calls.lock().unwrap().push(items.clone());
        sleep(self.fixed + self.per_item * u32::try_from(items.len()).unwrap()).await;
        let outcome = (self.rule)(&items);
        assert!(outcome != Outcome::Panics, "the model panics, as it was told to");
        if outcome == Outcome::Fails {
            return Err(Cause::from(Box::from("bad batch")));
        }
        replies.extend(call.riders().map(|rider| match outcome {
            Outcome::ItemFails(bad) if bad == *rider.item => {
                Reply::error(rider.id, Cause::from(Box::from("bad item")))
            }
            _ => Reply::ok(rider.id, *rider.item),
        }));
        match outcome {
            Outcome::Reversed => replies.reverse(),
            Outcome::OneShort => drop(replies.pop()),
            Outcome::Twin => {
                let id = replies[0].id;
                replies.last_mut().unwrap().id = id;
            }
            _ => {}
        }
        Ok(())
    }
}

/// A batcher with as many copies of an executor as asked for, running.
pub(crate) fn start(settings: &Settings, executor: &Echo, n_executors: usize) -> Batcher<u32, u32> {
    let (batcher, timekeeper) = Batcher::pair(settings.validate().unwrap());
    tokio::spawn(timekeeper.run());
    for _ in 0..n_executors {
        tokio::spawn(Runner::new(batcher.attach(), executor.clone()).run());
    }
    batcher
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn within(timeout_ms: u64) -> Tag {
    Tag { timeout: Some(millis(timeout_ms)), ..Tag::default() }
}
