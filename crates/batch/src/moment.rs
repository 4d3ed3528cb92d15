//! Points in time as the policy sees them: nanoseconds since the batcher was made.
//!
//! The policy never reads a clock. Whoever drives it says what time it is, so that the same code
//! runs on the real clock, on tokio's paused one, and in a simulation's virtual time.

use std::time::Duration;

/// A point in time, counted from when the batcher was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// When the batcher was made.
    pub const START: Self = Self(0);
    /// Later than anything that will happen.
    pub const NEVER: Self = Self(u64::MAX);

    /// This long after the start; 584 years at most.
    #[must_use]
    pub fn at(since_start: Duration) -> Self {
        Self(nanos(since_start))
    }

    /// This long after `self`.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(nanos(delay)))
    }

    /// The time from `earlier` to `self`; zero where that is negative.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// A duration in whole nanoseconds, capped at what fits.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Estimates are kept as float nanoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, and times are not negative"
)]
pub(crate) fn to_duration(nanos: f32) -> Duration {
    Duration::from_nanos(nanos as u64)
}
