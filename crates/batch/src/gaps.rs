//! How soon the next item that could join will come, learned from those that came.
//!
//! A mean says too little: clients that answer each other arrive in bursts, and the mean gap is
//! then neither the gap inside a burst nor the one between two. So the whole distribution is
//! kept, two bins per power of two, and the question "does waiting pay" is put to it: for every
//! time up to which one could wait, what is the chance that someone joins, and how long would
//! everybody present have waited for that.
//!
//! An answer often brings the next request: whoever waits for each answer is back within a moment
//! of it. So there are two distributions: of the gaps between items, and of those from the landing of
//! a batch to the first item after it. The one that the latest event began is asked. Without the second,
//! clients that fell into two groups would alternate for ever, each group leaving without the other although
//! the other is about to be back.
//!
//! The table has a fixed number of places. Keys that share a place push each other out, which
//! costs a little foresight and never memory.

use std::time::Duration;

use crate::{Moment, moment::nanos};

/// Learned gaps by key.
#[derive(Debug)]
pub(crate) struct Gaps {
    places: Box<[Place]>,
}

#[derive(Debug, Clone)]
struct Place {
    owner: u64,
    arrived: Since,
    landed: Since,
}

/// When something happened last, and how long it was then until the next item came.
#[derive(Debug, Clone)]
pub(crate) struct Since {
    /// `NEVER` where the next item is not preceded by it.
    last: Moment,
    bins: [Bin; BINS],
    /// The weight of all bins.
    total: f32,
    /// Weight of the next sample; it grows, which is how older ones lose theirs.
    unit: f32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    weight: f32,
    /// Weight times gap, so that a bin knows its mean: where a wait of 50 ms saves 47 ms, the
    /// middle of a bin from 34 to 50 ms would be too rough a guess.
    nanos: f32,
}

impl Bin {
    fn mean(self) -> f32 {
        self.nanos / self.weight
    }
}

impl Place {
    fn new(owner: u64) -> Self {
        Self { owner, arrived: Since::never(), landed: Since::never() }
    }
}

impl Since {
    fn never() -> Self {
        Self { last: Moment::NEVER, bins: [Bin::default(); BINS], total: 0.0, unit: 1.0 }
    }

    /// Notes that an item came now.
    fn learn(&mut self, now: Moment) {
        if self.last == Moment::NEVER {
            return;
        }
        let gap = nanos(now.since(self.last));
        let bin = &mut self.bins[bin(gap)];
        bin.weight += self.unit;
        bin.nanos += self.unit * as_f32(gap);
        self.total += self.unit;
        self.unit *= 1.0 + 1.0 / MEMORY;
        if 1e15 < self.unit {
            let scale = 1.0 / self.unit;
            for bin in &mut self.bins {
                bin.weight *= scale;
                bin.nanos *= scale;
            }
            self.total *= scale;
            self.unit = 1.0;
        }
    }

    /// Whether enough was seen to foretell anything.
    fn knows(&self) -> bool {
        // `total / unit` is the number of samples that still count.
        MIN_SAMPLES * self.unit <= self.total
    }

    /// Whether anybody is to be expected: enough was seen, and gaps as long as this one already is.
    pub(crate) fn expects(&self, now: Moment) -> bool {
        self.knows() && self.total * 1e-3 < self.still(now).0
    }

    /// As it would be if an item came now.
    pub(crate) fn as_if_arrived(&self, now: Moment) -> Self {
        let mut own = self.clone();
        own.learn(now);
        Self { last: now, ..own }
    }

    /// The weight of the gaps as long as this one already is, and the part of it in this one's bin,
    /// which counts in part.
    fn still(&self, now: Moment) -> (f32, f32) {
        let so_far = as_f32(nanos(now.since(self.last)));
        let first = bin(nanos(now.since(self.last)));
        let (from, to) = (lower(first), upper(first));
        let partly = self.bins[first].weight * ((to - so_far) / (to - from)).clamp(0.0, 1.0);
        (partly + self.bins[first + 1..].iter().map(|bin| bin.weight).sum::<f32>(), partly)
    }

