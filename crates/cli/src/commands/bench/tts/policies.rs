//! Who goes with whom: our scheduler in three ways, and the rule it is held against.

use std::{collections::VecDeque, time::Duration};

use paceline_batch::{
    FlightId, Key, Landing, Moment, Next, PolicyName, Scheduler, Settings as Batch, Tag,
};
use paceline_pipeline::synthesis::Pace;
use serde::Serialize;

use super::simulate::call_time;

/// The policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Name {
    /// What the seed built: batches sealed over all voices, run voice by voice.
    Seed,
    /// The seed's numbers in our batcher, which batches each voice for itself.
    Fixed,
    /// Ours, first come first served.
    Fcfs,
    /// Ours.
    Adaptive,
}

impl Name {
    pub(crate) const ALL: [Self; 4] = [Self::Seed, Self::Fixed, Self::Fcfs, Self::Adaptive];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Fixed => "fixed",
            Self::Fcfs => "fcfs",
            Self::Adaptive => "adaptive",
        }
    }

    /// How far ahead listeners ask. The seed's have one chunk under way, always.
    pub(crate) fn pace(self, settings: &Settings) -> Pace {
        match self {
            Self::Seed | Self::Fixed => {
                Pace { ahead: Duration::from_hours(1), in_flight: 1, ..Pace::default() }
            }
            Self::Fcfs | Self::Adaptive => Pace { ahead: settings.ahead, ..Pace::default() },
        }
    }

    pub(crate) fn policy(self, settings: &Settings) -> Box<dyn Policy> {
        match self {
            Self::Seed => Box::new(Seed::default()),
            Self::Fixed | Self::Fcfs | Self::Adaptive => Box::new(Ours::new(self, settings)),
        }
    }
}

/// What can be turned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) max_items: usize,
    pub(crate) max_wait: Duration,
    pub(crate) ahead: Duration,
    pub(crate) patience: Duration,
}

/// What to do with a free vocoder.
#[derive(Debug)]
pub(crate) enum Step {
    Run(Vec<usize>),
    LookAgain(Duration),
    Nothing,
}

/// Who goes with whom. Chunks are known by number.
pub(crate) trait Policy {
    fn offer(&mut self, chunk: usize, voice: usize, wanted: Duration, now: Duration);
    /// The vocoder is free.
    fn next(&mut self, now: Duration) -> Step;
    fn done(&mut self, _took: Duration, _now: Duration) {}
}

/// The product's own scheduler.
struct Ours {
    scheduler: Scheduler<usize>,
    flight: Option<FlightId>,
    name: Name,
}

impl Ours {
    fn new(name: Name, settings: &Settings) -> Self {
        let is_fixed = name == Name::Fixed;
        let batch = Batch {
            policy: if is_fixed { PolicyName::Fixed } else { PolicyName::Adaptive },
            max_items: Some(if is_fixed { 32 } else { settings.max_items }),
            max_wait: Some(if is_fixed { Duration::from_millis(50) } else { settings.max_wait }),
            queue_items: Some(1 << 20),
            patience: Some(settings.patience),
            ..Batch::default()
        };
        let mut scheduler = Scheduler::new(batch.validate().expect("these settings are valid"));
        // As warming up does.
        let sizes = std::iter::successors(Some(1), |rows| Some(rows * 2));
        for rows in sizes.take_while(|rows| *rows <= settings.max_items) {
            scheduler.learn(0, rows, call_time(rows));
        }
        Self { scheduler, flight: None, name }
    }
}

impl Policy for Ours {
    fn offer(&mut self, chunk: usize, voice: usize, wanted: Duration, now: Duration) {
        let wanted = (self.name == Name::Adaptive).then_some(wanted);
        let tag = Tag { key: Key::of(&voice), wanted, ..Tag::default() };
        let taken = self.scheduler.offer(chunk, &tag, None, Moment::at(now));
        assert!(taken.is_ok(), "there is room for everybody");
    }

    fn next(&mut self, now: Duration) -> Step {
        match self.scheduler.next(Moment::at(now)) {
            Next::Batch(batch) => {
                self.flight = Some(batch.flight);
                Step::Run(batch.boarded.iter().map(|chunk| chunk.payload).collect())
            }
            Next::HoldUntil(until) => Step::LookAgain(until.since(Moment::START)),
            Next::Nothing => Step::Nothing,
        }
    }

    fn done(&mut self, took: Duration, now: Duration) {
        if let Some(flight) = self.flight.take() {
            let landing = Landing { took: Some(took), failed: 0, late: 0 };
            self.scheduler.finish(flight, landing, [], Moment::at(now));
        }
    }
}

/// One worker that collects a batch over all voices (a second chunk within 2 ms, then up to 50 ms
/// more, or 80 % of 32), seals it, and runs it voice by voice.
#[derive(Debug, Default)]
struct Seed {
    queue: VecDeque<(usize, usize, Duration)>,
    /// What is being collected.
    batch: Vec<(usize, usize)>,
    /// When the first of it was taken, or when the second was.
    since: Duration,
    /// Of a sealed batch, the chunks of each voice.
    sealed: VecDeque<Vec<usize>>,
}

impl Seed {
    const FAST_PATH: Duration = Duration::from_millis(2);
    const MAX_WAIT: Duration = Duration::from_millis(50);
    /// 80 % of 32.
    const EARLY: usize = 25;

    fn seal(&mut self) {
        let mut voices: Vec<(usize, Vec<usize>)> = Vec::new();
        for (chunk, voice) in self.batch.drain(..) {
            match voices.iter_mut().find(|(own, _)| *own == voice) {
                Some((_, chunks)) => chunks.push(chunk),
                None => voices.push((voice, vec![chunk])),
            }
        }
        self.sealed = voices.into_iter().map(|(_, chunks)| chunks).collect();
    }
}

impl Policy for Seed {
    fn offer(&mut self, chunk: usize, voice: usize, _wanted: Duration, now: Duration) {
        self.queue.push_back((chunk, voice, now));
    }

    fn next(&mut self, now: Duration) -> Step {
        loop {
            if let Some(group) = self.sealed.pop_front() {
                return Step::Run(group);
            }
            while self.batch.len() < Self::EARLY
                && let Some((chunk, voice, _)) = self.queue.pop_front()
            {
                self.batch.push((chunk, voice));
                if self.batch.len() <= 2 {
                    self.since = now;
                }
            }
            let until = match self.batch.len() {
                0 => return Step::Nothing,
                1 => self.since + Self::FAST_PATH,
                _ => self.since + Self::MAX_WAIT,
            };
            if self.batch.len() < Self::EARLY && now < until {
                return Step::LookAgain(until);
            }
            self.seal();
        }
    }
}
