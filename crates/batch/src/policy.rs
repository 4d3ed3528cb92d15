//! When a queue's batch fires. Pure: a view of one queue in, a verdict out.
//!
//! It is asked only when a device is free, so a batch keeps growing for as long as devices are
//! busy, whatever the policy.

use std::time::Duration;

use crate::{
    Limits, Moment, Policy,
    gaps::{Ask, Gaps},
    latency::Curve,
};

/// Why a batch left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FireReason {
    /// A lone item, at once or after the fixed policy's short wait.
    FastPath,
    /// Nothing more fits.
    Full,
    /// Not full, but waiting on would not pay, or the fixed policy's share was reached.
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

/// What the policy sees of one queue that has items.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) gaps: &'a Gaps,
    pub(crate) curve: Option<&'a Curve>,
    /// Whose gaps are meant.
    pub(crate) owner: u64,
    pub(crate) n_items: usize,
    pub(crate) rows: usize,
    /// Whether one more typical item would not fit.
    pub(crate) is_full: bool,
    /// Since when the first of them could have gone.
    pub(crate) oldest: Moment,
    /// The earliest deadline, or `NEVER`.
    pub(crate) soonest: Moment,
    /// Since when it is held while a device is free.
    pub(crate) held_since: Option<Moment>,
    pub(crate) is_closing: bool,
    /// Nanoseconds by which a hold may last longer than asked for.
    pub(crate) resolution: f32,
}

/// The verdict on one queue.
pub(crate) fn verdict(view: &View<'_>, now: Moment) -> Verdict {
    if view.is_full {
        return Verdict::Fire(FireReason::Full);
    }
    if view.is_closing {
        return Verdict::Fire(FireReason::Drain);
    }
    match view.limits.policy {
        Policy::Adaptive => adaptive(view, now),
        Policy::Fixed { fast_path_wait, early_rows } => {
            if early_rows <= view.rows {
                return Verdict::Fire(FireReason::Early);
            }
            let (until, reason) = if view.n_items == 1 {
                (view.oldest.after(fast_path_wait), FireReason::FastPath)
            } else {
                (view.oldest.after(view.limits.max_wait), FireReason::WaitOver)
            };
            if until <= now { Verdict::Fire(reason) } else { Verdict::Hold(until) }
        }
    }
}

/// Nanoseconds. Holding a batch costs a timer and a wake-up; saving less than that saves nothing.
const WORTH_A_TIMER: f32 = 50_000.0;

fn adaptive(view: &View<'_>, now: Moment) -> Verdict {
    // Not held: with one item, nothing to gain was nothing to lose; with more, they came together
    // while devices were busy.
    let unheld = if view.n_items == 1 { FireReason::FastPath } else { FireReason::Early };
    let Some(curve) = view.curve else { return Verdict::Fire(unheld) };

    let reason = if view.held_since.is_some() { FireReason::WaitOver } else { unheld };
    // Merging saves at most the call that one more item would have had to itself.
    if curve.shortest() < WORTH_A_TIMER {
        return Verdict::Fire(reason);
    }
    let saving = merge_saving(view, curve);
    #[expect(clippy::cast_precision_loss, reason = "a queue is small")]
    let n_items = view.n_items as f32;
    let ask = Ask { owner: view.owner, n_waiting: n_items, saving, resolution: view.resolution };
    let Some(pays_until) = view.gaps.worth_waiting_until(&ask, now) else {
        return Verdict::Fire(reason);
    };
    // What they waited for a device does not count: then nothing was held back.
    let wait_ends = view.held_since.unwrap_or(now).after(view.limits.max_wait);
    if wait_ends <= now {
        return Verdict::Fire(reason);
    }
    let must_go = latest_start(view, curve);
    if must_go <= now {
        return Verdict::Fire(FireReason::Deadline);
    }
    Verdict::Hold(pays_until.min(wait_ends).min(must_go))
}

/// The device time, in nanoseconds, that one more row in this batch saves against a call of its
/// own.
fn merge_saving(view: &View<'_>, curve: &Curve) -> f32 {
    let mean = |rows| curve.mean(view.limits.padded_rows(rows));
    mean(view.rows) + mean(1) - mean(view.rows + 1)
}

/// When a batch of one row more must start so that the earliest deadline is met.
fn latest_start(view: &View<'_>, curve: &Curve) -> Moment {
    if view.soonest == Moment::NEVER {
        return Moment::NEVER;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate, and times are not negative"
    )]
    let takes = curve.high(view.limits.padded_rows(view.rows + 1)) as u64;
    Moment::at(view.soonest.since(Moment::at(Duration::from_nanos(takes))))
}
