//! What models did, in our words and in Triton's.

use std::sync::Arc;

use paceline_batch::{Dropped, FireReason, Policy, Stats};
use paceline_pipeline::{Mode, Model, ModelStats, Models};

use super::{
    page::{Page, Scale},
    table as t,
};

/// One version of one model at this moment.
struct Snapshot {
    model: Arc<Model>,
    version: String,
    requests: ModelStats,
    batches: Stats,
}

impl Snapshot {
    fn of(model: Arc<Model>) -> Self {
        Self {
            version: model.facts().version.to_string(),
            requests: model.stats(),
            batches: model.batch_stats(),
            model,
        }
    }

    fn labels(&self) -> [&str; 2] {
        [&self.model.facts().name, &self.version]
    }

    fn and<'a>(&'a self, third: &'a str) -> [&'a str; 3] {
        let [model, version] = self.labels();
        [model, version, third]
    }
}

pub(super) fn write(page: &mut Page, models: &Models) {
    let all: Vec<Snapshot> = models.all().into_iter().map(Snapshot::of).collect();
    about(page, &all);
    requests(page, &all);
    items(page, &all);
    batches(page, &all);
    triton(page, &all);
}

fn about(page: &mut Page, all: &[Snapshot]) {
    let mut series = page.family(&t::MODEL_INFO);
    for one in all {
        let facts = one.model.facts();
        let mode = match facts.mode {
            Mode::Batch => "batch",
            Mode::Pool => "pool",
            Mode::Direct => "direct",
        };
        let policy = match facts.limits.policy() {
            Policy::Adaptive => "adaptive",
            Policy::Fixed { .. } => "fixed",
        };
        let [model, version] = one.labels();
        series.flag(&[model, version, &facts.platform, mode, policy], true);
    }
    let mut series = page.family(&t::MODEL_READY);
    for one in all {
        series.flag(&one.labels(), one.model.is_ready());
    }
    let mut series = page.family(&t::MODEL_AGE);
    for one in all {
        series.value(&one.labels(), one.model.age().as_secs_f64());
    }
    let mut series = page.family(&t::INSTANCES);
    for one in all {
        series.size(&one.labels(), one.model.facts().instances);
    }
    let mut series = page.family(&t::RESTARTS);
    for one in all {
        series.count(&one.labels(), one.model.restarts());
    }
}

fn requests(page: &mut Page, all: &[Snapshot]) {
    let mut series = page.family(&t::REQUESTS);
    for one in all {
        series.count(&one.and("good"), one.requests.n_good);
        series.count(&one.and("failed"), one.requests.n_failed);
        series.count(&one.and("cancelled"), one.requests.n_cancelled);
    }
    let mut series = page.family(&t::REQUEST_ROWS);
    for one in all {
        series.count(&one.labels(), one.requests.n_rows);
    }
    let mut series = page.family(&t::LATENCY);
    for one in all {
        series.histogram(&one.labels(), &one.requests.latency, &Scale::SECONDS);
    }
    let mut series = page.family(&t::FIRST_RESULT);
    for one in all {
        series.histogram(&one.labels(), &one.requests.first_result, &Scale::SECONDS);
    }
}

fn items(page: &mut Page, all: &[Snapshot]) {
    let mut series = page.family(&t::ACCEPTED);
    for one in all {
        series.count(&one.labels(), one.batches.accepted);
    }
    let mut series = page.family(&t::REFUSED);
    for one in all {
        for (reason, count) in one.batches.refused_by_reason() {
            series.count(&one.and(reason), count);
        }
    }
    let mut series = page.family(&t::DROPPED);
    for one in all {
        for reason in Dropped::ALL {
            series.count(&one.and(reason.as_str()), one.batches.items_dropped(reason));
        }
    }
    let mut series = page.family(&t::FAILED);
    for one in all {
        series.count(&one.labels(), one.batches.failed);
    }
    let mut series = page.family(&t::MISSES);
    for one in all {
        series.count(&one.labels(), one.batches.deadline_misses());
    }
    let mut series = page.family(&t::WAIT);
    for one in all {
        series.histogram(&one.labels(), &one.batches.wait, &Scale::SECONDS);
    }
    let mut series = page.family(&t::QUEUE_ITEMS);
    for one in all {
        series.size(&one.labels(), one.batches.waiting_items);
    }
    let mut series = page.family(&t::QUEUE_BYTES);
    for one in all {
        series.size(&one.labels(), one.batches.waiting_bytes);
    }
    let mut series = page.family(&t::QUEUE_LIMIT);
    for one in all {
        series.size(&one.labels(), one.model.facts().limits.queue_items());
    }
}

