//! The policies. Only [`Adaptive`] is ours; the others are what widely used servers do, reduced
//! to their rule.

use std::{collections::VecDeque, time::Duration};

use paceline_batch::{Buckets, FlightId, Landing, Moment, Next, Scheduler, Settings, Tag};
use rustc_hash::FxHashMap;

use super::scenario::{OBJECTIVE, Scenario, Service};

/// What to do with a free device.
#[derive(Debug)]
pub(crate) enum Step {
    Run(Vec<usize>),
    LookAgain(Duration),
    Nothing,
}

/// A policy in the simulation. Items are known by number.
pub(crate) trait Contender {
    fn name(&self) -> &'static str;
    fn arrive(&mut self, item: usize, length: u32, now: Duration);
    /// A device is free.
    fn next(&mut self, now: Duration) -> Step;
    fn done(&mut self, _items: &[usize], _took: Duration, _now: Duration) {}
}

/// Runs whatever waits as soon as a device is free.
#[derive(Debug)]
pub(crate) struct ZeroWait {
    waiting: VecDeque<usize>,
    max_items: usize,
}

impl ZeroWait {
    pub(crate) const fn new(max_items: usize) -> Self {
        Self { waiting: VecDeque::new(), max_items }
    }
}

impl Contender for ZeroWait {
    fn name(&self) -> &'static str {
        "zero_wait"
    }

    fn arrive(&mut self, item: usize, _length: u32, _now: Duration) {
        self.waiting.push_back(item);
    }

    fn next(&mut self, _now: Duration) -> Step {
        let n_items = self.waiting.len().min(self.max_items);
        if n_items == 0 {
            Step::Nothing
        } else {
            Step::Run(self.waiting.drain(..n_items).collect())
        }
    }
}

/// How long the window policies wait.
const WINDOW: Duration = Duration::from_millis(10);

/// Waits until a batch is full or its first item has been there for a window.
#[derive(Debug)]
pub(crate) struct FixedWindow {
    waiting: VecDeque<(usize, Duration)>,
    max_items: usize,
}

impl FixedWindow {
    pub(crate) const fn new(max_items: usize) -> Self {
        Self { waiting: VecDeque::new(), max_items }
    }
}

impl Contender for FixedWindow {
    fn name(&self) -> &'static str {
        "fixed_window"
    }

    fn arrive(&mut self, item: usize, _length: u32, now: Duration) {
        self.waiting.push_back((item, now));
    }

    fn next(&mut self, now: Duration) -> Step {
        let Some(&(_, first)) = self.waiting.front() else { return Step::Nothing };
        let due = first + WINDOW;
        if self.waiting.len() < self.max_items && now < due {
            return Step::LookAgain(due);
        }
        let n_items = self.waiting.len().min(self.max_items);
        Step::Run(self.waiting.drain(..n_items).map(|(item, _)| item).collect())
    }
}

/// Seals a batch when its window is over, whether or not a device is free to run it.
#[derive(Debug)]
pub(crate) struct SealedWindows {
    open: Vec<usize>,
    opened: Duration,
    sealed: VecDeque<Vec<usize>>,
    max_items: usize,
}

impl SealedWindows {
    pub(crate) const fn new(max_items: usize) -> Self {
        Self { open: Vec::new(), opened: Duration::ZERO, sealed: VecDeque::new(), max_items }
    }

    fn seal(&mut self, now: Duration) {
        let is_over = self.opened + WINDOW <= now || self.open.len() == self.max_items;
        if !self.open.is_empty() && is_over {
            self.sealed.push_back(std::mem::take(&mut self.open));
        }
    }
}

impl Contender for SealedWindows {
    fn name(&self) -> &'static str {
        "sealed_windows"
    }

    fn arrive(&mut self, item: usize, _length: u32, now: Duration) {
        self.seal(now);
        if self.open.is_empty() {
            self.opened = now;
        }
        self.open.push(item);
        self.seal(now);
    }

    fn next(&mut self, now: Duration) -> Step {
        self.seal(now);
        match self.sealed.pop_front() {
            Some(items) => Step::Run(items),
            None if self.open.is_empty() => Step::Nothing,
            None => Step::LookAgain(self.opened + WINDOW),
        }
    }
}

