//! When a worker that died is started again, and when it has died too often. Pure.

use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// So many lives in a row without an answer are a crash loop.
const LOOP: u32 = 3;

/// Counts lives that came to nothing.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    n_fruitless: u32,
}

/// What to do about a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restart {
    /// How long to wait before the next life.
    pub(crate) pause: Duration,
    /// Whether the worker dies again and again, so that nobody should wait for it.
    pub(crate) is_loop: bool,
}

impl Restarts {
    /// A worker died. One that had answered a call comes back at once: its model works, and
    /// others wait for it. One that had not waits twice as long every time.
    pub(crate) fn died(&mut self, had_answered: bool) -> Restart {
        self.n_fruitless = if had_answered { 0 } else { self.n_fruitless.saturating_add(1) };
        let pause = match self.n_fruitless {
            0 => Duration::ZERO,
            n => FIRST_PAUSE.saturating_mul(1 << (n - 1).min(16)).min(LONGEST_PAUSE),
        };
        Restart { pause, is_loop: LOOP <= self.n_fruitless }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_worked_comes_back_at_once_however_often_it_dies() {
        let mut restarts = Restarts::default();

        for _ in 0..1000 {
            let restart = restarts.died(true);
            assert_eq!(restart, Restart { pause: Duration::ZERO, is_loop: false });
        }
    }

    #[test]
    fn a_worker_that_never_works_is_tried_less_and_less_often() {
        let mut restarts = Restarts::default();

        let lives: Vec<Restart> = (0..10).map(|_| restarts.died(false)).collect();

        assert_eq!(lives[0].pause, FIRST_PAUSE);
        assert!(lives.windows(2).all(|pair| pair[0].pause <= pair[1].pause));
        assert_eq!(lives[9].pause, LONGEST_PAUSE);
        let loops: Vec<bool> = lives.iter().take(4).map(|life| life.is_loop).collect();
        assert_eq!(loops, [false, false, true, true]);
        assert!(!restarts.died(true).is_loop, "an answer ends the loop");
    }
}
