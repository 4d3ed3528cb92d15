//! Traces for OpenTelemetry: a span for each request that is traced, and one for each call of a model,
//! linked to those that shared it. Off unless `[tracing]` names a collector.
//!
//! Requests hand their spans over without waiting; what does not fit is dropped and counted. One task
//! gathers them, makes the spans of calls (`otlp`), and sends them.

mod otlp;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, trace_service_client::TraceServiceClient,
};
use paceline_pipeline::{RequestSpan, Tracer};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::{config::TracingSection, supervise::StageResult};

/// Most spans that wait to be sent.
const WAITING: usize = 16_384;
/// Most requests in one message.
const MESSAGE: usize = 512;
/// How long spans are gathered before they are sent. All that shared a call are answered together,
/// so this is also how long their call waits for the last of them.
const GATHER: Duration = Duration::from_millis(250);
/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where spans go.
#[derive(Debug)]
pub(crate) struct Spans {
    sender: mpsc::Sender<RequestSpan>,
    /// Of 2^64 numbers, how many are sampled.
    sampled: u64,
    sent: AtomicU64,
    dropped: AtomicU64,
    over: CancellationToken,
}

/// Sends spans; must be run.
#[derive(Debug)]
pub(crate) struct Sending {
    spans: Arc<Spans>,
    waiting: mpsc::Receiver<RequestSpan>,
    client: TraceServiceClient<Channel>,
    service: String,
}

/// Why spans cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error(
    "tracing.endpoint `{endpoint}`: {error}; write http://HOST:PORT of a collector that takes OTLP over gRPC, whose port is usually 4317"
)]
pub struct EndpointError {
    endpoint: String,
    error: String,
}

impl Spans {
    /// Where spans go and what sends them; nothing where tracing is off.
    pub(crate) fn pair(
        section: &TracingSection,
    ) -> Result<Option<(Arc<Self>, Sending)>, EndpointError> {
        let Some(endpoint) = &section.endpoint else { return Ok(None) };
        let wrong = |error: String| EndpointError { endpoint: endpoint.clone(), error };
        let target =
            Endpoint::from_shared(endpoint.clone()).map_err(|error| wrong(error.to_string()))?;
        if target.uri().scheme_str() != Some("http") {
            return Err(wrong("only http is spoken".to_owned()));
        }
        let channel = target.timeout(PATIENCE).connect_timeout(PATIENCE).connect_lazy();
        let (sender, waiting) = mpsc::channel(WAITING);
        let spans = Arc::new(Self {
            sender,
            sampled: share(section.sample),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            over: CancellationToken::new(),
        });
        let sending = Sending {
            spans: Arc::clone(&spans),
            waiting,
            client: TraceServiceClient::new(channel),
            service: section.service_name.clone(),
        };
        Ok(Some((spans, sending)))
    }

    /// No more spans come: all requests are answered.
    pub(crate) fn close(&self) {
        self.over.cancel();
    }

    /// Spans that were sent, and that were dropped.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed))
    }
}

impl Tracer for Spans {
    fn samples(&self, random: u64) -> bool {
        random < self.sampled
    }

    fn keep(&self, span: RequestSpan) {
        if self.sender.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Sending {
    /// Sends until no more come.
    pub(crate) async fn run(mut self) -> StageResult {
        let over = self.spans.over.clone();
        let mut gathered = Vec::with_capacity(MESSAGE);
        while !over.is_cancelled() {
            tokio::select! {
                () = over.cancelled() => {}
                n = self.waiting.recv_many(&mut gathered, MESSAGE) => {
                    if n == 0 {
                        break;
                    }
                    // Their company is answered at the same moment, and may not be here yet.
                    tokio::select! {
                        () = over.cancelled() => {}
                        () = sleep(GATHER) => {}
                    }
                    self.fill(&mut gathered);
                    self.send(&mut gathered).await;
                }
            }
        }
        loop {
            self.fill(&mut gathered);
            if gathered.is_empty() {
                return Ok(());
            }
            self.send(&mut gathered).await;
        }
    }

    fn fill(&mut self, gathered: &mut Vec<RequestSpan>) {
        while gathered.len() < MESSAGE
            && let Ok(span) = self.waiting.try_recv()
        {
            gathered.push(span);
        }
    }

    /// Sends what was gathered, once. A collector that is away loses spans, never requests.
    async fn send(&mut self, gathered: &mut Vec<RequestSpan>) {
        let n_spans = gathered.len() as u64;
        let message: ExportTraceServiceRequest = otlp::message(&self.service, gathered);
        gathered.clear();
        let sent = timeout(PATIENCE, self.client.export(message)).await;
        let problem = match sent {
            Ok(Ok(_)) => {
                self.spans.sent.fetch_add(n_spans, Ordering::Relaxed);
                return;
            }
            Ok(Err(status)) => status.message().to_owned(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        self.spans.dropped.fetch_add(n_spans, Ordering::Relaxed);
        tracing::warn!(problem, spans = n_spans, "the collector of traces took none of these");
    }
}

/// How many of 2^64 numbers are this share of them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "float casts saturate, and a share is approximate"
)]
fn share(sample: f64) -> u64 {
    (sample.clamp(0.0, 1.0) * u64::MAX as f64) as u64
}