    /// How likely one comes within so many nanoseconds, from 0 to 1; 1 where nothing is known.
    pub(crate) fn chance(&self, within: f32, now: Moment) -> f32 {
        if !self.knows() {
            return 1.0;
        }
        let until = as_f32(nanos(now.since(self.last))) + within;
        let (still, partly) = self.still(now);
        let first = bin(nanos(now.since(self.last)));
        let comes = |at: usize| 0.0 < self.bins[at].weight && self.bins[at].mean() <= until;
        let weight = |at: usize| if at == first { partly } else { self.bins[at].weight };
        // A gap that is longer than they ever were will go on.
        (first..BINS).filter(|at| comes(*at)).map(weight).sum::<f32>()
            / still.max(self.total * 1e-3)
    }

    /// Until when those who ask should wait for one more; `None` where going at once is better.
    pub(crate) fn worth_waiting(&self, ask: &Ask, now: Moment) -> Option<Worth> {
        let &Ask { n_waiting, saving, resolution } = ask;
        let so_far = as_f32(nanos(now.since(self.last)));
        let first = bin(nanos(now.since(self.last)));
        let (still, partly) = self.still(now);
        let (mut best, mut best_net) = (None, 0.0);
        let (mut joined, mut waited) = (0.0, 0.0);
        for at in first..BINS {
            let bin = self.bins[at];
            let chance = if at == first { partly } else { bin.weight } / still;
            if chance == 0.0 {
                continue;
            }
            let until = upper(at);
            let typical = bin.mean().clamp(so_far, until) - so_far;
            joined += chance;
            waited += chance * typical;
            // If nobody joins, everybody waits until the timer fires, and that is not at once.
            let until = until.max(so_far + resolution);
            let cost = n_waiting * (waited + (1.0 - joined) * (until - so_far));
            let net = saving * joined - cost;
            if best_net < net {
                (best, best_net) = (Some((until, joined, cost)), net);
            }
        }
        best.map(|(until, chance, cost)| Worth {
            until: self.last.after(Duration::from_nanos(as_u64(until))),
            chance,
            cost,
        })
    }
}

/// A wait that pays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worth {
    pub(crate) until: Moment,
    /// That one more comes until then.
    pub(crate) chance: f32,
    /// Nanoseconds that those present are expected to wait, all together.
    pub(crate) cost: f32,
}

/// Who asks whether waiting pays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// How many items would wait.
    pub(crate) n_waiting: f32,
    /// Nanoseconds of a device that one more would save.
    pub(crate) saving: f32,
    /// Nanoseconds by which a timer may be late.
    pub(crate) resolution: f32,
}

const PLACES: usize = 64;
const BINS: usize = 48;
/// Samples until one has lost about two thirds of its weight.
const MEMORY: f32 = 64.0;
/// Fewer samples than this foretell nothing.
const MIN_SAMPLES: f32 = 4.0;

impl Gaps {
    pub(crate) fn new() -> Self {
        Self { places: vec![Place::new(0); PLACES].into() }
    }

    /// Notes that an item of this owner came.
    pub(crate) fn arrived(&mut self, owner: u64, now: Moment) {
        let place = &mut self.places[index(owner)];
        if place.owner != owner {
            *place = Place::new(owner);
        }
        place.arrived.learn(now);
        place.landed.learn(now);
        place.arrived.last = now;
        place.landed.last = Moment::NEVER;
    }

    /// Notes that a batch of this owner was answered.
    pub(crate) fn landed(&mut self, owner: u64, now: Moment) {
        let place = &mut self.places[index(owner)];
        if place.owner == owner {
            place.landed.last = now;
        }
    }

    /// What the latest event of this owner began, where anything is known of it.
    pub(crate) fn since(&self, owner: u64) -> Option<&Since> {
        let place = &self.places[index(owner)];
        let has_landed = place.landed.last != Moment::NEVER;
        (place.owner == owner).then_some(if has_landed { &place.landed } else { &place.arrived })
    }

