//! What the batcher of a model believes now, what it would do, and why its last batches left.

use paceline_batch::{FireReason, Latency, QueueView};
use paceline_pipeline::Model;
use serde::Serialize;

use super::{BatchView, micros, stats::policy};

/// What a model's batcher believes now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explain {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Seconds since it was loaded.
    pub age_s: f64,
    /// How it decides: `adaptive` or `fixed`.
    pub policy: &'static str,
    /// Most rows in a batch.
    pub max_batch: usize,
    /// Longest that an item waits for company while a device is free.
    pub max_wait_us: f64,
    /// Instances that work or could.
    pub devices: usize,
    /// Of these, how many work on a batch now.
    pub busy: usize,
    /// How long calls are believed to take, for each length bucket that was seen.
    pub latencies: Vec<LatencyView>,
    /// How many queues there are: one per key and length bucket.
    pub n_queues: usize,
    /// Some of them, and what is done with each.
    pub queues: Vec<Queue>,
    /// The last batches, oldest first.
    pub batches: Vec<BatchView>,
}

/// How long calls of one length bucket are believed to take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyView {
    /// Which bucket.
    pub bucket: usize,
    /// The longest length in it; none for the last, which has no end.
    pub upto: Option<u32>,
    /// By batch size.
    pub calls: Vec<CallTime>,
}

/// How long a call of one size is believed to take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CallTime {
    /// Rows in the batch.
    pub rows: usize,
    /// On average.
    pub mean_us: f64,
    /// Rarely longer; deadlines are judged by this.
    pub high_us: f64,
}

/// One queue and what is done with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Queue {
    /// A short name of what its items have in common; means nothing in another process.
    pub key: String,
    /// Its length bucket.
    pub bucket: usize,
    /// Items that wait.
    pub items: usize,
    /// Of these, how many could go now; the others follow one of their own stream.
    pub ready: usize,
    /// Rows of those.
    pub rows: usize,
    /// How long the first has waited.
    pub oldest_us: Option<f64>,
    /// How long it is until the earliest deadline.
    pub deadline_us: Option<f64>,
    /// How long its batch has been held for company.
    pub held_us: Option<f64>,
    /// The usual gap between arrivals, where it is known.
    pub usual_gap_us: Option<f64>,
    /// Whether nothing waits, and what follows is about one item that might come now.
    pub imagined: bool,
    /// Why its batch leaves when a device is free, if it does.
    pub fires: Option<&'static str>,
    /// How long it is held otherwise, if nobody comes.
    pub holds_us: Option<f64>,
    /// The same in words.
    pub decision: String,
}

/// What a model's batcher believes now, and the batches after this sequence number, at most so many.
#[must_use]
pub fn explain(model: &Model, after: u64, most: usize) -> Explain {
    let (facts, explained) = (model.facts(), model.explain());
    let batches = model.landed_after(after, most);
    Explain {
        name: facts.name.clone(),
        version: facts.version.to_string(),
        age_s: model.age().as_secs_f64(),
        policy: policy(explained.policy),
        max_batch: facts.limits.max_items(),
        max_wait_us: micros(facts.limits.max_wait()),
        devices: explained.devices,
        busy: explained.busy,
        latencies: explained.latencies.iter().map(latency).collect(),
        n_queues: explained.n_queues,
        queues: explained.queues.iter().map(queue).collect(),
        batches: batches.iter().map(BatchView::from).collect(),
    }
}

fn latency(latency: &Latency) -> LatencyView {
    let margin = f64::from(latency.margin);
    let calls = latency.means.iter().map(|&(rows, mean)| CallTime {
        rows,
        mean_us: micros(mean),
        high_us: micros(mean) * margin,
    });
    LatencyView { bucket: latency.bucket, upto: latency.edge, calls: calls.collect() }
}

fn queue(queue: &QueueView) -> Queue {
    let decision = &queue.decision;
    Queue {
        key: format!("{:08x}", queue.key.low64() >> 32),
        bucket: queue.bucket,
        items: queue.items,
        ready: queue.ready,
        rows: queue.rows,
        oldest_us: queue.oldest.map(micros),
        deadline_us: queue.deadline.map(micros),
        held_us: queue.held.map(micros),
        usual_gap_us: queue.usual_gap.map(micros),
        imagined: decision.is_imagined,
        fires: decision.fires.map(FireReason::as_str),
        holds_us: decision.holds.map(micros),
        decision: decision.to_string(),
    }
}
