//! The most streams that hold. Pure: told whether so many held, it names the next number.

/// Nobody looks for more.
pub(super) const MOST: u32 = 20_000;

/// Doubles until it is too much, then halves the distance until that is a sixteenth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search {
    holds: u32,
    breaks: Option<u32>,
    next: u32,
}

impl Search {
    /// Begins with so many.
    pub(super) fn new(first: u32) -> Self {
        Self { holds: 0, breaks: None, next: first.clamp(1, MOST) }
    }

    /// How many to try next; `None` once the answer is known well enough.
    pub(super) fn next(&self) -> Option<u32> {
        let is_found = match self.breaks {
            Some(breaks) => breaks <= self.holds + (self.holds / 16).max(1),
            None => self.holds == MOST,
        };
        (!is_found).then_some(self.next)
    }

    /// Takes whether those that were to be tried held.
    pub(super) fn learn(&mut self, held: bool) {
        if held {
            self.holds = self.next;
        } else {
            self.breaks = Some(self.next);
        }
        self.next = match self.breaks {
            Some(breaks) => self.holds.midpoint(breaks).max(1),
            None => self.next.saturating_mul(2).min(MOST),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_close_from_below_wherever_it_begins() {
        for limit in (0..200).chain((200..2 * MOST).step_by(997)) {
            for first in [1, 2, 24, 100, 3000, MOST] {
                let mut search = Search::new(first);
                let mut n_tried = 0;
                while let Some(streams) = search.next() {
                    search.learn(streams <= limit);
                    n_tried += 1;
                }

                let (found, limit) = (search.holds, limit.min(MOST));
                assert!((found..=found + found / 16).contains(&limit), "{found} of {limit}");
                assert!(n_tried <= 32, "{n_tried} tries from {first} to {limit}");
            }
        }
    }
}
