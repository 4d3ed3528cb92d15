//! How one request travelled.

use std::time::Duration;

use paceline_batch::FireReason;

/// How one request travelled. Where it went in several parts, the call is the last one's and the
/// times are the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ride {
    /// How many parts it was split into; 1 for most.
    pub parts: usize,
    /// Which batch, counted from 1.
    pub batch: u64,
    /// Items that shared the call.
    pub items: usize,
    /// Their rows.
    pub rows: usize,
    /// Its place among them, from 0.
    pub position: usize,
    /// From when it was accepted until its batch left.
    pub waited: Duration,
    /// From when the batch left until it was answered.
    pub took: Duration,
    /// Why the batch left.
    pub fired: FireReason,
}

impl Ride {
    /// With one more part, which came after.
    pub(crate) fn and(self, part: Self) -> Self {
        Self {
            parts: self.parts + part.parts,
            waited: self.waited.max(part.waited),
            took: self.took.max(part.took),
            ..part
        }
    }
}

impl From<paceline_batch::Ride> for Ride {
    fn from(ride: paceline_batch::Ride) -> Self {
        let paceline_batch::Ride { batch, items, rows, position, waited, took, fired } = ride;
        Self { parts: 1, batch, items, rows, position, waited, took, fired }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_and_the_longest_times_are_the_requests() {
        let ms = Duration::from_millis;
        let part = |batch, waited, took| Ride {
            parts: 1,
            batch,
            items: 1,
            rows: 2,
            position: 0,
            waited: ms(waited),
            took: ms(took),
            fired: FireReason::Full,
        };

        let whole = part(1, 5, 1).and(part(2, 4, 3)).and(part(3, 1, 2));

        assert_eq!((whole.parts, whole.batch), (3, 3), "the call is the last one's");
        assert_eq!((whole.waited, whole.took), (ms(5), ms(3)));
    }
}
