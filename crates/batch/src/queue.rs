//! The items that may share a call: one queue per key and length bucket, alive while it has any.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use slab::Slab;

use crate::{
    Key, Moment,
    fair::{Fair, Standing},
    slot::{ItemId, Place, ReadyList, Slot},
    sorted::Sorted,
};

/// Items of one key and bucket.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) key: Key,
    pub(crate) bucket: usize,
    /// Items that could go now.
    pub(crate) n_ready: usize,
    /// Their rows.
    pub(crate) rows: usize,
    /// Their cost.
    pub(crate) cost: u64,
    /// How many of them say by when they are wanted.
    pub(crate) n_wanted: usize,
    /// All items, those behind their lane's first too.
    pub(crate) n_items: usize,
    /// Where the queue stands among queues.
    pub(crate) standing: Standing,
    pub(crate) post: Post,
    /// The deadline under which the scheduler finds it.
    pub(crate) noted_expiry: Moment,
    /// Whether it is on the scheduler's list of empty queues.
    pub(crate) is_idle: bool,
    /// Since when its batch is held for company, if it is.
    pub(crate) held_since: Option<Moment>,
    fair: Fair<ItemId>,
    /// Streams with items here. Each has its first item among the contenders.
    streams: FxHashMap<u64, VecDeque<ItemId>>,
    deadlines: Sorted<(Moment, ItemId)>,
    order: ReadyList,
}

/// Where the scheduler has put a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Post {
    /// It has nothing that could go.
    Off,
    /// To be judged when a device is free.
    Due,
    /// Judged; to be judged again then.
    Held(Moment),
}

impl Queue {
    pub(crate) fn new(key: Key, bucket: usize, start: u64) -> Self {
        Self {
            key,
            bucket,
            n_ready: 0,
            rows: 0,
            cost: 0,
            n_wanted: 0,
            n_items: 0,
            standing: Standing { start, urgency: 0 },
            post: Post::Off,
            noted_expiry: Moment::NEVER,
            is_idle: false,
            held_since: None,
            fair: Fair::new(),
            streams: FxHashMap::default(),
            deadlines: Sorted::new(),
            order: ReadyList::default(),
        }
    }

    /// Whose arrivals this queue's are, in the table of gaps.
    pub(crate) fn owner(&self) -> u64 {
        self.key.low64() ^ (self.bucket as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Makes an empty queue cheap to keep.
    pub(crate) fn trim(&mut self) {
        const KEEP: usize = 64;
        self.fair.trim(KEEP);
        self.deadlines.trim(KEEP);
        self.streams = FxHashMap::default();
    }

    /// Notes a new item, ready or not.
    pub(crate) fn admit<P>(&mut self, slots: &Slab<Slot<P>>, id: ItemId) {
        self.n_items += 1;
        let deadline = slots[id.slot].deadline;
        if deadline != Moment::NEVER {
            self.deadlines.insert((deadline, id));
        }
    }

    /// Makes an admitted item ready to go.
    pub(crate) fn enlist<P>(&mut self, slots: &mut Slab<Slot<P>>, id: ItemId, now: Moment) {
        let slot = &mut slots[id.slot];
        slot.ready_at = now;
        slot.standing.start = self.fair.virtual_time();
        slot.place = Place::Contending;
        self.n_ready += 1;
        self.rows += slot.rows;
        self.cost += slot.cost;
        self.n_wanted += usize::from(slot.wanted != Moment::NEVER);
        if let Some(stream) = slot.stream {
            let waiting = self.streams.entry(stream).or_default();
            waiting.push_back(id);
            if 1 < waiting.len() {
                slot.place = Place::BehindStream;
            }
        }
        if slot.place == Place::Contending {
            self.fair.insert(id, slot.standing);
        }
        self.order.push(slots, id.slot);
    }

    /// Who goes next.
    pub(crate) fn first(&self) -> Option<ItemId> {
        self.fair.first()
    }

    /// How many of this stream's items are ahead of a new one.
    pub(crate) fn n_of_stream(&self, stream: u64) -> usize {
        self.streams.get(&stream).map_or(0, VecDeque::len)
    }

    /// Since when the first of the ready ones could have gone.
    pub(crate) fn oldest<P>(&self, slots: &Slab<Slot<P>>) -> Option<Moment> {
        self.order.first().map(|slot| slots[slot].ready_at)
    }

    /// By when the next to go is wanted, where all that are ready say so.
    pub(crate) fn wanted<P>(&self, slots: &Slab<Slot<P>>) -> Option<Moment> {
        let all_say = self.n_wanted == self.n_ready;
        self.first().filter(|_| all_say).map(|id| slots[id.slot].wanted)
    }

    /// The earliest deadline of all its items.
    pub(crate) fn soonest(&self) -> Moment {
        self.deadlines.first().map_or(Moment::NEVER, |&(deadline, _)| deadline)
    }

    /// The item with the earliest deadline, if that has passed.
    pub(crate) fn expired(&self, now: Moment) -> Option<ItemId> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|&(_, id)| id)
    }

