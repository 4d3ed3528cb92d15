//! How long a call takes, learned from calls: per length bucket and batch size, decayed.
//!
//! Each bucket has a *curve*: the mean time of each batch size that was seen, straight lines
//! between them, never falling as batches grow. Where observed means would fall, they are pooled
//! by how well they are known, so that one stall of a size that is rarely run does not lift all
//! larger ones for good. How far real calls stray from the mean is kept
//! once per bucket as a distribution of actual over predicted, because noise comes with the
//! device and not with the size: a few calls of any size teach the spread of all sizes. The high
//! estimate, which deadlines are judged by, is the mean times a high quantile of that spread.

use std::time::Duration;

use crate::moment::nanos;

/// The share of calls that the high estimate covers.
const COVERED: f32 = 0.95;

/// In what company a call was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flew {
    /// How many times longer than alone it should have taken.
    pub(crate) slowed: f32,
    /// How much it tells of calls that are alone, from 0 to 1: a call that takes longer in company
    /// teaches first what company costs, and only what that does not explain is its own.
    pub(crate) alone: f32,
}

/// What is believed about every bucket. Buckets never seen take no memory.
#[derive(Debug, Default)]
pub(crate) struct LatencyTable {
    curves: Vec<Option<Box<Curve>>>,
}

impl LatencyTable {
    /// The curve of a bucket, once a call of it was seen.
    pub(crate) fn curve(&self, bucket: usize) -> Option<&Curve> {
        self.curves.get(bucket)?.as_deref()
    }

    /// The curve of every bucket that was seen.
    pub(crate) fn curves(&self) -> impl Iterator<Item = (usize, &Curve)> {
        let curves = self.curves.iter().enumerate();
        curves.filter_map(|(bucket, curve)| Some((bucket, curve.as_deref()?)))
    }

    /// Learns from one good call of `rows` rows that others slowed down so many times. Returns
    /// actual over predicted, where there was a prediction.
    pub(crate) fn learn(
        &mut self,
        bucket: usize,
        rows: usize,
        took: Duration,
        flew: Flew,
    ) -> Option<f32> {
        self.curve_mut(bucket).learn(rows, as_f32(nanos(took)) / flew.slowed, flew.alone)
    }

    /// Is told what a call of `rows` rows takes by somebody who tried it more than once.
    pub(crate) fn teach(&mut self, bucket: usize, rows: usize, took: Duration) {
        self.curve_mut(bucket).teach(rows, as_f32(nanos(took)));
    }

    fn curve_mut(&mut self, bucket: usize) -> &mut Curve {
        if self.curves.len() <= bucket {
            self.curves.resize_with(bucket + 1, || None);
        }
        self.curves[bucket].get_or_insert_default()
    }
}

/// One bucket's times by batch size, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Curve {
    /// Sizes seen, in rising order.
    points: Vec<Point>,
    spread: Spread,
    n_calls: u32,
    /// How many of them were alone, a call that was so for a part of its time counting in part.
    n_alone: f32,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    rows: usize,
    /// As observed.
    mean: f32,
    /// As believed: the mean, pooled with its neighbours where means would fall.
    smooth: f32,
    n_seen: u16,
    /// When it was last seen, in calls of this curve.
    seen_at: u32,
}

impl Point {
    /// Calls that its mean is made of: the second replaces the first, which is no more than a hint.
    fn n_counted(&self) -> f32 {
        f32::from(self.n_seen.saturating_sub(1).max(1))
    }
}

impl Curve {
    /// Most sizes kept. Larger batches are told apart to one part in sixteen.
    const EXACT_SIZES: usize = 64;
    /// After this many calls without a sample, a point has lost half of its weight.
    const HALF_LIFE: u32 = 512;
    /// A new sample counts at least this much, so that the curve follows a device that changes.
    const MIN_WEIGHT: f32 = 1.0 / 16.0;
    /// More calls alone than this need not be told apart.
    const MANY: f32 = 1e3;
    /// Nanoseconds. Nobody waits to save this, and no deadline is missed by it.
    const NEGLIGIBLE: f32 = 20_000.0;
    /// A sample counts as at most this many times the mean: one stall is not a slow device.
    const OUTLIER: f32 = 4.0;

