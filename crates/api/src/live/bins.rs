//! A histogram as it travels: its bins that are not empty, and what came since another reading.

use paceline_batch::Histogram;
use serde::Serialize;

/// The largest value and the count of each bin, in rising order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Bins(Vec<(u64, u64)>);

impl Bins {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was counted after `earlier`, which is an earlier reading of the same histogram.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.0.iter().peekable();
        let news = self.0.iter().filter_map(|&(edge, count)| {
            let counted =
                before.next_if(|(other, _)| *other == edge).map_or(0, |(_, count)| *count);
            let more = count.saturating_sub(counted);
            (more != 0).then_some((edge, more))
        });
        Self(news.collect())
    }
}

impl From<&Histogram> for Bins {
    fn from(histogram: &Histogram) -> Self {
        Self(histogram.bins().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn count(values: &[u64]) -> Bins {
        let mut histogram = Histogram::default();
        for &value in values {
            histogram.record(value);
        }
        Bins::from(&histogram)
    }

    proptest! {
        #[test]
        fn what_came_since_is_what_was_counted_since(
            earlier in prop::collection::vec(0_u64..5000, 0..50),
            later in prop::collection::vec(0_u64..5000, 0..50),
        ) {
            let all = count(&[&earlier[..], &later].concat());

            prop_assert_eq!(all.since(&count(&earlier)), count(&later));
        }
    }
}