    /// As [`since`](Self::since), if an item of this owner had just come.
    pub(crate) fn as_if_arrived(&self, owner: u64, now: Moment) -> Option<Since> {
        let place = &self.places[index(owner)];
        (place.owner == owner).then(|| place.arrived.as_if_arrived(now))
    }

    /// The usual gap between items of this owner, for those who want to look.
    pub(crate) fn median(&self, owner: u64) -> Option<Duration> {
        let place = &self.places[index(owner)];
        if place.owner != owner || !place.arrived.knows() {
            return None;
        }
        let mut left = place.arrived.total / 2.0;
        let at = place.arrived.bins.iter().position(|bin| {
            left -= bin.weight;
            left <= 0.0
        });
        at.map(|at| Duration::from_nanos(as_u64(upper(at))))
    }
}

fn index(owner: u64) -> usize {
    // Owners are hashes; any bits will do.
    #[expect(clippy::cast_possible_truncation, reason = "a few low bits are wanted")]
    {
        owner as usize % PLACES
    }
}

/// Two bins per power of two from 1 µs to 16 s; what is shorter or longer is in the outer ones.
fn bin(gap: u64) -> usize {
    let gap = gap.max(1024);
    let octave = gap.ilog2();
    let is_upper_half = (gap >> (octave - 1)) & 1 == 1;
    ((octave as usize - 10) * 2 + usize::from(is_upper_half)).min(BINS - 1)
}

/// Where a bin ends, in nanoseconds.
fn upper(bin: usize) -> f32 {
    lower(bin + 1)
}

/// Where a bin begins, in nanoseconds.
fn lower(bin: usize) -> f32 {
    if bin == 0 {
        return 0.0;
    }
    let octave = 1_u64 << (bin / 2);
    let start = if bin.is_multiple_of(2) { octave * 1024 } else { octave * 1536 };
    as_f32(start)
}

