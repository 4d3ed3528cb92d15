//! The highest rate that holds the objective. Pure: told whether a rate held, it names the next.

/// Doubles until a rate does not hold, then halves the gap until it is narrow.
#[derive(Debug, Clone)]
pub struct Search {
    holds: Option<f64>,
    breaks: Option<f64>,
    next: f64,
    n_left: u32,
}

/// How close to each other the rates that hold and do not must be, as a share.
const CLOSE: f64 = 0.05;
/// Most rates that are tried.
const MAX_STEPS: u32 = 24;
/// No rate beyond this is tried, in requests a second.
pub const MAX_RATE: f64 = 1e6;

impl Search {
    /// Begins with a rate, in requests a second.
    #[must_use]
    pub const fn new(first: f64) -> Self {
        Self { holds: None, breaks: None, next: first, n_left: MAX_STEPS }
    }

    /// The rate to try next; `None` once the answer is known well enough.
    #[must_use]
    pub fn next(&self) -> Option<f64> {
        let is_close = match (self.holds, self.breaks) {
            (Some(holds), Some(breaks)) => (breaks - holds) / breaks <= CLOSE,
            // Less than one request in a hundred seconds is none.
            (None, Some(breaks)) => breaks < 0.01,
            (Some(holds), None) => MAX_RATE <= holds,
            (None, None) => false,
        };
        (!is_close && self.n_left != 0).then_some(self.next)
    }

    /// Takes whether the rate that was to be tried held.
    pub fn learn(&mut self, held: bool) {
        *(if held { &mut self.holds } else { &mut self.breaks }) = Some(self.next);
        self.n_left -= 1;
        self.next = match (self.holds, self.breaks) {
            (Some(holds), Some(breaks)) => f64::midpoint(holds, breaks),
            (Some(holds), None) => (holds * 2.0).min(MAX_RATE),
            (None, Some(breaks)) => breaks / 2.0,
            (None, None) => self.next,
        };
    }

    /// The highest rate that held.
    #[must_use]
    pub const fn found(&self) -> Option<f64> {
        self.holds
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_comes_close_from_below_wherever_it_begins(
            limit in 0.1..500_000.0_f64,
            first in 1.0..100_000.0_f64,
        ) {
            let mut search = Search::new(first);
            let mut tried = 0;
            while let Some(rate) = search.next() {
                search.learn(rate <= limit);
                tried += 1;
            }

            let found = search.found().unwrap();
            prop_assert!(found <= limit && limit * 0.94 <= found, "{found} of {limit}");
            prop_assert!(tried <= MAX_STEPS);
        }
    }

    #[test]
    fn a_server_that_never_holds_ends_the_search() {
        let mut search = Search::new(100.0);
        while search.next().is_some() {
            search.learn(false);
        }

        assert_eq!(search.found(), None);
    }

    #[test]
    fn a_server_that_always_holds_ends_it_too() {
        let mut search = Search::new(100.0);
        while search.next().is_some() {
            search.learn(true);
        }

        assert_eq!(search.found(), Some(MAX_RATE));
    }
}
