//! Everything that waits, and what leaves next. Pure: no clock, no task, no lock.
//!
//! Whoever drives it says what time it is. [`Batcher`](crate::Batcher) drives it on tokio's
//! clock; `paceline bench policy` drives the very same code in virtual time.
//!
//! Items wait in one queue per key and length bucket. A queue is *due* (to be judged as soon as a
//! device is free) or *held* (judged: waiting for company pays until then). Nothing is ever
//! scanned: each step costs the logarithm of how many items or queues there are.

mod explain;

use std::{collections::VecDeque, time::Duration};

use rustc_hash::FxHashMap;
use slab::Slab;

use crate::{
    Key, Limits, Moment, Policy, Priority, Refused, Stats, Tag,
    company::Company,
    error::Dropped,
    fair::{Fair, Standing},
    gaps::Gaps,
    lane::Lanes,
    latency::{Curve, Flew, LatencyTable},
    moment::to_duration,
    policy::{self, FireReason, Verdict, View},
    queue::{Post, Queue},
    recent::{BatchRecord, Recent},
    shares::{Part, Shares},
    slot::{ItemId, Place, Slot},
    sorted::Sorted,
};

pub use explain::{Decision, Explanation, Latency, QueueView};

/// Items that wait, each with a payload `P` that is never looked at, and lanes with a state `S`.
#[derive(Debug)]
pub struct Scheduler<P, S = ()> {
    limits: Limits,
    slots: Slab<Slot<P>>,
    queues: Slab<Queue>,
    index: FxHashMap<(Key, usize), usize>,
    /// Queues that are empty, the longest first; a few are kept because their key often comes
    /// back, the others are forgotten.
    idle: VecDeque<usize>,
    due: Fair<usize>,
    held: Sorted<(Moment, usize)>,
    /// The earliest deadline of each queue that has one.
    expiries: Sorted<(Moment, usize)>,
    lanes: Lanes<S>,
    flights: Slab<Flight>,
    latency: LatencyTable,
    company: Company,
    gaps: Gaps,
    /// Who holds what of a queue that is full, or was.
    shares: Option<Box<Shares>>,
    n_bytes: usize,
    next_seq: u64,
    n_devices: usize,
    is_closed: bool,
    /// Nanoseconds.
    resolution: f32,
    left: Vec<(P, Dropped)>,
    stats: Stats,
    recent: Recent,
}

/// A batch that is being worked on, as the scheduler remembers it.
#[derive(Debug)]
struct Flight {
    /// Whose landing will be noted.
    owner: u64,
    /// When it should be done.
    lands: Moment,
    /// What its company is counted from.
    departed: u64,
    /// As it will be remembered.
    record: BatchRecord,
}

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Landing {
    /// How long its one good call took; `None` if that failed.
    pub took: Option<Duration>,
    /// How many of its items have no result.
    pub failed: usize,
    /// How many were answered after their deadline.
    pub late: usize,
}

/// What to do with a free device.
#[derive(Debug)]
pub enum Next<P, S> {
    /// Run this.
    Batch(Batch<P, S>),
    /// Ask again then, or when an item comes.
    HoldUntil(Moment),
    /// Ask again when an item comes.
    Nothing,
}

/// A batch that has left the queue.
#[derive(Debug)]
pub struct Batch<P, S> {
    /// Its items, never none.
    pub boarded: Vec<Boarded<P, S>>,
    /// What it is made of and why it left.
    pub facts: BatchFacts,
    /// What [`Scheduler::finish`] wants to have back.
    pub flight: FlightId,
}

/// Names a batch that is being worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlightId(usize);

impl FlightId {
    /// Names no batch.
    pub(crate) const NONE: Self = Self(usize::MAX);
}

/// One item of a batch.
#[derive(Debug)]
pub struct Boarded<P, S> {
    /// Which item.
    pub id: ItemId,
    /// What was submitted.
    pub payload: P,
    /// How many rows of the batch it takes.
    pub rows: usize,
    /// Its length, as tagged.
    pub length: u32,
    /// How long it waited.
    pub waited: Duration,
    /// When its answer is of no use any more; `NEVER` where it always is.
    pub deadline: Moment,
    /// Its lane and the state that the lane is in.
    pub lane: Option<(usize, S)>,
}

/// What a batch is made of and why it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchFacts {
    /// Counts batches from 1.
    pub number: u64,
    /// What its items have in common.
    pub key: Key,
    /// Its length bucket.
    pub bucket: usize,
    /// Rows of its items.
    pub rows: usize,
    /// Rows that the model is to run: the smallest allowed size that holds them.
    pub padded_rows: usize,
    /// The length that shorter items are padded to: the longest of them.
    pub padded_length: u32,
    /// Why it left.
    pub fired: FireReason,
    /// How long it should take, where that can be told.
    pub predicted: Option<Duration>,
}

impl BatchFacts {
    /// Of no batch.
    pub(crate) const NONE: Self = Self {
        number: 0,
        key: Key::ANY,
        bucket: 0,
        rows: 0,
        padded_rows: 0,
        padded_length: 0,
        fired: FireReason::Full,
        predicted: None,
    };
}

