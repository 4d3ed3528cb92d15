//! Whether an endpoint may be asked. Pure: whoever drives it says what time it is.

use std::time::Duration;

/// Longest that an endpoint is left alone.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Keeps calls away from an endpoint that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Breaker {
    max_failures: u32,
    first_pause: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is asked; so many failures came in a row.
    Closed(u32),
    /// It is left alone until then, for so long. After that one call or probe may try it.
    Open { until: Duration, pause: Duration },
}

impl Breaker {
    pub(crate) const fn new(max_failures: u32, first_pause: Duration) -> Self {
        Self { max_failures, first_pause, state: State::Closed(0) }
    }

    pub(crate) const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_))
    }

    /// Until when it is left alone, where it is.
    pub(crate) const fn open_until(&self) -> Option<Duration> {
        match self.state {
            State::Closed(_) => None,
            State::Open { until, .. } => Some(until),
        }
    }

    pub(crate) const fn succeeded(&mut self) {
        self.state = State::Closed(0);
    }

    /// It failed at `now`; `at_once` where a single failure of that kind costs too much to wait for
    /// others.
    pub(crate) fn failed(&mut self, now: Duration, at_once: bool) {
        self.state = match self.state {
            State::Closed(failures) if !at_once && failures + 1 < self.max_failures => {
                State::Closed(failures + 1)
            }
            State::Closed(_) => {
                State::Open { until: now + self.first_pause, pause: self.first_pause }
            }
            // Of many calls that were under way when it opened, each would double the pause.
            State::Open { until, .. } if now < until => self.state,
            State::Open { pause, .. } => {
                let pause = (pause * 2).min(MAX_PAUSE);
                State::Open { until: now + pause, pause }
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_opens_after_failures_in_a_row_and_longer_each_time() {
        let mut breaker = Breaker::new(3, SECOND);
        for _ in 0..2 {
            breaker.failed(SECOND, false);
            breaker.failed(SECOND, false);
            assert!(breaker.is_closed());
            breaker.succeeded();
        }
        for _ in 0..3 {
            breaker.failed(SECOND, false);
        }
        assert_eq!(breaker.open_until(), Some(2 * SECOND));

        breaker.failed(SECOND, false);
        assert_eq!(breaker.open_until(), Some(2 * SECOND));
        breaker.failed(2 * SECOND, false);
        assert_eq!(breaker.open_until(), Some(4 * SECOND));
        breaker.succeeded();
        assert!(breaker.is_closed());
    }

    #[test]
    fn a_hang_opens_it_at_once() {
        let mut breaker = Breaker::new(3, SECOND);

        breaker.failed(SECOND, true);

        assert!(!breaker.is_closed());
    }

    proptest! {
        /// Whatever happens: nobody waits for longer than the bound, and a success ends it.
        #[test]
        fn a_pause_is_bounded(steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..100), 0..200)) {
            let mut breaker = Breaker::new(3, SECOND);
            let mut now = Duration::ZERO;
            for (succeeds, at_once, seconds) in steps {
                now += Duration::from_secs(seconds);
                if succeeds {
                    breaker.succeeded();
                    prop_assert!(breaker.is_closed());
                } else {
                    breaker.failed(now, at_once);
                }
                prop_assert!(breaker.open_until().is_none_or(|until| until <= now + MAX_PAUSE));
            }
        }
    }
}
