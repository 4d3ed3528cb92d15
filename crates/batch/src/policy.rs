//! When a queue's batch fires. Pure: a view of one queue in, a verdict out.
//!
//! It is asked only when a device is free, so a batch keeps growing for as long as devices are
//! busy, whatever the policy.

use std::time::Duration;

use crate::{
    Limits, Moment, Policy,
    gaps::{Ask, Since},
    latency::Curve,
    moment::to_duration,
};

/// Why a batch left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FireReason {
    /// A lone item, at once or after the fixed policy's short wait.
    FastPath,
    /// Nothing more fits.
    Full,
    /// Not full, but waiting on would not pay, or it was divided among free devices, or the fixed
    /// policy's share was reached.
    Early,
    /// It was held for company, for as long as that paid or was allowed.
    WaitOver,
    /// Its earliest deadline allowed no more waiting.
    Deadline,
    /// The batcher is closing.
    Drain,
}

impl FireReason {
    /// Every reason, in the order of [`Stats::batches`](crate::Stats).
    pub const ALL: [Self; 6] =
        [Self::FastPath, Self::Full, Self::Early, Self::WaitOver, Self::Deadline, Self::Drain];

    /// As written in metrics and responses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FastPath => "fast_path",
            Self::Full => "full",
            Self::Early => "early",
            Self::WaitOver => "wait_over",
            Self::Deadline => "deadline",
            Self::Drain => "drain",
        }
    }
}

/// What to do with a queue while a device is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fire(FireReason),
    /// Ask again then, or when an item comes.
    Hold(Moment),
}

/// Why a queue's batch fires or is held, in the numbers that it was decided by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// Nothing more fits.
    Full,
    /// The batcher is closing.
    Closing,
    /// The fixed policy fires at this many rows.
    EnoughRows(usize),
    /// The fixed policy waits this long, for one item or for more.
    Clock(Duration),
    /// No call of this length was seen yet, so nothing is known that waiting could save.
    NothingLearned,
    /// Even a call of its own takes only this long; waiting would cost more than it could save.
    CallsAreShort(Duration),
    /// Of the gaps between arrivals too little is known, or this one is longer than they ever were.
    NobodyExpected,
    /// One more item would save this much of a device, which is less than waiting would cost.
    DoesNotPay(Duration),
    /// It was held for as long as it may be.
    HeldLongest(Duration),
    /// A batch with one more item would miss the earliest deadline if it left any later.
    DeadlineIsNear,
    /// All say by when they are wanted, and that is later: nobody loses by waiting.
    WantedLater,
    /// All say by when they are wanted, and it is time.
    WantedNow,
    /// Waiting pays.
    Pays {
        /// What one more item would save of a device.
        saving: Duration,
        /// How likely one comes within the wait, from 0 to 1.
        chance: f32,
        /// What those present are expected to wait for it, all together.
        cost: Duration,
    },
}

/// A verdict and its reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    pub(crate) why: Why,
}

const fn fire(reason: FireReason, why: Why) -> Judgement {
    Judgement { verdict: Verdict::Fire(reason), why }
}

/// What the policy sees of one queue that has items.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) curve: Option<&'a Curve>,
    /// How soon others come, counted from what happened last.
    pub(crate) since: Option<&'a Since>,
    pub(crate) n_items: usize,
    pub(crate) rows: usize,
    /// Whether one more typical item would not fit.
    pub(crate) is_full: bool,
    /// Since when the first of them could have gone.
    pub(crate) oldest: Moment,
    /// The earliest deadline, or `NEVER`.
    pub(crate) soonest: Moment,
    /// By when the most urgent is wanted, where all say so.
    pub(crate) wanted: Option<Moment>,
    /// Nanoseconds for which devices may be taken by others when its time has come; of what is wanted
    /// later alone.
    pub(crate) reserve: f32,
    /// How many times longer than alone a call takes now, because others are under way.
    pub(crate) slowed: f32,
    /// As much, if there were one more beside it.
    pub(crate) beside: f32,
    /// Since when it is held while a device is free.
    pub(crate) held_since: Option<Moment>,
    pub(crate) is_closing: bool,
    /// Nanoseconds by which a hold may last longer than asked for.
    pub(crate) resolution: f32,
}

/// The verdict on one queue.
pub(crate) fn judge(view: &View<'_>, now: Moment) -> Judgement {
    if view.is_full {
        return fire(FireReason::Full, Why::Full);
    }
    if view.is_closing {
        return fire(FireReason::Drain, Why::Closing);
    }
    match view.limits.policy {
        Policy::Adaptive => adaptive(view, now),
        Policy::Fixed { fast_path_wait, early_rows } => {
            if early_rows <= view.rows {
                return fire(FireReason::Early, Why::EnoughRows(early_rows));
            }
            let (wait, reason) = if view.n_items == 1 {
                (fast_path_wait, FireReason::FastPath)
            } else {
                (view.limits.max_wait, FireReason::WaitOver)
            };
            let until = view.oldest.after(wait);
            let verdict = if until <= now { Verdict::Fire(reason) } else { Verdict::Hold(until) };
            Judgement { verdict, why: Why::Clock(wait) }
        }
    }
}

/// Nanoseconds. Holding a batch costs a timer and a wake-up; saving less than that saves nothing.
const WORTH_A_TIMER: f32 = 50_000.0;