impl<P, S> Scheduler<P, S> {
    /// A scheduler with nothing in it, for one device.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            slots: Slab::new(),
            queues: Slab::new(),
            index: FxHashMap::default(),
            idle: VecDeque::new(),
            due: Fair::new(),
            held: Sorted::new(),
            expiries: Sorted::new(),
            lanes: Lanes::default(),
            flights: Slab::new(),
            latency: LatencyTable::default(),
            company: Company::new(),
            gaps: Gaps::new(),
            shares: None,
            n_bytes: 0,
            next_seq: 0,
            n_devices: 1,
            is_closed: false,
            resolution: 0.0,
            left: Vec::new(),
            stats: Stats::default(),
            recent: Recent::new(),
        }
    }

    /// The limits it keeps.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How many batches can be worked on at once; admission reckons with it.
    pub fn set_devices(&mut self, n_devices: usize) {
        self.n_devices = n_devices.max(1);
    }

    /// By how much whoever drives it may come late to what it holds; holds reckon with it.
    pub fn set_resolution(&mut self, resolution: Duration) {
        self.resolution = resolution.as_secs_f32() * 1e9;
    }

    /// Takes an item in, or says why not and gives its payload back.
    ///
    /// # Errors
    ///
    /// When it can never be served, not in time, or there is no room.
    pub fn offer(
        &mut self,
        payload: P,
        tag: &Tag,
        lane: Option<usize>,
        now: Moment,
    ) -> Result<ItemId, (Refused, P)> {
        let bucket = self.limits.buckets.bucket(tag.length);
        let cost = self.padded_cost(tag, bucket);
        let deadline = match tag.timeout.or(self.limits.timeout) {
            Some(timeout) => now.after(timeout),
            None => Moment::NEVER,
        };
        let wanted = match tag.wanted.filter(|_| self.limits.policy == Policy::Adaptive) {
            Some(wanted) => now.after(wanted),
            None => Moment::NEVER,
        };
        // Whatever is wanted much later waits no longer for those who are wanted at once than this:
        // served at its very last moment, it would be late whenever calls take their turn.
        let patient = deadline.min(now.after(self.limits.patience));
        let urgency = self.urgency(tag.priority, wanted.min(patient));
        let is_hopeless =
            deadline != Moment::NEVER && deadline < self.earliest_answer(tag, urgency, now);
        let mut admitted = self.admit(tag, cost, is_hopeless);
        if let Err(Refused::QueueFull(_) | Refused::QueueBytesFull(_)) = admitted
            && lane.is_none()
            && !is_hopeless
            && self.make_room(tag, now)
        {
            admitted = Ok(());
        }
        if let Err(refused) = admitted {
            self.stats.refused(&refused);
            return Err((refused, payload));
        }

        let queue = self.queue_for(tag.key, bucket);
        let seq = self.next_seq;
        self.next_seq += 1;
        let mut slot = Slot::new(payload, seq, queue, now);
        slot.rows = tag.rows as usize;
        slot.length = tag.length;
        slot.cost = cost;
        slot.bytes = tag.bytes;
        // A lane is a stream of its own, with at most one item that contends.
        slot.stream = tag.stream.filter(|_| lane.is_none());
        // Nothing may be taken out of a lane's order.
        let client = tag.client.filter(|_| lane.is_none());
        slot.client = client;
        slot.lane = lane;
        slot.deadline = deadline;
        slot.wanted = wanted;
        slot.standing.urgency = urgency;
        let goes = lane.is_none_or(|lane| self.lanes.enter(lane));
        if !goes {
            slot.place = Place::BehindLane;
        }
        let id = ItemId { seq, slot: self.slots.insert(slot) };
        if let (Some(shares), Some(client)) = (&mut self.shares, client) {
            shares.enter(id, Part { client, key: tag.key, bytes: tag.bytes });
        }
        if let (false, Some(lane)) = (goes, lane) {
            self.lanes.wait(lane, id);
        }
        self.n_bytes += tag.bytes;
        self.stats.accepted += 1;
        self.queues[queue].admit(&self.slots, id);
        if goes {
            self.enlist(queue, id, now);
        }
        self.note_expiry(queue);
        Ok(id)
    }

    /// Takes an item out whose ticket was dropped; `None` when it has left already.
    pub fn withdraw(&mut self, id: ItemId, now: Moment) -> Option<P> {
        let is_here = self.slots.get(id.slot).is_some_and(|slot| slot.seq == id.seq);
        is_here.then(|| {
            self.stats.dropped(Dropped::Cancelled);
            self.discard(id, now)
        })
    }

    /// What a free device should do.
    pub fn next(&mut self, now: Moment) -> Next<P, S> {
        let mut boarded = Vec::new();
        match self.next_into(&mut boarded, now) {
            Ok((facts, flight)) => Next::Batch(Batch { boarded, facts, flight }),
            Err(Moment::NEVER) => Next::Nothing,
            Err(until) => Next::HoldUntil(until),
        }
    }

    /// As [`next`](Self::next), into memory that the caller has; otherwise, until when to hold.
    pub(crate) fn next_into(
        &mut self,
        boarded: &mut Vec<Boarded<P, S>>,
        now: Moment,
    ) -> Result<(BatchFacts, FlightId), Moment> {
        while let Some((queue, fired)) = self.judge(now) {
            if let Some(formed) = self.form(queue, fired, boarded, now) {
                return Ok(formed);
            }
        }
        Err(self.held_until())
    }

    /// Whether [`next`](Self::next) would give a batch now.
    ///
    /// # Errors
    ///
    /// Until when it would hold, if not; `NEVER` if nothing waits.
    pub fn peek(&mut self, now: Moment) -> Result<(), Moment> {
        match self.judge(now) {
            Some(_) => Ok(()),
            None => Err(self.held_until()),
        }
    }

    fn held_until(&self) -> Moment {
        self.held.first().map_or(Moment::NEVER, |&(until, _)| until)
    }

    /// Drops every item whose deadline has passed; they are in [`take_left`](Self::take_left).
    pub fn expire(&mut self, now: Moment) {
        while let Some(&(deadline, queue)) = self.expiries.first()
            && deadline <= now
        {
            while let Some(id) = self.queues.get(queue).and_then(|queue| queue.expired(now)) {
                self.drop_item(id, Dropped::Expired, now);
            }
        }
    }

    /// When [`expire`](Self::expire) should be called next; `NEVER` when nothing has a deadline.
    #[must_use]
    pub fn next_expiry(&self) -> Moment {
        self.expiries.first().map_or(Moment::NEVER, |&(deadline, _)| deadline)
    }

    /// What was dropped since the last call, for whoever must tell their owners.
    pub fn take_left(&mut self) -> Vec<(P, Dropped)> {
        std::mem::take(&mut self.left)
    }

    /// Whether anything was dropped since the last [`take_left`](Self::take_left).
    #[must_use]
    pub const fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// A batch is done. `lanes` gives back the state of each lane that was in it.
    pub fn finish(
        &mut self,
        flight: FlightId,
        landing: Landing,
        lanes: impl IntoIterator<Item = (usize, S)>,
        now: Moment,
    ) {
        let Flight { owner, record, departed, .. } = self.flights.remove(flight.0);
        self.gaps.landed(owner, now);
        let others = self.company.lands(departed, now.since(record.left), now);
        if let Some(took) = landing.took {
            let ratio =
                self.learn_from(record.facts.bucket, record.facts.padded_rows, took, others);
            self.stats.executed(took, ratio);
        } else {
            self.stats.failed_calls += 1;
        }
        let Landing { failed, late, .. } = landing;
        self.stats.failed += failed as u64;
        self.stats.late += late as u64;
        self.recent.push(BatchRecord { failed, late, took: now.since(record.left), ..record });
        self.free(lanes, now);
    }

    /// A batch was given up before its end, because its items' owners had left or it was too late.
    pub fn give_up(
        &mut self,
        flight: FlightId,
        reason: Dropped,
        lanes: impl IntoIterator<Item = (usize, S)>,
        now: Moment,
    ) {
        let Flight { owner, record, departed, .. } = self.flights.remove(flight.0);
        self.gaps.landed(owner, now);
        self.company.lands(departed, now.since(record.left), now);
        self.stats.dropped(reason);
        self.free(lanes, now);
    }

    /// Learns from a good call that had so much company; actual over predicted, where it was.
    fn learn_from(
        &mut self,
        bucket: usize,
        rows: usize,
        took: Duration,
        others: f32,
    ) -> Option<f32> {
        // Where nothing is merged or divided it need not be known, and times are as they are met.
        let others = if self.limits.max_items == 1 { 0.0 } else { others };
        let slowed = self.company.slowed(others);
        let flew = Flew { slowed, alone: (1.0 - others).max(1.0 / 16.0) };
        let ratio = self.latency.learn(bucket, rows, took, flew)?;
        self.company.learn(ratio * slowed, others);
        Some(ratio)
    }

    /// How many times longer than alone a call takes that leaves now, with others that leave too.
    fn slowed(&self, with: usize) -> f32 {
        let others = (self.flights.len() + with).min(self.n_devices - 1);
        self.company.slowed(as_f32(others))
    }

    /// Takes the state of lanes back, and lets each one's next item go.
    fn free(&mut self, lanes: impl IntoIterator<Item = (usize, S)>, now: Moment) {
        for (lane, state) in lanes {
            if let Some(next) = self.lanes.leave(lane, state) {
                let queue = self.slots[next.slot].queue;
                self.enlist(queue, next, now);
            }
        }
    }

    /// Learns how long a call takes without one having been asked for, as warm-up runs do.
    pub fn learn(&mut self, length: u32, rows: usize, took: Duration) {
        let bucket = self.limits.buckets.bucket(length);
        self.latency.teach(bucket, self.limits.padded_rows(rows), took);
    }

    /// From now on steps are counted as batches, and not what leaves the queue.
    pub(crate) const fn count_steps(&mut self) {
        self.stats.counts_steps = true;
    }

    /// A step was made for so many.
    pub(crate) fn stepped(&mut self, n_aboard: usize) {
        self.stats.batch_rows.record(n_aboard as u64);
    }

    /// Takes no more items; those that wait leave without waiting for company.
    pub fn close(&mut self) {
        self.is_closed = true;
        while let Some(&(_, queue)) = self.held.first() {
            self.post_due(queue);
        }
    }

    /// Whether it takes no more items.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// How many items wait.
    #[must_use]
    pub fn n_waiting(&self) -> usize {
        self.slots.len()
    }

    /// Takes everything out that waits, unanswered, because nobody will ever run it.
    pub fn abandon(&mut self) -> Vec<P> {
        self.is_closed = true;
        let slots = std::mem::take(&mut self.slots);
        self.reset();
        self.lanes.clear_waiting();
        slots.into_iter().map(|(_, slot)| slot.payload).collect()
    }

    /// Opens a lane that begins in this state; items name it by the number that is returned.
    pub fn open_lane(&mut self, state: S) -> usize {
        self.lanes.open(state)
    }

    /// The lane's owner has left; the lane goes once its items have.
    pub fn close_lane(&mut self, lane: usize) {
        self.lanes.close(lane);
    }

    /// Whether an item would be refused for want of room.
    pub(crate) fn has_room(&self, tag: &Tag) -> bool {
        self.is_closed
            || (self.slots.len() < self.limits.queue_items
                && tag.bytes <= self.limits.queue_bytes - self.n_bytes)
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        stats.waiting_items = self.slots.len();
        stats.waiting_bytes = self.n_bytes;
        stats.in_flight = self.flights.len();
        stats
    }

    /// The batches that landed after the one with this sequence number: at most the newest so
    /// many, of those that are kept, oldest first.
    #[must_use]
    pub fn landed_after(&self, sequence: u64, most: usize) -> Vec<BatchRecord> {
        self.recent.after(sequence, most)
    }

    fn admit(&self, tag: &Tag, cost: u64, is_hopeless: bool) -> Result<(), Refused> {
        let Limits { max_items, max_cost, queue_items, queue_bytes, .. } = self.limits;
        let rows = tag.rows as usize;
        if self.is_closed {
            Err(Refused::Closed)
        } else if max_items < rows || rows == 0 {
            Err(Refused::TooManyRows { rows, max: max_items })
        } else if max_cost < cost {
            Err(Refused::TooCostly { cost, max: max_cost })
        } else if queue_bytes < tag.bytes {
            Err(Refused::TooManyBytes { bytes: tag.bytes, max: queue_bytes })
        } else if queue_items <= self.slots.len() {
            Err(Refused::QueueFull(self.slots.len()))
        } else if queue_bytes - self.n_bytes < tag.bytes {
            Err(Refused::QueueBytesFull(self.n_bytes))
        } else if is_hopeless {
            Err(Refused::Hopeless)
        } else {
            Ok(())
        }
    }

    /// When an item could be answered at the very earliest; the start of time where nothing is
    /// known.
    fn earliest_answer(&self, tag: &Tag, urgency: u64, now: Moment) -> Moment {
        if self.limits.policy != Policy::Adaptive {
            return Moment::START;
        }
        let bucket = self.limits.buckets.bucket(tag.length);
        let Some(curve) = self.latency.curve(bucket) else { return Moment::START };
        let free = if self.flights.len() < self.n_devices {
            now
        } else {
            self.flights.iter().map(|(_, flight)| flight.lands).min().unwrap_or(now).max(now)
        };
        // Only what certainly goes first is counted: a stream's own items, or, where the item
        // would be the last of its queue, all of that.
        let ahead = self.index.get(&(tag.key, bucket)).map_or(0, |&queue| {
            let queue = &self.queues[queue];
            match tag.stream {
                Some(stream) => queue.n_of_stream(stream),
                None if queue.goes_last(urgency) => queue.rows,
                None => 0,
            }
        });
        let max_items = self.limits.max_items;
        let calls_ahead = u32::try_from(ahead / max_items).unwrap_or(u32::MAX);
        let devices = u32::try_from(self.n_devices).unwrap_or(u32::MAX);
        let full = to_duration(self.mean(curve, max_items));
        let own = to_duration(self.mean(curve, tag.rows as usize));
        free.after(full.saturating_mul(calls_ahead) / devices).after(own)
    }

    /// What an item counts for where its length is padded to its bucket's edge.
    fn padded_cost(&self, tag: &Tag, bucket: usize) -> u64 {
        let Some(edge) = self.limits.buckets.edge(bucket).filter(|_| 0 < tag.length) else {
            return tag.cost;
        };
        let padded = u128::from(tag.cost) * u128::from(edge);
        u64::try_from(padded.div_ceil(u128::from(tag.length))).unwrap_or(u64::MAX)
    }

    /// What an item is measured against: when it is wanted, or else its deadline, or where it has
    /// none, a patience after its arrival; each priority level below the first is one patience more.
    fn urgency(&self, priority: Priority, own: Moment) -> u64 {
        let patience = self.limits.patience;
        own.after(patience.saturating_mul(u32::from(priority.number()))).as_nanos()
    }

    /// Nanoseconds for which devices may be taken by others before an item of this length has its
    /// turn: by a call that has just begun, and by every other queue that waits.
    fn reserve(&self, curve: &Curve) -> f32 {
        let n_queues = (self.due.len() + self.held.len()).max(1);
        let each = self.slots.len().div_ceil(n_queues).min(self.limits.max_items);
        let others = self.mean(curve, each) * as_f32(n_queues - 1);
        // Twice: as much again may come meanwhile.
        2.0 * (self.mean(curve, self.limits.max_items) + others) / as_f32(self.n_devices)
    }

    fn queue_for(&mut self, key: Key, bucket: usize) -> usize {
        let start = self.due.virtual_time();
        let queue = *self
            .index
            .entry((key, bucket))
            .or_insert_with(|| self.queues.insert(Queue::new(key, bucket, start)));
        let entry = &mut self.queues[queue];
        if entry.n_items == 0 {
            // Debts are forgiven to whoever had nothing more to ask for.
            entry.standing.start = start;
        }
        queue
    }

    /// Makes an item ready to go, and its queue due.
    fn enlist(&mut self, queue: usize, id: ItemId, now: Moment) {
        let entry = &mut self.queues[queue];
        // Of a key that nobody else has, there is no next arrival.
        if !entry.key.is_unique() {
            self.gaps.arrived(entry.owner(), now);
        }
        entry.enlist(&mut self.slots, id, now);
        self.post_due(queue);
    }

    /// Puts a queue among those to be judged, where it belongs by its most urgent item.
    fn post_due(&mut self, queue: usize) {
        let entry = &self.queues[queue];
        let first = entry.first();
        let urgency = first.map(|id| self.slots[id.slot].standing.urgency);
        if entry.post == Post::Due && urgency == Some(entry.standing.urgency) {
            return;
        }
        self.take_off(queue);
        if let Some(urgency) = urgency {
            let entry = &mut self.queues[queue];
            entry.standing.urgency = urgency;
            entry.post = Post::Due;
            self.due.insert(queue, entry.standing);
        }
    }

    fn take_off(&mut self, queue: usize) {
        let entry = &mut self.queues[queue];
        match std::mem::replace(&mut entry.post, Post::Off) {
            Post::Off => {}
            Post::Due => self.due.remove(queue, entry.standing),
            Post::Held(until) => {
                self.held.remove(&(until, queue));
            }
        }
    }

    /// The first queue whose batch should leave now. Those that should not are held.
    fn judge(&mut self, now: Moment) -> Option<(usize, FireReason)> {
        while let Some(&(until, queue)) = self.held.first()
            && until <= now
        {
            self.post_due(queue);
        }
        while let Some(queue) = self.due.first() {
            match policy::judge(&self.view(&self.queues[queue], now), now).verdict {
                Verdict::Fire(reason) => return Some((queue, reason)),
                Verdict::Hold(until) => {
                    self.take_off(queue);
                    let entry = &mut self.queues[queue];
                    entry.held_since.get_or_insert(now);
                    entry.post = Post::Held(until);
                    self.held.insert((until, queue));
                }
            }
        }
        None
    }

    /// What the policy sees of a queue.
    fn view<'a>(&'a self, queue: &'a Queue, now: Moment) -> View<'a> {
        let curve = self.latency.curve(queue.bucket);
        let wanted = queue.wanted(&self.slots);
        View {
            limits: &self.limits,
            curve,
            since: self.gaps.since(queue.owner()),
            n_items: queue.n_ready,
            rows: queue.rows,
            is_full: self.limits.max_items <= queue.rows || self.limits.max_cost <= queue.cost,
            oldest: queue.oldest(&self.slots).unwrap_or(now),
            soonest: queue.soonest(),
            wanted,
            reserve: wanted.and(curve).map_or(0.0, |curve| self.reserve(curve)),
            slowed: self.slowed(0),
            beside: self.slowed(1),
            held_since: queue.held_since,
            is_closing: self.is_closed,
            resolution: self.resolution,
        }
    }

    /// Makes the batch of a queue. `None` when everything in it had to be dropped.
    fn form(
        &mut self,
        queue: usize,
        fired: FireReason,
        boarded: &mut Vec<Boarded<P, S>>,
        now: Moment,
    ) -> Option<(BatchFacts, FlightId)> {
        self.take_off(queue);
        let max_rows = self.batch_rows(queue, now);
        let is_cut = fired == FireReason::Full && max_rows < self.limits.max_items;
        let fired = if is_cut { FireReason::Early } else { fired };
        boarded.reserve(self.queues[queue].n_ready.min(max_rows));
        let (mut rows, mut cost, mut padded_length, mut lengths) = (0, 0_u64, 0, 0_u64);
        while let Some(id) = self.queues[queue].first() {
            let slot = &self.slots[id.slot];
            // In order: what does not fit ends the batch, so that large items are not passed by. The
            // first always goes, also where it has more rows than the batch should: a limit that it
            // exceeds would have kept it out.
            let fits = rows + slot.rows <= max_rows
                && cost.saturating_add(slot.cost) <= self.limits.max_cost;
            if !fits && !boarded.is_empty() {
                break;
            }
            let window = (rows + self.queues[queue].rows).min(max_rows);
            if let Some(reason) = self.too_late(slot.deadline, queue, window, now) {
                self.stats.dropped(reason);
                let payload = self.remove(id, now);
                self.left.push((payload, reason));
                continue;
            }
            rows += slot.rows;
            cost += slot.cost;
            padded_length = padded_length.max(slot.length);
            lengths += u64::from(slot.length) * slot.rows as u64;
            self.queues[queue].serve(&mut self.slots, id);
            boarded.push(self.board(id, now));
        }
        if boarded.is_empty() {
            self.settle(queue);
            return None;
        }
        let owner = self.queues[queue].owner();
        let facts = self.depart(queue, fired, rows, padded_length);
        let record = self.stats.fired(facts, boarded.iter().map(|item| item.waited), lengths, now);
        let lands = facts.predicted.map_or(Moment::START, |predicted| now.after(predicted));
        let departed = self.company.departs(now);
        let flight = self.flights.insert(Flight { owner, lands, departed, record });
        Some((facts, FlightId(flight)))
    }

    /// How many rows the next batch of a queue may have. Where sizes are given, rows that would
    /// cost more in padding than in a call of their own are left for the next one.
    fn batch_rows(&self, queue: usize, now: Moment) -> usize {
        let entry = &self.queues[queue];
        let Some(curve) = self.latency.curve(entry.bucket) else { return self.limits.max_items };
        let share = self.share(entry, curve, now);
        let rows = entry.rows.min(share);
        let Some(filled) = self.limits.filled_size(rows) else { return share };
        let merged = self.mean(curve, rows);
        let split = self.mean(curve, filled) + self.mean(curve, rows - filled);
        if split < merged { filled } else { share }
    }

    /// How many rows of what waits one device should take: all that fit, or, where other devices are
    /// free, a share.
    ///
    /// A crowd that is divided is answered sooner and takes more of devices: of two halves each
    /// takes less than the whole, and both together more. So it is divided among as many devices
    /// as make the time of all items and all devices together the least. An item's time counts as
    /// much as a device's, as it does where a batch is held for company; but a device's counts only
    /// as far as somebody is likely to come who would want it meanwhile. Without this, clients that
    /// wait for their answers, once they came together, would share one device for ever beside
    /// others that have nothing to do.
    fn share(&self, queue: &Queue, curve: &Curve, now: Moment) -> usize {
        let max_items = self.limits.max_items;
        let fewest = queue.rows.div_ceil(max_items);
        // Other queues that wait want a device too.
        let n_taken = self.flights.len() + self.due.len();
        let n_free = self.n_devices.saturating_sub(n_taken).min(queue.rows);
        if n_free < fewest.max(2) || self.limits.policy != Policy::Adaptive {
            return max_items;
        }
        let since = self.gaps.since(queue.owner());
        let cost = |n_calls: usize| {
            let rows = self.limits.padded_rows(queue.rows.div_ceil(n_calls));
            let takes = curve.mean(rows) * self.slowed(n_calls - 1);
            let wanted = since.map_or(1.0, |since| since.chance(takes, now));
            (as_f32(queue.n_ready) + wanted * as_f32(n_calls)) * takes
        };
        let (mut n_calls, mut least) = (fewest, cost(fewest));
        for more in fewest + 1..=n_free {
            let cost = cost(more);
            if cost < least {
                (n_calls, least) = (more, cost);
            }
        }
        if n_calls == 1 { max_items } else { queue.rows.div_ceil(n_calls) }
    }

    /// Whether an item can no longer be answered in time by a batch of `rows` rows.
    ///
    /// The batch is never made smaller to save it: that saves one item and loses the many that a
    /// small batch leaves behind, again at the next batch, until almost every item is late.
    fn too_late(
        &self,
        deadline: Moment,
        queue: usize,
        rows: usize,
        now: Moment,
    ) -> Option<Dropped> {
        if deadline == Moment::NEVER {
            return None;
        }
        if deadline <= now {
            return Some(Dropped::Expired);
        }
        if self.limits.policy != Policy::Adaptive {
            return None;
        }
        let curve = self.latency.curve(self.queues[queue].bucket)?;
        let takes = to_duration(curve.high(self.limits.padded_rows(rows)) * self.slowed(0));
        (deadline < now.after(takes)).then_some(Dropped::TooLate)
    }

    /// Takes a served item on board.
    fn board(&mut self, id: ItemId, now: Moment) -> Boarded<P, S> {
        let slot = self.take_slot(id);
        Boarded {
            id,
            payload: slot.payload,
            rows: slot.rows,
            length: slot.length,
            waited: now.since(slot.arrived),
            deadline: slot.deadline,
            lane: slot.lane.and_then(|lane| Some((lane, self.lanes.board(lane)?))),
        }
    }

    /// Notes that a batch of this queue has left, and charges the queue for its device time.
    fn depart(
        &mut self,
        queue: usize,
        fired: FireReason,
        rows: usize,
        padded_length: u32,
    ) -> BatchFacts {
        // ORDER: off its post before its standing changes, because the standing is how it is found.
        self.take_off(queue);
        let entry = &self.queues[queue];
        let (key, bucket) = (entry.key, entry.bucket);
        let padded_rows = self.limits.padded_rows(rows);
        let curve = self.latency.curve(bucket);
        let predicted = curve.map(|curve| to_duration(self.mean(curve, rows)));
        let charge = crate::moment::nanos(predicted.unwrap_or(Duration::from_millis(1)));
        let entry = &mut self.queues[queue];
        entry.held_since = None;
        let start = entry.standing.start.max(self.due.virtual_time());
        self.due.serve(Standing { start, urgency: 0 });
        self.queues[queue].standing.start = start.saturating_add(charge);
        self.settle(queue);
        self.stats.n_batches += 1;
        BatchFacts {
            number: self.stats.n_batches,
            key,
            bucket,
            rows,
            padded_rows,
            padded_length,
            fired,
            predicted,
        }
    }

    fn drop_item(&mut self, id: ItemId, reason: Dropped, now: Moment) {
        self.stats.dropped(reason);
        let payload = self.discard(id, now);
        self.left.push((payload, reason));
    }

    /// Takes an item out of the slab, and out of its client's share.
    fn take_slot(&mut self, id: ItemId) -> Slot<P> {
        let slot = self.slots.remove(id.slot);
        self.n_bytes -= slot.bytes;
        if let Some(shares) = &mut self.shares {
            let Limits { queue_items, queue_bytes, .. } = self.limits;
            if self.slots.len() < queue_items / 2 && self.n_bytes < queue_bytes / 2 {
                self.shares = None;
            } else if let Some(client) = slot.client {
                let (key, bytes) = (self.queues[slot.queue].key, slot.bytes);
                shares.leave(id, Part { client, key, bytes });
            }
        }
        slot
    }

    /// Lets the newest items of whoever waits with most give way to a new one, as many as it takes;
    /// `false` where they may not, and then nothing was done.
    fn make_room(&mut self, tag: &Tag, now: Moment) -> bool {
        /// Most that give way to one; whatever needs more is larger than its share.
        const MOST: usize = 64;
        let Some(client) = tag.client else { return false };
        let shares = self.shares.take().unwrap_or_else(|| Box::new(self.count_shares()));
        let shares = self.shares.insert(shares);
        let new = Part { client, key: tag.key, bytes: tag.bytes };
        let Some((items, mut excess)) = shares.who_gives_way(new) else { return false };
        let mut n_items = (self.slots.len() + 1).saturating_sub(self.limits.queue_items);
        let mut n_bytes = (self.n_bytes + tag.bytes).saturating_sub(self.limits.queue_bytes);
        let mut leaving = Vec::new();
        for id in items.take(MOST) {
            if n_items == 0 && n_bytes == 0 {
                break;
            }
            let bytes = self.slots[id.slot].bytes;
            let Some(left) = excess.checked_sub(shares.weight(bytes)) else { return false };
            excess = left;
            n_items = n_items.saturating_sub(1);
            n_bytes = n_bytes.saturating_sub(bytes);
            leaving.push(id);
        }
        if 0 < n_items || 0 < n_bytes {
            return false;
        }
        for id in leaving {
            self.drop_item(id, Dropped::GaveWay, now);
        }
        true
    }

    /// Who holds what of the queue now.
    fn count_shares(&self) -> Shares {
        let mut waiting: Vec<_> = self.slots.iter().collect();
        waiting.sort_unstable_by_key(|(_, slot)| slot.seq);
        let mut shares = Shares::new(&self.limits);
        for (at, slot) in waiting {
            if let Some(client) = slot.client {
                let (key, bytes) = (self.queues[slot.queue].key, slot.bytes);
                shares.enter(ItemId { seq: slot.seq, slot: at }, Part { client, key, bytes });
            }
        }
        shares
    }

    /// Takes an item out, and puts its queue where it now belongs.
    fn discard(&mut self, id: ItemId, now: Moment) -> P {
        let queue = self.slots[id.slot].queue;
        let payload = self.remove(id, now);
        self.settle(queue);
        payload
    }

    /// Takes an item out of its queue and its lane. The queue must be settled afterwards.
    fn remove(&mut self, id: ItemId, now: Moment) -> P {
        let slot = &self.slots[id.slot];
        let (queue, lane, place) = (slot.queue, slot.lane, slot.place);
        self.queues[queue].discard(&mut self.slots, id);
        let slot = self.take_slot(id);
        if let Some(lane) = lane {
            let next = if place == Place::BehindLane {
                self.lanes.desert(lane, id);
                None
            } else {
                self.lanes.skip(lane)
            };
            if let Some(next) = next {
                let queue = self.slots[next.slot].queue;
                self.enlist(queue, next, now);
            }
        }
        slot.payload
    }

    /// After items left: puts the queue where it now belongs, or forgets it.
    fn settle(&mut self, queue: usize) {
        let entry = &mut self.queues[queue];
        if entry.n_items == 0 {
            entry.held_since = None;
            self.take_off(queue);
            self.note_expiry(queue);
            self.retire(queue);
        } else {
            // A held queue that lost items may have nothing left to wait for; judge it again.
            self.post_due(queue);
            self.note_expiry(queue);
        }
    }

    /// Notes that a queue is empty, and forgets the one that has been for longest if too many are.
    fn retire(&mut self, queue: usize) {
        const KEEP: usize = 8;
        let entry = &mut self.queues[queue];
        if entry.key.is_unique() {
            let entry = self.queues.remove(queue);
            self.index.remove(&(entry.key, entry.bucket));
        } else if !std::mem::replace(&mut entry.is_idle, true) {
            entry.trim();
            self.idle.push_back(queue);
        }
        while KEEP < self.idle.len()
            && let Some(oldest) = self.idle.pop_front()
        {
            let entry = &mut self.queues[oldest];
            entry.is_idle = false;
            if entry.n_items == 0 {
                let entry = self.queues.remove(oldest);
                self.index.remove(&(entry.key, entry.bucket));
            }
        }
        self.trim();
    }

    /// Keeps `expiries` true for a queue.
    fn note_expiry(&mut self, queue: usize) {
        let entry = &mut self.queues[queue];
        let soonest = entry.soonest();
        let noted = std::mem::replace(&mut entry.noted_expiry, soonest);
        if noted != soonest {
            if noted != Moment::NEVER {
                self.expiries.remove(&(noted, queue));
            }
            if soonest != Moment::NEVER {
                self.expiries.insert((soonest, queue));
            }
        }
    }

    /// Gives memory back that a past crowd needed, once nothing waits any more.
    fn trim(&mut self) {
        const KEEP: usize = 256;
        let crowd = self.slots.capacity().max(self.queues.capacity()).max(self.index.capacity());
        if self.slots.is_empty() && KEEP < crowd {
            self.reset();
        }
    }

    /// Forgets everything that is kept for waiting items.
    fn reset(&mut self) {
        self.slots = Slab::new();
        self.queues = Slab::new();
        self.index = FxHashMap::default();
        self.idle = VecDeque::new();
        self.due = Fair::new();
        self.held.clear();
        self.expiries.clear();
        self.shares = None;
        self.n_bytes = 0;
    }

    /// The mean time of a call of `rows` rows that leaves now, padded as it would be.
    fn mean(&self, curve: &Curve, rows: usize) -> f32 {
        curve.mean(self.limits.padded_rows(rows)) * self.slowed(0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "few queues, few rows")]
