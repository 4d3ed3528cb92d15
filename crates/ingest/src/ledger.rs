//! What became of every frame. Pure counting.
//!
//! Two ledgers are kept. This one counts what this process saw since it started:
//!
//! ```text
//! taken = committed + dropped + dead + lost + duplicate + returned + in flight
//! ```
//!
//! The other lies in Redis, is written in the same atomic step that settles a frame, and so survives
//! every crash: `added = committed + dropped + dead + lost + still in the streams`
//! ([`Totals`](crate::totals::Totals)).

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a frame was dropped on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It was older than its camera's `max_age`.
    Stale,
    /// A newer frame of a camera that keeps the latest arrived before it was begun.
    Superseded,
    /// Its camera is paused.
    Paused,
    /// Its camera is not on the list, or was removed.
    Unlisted,
    /// The memory that its handle pointed to held a later frame by then.
    Overwritten,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 5] =
        [Self::Stale, Self::Superseded, Self::Paused, Self::Unlisted, Self::Overwritten];

    /// As written in metrics and in Redis.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Superseded => "superseded",
            Self::Paused => "paused",
            Self::Unlisted => "unlisted",
            Self::Overwritten => "overwritten",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// How a frame left this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Its result was written, and it was deleted from its stream.
    Committed,
    /// It was dropped on purpose.
    Dropped(Reason),
    /// It was put to the dead letters.
    Dead,
    /// Somebody trimmed it away before it was settled.
    Lost,
    /// It had been settled before, so nothing was written.
    Duplicate,
    /// Its shard was given up; the next owner gets it.
    Returned,
}

/// Counts of this process.
#[derive(Debug, Default)]
pub struct Ledger {
    taken: AtomicU64,
    in_flight: AtomicU64,
    committed: AtomicU64,
    dropped: [AtomicU64; Reason::ALL.len()],
    dead: AtomicU64,
    lost: AtomicU64,
    duplicate: AtomicU64,
    returned: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames read or taken over.
    pub taken: u64,
    /// Of these, not ended yet.
    pub in_flight: u64,
    /// With a result.
    pub committed: u64,
    /// Dropped, in the order of [`Reason::ALL`].
    pub dropped: [u64; Reason::ALL.len()],
    /// Put to the dead letters.
    pub dead: u64,
    /// Trimmed away by somebody before they were settled.
    pub lost: u64,
    /// Settled before.
    pub duplicate: u64,
    /// Left to the next owner.
    pub returned: u64,
}

impl Counts {
    /// All dropped frames.
    #[must_use]
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Whether every frame is accounted for.
    #[must_use]
    pub fn balances(&self) -> bool {
        let ended = self.committed
            + self.all_dropped()
            + self.dead
            + self.lost
            + self.duplicate
            + self.returned;
        self.taken == ended + self.in_flight
    }
}

impl Ledger {
    /// Frames were read or taken over.
    pub fn take(&self, n: u64) {
        self.in_flight.fetch_add(n, Ordering::Relaxed);
        self.taken.fetch_add(n, Ordering::Relaxed);
    }

    /// Frames ended.
    pub fn end(&self, ending: Ending, n: u64) {
        let count = match ending {
            Ending::Committed => &self.committed,
            Ending::Dropped(reason) => &self.dropped[reason.index()],
            Ending::Dead => &self.dead,
            Ending::Lost => &self.lost,
            Ending::Duplicate => &self.duplicate,
            Ending::Returned => &self.returned,
        };
        count.fetch_add(n, Ordering::Relaxed);
        self.in_flight.fetch_sub(n, Ordering::Relaxed);
    }

    /// The counts now. While frames move, one may be seen in two places or in none; at rest they
    /// balance.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            taken: read(&self.taken),
            in_flight: read(&self.in_flight),
            committed: read(&self.committed),
            dropped: std::array::from_fn(|at| read(&self.dropped[at])),
            dead: read(&self.dead),
            lost: read(&self.lost),
            duplicate: read(&self.duplicate),
            returned: read(&self.returned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_where_they_are_listed() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), at);
        }
    }

    #[test]
    fn reasons_are_written_in_metrics_as_they_always_were() {
        assert_eq!(
            Reason::ALL.map(Reason::as_str),
            ["stale", "superseded", "paused", "unlisted", "overwritten"]
        );
    }

    #[test]
    fn a_frame_that_is_nowhere_is_missed() {
        let ledger = Ledger::default();
        ledger.take(3);
        ledger.end(Ending::Committed, 2);
        let counts = ledger.counts();

        assert_eq!((counts.taken, counts.committed, counts.in_flight), (3, 2, 1));
        assert!(counts.balances());
        assert!(!Counts { in_flight: 0, ..counts }.balances());
    }

    #[test]
    fn every_ending_keeps_the_balance() {
        let ledger = Ledger::default();
        ledger.take(20);
        let dropped = Reason::ALL.map(Ending::Dropped);
        for ending in
            [Ending::Committed, Ending::Dead, Ending::Lost, Ending::Duplicate, Ending::Returned]
                .into_iter()
                .chain(dropped)
        {
            ledger.end(ending, 2);
            assert!(ledger.counts().balances(), "{ending:?}");
        }

        assert_eq!(ledger.counts().in_flight, 0);
    }
}