/// Raises its own limit by one while calls keep the objective, and cuts it by a tenth when one
/// does not.
#[derive(Debug)]
pub(crate) struct Aimd {
    queue: ZeroWait,
    max_items: usize,
    limit: f64,
}

impl Aimd {
    pub(crate) const fn new(max_items: usize) -> Self {
        Self { queue: ZeroWait::new(1), max_items, limit: 1.0 }
    }
}

impl Contender for Aimd {
    fn name(&self) -> &'static str {
        "aimd"
    }

    fn arrive(&mut self, item: usize, length: u32, now: Duration) {
        self.queue.arrive(item, length, now);
    }

    fn next(&mut self, now: Duration) -> Step {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 to a small limit"
        )]
        let limit = self.limit as usize;
        self.queue.max_items = limit.clamp(1, self.max_items);
        self.queue.next(now)
    }

    fn done(&mut self, _items: &[usize], took: Duration, _now: Duration) {
        self.limit = if took <= OBJECTIVE { self.limit + 1.0 } else { (self.limit * 0.9).max(1.0) };
        #[expect(clippy::cast_precision_loss, reason = "a limit is small")]
        {
            self.limit = self.limit.min(self.max_items as f64);
        }
    }
}

/// The product's own scheduler with its default settings, told what the others are told.
#[derive(Debug)]
pub(crate) struct Adaptive {
    scheduler: Scheduler<usize>,
    flights: FxHashMap<usize, FlightId>,
}

impl Adaptive {
    /// Its call times are seeded as a warm-up does, at rising batch sizes.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let has_lengths = matches!(scenario.service, Service::PerPaddedLength);
        let settings = Settings {
            max_items: Some(scenario.max_items),
            timeout: Some(OBJECTIVE),
            buckets: if has_lengths { Buckets::PowersOfTwo } else { Buckets::None },
            queue_items: Some(1 << 20),
            ..Settings::default()
        };
        let limits = settings.validate().expect("these settings are valid");
        let mut scheduler = Scheduler::new(limits);
        scheduler.set_devices(scenario.n_devices);
        let quiet = Scenario { noise: 0.0, ..scenario.clone() };
        let lengths = if has_lengths { 0..=11 } else { 0..=0 };
        for bits in lengths {
            let length = if has_lengths { 1_u32 << bits } else { 0 };
            for n_items in std::iter::successors(Some(1), |n| Some(n * 2)) {
                if scenario.max_items < n_items {
                    break;
                }
                let took = quiet.service_time(n_items, length, &mut rand::rng());
                scheduler.learn(length, n_items, took);
            }
        }
        Self { scheduler, flights: FxHashMap::default() }
    }
}

impl Contender for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn arrive(&mut self, item: usize, length: u32, now: Duration) {
        let tag = Tag { length, ..Tag::default() };
        // A refusal is an answer too: it counts as not served.
        drop(self.scheduler.offer(item, &tag, None, Moment::at(now)));
    }

    fn next(&mut self, now: Duration) -> Step {
        let now = Moment::at(now);
        self.scheduler.expire(now);
        let next = self.scheduler.next(now);
        drop(self.scheduler.take_left());
        match next {
            Next::Batch(batch) => {
                let items: Vec<usize> = batch.boarded.iter().map(|item| item.payload).collect();
                self.flights.insert(items[0], batch.flight);
                Step::Run(items)
            }
            Next::HoldUntil(until) => Step::LookAgain(until.since(Moment::START)),
            Next::Nothing => Step::Nothing,
        }
    }

    fn done(&mut self, items: &[usize], took: Duration, now: Duration) {
        if let Some(flight) = self.flights.remove(&items[0]) {
            let landing = Landing { took: Some(took), ..Landing::default() };
            self.scheduler.finish(flight, landing, [], Moment::at(now));
        }
    }
}