fn as_f32(count: usize) -> f32 {
    count as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use proptest::prelude::*;

    /// Room for eight items and a hundred bytes.
    fn small() -> Scheduler<()> {
        let settings = Settings {
            max_items: Some(4),
            queue_items: Some(8),
            queue_bytes: Some(100),
            ..Settings::default()
        };
        Scheduler::new(settings.validate().unwrap())
    }

    /// Whether shares are counted once so many are left of a queue that was full; the oldest item
    /// holds so much of a hundred bytes.
    fn counts_shares(n_left: usize, oldest: usize) -> bool {
        let mut scheduler = small();
        let mut offer = |client, bytes| {
            let tag = Tag { client: Some(client), bytes, ..Tag::default() };
            scheduler.offer((), &tag, None, Moment::START).unwrap()
        };
        let mut ids = vec![offer(1, oldest)];
        ids.extend((1..8).map(|_| offer(1, 0)));
        // The newest of the first client's gives way.
        *ids.last_mut().unwrap() = offer(2, 0);
        assert!(scheduler.shares.is_some());
        for id in ids.drain(n_left..).rev() {
            scheduler.withdraw(id, Moment::START).unwrap();
        }
        scheduler.shares.is_some()
    }

    #[test]
    fn shares_are_counted_until_a_full_queue_is_half_empty() {
        assert!(counts_shares(7, 0) && counts_shares(4, 0) && !counts_shares(3, 0), "of places");
        assert!(counts_shares(1, 50) && !counts_shares(1, 49), "and of memory");
    }

    proptest! {
        #[test]
        fn there_is_room_exactly_where_an_item_is_not_refused_for_want_of_it(
            sizes in prop::collection::vec(1_usize..40, 1..40),
            is_closed: bool,
        ) {
            let mut scheduler = small();
            for bytes in sizes {
                let tag = Tag { bytes, ..Tag::default() };
                let has_room = scheduler.has_room(&tag);
                let offered = scheduler.offer((), &tag, None, Moment::START);
                let is_full = matches!(
                    offered,
                    Err((Refused::QueueFull(_) | Refused::QueueBytesFull(_), ()))
                );
                prop_assert_eq!(has_room, !is_full);
            }
            if is_closed {
                scheduler.close();
                prop_assert!(scheduler.has_room(&Tag::default()), "whoever waits is told");
            }
        }
    }
}
