//! What a model did so far.

use std::{collections::BTreeMap, sync::Arc};

use paceline_batch::{Dropped, FireReason, Histogram, Policy, Stats};
use paceline_pipeline::{Mode, Model, ModelStats};
use serde::Serialize;

/// What a model did so far, in each version that is served.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelView {
    /// Its name.
    pub name: String,
    /// In rising order.
    pub versions: Vec<VersionView>,
}

/// What one version of a model did since it was loaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VersionView {
    /// Which.
    pub version: String,
    /// What runs it.
    pub platform: String,
    /// How items reach its instances: `batch`, `pool` or `direct`.
    pub mode: Mode,
    /// How batches are fired: `adaptive` or `fixed`.
    pub policy: &'static str,
    /// How many instances it has.
    pub instances: usize,
    /// Most rows in a batch.
    pub max_batch: usize,
    /// Longest that an item waits for company while a device is free.
    pub max_wait_us: f64,
    /// Whether it can answer.
    pub ready: bool,
    /// Why it cannot.
    pub trouble: Option<String>,
    /// Seconds since it was loaded.
    pub age_s: f64,
    /// Requests, from asking to result.
    pub requests: Requests,
    /// Items: a request, or a part of one that was too large for a batch.
    pub items: Items,
    /// What waits.
    pub queue: Queue,
    /// Batches.
    pub batches: Batches,
}

/// Requests by what came of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Requests {
    /// With a result.
    pub good: u64,
    /// Without.
    pub failed: u64,
    /// Whose client left before.
    pub cancelled: u64,
    /// Rows of the good ones.
    pub rows: u64,
    /// From asking to result.
    pub latency: Percentiles,
    /// From asking to the first of several results, of those that were asked for as a stream.
    pub first_result: Percentiles,
}

/// Items by what came of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Items {
    /// Taken in.
    pub accepted: u64,
    /// Not taken in, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Left the queue without a call, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Left in a batch and have no result.
    pub failed: u64,
    /// Answered after their deadline.
    pub late: u64,
    /// All that missed their deadline: refused as hopeless, dropped, or answered late.
    pub deadline_misses: u64,
}

/// What waits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Queue {
    /// Items now.
    pub items: usize,
    /// Memory that they hold.
    pub bytes: usize,
    /// Most items.
    pub max_items: usize,
    /// Most memory.
    pub max_bytes: usize,
    /// How long items waited.
    pub wait: Percentiles,
}

/// Batches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Batches {
    /// How many left.
    pub count: u64,
    /// How many are being worked on.
    pub in_flight: usize,
    /// How many failed.
    pub failed: u64,
    /// By why they left.
    pub fired: BTreeMap<&'static str, u64>,
    /// Mean of their rows.
    pub mean_rows: f64,
    /// How many had so many rows, or up to so many where sizes are counted together.
    pub rows: Vec<Bin>,
    /// How long good calls took.
    pub execution: Percentiles,
    /// Actual over predicted time of good calls.
    pub prediction: Ratios,
    /// The share of what the model ran that was padding, from 0 to 1.
    pub padding_share: f64,
}

/// One bin of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The largest that is counted here.
    pub upto: u64,
    /// How many.
    pub count: u64,
}

/// A distribution of times, to a quarter of each value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// Of how many.
    pub count: u64,
    /// Exact.
    pub mean_us: f64,
    /// Half took no longer.
    pub p50_us: f64,
    /// Nine tenths took no longer.
    pub p90_us: f64,
    /// All but one in a hundred took no longer.
    pub p99_us: f64,
    /// All but one in a thousand took no longer.
    pub p999_us: f64,
    /// None took longer.
    pub max_us: f64,
}

/// A distribution of ratios, to a quarter of each value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratios {
    /// Of how many.
    pub count: u64,
    /// Exact.
    pub mean: f64,
    /// Half were no larger.
    pub p50: f64,
    /// All but one in twenty were no larger.
    pub p95: f64,
    /// All but one in a hundred were no larger.
    pub p99: f64,
}

/// What a model did so far.
#[must_use]
pub fn model(name: String, versions: &[Arc<Model>]) -> ModelView {
    ModelView { name, versions: versions.iter().map(|model| version(model)).collect() }
}

/// What one version of a model did so far.
#[must_use]
pub fn version(model: &Model) -> VersionView {
    let (facts, batches) = (model.facts(), model.batch_stats());
    let trouble = model.trouble();
    VersionView {
        version: facts.version.to_string(),
        platform: facts.platform.clone(),
        mode: facts.mode,
        policy: policy(facts.limits.policy()),
        instances: facts.instances,
        max_batch: facts.limits.max_items(),
        max_wait_us: super::micros(facts.limits.max_wait()),
        ready: trouble.is_none(),
        trouble,
        age_s: model.age().as_secs_f64(),
        requests: requests(&model.stats()),
        items: items(&batches),
        queue: Queue {
            items: batches.waiting_items,
            bytes: batches.waiting_bytes,
            max_items: facts.limits.queue_items(),
            max_bytes: facts.limits.queue_bytes(),
            wait: times(&batches.wait),
        },
        batches: of_batches(&batches),
    }
}

pub(super) const fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::Adaptive => "adaptive",
        Policy::Fixed { .. } => "fixed",
    }
}

fn requests(stats: &ModelStats) -> Requests {
    Requests {
        good: stats.n_good,
        failed: stats.n_failed,
        cancelled: stats.n_cancelled,
        rows: stats.n_rows,
        latency: times(&stats.latency),
        first_result: times(&stats.first_result),
    }
}

fn items(stats: &Stats) -> Items {
    Items {
        accepted: stats.accepted,
        refused: stats.refused_by_reason().into(),
        dropped: Dropped::ALL.map(|why| (why.as_str(), stats.items_dropped(why))).into(),
        failed: stats.failed,
        late: stats.late,
        deadline_misses: stats.deadline_misses(),
    }
}

fn of_batches(stats: &Stats) -> Batches {
    let rows = stats.batch_rows.bins().map(|(upto, count)| Bin { upto, count });
    Batches {
        count: stats.batch_rows.count(),
        in_flight: stats.in_flight,
        failed: stats.failed_calls,
        fired: FireReason::ALL.map(|why| (why.as_str(), stats.batches_fired(why))).into(),
        mean_rows: stats.batch_rows.mean(),
        rows: rows.collect(),
        execution: times(&stats.execution),
        prediction: ratios(&stats.prediction),
        padding_share: stats.padding_share(),
    }
}

/// From nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "a quantile is approximate")]
fn times(histogram: &Histogram) -> Percentiles {
    let at = |share| histogram.quantile(share) as f64 / 1e3;
    Percentiles {
        count: histogram.count(),
        mean_us: histogram.mean() / 1e3,
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: at(1.0),
    }
}

/// From thousandths.
#[expect(clippy::cast_precision_loss, reason = "a quantile is approximate")]
fn ratios(histogram: &Histogram) -> Ratios {
    let at = |share| histogram.quantile(share) as f64 / 1e3;
    Ratios {
        count: histogram.count(),
        mean: histogram.mean() / 1e3,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
    }
}
