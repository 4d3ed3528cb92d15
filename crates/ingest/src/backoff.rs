//! How long to leave something alone that failed, and when to call it down. Pure.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// After so many failures in a row the circuit is open: the source counts as down.
const OPEN_AFTER: u32 = 5;

/// A circuit breaker: doubling pauses with jitter, closed again by one success.
#[derive(Debug, Clone, Default)]
pub(crate) struct Breaker {
    n_failures: u32,
}

impl Breaker {
    /// It failed again. Says how long to wait; `dice` is from 0 to 1 and keeps those who failed
    /// together from coming back together.
    pub(crate) fn fail(&mut self, dice: f64) -> Duration {
        let doubled = FIRST.saturating_mul(2_u32.saturating_pow(self.n_failures.min(16)));
        self.n_failures = self.n_failures.saturating_add(1);
        let full = doubled.min(LONGEST);
        full / 2 + (full / 2).mul_f64(dice.clamp(0.0, 1.0))
    }

    /// It worked.
    pub(crate) const fn succeed(&mut self) {
        self.n_failures = 0;
    }

    /// Whether it counts as down.
    pub(crate) const fn is_open(&self) -> bool {
        OPEN_AFTER <= self.n_failures
    }

    /// Failures since the last success.
    pub(crate) const fn n_failures(&self) -> u32 {
        self.n_failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_one_success_ends_them() {
        let mut breaker = Breaker::default();
        let pauses: Vec<u128> = (0..8).map(|_| breaker.fail(1.0).as_millis()).collect();

        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(breaker.is_open());
        breaker.succeed();
        assert!(!breaker.is_open());
        assert_eq!(breaker.fail(0.0).as_millis(), 50);
    }
}
