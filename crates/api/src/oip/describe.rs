//! What served models say about themselves, in the protocol's words.

use paceline_pipeline::{Known, Mode, Model, Models};

use super::{
    config::{Batching, ConfigFacts, InstanceKind, describe},
    meta::{EXTENSIONS, ModelMetadata, ModelState, RepositoryEntry, ServerMetadata},
    proto,
    statistics::{BatchStatistics, InferStatistics, ModelStatistics, Span},
};

/// What the server says about itself.
#[must_use]
pub fn server_metadata() -> ServerMetadata {
    ServerMetadata {
        name: "paceline".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: EXTENSIONS.map(str::to_owned).into(),
    }
}

/// What a model says about its inputs and outputs.
#[must_use]
pub fn model_metadata(model: &Model, models: &Models) -> ModelMetadata {
    let facts = model.facts();
    let versions = models.versions(&facts.name).iter().map(u64::to_string).collect();
    ModelMetadata::describe(facts.name.clone(), versions, facts.platform.clone(), model.signature())
}

/// What a model says about how it is run.
#[must_use]
pub fn model_config(model: &Model) -> proto::ModelConfig {
    let facts = model.facts();
    let is_batched = model.signature().batched;
    let max_items = u32::try_from(facts.limits.max_items()).unwrap_or(u32::MAX);
    let described = ConfigFacts {
        name: facts.name.clone(),
        version_policy: facts.version_policy.clone(),
        platform: facts.platform.clone(),
        backend: facts.platform.split('_').next().unwrap_or_default().to_owned(),
        max_batch_size: if is_batched { max_items } else { 0 },
        batching: if let Some(max_idle) = model.sequence_idle() {
            Batching::Sequence { max_idle }
        } else if is_batched && facts.mode == Mode::Batch {
            Batching::Dynamic { max_wait: facts.limits.max_wait() }
        } else {
            Batching::Off
        },
        instances: u32::try_from(facts.instances).unwrap_or(u32::MAX),
        kind: InstanceKind::Cpu,
        decoupled: facts.streams,
    };
    describe(described, model.signature())
}

/// What a model did so far.
#[must_use]
pub fn model_statistics(model: &Model) -> ModelStatistics {
    let (facts, requests, batches) = (model.facts(), model.stats(), model.batch_stats());
    let span = |count, ns| Span { count, ns };
    let total = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
    ModelStatistics {
        name: facts.name.clone(),
        version: facts.version.to_string(),
        last_inference: 0,
        inference_count: requests.n_rows,
        // Counted when a batch leaves, so that whoever has an answer finds its call counted.
        execution_count: batches.batch_rows.count(),
        inference_stats: InferStatistics {
            success: span(requests.n_good, requests.total_ns),
            fail: span(requests.n_failed, requests.failed_ns),
            queue: span(requests.n_good, requests.wait_ns),
            compute_input: span(requests.n_good, 0),
            compute_infer: span(requests.n_good, requests.compute_ns),
            compute_output: span(requests.n_good, 0),
            cache_hit: Span::default(),
            cache_miss: Span::default(),
            cancel: span(requests.n_cancelled, requests.cancelled_ns),
        },
        batch_stats: batches
            .batch_rows
            .bins()
            .map(|(rows, count)| BatchStatistics {
                batch_size: rows,
                compute_input: span(count, 0),
                // Times are kept over all sizes; the mean stands for each.
                compute_infer: span(
                    count,
                    total(
                        batches.execution.sum() * u128::from(count)
                            / u128::from(batches.execution.count().max(1)),
                    ),
                ),
                compute_output: span(count, 0),
            })
            .collect(),
        memory_usage: Vec::new(),
    }
}

/// Every model that is known, served or not.
#[must_use]
pub fn repository(known: Vec<Known>) -> Vec<RepositoryEntry> {
    let entry = |known: Known| RepositoryEntry {
        name: known.name,
        version: known.version.map(|version| version.to_string()).unwrap_or_default(),
        state: if known.reason.is_none() { ModelState::Ready } else { ModelState::Unavailable },
        reason: known.reason.unwrap_or_default(),
    };
    known.into_iter().map(entry).collect()
}