    /// The mean time of a call of `rows` rows.
    pub(crate) fn mean(&self, rows: usize) -> f32 {
        let after = self.points.partition_point(|point| point.rows <= rows);
        match (after.checked_sub(1).map(|before| self.points[before]), self.points.get(after)) {
            (Some(low), Some(high)) => {
                let share = count(rows - low.rows) / count(high.rows - low.rows);
                low.smooth + (high.smooth - low.smooth) * share
            }
            // Smaller than anything seen: along the overall slope, but not below proportion.
            (None, Some(point)) => {
                let along = point.smooth - self.slope() * count(point.rows - rows);
                along.max(point.smooth * count(rows) / count(point.rows))
            }
            (Some(point), None) => point.smooth + self.slope() * count(rows - point.rows),
            (None, None) => 0.0,
        }
    }

    /// The mean time of the smallest batch that was seen.
    pub(crate) fn shortest(&self) -> f32 {
        self.points.first().map_or(0.0, |point| point.smooth)
    }

    /// A time that a call of `rows` rows takes rarely longer than.
    pub(crate) fn high(&self, rows: usize) -> f32 {
        self.mean(rows) * self.spread.high()
    }

    /// Each size seen and its mean in nanoseconds, for those who want to look.
    pub(crate) fn points(&self) -> impl Iterator<Item = (usize, f32)> {
        self.points.iter().map(|point| (point.rows, point.smooth))
    }

    /// How much the high estimate exceeds the mean.
    pub(crate) fn margin(&self) -> f32 {
        self.spread.high()
    }

    fn learn(&mut self, rows: usize, took: f32, alone: f32) -> Option<f32> {
        self.n_calls = self.n_calls.wrapping_add(1);
        // Until some were alone, those in company are all that there is to learn from.
        let told = alone.max(1.0 / (1.0 + self.n_alone));
        self.n_alone = (self.n_alone + alone).min(Self::MANY);
        let ratio = (!self.points.is_empty()).then(|| took / self.mean(rows).max(1.0));
        let rows = Self::class(rows);
        let now = self.n_calls;
        let Ok(index) = self.points.binary_search_by_key(&rows, |point| point.rows) else {
            // The first call of a size may pay for memory and kernels that later ones find ready. Were
            // it believed, the size would look so dear that no batch ever had it again. So until
            // the second call it takes what was expected of it, or less.
            let expected = self.mean(rows);
            let less = (expected - took).max(0.0) * told;
            let mean = if self.points.is_empty() { took } else { expected - less };
            self.put(rows, mean, 1);
            return ratio;
        };
        let point = &mut self.points[index];
        // Calls this short decide nothing; once known to be, they are not looked at closely.
        if took < Self::NEGLIGIBLE && point.mean < Self::NEGLIGIBLE && 16 <= point.n_seen {
            return ratio;
        }
        let age = now.wrapping_sub(point.seen_at) / Self::HALF_LIFE;
        point.n_seen = (point.n_seen >> age.min(15)).saturating_add(1);
        let weight = (1.0 / point.n_counted()).max(Self::MIN_WEIGHT) * told;
        point.mean += (took.min(point.mean * Self::OUTLIER) - point.mean) * weight;
        point.seen_at = now;
        // A first call is no judge of spread; it may have warmed caches up.
        if let Some(ratio) = ratio.filter(|_| 2 < point.n_seen) {
            self.spread.record(ratio);
        }
        // A walk over all sizes is more than a short call should cost; where the order of means is
        // broken, it can wait for a few calls.
        if self.is_between_neighbours(index) {
            self.points[index].smooth = self.points[index].mean;
        } else if now < 64 || now.is_multiple_of(16) {
            self.smooth();
        }
        ratio
    }

    fn teach(&mut self, rows: usize, mean: f32) {
        self.n_alone = (self.n_alone + 2.0).min(Self::MANY);
        self.put(Self::class(rows), mean, 2);
    }

    fn put(&mut self, rows: usize, mean: f32, n_seen: u16) {
        let point = Point { rows, mean, smooth: mean, n_seen, seen_at: self.n_calls };
        match self.points.binary_search_by_key(&rows, |point| point.rows) {
            Ok(index) => self.points[index] = point,
            Err(index) => self.points.insert(index, point),
        }
        self.smooth();
    }

    fn is_between_neighbours(&self, index: usize) -> bool {
        let mean = self.points[index].mean;
        let below = index.checked_sub(1).map(|below| self.points[below].smooth);
        let above = self.points.get(index + 1).map(|above| above.smooth);
        below.is_none_or(|below| below <= mean) && above.is_none_or(|above| mean <= above)
    }