    /// Takes the item that goes next out, as served: its stream's next turn is later by its cost.
    pub(crate) fn serve<P>(&mut self, slots: &mut Slab<Slot<P>>, id: ItemId) {
        let slot = &slots[id.slot];
        let (standing, cost) = (slot.standing, slot.cost);
        self.fair.serve(standing);
        self.delist(slots, id, standing.start.saturating_add(cost));
    }

    /// Takes an item out that was not served.
    pub(crate) fn discard<P>(&mut self, slots: &mut Slab<Slot<P>>, id: ItemId) {
        let slot = &slots[id.slot];
        if slot.place == Place::BehindLane {
            self.forget(slot.deadline, id);
        } else {
            let start = slot.standing.start;
            self.delist(slots, id, start);
        }
    }

    fn delist<P>(&mut self, slots: &mut Slab<Slot<P>>, id: ItemId, next_start: u64) {
        let slot = &slots[id.slot];
        self.forget(slot.deadline, id);
        self.n_ready -= 1;
        self.rows -= slot.rows;
        self.cost -= slot.cost;
        self.n_wanted -= usize::from(slot.wanted != Moment::NEVER);
        let (stream, standing, place) = (slot.stream, slot.standing, slot.place);
        if place == Place::Contending {
            self.fair.remove(id, standing);
        }
        self.order.remove(slots, id.slot);
        let Some(stream) = stream else { return };
        let Some(waiting) = self.streams.get_mut(&stream) else { return };
        if let Ok(at) = waiting.binary_search_by_key(&id.seq, |id| id.seq) {
            waiting.remove(at);
        }
        let Some(&next) = waiting.front() else {
            self.streams.remove(&stream);
            return;
        };
        if place == Place::Contending {
            let slot = &mut slots[next.slot];
            slot.place = Place::Contending;
            slot.standing.start = next_start.max(self.fair.virtual_time());
            self.fair.insert(next, slot.standing);
        }
    }

    fn forget(&mut self, deadline: Moment, id: ItemId) {
        self.n_items -= 1;
        if deadline != Moment::NEVER {
            self.deadlines.remove(&(deadline, id));
        }
    }

    /// Whether an item of this urgency would go after every contender that owes nothing.
    pub(crate) fn goes_last(&self, urgency: u64) -> bool {
        self.fair.last_urgency().is_none_or(|last| last <= urgency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_buckets_each_have_arrivals_of_their_own() {
        let owner = |key, bucket| Queue::new(key, bucket, 0).owner();
        let keys = [Key::ANY, Key::of(&1), Key::of(&2)];
        let owners: std::collections::HashSet<u64> =
            keys.iter().flat_map(|&key| (0..8).map(move |bucket| owner(key, bucket))).collect();

        assert_eq!(owners.len(), 24);
    }
}
