//! How large a server's batches were over time, from what it counted. Pure.

use std::time::Duration;

use crate::Counts;

/// Most points that are kept.
const MAX_POINTS: usize = 2048;

/// How large batches were.
#[derive(Debug, Clone, Default)]
pub struct Batches {
    warm_up: Duration,
    before: Option<Counts>,
    /// The counts at the first look after the warm-up.
    first: Option<Counts>,
    last: Option<Counts>,
    points: Vec<(Duration, f64)>,
}

impl Batches {
    pub(crate) fn new(warm_up: Duration) -> Self {
        Self { warm_up, ..Self::default() }
    }

    /// Takes what the server counted up to `elapsed`.
    pub(crate) fn learn(&mut self, elapsed: Duration, counts: Option<Counts>) {
        let Some(counts) = counts else { return };
        if let Some(mean) = self.before.and_then(|before| mean(before, counts))
            && self.points.len() < MAX_POINTS
        {
            self.points.push((elapsed, mean));
        }
        self.before = Some(counts);
        if self.warm_up <= elapsed {
            self.first.get_or_insert(counts);
        }
        self.last = Some(counts);
    }

    /// Mean rows a call after the warm-up, where the server says.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        mean(self.first?, self.last?)
    }

    /// Mean rows a call since the point before, by time since the start.
    #[must_use]
    pub fn points(&self) -> &[(Duration, f64)] {
        &self.points
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean is approximate")]
fn mean(from: Counts, to: Counts) -> Option<f64> {
    let calls = to.calls.checked_sub(from.calls).filter(|&calls| calls != 0)?;
    Some(to.rows.checked_sub(from.rows)? as f64 / calls as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_what_was_counted_between_two_looks() {
        let mut batches = Batches::new(Duration::from_secs(1));
        let counts = |rows, calls| Some(Counts { rows, calls });

        for (second, counts) in
            [(0, counts(100, 100)), (1, counts(110, 105)), (2, counts(140, 110)), (3, None)]
        {
            batches.learn(Duration::from_secs(second), counts);
        }
        batches.learn(Duration::from_secs(4), counts(140, 110));

        assert_eq!(batches.mean(), Some(6.0));
        assert_eq!(
            batches.points(),
            [(Duration::from_secs(1), 2.0), (Duration::from_secs(2), 6.0)]
        );
    }

    #[test]
    fn a_server_that_was_restarted_gives_no_nonsense() {
        let mut batches = Batches::new(Duration::ZERO);
        for (rows, calls) in [(100, 50), (4, 2)] {
            batches.learn(Duration::ZERO, Some(Counts { rows, calls }));
        }

        assert_eq!((batches.mean(), batches.points().len()), (None, 0));
    }
}
