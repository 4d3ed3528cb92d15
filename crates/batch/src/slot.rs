//! Where an item waits: its place in the slab, and the list that keeps arrivals in order.

use slab::Slab;

use crate::{Moment, fair::Standing};

/// Tells items apart. Never used twice by one batcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemId {
    pub(crate) seq: u64,
    pub(crate) slot: usize,
}

impl ItemId {
    /// The id of no item.
    pub(crate) const NOBODY: Self = Self { seq: u64::MAX, slot: usize::MAX };
}

/// One waiting item.
#[derive(Debug)]
pub(crate) struct Slot<P> {
    pub(crate) payload: P,
    pub(crate) seq: u64,
    pub(crate) queue: usize,
    pub(crate) rows: usize,
    pub(crate) length: u32,
    pub(crate) cost: u64,
    pub(crate) bytes: usize,
    pub(crate) stream: Option<u64>,
    /// To whom its place in the queue counts.
    pub(crate) client: Option<u64>,
    pub(crate) lane: Option<usize>,
    pub(crate) arrived: Moment,
    /// Since when it could have gone: its arrival, or when its lane became free.
    pub(crate) ready_at: Moment,
    pub(crate) deadline: Moment,
    /// By when its answer is wanted; `NEVER` where that is at once.
    pub(crate) wanted: Moment,
    pub(crate) standing: Standing,
    pub(crate) place: Place,
    links: Links,
}

/// What an item waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A device.
    Contending,
    /// Its turn among its own stream's items; it counts as ready to go all the same.
    BehindStream,
    /// The item of its lane that is ahead of it.
    BehindLane,
}

#[derive(Debug, Clone, Copy, Default)]
struct Links {
    before: Option<usize>,
    after: Option<usize>,
}

impl<P> Slot<P> {
    /// An item that is in no list yet.
    pub(crate) fn new(payload: P, seq: u64, queue: usize, now: Moment) -> Self {
        Self {
            payload,
            seq,
            queue,
            rows: 1,
            length: 0,
            cost: 1,
            bytes: 0,
            stream: None,
            client: None,
            lane: None,
            arrived: now,
            ready_at: now,
            deadline: Moment::NEVER,
            wanted: Moment::NEVER,
            standing: Standing::default(),
            place: Place::Contending,
            links: Links::default(),
        }
    }
}

/// Items in the order in which they became ready, threaded through the slab, so that any of them
/// can leave at once.
#[derive(Debug, Default)]
pub(crate) struct ReadyList {
    first: Option<usize>,
    last: Option<usize>,
}

impl ReadyList {
    pub(crate) const fn first(&self) -> Option<usize> {
        self.first
    }

    pub(crate) fn push<P>(&mut self, slots: &mut Slab<Slot<P>>, slot: usize) {
        slots[slot].links = Links { before: self.last, after: None };
        match self.last {
            Some(last) => slots[last].links.after = Some(slot),
            None => self.first = Some(slot),
        }
        self.last = Some(slot);
    }

    pub(crate) fn remove<P>(&mut self, slots: &mut Slab<Slot<P>>, slot: usize) {
        let Links { before, after } = std::mem::take(&mut slots[slot].links);
        match before {
            Some(before) => slots[before].links.after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => slots[after].links.before = before,
            None => self.last = before,
        }
    }
}