#[expect(clippy::cast_precision_loss, reason = "an estimate of time needs no ninth digit")]
fn as_f32(nanos: u64) -> f32 {
    nanos as f32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, and these are not negative"
)]
fn as_u64(nanos: f32) -> u64 {
    nanos as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f32 = 1e6;

    /// Items come after each of these gaps in turn, again and again.
    fn after(gaps_us: &[u64], rounds: usize) -> (Gaps, Moment) {
        let mut gaps = Gaps::new();
        let mut now = Moment::START;
        for _ in 0..rounds {
            for &gap in gaps_us {
                now = now.after(Duration::from_micros(gap));
                gaps.arrived(7, now);
            }
        }
        (gaps, now)
    }

    fn worth(gaps: &Gaps, owner: u64, ask: &Ask, now: Moment) -> Option<Duration> {
        let since = gaps.since(owner).filter(|since| since.expects(now))?;
        Some(since.worth_waiting(ask, now)?.until.since(now))
    }

    fn wait(gaps: &Gaps, now: Moment, n_waiting: f32, saving_ms: f32) -> Option<Duration> {
        let ask = Ask { n_waiting, saving: saving_ms * MS, resolution: 0.0 };
        worth(gaps, 7, &ask, now)
    }

    /// A gap of so many microseconds as far as it is told from others: its bin's end.
    fn usual(micros: u64) -> Duration {
        Duration::from_nanos(as_u64(upper(bin(micros * 1000))))
    }

    #[test]
    fn bins_are_where_their_borders_say() {
        for gap in [0, 1024, 1536, 2047, 2048, 5_000_000, 40_000_000, 16_000_000_000] {
            let at = bin(gap);
            assert!(lower(at) <= as_f32(gap), "{gap}");
            assert!(at == BINS - 1 || as_f32(gap) < upper(at), "{gap}");
        }
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn a_lone_client_that_waits_for_each_answer_is_never_held() {
        // Its next request comes a call and a bit after this one; a call takes 50 ms.
        let (gaps, now) = after(&[50_300], 200);

        assert_eq!(wait(&gaps, now, 1.0, 47.0), None);
    }

    #[test]
    fn sparse_arrivals_are_not_waited_for_and_dense_ones_are() {
        let (sparse, now) = after(&[30_000, 70_000, 50_000], 40);
        assert_eq!(wait(&sparse, now, 1.0, 5.0), None);

        let (dense, now) = after(&[900, 1_600, 1_250], 40);
        assert!(wait(&dense, now, 1.0, 5.0).is_some());
        assert_eq!(wait(&dense, now, 8.0, 5.0), None, "eight waiting cost more than is saved");
    }

    #[test]
    fn a_burst_is_waited_for_only_as_long_as_bursts_last() {
        // Eight clients answer within 100 µs of each other, then nothing for 70 ms.
        let (gaps, now) = after(&[70_000, 90, 90, 90, 90, 90, 90, 90], 40);

        let held = wait(&gaps, now, 8.0, 47.0).unwrap();
        assert!(held <= Duration::from_micros(200), "{held:?}");
        let later = now.after(Duration::from_micros(400));
        assert_eq!(wait(&gaps, later, 8.0, 47.0), None, "this burst is over");
    }

    #[test]
    fn those_who_were_just_answered_are_waited_for() {
        // Two groups of eight take turns: 70 ms a call, and each is back 300 µs after its answer.
        let mut gaps = Gaps::new();
        let mut now = Moment::START;
        for _ in 0..20 {
            now = now.after(Duration::from_millis(70));
            gaps.landed(7, now);
            now = now.after(Duration::from_micros(210));
            for _ in 0..8 {
                now = now.after(Duration::from_micros(90));
                gaps.arrived(7, now);
            }
        }
        now = now.after(Duration::from_millis(30));
        assert_eq!(wait(&gaps, now, 8.0, 47.0), None, "nobody comes in the middle of a call");
        gaps.landed(7, now);
        let held = wait(&gaps, now, 8.0, 47.0).unwrap();
        assert!((300..500).contains(&held.as_micros()), "{held:?}");
    }

    #[test]
    fn a_timer_that_fires_late_makes_short_waits_not_worth_it() {
        let (gaps, now) = after(&[2_000, 90, 90, 90], 40);
        let ask = Ask { n_waiting: 4.0, saving: 1.0 * MS, resolution: 0.0 };

        assert!(worth(&gaps, 7, &ask, now).is_some());
        let coarse = Ask { resolution: 1.0 * MS, ..ask };
        assert_eq!(worth(&gaps, 7, &coarse, now), None);
    }

    #[test]
    fn strangers_that_share_a_place_never_share_foresight() {
        let (mut gaps, now) = after(&[1_000], 100);
        gaps.arrived(7 + PLACES as u64, now);

        assert_eq!(wait(&gaps, now, 1.0, 5.0), None);
        let owner = 7 + PLACES as u64;
        let ask = Ask { n_waiting: 1.0, saving: 5.0 * MS, resolution: 0.0 };
        assert_eq!(worth(&gaps, owner, &ask, now), None);
    }

    #[test]
    fn what_came_long_ago_is_forgotten_however_many_come() {
        let (mut gaps, mut now) = after(&[1_000], 1_000);
        assert_eq!(gaps.median(7), Some(usual(1_000)));
        // Twelve thousand: the weights, which only grow, would leave the range of numbers.
        for n in 1..=12_000 {
            now = now.after(Duration::from_millis(if n % 2 == 0 { 40 } else { 100 }));
            gaps.arrived(7, now);
            let place = &gaps.places[index(7)].arrived;
            let sum: f32 = place.bins.iter().map(|bin| bin.weight).sum();
            assert!((sum / place.total - 1.0).abs() < 0.01, "after {n}");
            assert!(place.total / place.unit < MEMORY + 2.0, "after {n}");
            for bin in place.bins.iter().filter(|bin| 0.0 < bin.weight) {
                let mean = bin.nanos / bin.weight / MS;
                assert!([1.0, 40.0, 100.0].iter().any(|gap| (mean / gap - 1.0).abs() < 0.01));
            }
            if n == 300 {
                assert!(Some(usual(40_000)) <= gaps.median(7), "300 new ones outweigh 1000 old");
            }
        }
    }

    #[test]
    fn a_few_gaps_foretell_nothing() {
        let (few, now) = after(&[1_000], 5);
        assert_eq!((few.median(7), wait(&few, now, 1.0, 50.0)), (None, None), "four gaps");

        let (enough, now) = after(&[1_000], 6);
        assert_eq!(enough.median(7), Some(usual(1_000)));
        assert!(wait(&enough, now, 1.0, 50.0).is_some());
    }

    #[test]
    fn the_usual_gap_is_the_one_that_half_of_all_are_not_longer_than() {
        let (gaps, _) = after(&[10_000, 900, 10_000], 40);

        assert_eq!(gaps.median(7), Some(usual(10_000)));
        assert_eq!(gaps.median(7 + PLACES as u64), None, "a stranger's");
    }

    #[test]
    fn a_gap_that_lasts_counts_its_bin_for_what_is_left_of_it() {
        let (gaps, last) = after(&[40_000], 40);
        let since = gaps.since(7).unwrap();
        let share = |micros| {
            let (still, partly) = since.still(last.after(Duration::from_micros(micros)));
            assert!((still - partly).abs() < 1e-3 * since.total, "there is no longer bin");
            still / since.total
        };

        // The bin is from 33.55 to 50.33 ms.
        assert!((share(33_555) - 1.0).abs() < 0.001);
        assert!((share(42_000) - 0.4966).abs() < 0.001);
        assert!(share(50_330) < 0.001);
    }

    #[test]
    fn a_wait_is_worth_its_chance_and_costs_what_all_wait_on_average() {
        let (gaps, last) = after(&[10_000, 900], 200);
        let now = last.after(Duration::from_micros(500));
        let ask = Ask { n_waiting: 2.0, saving: 3.0 * MS, resolution: 0.0 };

        let worth = gaps.since(7).unwrap().worth_waiting(&ask, now).unwrap();

        // Half come after 0.9 ms, which is 0.4 ms from now; for the others, two wait in vain until
        // the bin's end at 1.049 ms.
        assert_eq!(worth.until.since(last), usual(900));
        assert!((worth.chance - 0.5).abs() < 0.01, "{worth:?}");
        assert!((worth.cost / MS - 2.0 * (0.5 * 0.4 + 0.5 * 0.549)).abs() < 0.02, "{worth:?}");
        // Half a chance to save 1.5 ms is worth less than that.
        let ask = Ask { saving: 1.5 * MS, ..ask };
        assert!(gaps.since(7).unwrap().worth_waiting(&ask, now).is_none());
    }

    #[test]
    fn how_likely_somebody_comes_depends_on_how_long_nobody_came() {
        let (gaps, last) = after(&[10_000, 900], 200);
        let since = gaps.since(7).unwrap();
        let chance = |after_us, within_us: f32| {
            since.chance(within_us * 1e3, last.after(Duration::from_micros(after_us)))
        };

        assert_eq!(chance(0, 800.0), 0.0);
        assert!((chance(0, 1_000.0) - 0.5).abs() < 0.01);
        assert!(chance(2_000, 7_000.0) < 0.01, "the short gaps are over");
        assert!(0.99 < chance(2_000, 9_000.0));
        assert!(chance(100_000, 1e6) < 0.01, "it is longer than any gap was");
        let (few, now) = after(&[900], 4);
        assert_eq!(few.since(7).unwrap().chance(1.0, now), 1.0, "nothing is known");
    }

    #[test]
    fn owners_with_places_of_their_own_do_not_disturb_each_other() {
        let mut gaps = Gaps::new();
        let mut now = Moment::START;
        for _ in 0..40 {
            now = now.after(Duration::from_millis(1));
            (0..PLACES as u64).for_each(|owner| gaps.arrived(owner, now));
        }

        assert!((0..PLACES as u64).all(|owner| gaps.median(owner) == Some(usual(1_000))));
    }
}