fn batches(page: &mut Page, all: &[Snapshot]) {
    let mut series = page.family(&t::BATCHES);
    for one in all {
        for reason in FireReason::ALL {
            series.count(&one.and(reason.as_str()), one.batches.batches_fired(reason));
        }
    }
    let mut series = page.family(&t::BATCHES_FAILED);
    for one in all {
        series.count(&one.labels(), one.batches.failed_calls);
    }
    let mut series = page.family(&t::IN_FLIGHT);
    for one in all {
        series.size(&one.labels(), one.batches.in_flight);
    }
    let mut series = page.family(&t::BATCH_ROWS);
    for one in all {
        series.histogram(&one.labels(), &one.batches.batch_rows, &Scale::ROWS);
    }
    let mut series = page.family(&t::EXECUTION);
    for one in all {
        series.histogram(&one.labels(), &one.batches.execution, &Scale::SECONDS);
    }
    let mut series = page.family(&t::PREDICTION);
    for one in all {
        series.histogram(&one.labels(), &one.batches.prediction, &Scale::RATIO);
    }
    let mut series = page.family(&t::UNITS);
    for one in all {
        let Stats { useful_units, padded_units, .. } = one.batches;
        series.count(&one.and("useful"), useful_units);
        series.count(&one.and("padding"), padded_units.saturating_sub(useful_units));
    }
    let mut series = page.family(&t::PADDING);
    for one in all {
        series.value(&one.labels(), one.batches.padding_share());
    }
}

/// The names that dashboards for Triton ask for.
fn triton(page: &mut Page, all: &[Snapshot]) {
    let mut series = page.family(&t::NV_SUCCESS);
    for one in all {
        series.count(&one.labels(), one.requests.n_good);
    }
    let mut series = page.family(&t::NV_FAILURE);
    for one in all {
        let refused: u64 = one.batches.refused_by_reason().iter().map(|(_, count)| count).sum();
        let rejected = refused.min(one.requests.n_failed);
        series.count(&one.and("REJECTED"), rejected);
        series.count(&one.and("CANCELED"), one.requests.n_cancelled);
        series.count(&one.and("BACKEND"), one.requests.n_failed - rejected);
        series.count(&one.and("OTHER"), 0);
    }
    let mut series = page.family(&t::NV_COUNT);
    for one in all {
        series.count(&one.labels(), one.requests.n_rows);
    }
    let mut series = page.family(&t::NV_EXEC);
    for one in all {
        series.count(&one.labels(), one.batches.batch_rows.count());
    }
    let mut series = page.family(&t::NV_PENDING);
    for one in all {
        series.size(&one.labels(), one.batches.waiting_items);
    }
    let mut series = page.family(&t::NV_DURATION);
    for one in all {
        series.count(&one.labels(), one.requests.total_ns / 1000);
    }
    let mut series = page.family(&t::NV_QUEUE);
    for one in all {
        series.count(&one.labels(), one.requests.wait_ns / 1000);
    }
    let mut series = page.family(&t::NV_INPUT);
    for one in all {
        series.count(&one.labels(), 0);
    }
    let mut series = page.family(&t::NV_INFER);
    for one in all {
        series.count(&one.labels(), one.requests.compute_ns / 1000);
    }
    let mut series = page.family(&t::NV_OUTPUT);
    for one in all {
        series.count(&one.labels(), 0);
    }
    let mut series = page.family(&t::NV_FIRST);
    for one in all {
        series.histogram(&one.labels(), &one.requests.first_result, &Scale::MILLISECONDS);
    }
}