fn adaptive(view: &View<'_>, now: Moment) -> Judgement {
    // Not held: with one item, nothing to gain was nothing to lose; with more, they came together
    // while devices were busy.
    let unheld = if view.n_items == 1 { FireReason::FastPath } else { FireReason::Early };
    let Some(curve) = view.curve else { return fire(unheld, Why::NothingLearned) };

    if let Some(wanted) = view.wanted {
        // Nobody loses anything by waiting until then, and every call that is saved is there for
        // somebody who cannot wait.
        let must_go = begin_by(wanted, high(view, curve) + view.reserve);
        let wait_ends = view.held_since.unwrap_or(now).after(view.limits.max_wait);
        let until = must_go.min(wait_ends);
        if now < until {
            return Judgement { verdict: Verdict::Hold(until), why: Why::WantedLater };
        }
        return match view.held_since {
            None => fire(unheld, Why::WantedNow),
            Some(_) if must_go <= now => fire(FireReason::Deadline, Why::WantedNow),
            Some(_) => fire(FireReason::WaitOver, Why::HeldLongest(view.limits.max_wait)),
        };
    }
    let reason = if view.held_since.is_some() { FireReason::WaitOver } else { unheld };
    // Merging saves at most the call that one more item would have had to itself.
    let shortest = curve.shortest();
    if shortest < WORTH_A_TIMER {
        return fire(reason, Why::CallsAreShort(to_duration(shortest)));
    }
    let Some(since) = view.since.filter(|since| since.expects(now)) else {
        return fire(reason, Why::NobodyExpected);
    };
    let saving = merge_saving(view, curve);
    #[expect(clippy::cast_precision_loss, reason = "a queue is small")]
    let n_waiting = view.n_items as f32;
    let ask = Ask { n_waiting, saving, resolution: view.resolution };
    let saving = to_duration(saving);
    let Some(worth) = since.worth_waiting(&ask, now) else {
        return fire(reason, Why::DoesNotPay(saving));
    };
    // What they waited for a device does not count: then nothing was held back.
    let wait_ends = view.held_since.unwrap_or(now).after(view.limits.max_wait);
    if wait_ends <= now {
        return fire(reason, Why::HeldLongest(view.limits.max_wait));
    }
    // A batch of one row more must start then, so that the earliest deadline is met.
    let must_go = begin_by(view.soonest, high(view, curve));
    if must_go <= now {
        return fire(FireReason::Deadline, Why::DeadlineIsNear);
    }
    Judgement {
        verdict: Verdict::Hold(worth.until.min(wait_ends).min(must_go)),
        why: Why::Pays { saving, chance: worth.chance, cost: to_duration(worth.cost) },
    }
}

/// The device time, in nanoseconds, that one more row in this batch saves against a call of its
/// own.
fn merge_saving(view: &View<'_>, curve: &Curve) -> f32 {
    let mean = |rows| curve.mean(view.limits.padded_rows(rows));
    (mean(view.rows) + mean(1) - mean(view.rows + 1)) * view.beside
}

/// What a batch of one row more rarely takes longer than.
fn high(view: &View<'_>, curve: &Curve) -> f32 {
    curve.high(view.limits.padded_rows(view.rows + 1)) * view.slowed
}

/// When something that takes so many nanoseconds must be begun to be done by a moment.
fn begin_by(done: Moment, takes: f32) -> Moment {
    if done == Moment::NEVER {
        return Moment::NEVER;
    }
    Moment::at(done.since(Moment::at(to_duration(takes))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, gaps::Gaps, latency::LatencyTable};

    const MS: Duration = Duration::from_millis(1);

    fn learned(points: &[(usize, Duration)]) -> LatencyTable {
        let mut table = LatencyTable::default();
        for &(rows, took) in points {
            table.teach(0, rows, took);
        }
        table
    }

    /// One item came alone, and nothing hurries.
    fn view<'a>(limits: &'a Limits, table: &'a LatencyTable) -> View<'a> {
        View {
            limits,
            curve: table.curve(0),
            since: None,
            n_items: 1,
            rows: 1,
            is_full: false,
            oldest: Moment::START,
            soonest: Moment::NEVER,
            wanted: None,
            reserve: 0.0,
            slowed: 1.0,
            beside: 1.0,
            held_since: None,
            is_closing: false,
            resolution: 0.0,
        }
    }

    #[test]
    fn one_more_row_saves_the_call_that_it_would_have_had_to_itself() {
        let table = learned(&[(1, 10 * MS), (2, 13 * MS), (4, 16 * MS)]);
        let saving = |settings: &Settings, rows| {
            let limits = settings.validate().unwrap();
            let view = View { rows, ..view(&limits, &table) };
            to_duration(merge_saving(&view, table.curve(0).unwrap()))
        };

        let any = Settings::default();
        assert_eq!([1, 2, 3].map(|rows| saving(&any, rows)), [7 * MS, 17 * MS / 2, 17 * MS / 2]);
        let padded = Settings { sizes: vec![1, 2, 4], ..any };
        assert_eq!([1, 2, 3].map(|rows| saving(&padded, rows)), [7 * MS, 7 * MS, 10 * MS]);
    }

    #[test]
    fn calls_that_are_over_before_a_timer_fires_are_never_waited_for() {
        let mut gaps = Gaps::new();
        let mut now = Moment::START;
        for _ in 0..100 {
            now = now.after(Duration::from_micros(2));
            gaps.arrived(7, now);
        }
        let limits = Settings::default().validate().unwrap();
        let judged = |micros| {
            let table = learned(&[(1, Duration::from_micros(micros))]);
            judge(&View { since: gaps.since(7), ..view(&limits, &table) }, now)
        };

        let short = judged(40);
        assert_eq!(short.verdict, Verdict::Fire(FireReason::FastPath));
        assert_eq!(short.why, Why::CallsAreShort(Duration::from_micros(40)));
        assert!(matches!(judged(60).why, Why::Pays { .. }));
    }

    #[test]
    fn reasons_are_written_in_metrics_as_they_always_were() {
        assert_eq!(
            FireReason::ALL.map(FireReason::as_str),
            ["fast_path", "full", "early", "wait_over", "deadline", "drain"]
        );
    }
}
