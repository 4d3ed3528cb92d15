//! Lanes: one stream's row in a stateful model. At most one item of a lane is under way, items of
//! a lane go in order, and the lane's state travels with the item.

use std::collections::VecDeque;

use slab::Slab;

use crate::slot::ItemId;

/// All lanes.
#[derive(Debug)]
pub(crate) struct Lanes<S> {
    lanes: Slab<Lane<S>>,
}

#[derive(Debug)]
struct Lane<S> {
    /// Here while none of its items is in a batch.
    state: Option<S>,
    /// Whether an item of it is in a queue or in a batch.
    is_busy: bool,
    /// The items behind that one.
    waiting: VecDeque<ItemId>,
    /// Whether its owner may still submit.
    is_open: bool,
}

impl<S> Default for Lanes<S> {
    fn default() -> Self {
        Self { lanes: Slab::new() }
    }
}

impl<S> Lanes<S> {
    pub(crate) fn open(&mut self, state: S) -> usize {
        self.lanes.insert(Lane {
            state: Some(state),
            is_busy: false,
            waiting: VecDeque::new(),
            is_open: true,
        })
    }

    /// Its owner has left; the lane goes once its items have.
    pub(crate) fn close(&mut self, lane: usize) {
        self.lanes[lane].is_open = false;
        self.sweep(lane);
    }

    /// Whether a new item may go to its queue at once. If so, it is the lane's item under way.
    pub(crate) fn enter(&mut self, lane: usize) -> bool {
        !std::mem::replace(&mut self.lanes[lane].is_busy, true)
    }

    /// A new item lines up behind the one under way.
    pub(crate) fn wait(&mut self, lane: usize, id: ItemId) {
        self.lanes[lane].waiting.push_back(id);
    }

    /// An item boards a batch and takes the state along.
    pub(crate) fn board(&mut self, lane: usize) -> Option<S> {
        self.lanes[lane].state.take()
    }

    /// An item's batch is done: the state is back. Returns who goes next.
    pub(crate) fn leave(&mut self, lane: usize, state: S) -> Option<ItemId> {
        self.lanes[lane].state = Some(state);
        self.skip(lane)
    }

    /// The item under way left its queue without a batch. Returns who goes next.
    pub(crate) fn skip(&mut self, lane: usize) -> Option<ItemId> {
        let entry = &mut self.lanes[lane];
        let next = entry.waiting.pop_front();
        entry.is_busy = next.is_some();
        self.sweep(lane);
        next
    }

    /// An item that was lined up left.
    pub(crate) fn desert(&mut self, lane: usize, id: ItemId) {
        let waiting = &mut self.lanes[lane].waiting;
        if let Ok(at) = waiting.binary_search_by_key(&id.seq, |id| id.seq) {
            waiting.remove(at);
        }
    }

    /// Nobody will run what is lined up.
    pub(crate) fn clear_waiting(&mut self) {
        self.lanes.retain(|_, lane| {
            lane.waiting.clear();
            // The state is here unless an item of it is in a batch.
            lane.is_busy = lane.state.is_none();
            lane.is_open || lane.is_busy
        });
    }

    fn sweep(&mut self, lane: usize) {
        let entry = &self.lanes[lane];
        if !entry.is_open && !entry.is_busy {
            self.lanes.remove(lane);
            if self.lanes.is_empty() {
                self.lanes.shrink_to_fit();
            }
        }
    }
}
