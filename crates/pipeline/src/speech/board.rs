//! Which rounds are under way and how each of them stands, for whoever wants to look.
//!
//! A round writes its own numbers without a lock; the board is locked when a round begins or ends
//! and when somebody looks. It is as large as there are places for streams.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{Event, RATE, Style};

/// How one round stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundSight {
    /// Tells it from all others of this process.
    pub number: u64,
    /// Who is asked about its audio.
    pub model: Arc<str>,
    /// Whether its utterances are looked for, or every sample goes to the model.
    pub is_segmented: bool,
    /// How long ago it began.
    pub age: Duration,
    /// Samples heard, over all channels.
    pub samples: u64,
    /// Samples that wait, of the channel where most do.
    pub waiting: usize,
    /// Segments with a result, interim ones among them.
    pub segments: u64,
    /// Segments without one.
    pub failed: u64,
    /// Whether somebody is speaking.
    pub is_active: bool,
}

impl RoundSight {
    /// How much audio was heard.
    #[must_use]
    pub fn heard(&self) -> Duration {
        Duration::from_secs_f64(RATE.seconds(self.samples))
    }

    /// How far it is behind.
    #[must_use]
    pub fn behind(&self) -> Duration {
        Duration::from_secs_f64(RATE.seconds(self.waiting as u64))
    }
}

/// All rounds that are under way.
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<BTreeMap<u64, Arc<Pulse>>>);

/// What a round says of itself while it is under way.
#[derive(Debug)]
struct Pulse {
    model: Arc<str>,
    is_segmented: bool,
    began: Instant,
    samples: AtomicU64,
    waiting: AtomicUsize,
    segments: AtomicU64,
    failed: AtomicU64,
    is_active: AtomicBool,
}

impl Board {
    pub(super) fn enter(self: &Arc<Self>, number: u64, model: &Arc<str>, style: &Style) -> Seat {
        let pulse = Arc::new(Pulse {
            model: Arc::clone(model),
            is_segmented: matches!(style, Style::Segmented(_)),
            began: Instant::now(),
            samples: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            segments: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            is_active: AtomicBool::new(false),
        });
        self.change(|rounds| rounds.insert(number, Arc::clone(&pulse)));
        Seat { board: Arc::clone(self), number, pulse }
    }

    /// Every round, the oldest first.
    pub(super) fn look(&self) -> Vec<RoundSight> {
        let now = Instant::now();
        let see = |(&number, pulse): (&u64, &Arc<Pulse>)| RoundSight {
            number,
            model: Arc::clone(&pulse.model),
            is_segmented: pulse.is_segmented,
            age: now.saturating_duration_since(pulse.began),
            samples: pulse.samples.load(Relaxed),
            waiting: pulse.waiting.load(Relaxed),
            segments: pulse.segments.load(Relaxed),
            failed: pulse.failed.load(Relaxed),
            is_active: pulse.is_active.load(Relaxed),
        };
        self.change(|rounds| rounds.iter().map(see).collect())
    }

    fn change<A>(&self, change: impl FnOnce(&mut BTreeMap<u64, Arc<Pulse>>) -> A) -> A {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A round's place on the board, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    board: Arc<Board>,
    number: u64,
    pulse: Arc<Pulse>,
}

impl Seat {
    /// More samples were heard.
    pub(super) fn heard(&self, samples: usize) {
        self.pulse.samples.fetch_add(samples as u64, Relaxed);
    }

    /// So many samples wait now.
    pub(super) fn waits(&self, samples: usize) {
        self.pulse.waiting.store(samples, Relaxed);
    }

    /// The client is going to be told this.
    pub(super) fn said(&self, event: &Event) {
        match event {
            Event::Active { .. } => self.pulse.is_active.store(true, Relaxed),
            Event::Inactive { .. } => self.pulse.is_active.store(false, Relaxed),
            Event::Segment { .. } => _ = self.pulse.segments.fetch_add(1, Relaxed),
            Event::Lost { .. } => _ = self.pulse.failed.fetch_add(1, Relaxed),
            _ => {}
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        drop(self.board.change(|rounds| rounds.remove(&self.number)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_round_is_seen_for_as_long_as_it_lasts() {
        let board = Arc::new(Board::default());
        let model = Arc::from("listener");
        let first = board.enter(7, &model, &Style::Simple);
        tokio::time::advance(Duration::from_secs(3)).await;
        let second = board.enter(8, &model, &Style::Simple);
        first.heard(320);
        first.heard(160);
        first.waits(16_000);
        first.said(&Event::Active { channel: 0, at: 0 });

        let seen = board.look();
        assert_eq!(seen.iter().map(|round| round.number).collect::<Vec<_>>(), [7, 8]);
        assert_eq!((seen[0].samples, seen[0].age), (480, Duration::from_secs(3)));
        assert_eq!(seen[0].behind(), Duration::from_secs(1));
        assert!(seen[0].is_active && !seen[1].is_active);

        first.said(&Event::Inactive { channel: 0, at: 0 });
        assert!(!board.look()[0].is_active);
        drop(first);
        assert_eq!(board.look()[0].number, 8);
        drop(second);
        assert!(board.look().is_empty());
    }
}