    /// Pools adjacent sizes whose means fall, until none does.
    fn smooth(&mut self) {
        let now = self.n_calls;
        let weight = |point: &Point| {
            let age = now.wrapping_sub(point.seen_at) / Self::HALF_LIFE;
            point.n_counted().min(16.0) / count(1 << age.min(15))
        };
        for at in 0..self.points.len() {
            self.points[at].smooth = self.points[at].mean;
            if at == 0 || self.points[at - 1].smooth <= self.points[at].mean {
                continue;
            }
            let (mut mean, mut known) = (self.points[at].mean, weight(&self.points[at]));
            let mut from = at;
            while 0 < from && mean < self.points[from - 1].smooth {
                // All of a pool share one value, so its members are taken in one by one.
                from -= 1;
                let own = weight(&self.points[from]);
                mean = (mean * known + self.points[from].smooth * own) / (known + own);
                known += own;
            }
            self.points[from..=at].iter_mut().for_each(|point| point.smooth = mean);
        }
    }

    /// The size that stands for `rows`.
    fn class(rows: usize) -> usize {
        match rows.checked_ilog2() {
            Some(octave) if Self::EXACT_SIZES < rows => rows >> (octave - 4) << (octave - 4),
            _ => rows,
        }
    }

    /// Nanoseconds per row over all that was seen.
    fn slope(&self) -> f32 {
        match (self.points.first(), self.points.last()) {
            (Some(first), Some(last)) if first.rows < last.rows => {
                (last.smooth - first.smooth) / count(last.rows - first.rows)
            }
            _ => 0.0,
        }
    }
}

/// A decayed distribution of actual over predicted.
#[derive(Debug)]
struct Spread {
    bins: [f32; Self::BINS],
    /// Weight of the next sample; it grows, which is how older ones lose theirs.
    unit: f32,
    total: f32,
    high: f32,
    n_recorded: u32,
}

impl Spread {
    const BINS: usize = 48;
    /// The ratio at which the first bin begins, and the factor from bin to bin.
    const FROM: f32 = 0.5;
    const STEP: f32 = 1.05;
    /// Bins per unit of natural logarithm: 1 / ln(1.05).
    const PER_LN: f32 = 20.495_934;
    /// Samples until one has lost about two thirds of its weight.
    const MEMORY: f32 = 256.0;

    fn record(&mut self, ratio: f32) {
        let bin = (ratio.max(Self::FROM) / Self::FROM).ln() * Self::PER_LN;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a bin number is small, and float casts saturate"
        )]
        let bin = (bin as usize).min(Self::BINS - 1);
        self.bins[bin] += self.unit;
        self.total += self.unit;
        self.unit *= 1.0 + 1.0 / Self::MEMORY;
        if 1e20 < self.unit {
            let scale = 1.0 / self.unit;
            self.bins.iter_mut().for_each(|bin| *bin *= scale);
            self.total *= scale;
            self.unit = 1.0;
        }
        self.n_recorded = self.n_recorded.wrapping_add(1);
        // The quantile moves slowly; after the first few samples it is not worth a walk each time.
        if self.n_recorded < 16 || self.n_recorded.is_multiple_of(16) {
            self.high = self.quantile();
        }
    }

    fn quantile(&self) -> f32 {
        let mut left = self.total * COVERED;
        let mut edge = Self::FROM;
        for bin in self.bins {
            left -= bin;
            edge *= Self::STEP;
            if left <= 0.0 {
                break;
            }
        }
        edge.max(1.0)
    }

    /// Nothing is known of the spread until a few calls were seen.
    fn high(&self) -> f32 {
        self.high
    }
}

