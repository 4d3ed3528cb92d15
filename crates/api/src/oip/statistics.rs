//! What models have done so far, as JSON and as gRPC.
//!
//! Every key is always there: load generators stop at the first one they miss.

use serde::{Deserialize, Serialize};

use super::proto;

/// The answer to `GET /v2/models/stats` and its narrower forms.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// One entry per version of each model.
    pub model_stats: Vec<ModelStatistics>,
}

/// One version of one model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelStatistics {
    /// The model's name.
    pub name: String,
    /// The version, digits.
    pub version: String,
    /// Milliseconds since 1970 at the last request; 0 before the first.
    pub last_inference: u64,
    /// Rows, not requests.
    pub inference_count: u64,
    /// Model calls, each for any number of rows.
    pub execution_count: u64,
    /// By outcome and by stage.
    pub inference_stats: InferStatistics,
    /// By batch size.
    pub batch_stats: Vec<BatchStatistics>,
    /// What it holds.
    pub memory_usage: Vec<MemoryUsage>,
}

/// Requests by what became of them, and their time by stage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InferStatistics {
    /// Answered, from arrival to answer.
    pub success: Span,
    /// Failed, from arrival to error.
    pub fail: Span,
    /// Waiting for a batch.
    pub queue: Span,
    /// Stacking and padding.
    pub compute_input: Span,
    /// In the model.
    pub compute_infer: Span,
    /// Splitting the answers.
    pub compute_output: Span,
    /// Answered from a cache.
    pub cache_hit: Span,
    /// Looked for in a cache in vain.
    pub cache_miss: Span,
    /// Withdrawn, since the client left before there was an answer. Over gRPC it stands under
    /// `response_stats`, where the protocol has a place for it.
    pub cancel: Span,
}

/// How often something happened, and how long it took in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Span {
    /// How often.
    pub count: u64,
    /// Nanoseconds in all.
    pub ns: u64,
}

/// Model calls of one batch size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BatchStatistics {
    /// Rows in each of these calls.
    pub batch_size: u64,
    /// Stacking and padding.
    pub compute_input: Span,
    /// In the model.
    pub compute_infer: Span,
    /// Splitting the answers.
    pub compute_output: Span,
}

/// Memory that a model holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryUsage {
    /// `CPU`, `CPU_PINNED` or `GPU`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Which device of that kind.
    pub id: i64,
    /// How much.
    pub byte_size: u64,
}

impl From<Statistics> for proto::ModelStatisticsResponse {
    fn from(statistics: Statistics) -> Self {
        Self { model_stats: statistics.model_stats.into_iter().map(Into::into).collect() }
    }
}

impl From<ModelStatistics> for proto::ModelStatistics {
    fn from(statistics: ModelStatistics) -> Self {
        Self {
            name: statistics.name,
            version: statistics.version,
            last_inference: statistics.last_inference,
            inference_count: statistics.inference_count,
            execution_count: statistics.execution_count,
            response_stats: [("0".to_owned(), cancelled(&statistics.inference_stats))].into(),
            inference_stats: Some(statistics.inference_stats.into()),
            batch_stats: statistics.batch_stats.into_iter().map(Into::into).collect(),
            memory_usage: statistics.memory_usage.into_iter().map(Into::into).collect(),
        }
    }
}

/// Every request has one answer, the first.
fn cancelled(statistics: &InferStatistics) -> proto::InferResponseStatistics {
    proto::InferResponseStatistics {
        cancel: Some(statistics.cancel.into()),
        ..proto::InferResponseStatistics::default()
    }
}

impl From<InferStatistics> for proto::InferStatistics {
    fn from(statistics: InferStatistics) -> Self {
        Self {
            success: Some(statistics.success.into()),
            fail: Some(statistics.fail.into()),
            queue: Some(statistics.queue.into()),
            compute_input: Some(statistics.compute_input.into()),
            compute_infer: Some(statistics.compute_infer.into()),
            compute_output: Some(statistics.compute_output.into()),
            cache_hit: Some(statistics.cache_hit.into()),
            cache_miss: Some(statistics.cache_miss.into()),
        }
    }
}

impl From<BatchStatistics> for proto::InferBatchStatistics {
    fn from(statistics: BatchStatistics) -> Self {
        Self {
            batch_size: statistics.batch_size,
            compute_input: Some(statistics.compute_input.into()),
            compute_infer: Some(statistics.compute_infer.into()),
            compute_output: Some(statistics.compute_output.into()),
        }
    }
}

impl From<MemoryUsage> for proto::MemoryUsage {
    fn from(usage: MemoryUsage) -> Self {
        Self { r#type: usage.kind, id: usage.id, byte_size: usage.byte_size }
    }
}

impl From<Span> for proto::StatisticDuration {
    fn from(span: Span) -> Self {
        Self { count: span.count, ns: span.ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_load_generators_read_is_always_there() {
        let fresh = Statistics { model_stats: vec![ModelStatistics::default()] };
        let json = serde_json::to_value(&fresh).unwrap();

        let model = &json["model_stats"][0];
        assert!(model["name"].is_string() && model["version"].is_string());
        assert!(model["inference_count"].is_u64() && model["execution_count"].is_u64());
        for stage in [
            "success",
            "fail",
            "queue",
            "compute_input",
            "compute_infer",
            "compute_output",
            "cache_hit",
            "cache_miss",
            "cancel",
        ] {
            let span = &model["inference_stats"][stage];
            assert!(span["count"].is_u64() && span["ns"].is_u64(), "{stage}");
        }
    }

    #[test]
    fn grpc_has_every_stage_too() {
        let stages =
            proto::ModelStatistics::from(ModelStatistics::default()).inference_stats.unwrap();

        assert!(stages.cache_hit.is_some() && stages.cache_miss.is_some());
        assert!(stages.success.is_some() && stages.queue.is_some());
    }
}
