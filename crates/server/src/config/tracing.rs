//! `[tracing]`: where spans of requests go.

use serde::{Deserialize, Serialize};

/// Traces for OpenTelemetry; off where no collector is named.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TracingSection {
    /// A collector that takes OTLP over gRPC, such as `http://127.0.0.1:4317`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The share of requests without a `traceparent` that begin a trace, from 0 to 1. A request with
    /// one is traced where that says so.
    pub sample: f64,
    /// What the server is called in traces.
    pub service_name: String,
}

impl Default for TracingSection {
    fn default() -> Self {
        Self { endpoint: None, sample: 1.0, service_name: "paceline".to_owned() }
    }
}