impl Default for Spread {
    fn default() -> Self {
        Self { bins: [0.0; Self::BINS], unit: 1.0, total: 0.0, high: 1.0, n_recorded: 0 }
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate of time needs no ninth digit")]
fn as_f32(nanos: u64) -> f32 {
    nanos as f32
}

#[expect(clippy::cast_precision_loss, reason = "batch sizes are small")]
fn count(rows: usize) -> f32 {
    rows as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f32 = 1e6;

    impl Flew {
        const ALONE: Self = Self { slowed: 1.0, alone: 1.0 };
    }

    fn seeded(points: &[(usize, u64)]) -> LatencyTable {
        let mut table = LatencyTable::default();
        for &(rows, millis) in points {
            table.teach(0, rows, Duration::from_millis(millis));
        }
        table
    }

    fn check(table: &LatencyTable, rows: usize, millis: f32) {
        let mean = table.curve(0).unwrap().mean(rows) / MS;
        let close = 0.01_f32.min(millis * 0.01);
        assert!((mean - millis).abs() < close, "{rows} rows: {mean} ms, expected {millis} ms");
    }

    #[test]
    fn sizes_never_seen_lie_on_the_lines_between_those_seen() {
        let table = seeded(&[(1, 50), (8, 70), (32, 150)]);

        check(&table, 1, 50.0);
        check(&table, 20, 110.0);
        check(&table, 63, 250.0);
        assert!(table.curve(1).is_none());
    }

    #[test]
    fn a_larger_batch_is_never_believed_to_be_faster() {
        let table = seeded(&[(1, 10), (4, 30), (8, 20)]);

        check(&table, 4, 25.0);
        check(&table, 8, 25.0);
        check(&table, 1, 10.0);

        let table = seeded(&[(1, 30), (4, 40), (8, 5)]);
        for rows in [1, 4, 8] {
            check(&table, rows, 25.0);
        }
    }

    #[test]
    fn a_size_that_breaks_the_order_is_pooled_at_once_whichever_way_it_moves() {
        let mut falls = seeded(&[(1, 10), (4, 20)]);
        falls.learn(0, 4, Duration::from_millis(4), Flew::ALONE);
        check(&falls, 4, 12.0);
        // The mean of 20, 4 and 3 is 9, below that of the smaller size.
        falls.learn(0, 4, Duration::from_millis(3), Flew::ALONE);
        check(&falls, 4, (10.0 + 3.0 * 9.0) / 4.0);
        check(&falls, 1, (10.0 + 3.0 * 9.0) / 4.0);

        let mut rises = seeded(&[(1, 10), (4, 20)]);
        rises.learn(0, 1, Duration::from_millis(40), Flew::ALONE);
        check(&rises, 1, (2.0 * 25.0 + 20.0) / 3.0);
        check(&rises, 4, (2.0 * 25.0 + 20.0) / 3.0);
    }

    #[test]
    fn what_was_not_seen_for_long_weighs_less_and_is_soon_replaced() {
        let mut table = LatencyTable::default();
        for _ in 0..20 {
            table.learn(0, 1, Duration::from_millis(10), Flew::ALONE);
        }
        for _ in 20..1600 {
            table.learn(0, 4, Duration::from_millis(4), Flew::ALONE);
        }
        // Three half-lives: of sixteen calls two are left, against sixteen.
        let pooled = (10.0 * 2.0 + 4.0 * 16.0) / 18.0;
        check(&table, 1, pooled);
        check(&table, 4, pooled);

        for _ in 1600..2100 {
            table.learn(0, 4, Duration::from_millis(20), Flew::ALONE);
        }
        table.learn(0, 1, Duration::from_millis(14), Flew::ALONE);
        check(&table, 1, 14.0);
    }

    #[test]
    fn calls_too_short_to_matter_are_looked_at_until_that_is_known() {
        let micros = Duration::from_micros;
        let mut table = LatencyTable::default();
        for _ in 0..3 {
            table.learn(0, 1, micros(5), Flew::ALONE);
        }
        table.learn(0, 1, micros(14), Flew::ALONE);
        check(&table, 1, 0.008);

        let mut table = LatencyTable::default();
        for _ in 0..20 {
            table.learn(0, 1, micros(5), Flew::ALONE);
        }
        let known = table.curve(0).unwrap().mean(1);
        table.learn(0, 1, micros(14), Flew::ALONE);
        assert!((table.curve(0).unwrap().mean(1) - known).abs() < 1.0, "not looked at");
        for _ in 0..100 {
            table.learn(0, 1, micros(900), Flew::ALONE);
        }
        check(&table, 1, 0.9);
    }

    #[test]
    fn a_first_call_is_no_judge_of_spread() {
        let mut table = LatencyTable::default();
        table.learn(0, 1, Duration::from_millis(10), Flew::ALONE);
        table.learn(0, 1, Duration::from_millis(30), Flew::ALONE);

        assert!((table.curve(0).unwrap().margin() - 1.0).abs() < f32::EPSILON);
    }

    #[test]
    fn a_stall_of_a_size_that_is_rarely_run_does_not_stand_for_the_others() {
        let mut table = seeded(&[(1, 200)]);
        for _ in 0..100 {
            table.learn(0, 8, Duration::from_millis(1), Flew::ALONE);
        }

        let mean = table.curve(0).unwrap().mean(8) / MS;
        assert!(mean < 15.0, "{mean}");
    }

    #[test]
    fn the_first_call_of_a_size_is_not_believed_to_be_dear_and_the_second_is() {
        let mut table = seeded(&[(1, 10), (4, 16)]);

        table.learn(0, 2, Duration::from_millis(100), Flew::ALONE);
        check(&table, 2, 12.0);
        table.learn(0, 2, Duration::from_millis(14), Flew::ALONE);
        check(&table, 2, 14.0);
    }

    #[test]
    fn a_call_in_company_tells_of_calls_alone_what_company_does_not_explain() {
        let mut table = seeded(&[(1, 10); 100]);
        table.teach(0, 4, Duration::from_millis(16));
        let beside = |slowed| Flew { slowed, alone: 1.0 / 16.0 };

        table.learn(0, 4, Duration::from_millis(32), beside(2.0));
        check(&table, 4, 16.0);
        table.learn(0, 4, Duration::from_millis(32), beside(1.0));
        check(&table, 4, 16.0 + 16.0 / 3.0 / 16.0);
        table.learn(0, 2, Duration::from_millis(4), beside(1.0));
        check(&table, 2, 12.11 - 8.11 / 16.0);
    }

    #[test]
    fn where_no_call_was_ever_alone_those_in_company_are_believed() {
        let beside = Flew { slowed: 1.0, alone: 1.0 / 16.0 };
        let mut table = LatencyTable::default();
        for took in [100, 5, 5, 5, 5] {
            table.learn(0, 4, Duration::from_millis(took), beside);
        }

        let mean = table.curve(0).unwrap().mean(4) / MS;
        assert!(mean < 12.0, "{mean}");
    }

    #[test]
    fn one_known_size_says_nothing_about_growth_but_bounds_smaller_ones() {
        let table = seeded(&[(8, 40)]);

        check(&table, 16, 40.0);
        check(&table, 4, 40.0);
    }

    #[test]
    fn smaller_sizes_lie_on_the_overall_slope_but_never_below_proportion() {
        let table = seeded(&[(4, 40), (8, 60)]);
        check(&table, 2, 30.0);

        let steep = seeded(&[(4, 40), (8, 120)]);
        check(&steep, 3, 30.0);
        check(&steep, 2, 20.0);
    }

    #[test]
    fn a_device_that_slows_down_is_followed_and_one_stall_is_not_believed() {
        let mut table = LatencyTable::default();
        for _ in 0..64 {
            table.learn(0, 4, Duration::from_millis(10), Flew::ALONE);
        }
        table.learn(0, 4, Duration::from_secs(1), Flew::ALONE);
        check(&table, 4, 11.875);

        for _ in 0..100 {
            table.learn(0, 4, Duration::from_millis(20), Flew::ALONE);
        }
        let mean = table.curve(0).unwrap().mean(4) / MS;
        assert!((mean - 20.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn the_high_estimate_covers_the_spread_and_forgets_it() {
        let mut table = seeded(&[(1, 100); 8]);
        for n in 0..1000_u64 {
            table.learn(0, 1, Duration::from_millis(80 + n * 7 % 41), Flew::ALONE);
        }
        let curve = table.curve(0).unwrap();
        let high = curve.high(1) / MS;
        assert!((115.0..130.0).contains(&high), "{high}");
        assert!((1.15..1.3).contains(&curve.margin()), "{}", curve.margin());

        for _ in 0..3000 {
            table.learn(0, 1, Duration::from_millis(100), Flew::ALONE);
        }
        assert!(table.curve(0).unwrap().margin() < 1.1);
    }

    #[test]
    fn what_is_kept_is_bounded_however_large_batches_are() {
        let mut table = LatencyTable::default();
        for rows in 1..20_000 {
            table.learn(0, rows, Duration::from_millis(1), Flew::ALONE);
        }

        assert!(table.curve(0).unwrap().points().count() < 64 + 16 * 9);
        assert_eq!(
            [1, 64, 65, 100, 127, 1000, 4099].map(Curve::class),
            [1, 64, 64, 100, 124, 992, 4096],
            "to one part in sixteen"
        );
    }

    #[test]
    fn the_spread_is_that_of_the_last_few_hundred_however_many_there_were() {
        let mut spread = Spread::default();
        for _ in 0..3 {
            spread.record(2.0);
        }
        assert!((2.0..2.2).contains(&spread.high()), "the first few count at once");

        // So many that the weights, which only grow, would leave the range of numbers.
        for n in 0..30_000 {
            spread.record(if n % 10 == 0 { 2.0 } else { 1.0 });
            assert!((2.0..2.2).contains(&spread.high()), "{} after {n}", spread.high());
        }
        for _ in 0..1_500 {
            spread.record(1.0);
        }
        assert!((1.0..1.1).contains(&spread.high()), "{}", spread.high());
    }
}
