//! Counts by size, in memory that never grows: four bins per power of two.

/// A histogram of whole numbers with at most 25 % error, mergeable, 2 KiB.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    bins: Box<[u64; Self::BINS]>,
    count: u64,
    sum: u128,
}

impl Histogram {
    /// Four for each power of two above the first nine numbers, which have one each. Each power of
    /// two is the largest value of a bin, so that counts up to it are exact.
    pub const BINS: usize = 253;

    /// One of what was counted elsewhere: how many values of each [bin](Self::bin), and their sum.
    #[must_use]
    pub fn from_counts(counts: &[u64; Self::BINS], sum: u128) -> Self {
        Self { bins: Box::new(*counts), count: counts.iter().sum(), sum }
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        if cfg!(feature = "uncounted") {
            return;
        }
        self.bins[Self::bin(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        for (bin, more) in self.bins.iter_mut().zip(other.bins.iter()) {
            *bin += more;
        }
        self.count += other.count;
        self.sum += other.sum;
    }

    /// How many values were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, exact.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// Their mean; 0 where there is none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean is approximate")]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The largest value of the bin in which this share (0 to 1) of all values is reached.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a quantile is approximate, and a share of a count is a count"
    )]
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (edge, count) in self.bins() {
            seen += count;
            if rank <= seen {
                return edge;
            }
        }
        0
    }

    /// The largest value and the count of each bin that is not empty, in rising order.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.bins.iter().enumerate().filter(|(_, count)| **count != 0);
        counts.map(|(bin, &count)| (Self::edge(bin), count))
    }

    /// The bin that a value is counted in.
    #[must_use]
    pub fn bin(value: u64) -> usize {
        // Values up to 8 have a bin each; above, the two bits after the leading one of what is
        // less by one choose.
        let below = value.saturating_sub(1);
        let Some(octave) = below.checked_ilog2().filter(|octave| 3 <= *octave) else {
            return usize::try_from(value).unwrap_or(0);
        };
        let quarter = usize::try_from((below >> (octave - 2)) & 3).unwrap_or(0);
        9 + (octave as usize - 3) * 4 + quarter
    }

    fn edge(bin: usize) -> u64 {
        if bin < 9 {
            return bin as u64;
        }
        let (octave, quarter) = ((bin - 9) / 4 + 3, (bin - 9) % 4);
        // The very last bin ends where numbers do.
        ((5 + quarter as u128) << (octave - 2)).try_into().unwrap_or(u64::MAX)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { bins: Box::new([0; Self::BINS]), count: 0, sum: 0 }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.bins()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_within_a_quarter_below_its_bins_edge(value: u64) {
            let edge = Histogram::edge(Histogram::bin(value));

            prop_assert!(value <= edge);
            prop_assert!(u128::from(edge) * 4 <= u128::from(value) * 5);
        }

        #[test]
        fn merging_is_the_same_as_counting_in_one(values in prop::collection::vec(any::<u64>(), 0..64), cut in 0_usize..64) {
            let count = |values: &[u64]| {
                let mut histogram = Histogram::default();
                for &value in values {
                    histogram.record(value);
                }
                histogram
            };
            let cut = cut.min(values.len());
            let mut merged = count(&values[..cut]);
            merged.merge(&count(&values[cut..]));

            prop_assert_eq!(&merged, &count(&values));

            let mut counts = [0; Histogram::BINS];
            for &value in &values {
                counts[Histogram::bin(value)] += 1;
            }
            let sum = values.iter().map(|&value| u128::from(value)).sum();
            prop_assert_eq!(Histogram::from_counts(&counts, sum), merged);
        }
    }

    #[test]
    fn quantiles_of_small_numbers_are_exact() {
        let mut histogram = Histogram::default();
        (1..=7).for_each(|value| histogram.record(value));

        assert_eq!((histogram.quantile(0.5), histogram.quantile(1.0)), (4, 7));
        for value in 0..1000 {
            assert!(value <= Histogram::edge(Histogram::bin(value)), "{value}");
        }
        for power in 0..64 {
            assert_eq!(Histogram::edge(Histogram::bin(1 << power)), 1 << power);
        }
        assert_eq!(Histogram::default().quantile(0.99), 0);
    }

    #[test]
    fn the_mean_is_exact_and_of_nothing_it_is_nothing() {
        let mut histogram = Histogram::default();
        assert!(histogram.mean().abs() < f64::EPSILON);

        for value in [1000, 2000, 4500] {
            histogram.record(value);
        }
        assert!((histogram.mean() - 2500.0).abs() < 1e-9, "{}", histogram.mean());
    }
}
