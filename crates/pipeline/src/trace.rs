//! A span for each request that is traced. Who keeps spans is not known here.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher as _,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use paceline_types::{ErrorCode, TraceContext};
use tokio::time::Instant;

use crate::{InferError, Ride};

/// What became of one request.
#[derive(Debug, Clone)]
pub struct RequestSpan {
    /// Its own place in its trace.
    pub context: TraceContext,
    /// The span that it was asked from, if any.
    pub parent: Option<u64>,
    /// Which model.
    pub model: Arc<str>,
    /// Which version.
    pub version: u64,
    /// When it came.
    pub began: SystemTime,
    /// From then until it was answered.
    pub took: Duration,
    /// How it travelled, or why it has no result; `Cancelled` where its client left.
    pub outcome: Result<Ride, ErrorCode>,
    /// Why there is no result, in words; empty where there is one.
    pub message: String,
}

/// Who keeps spans.
pub trait Tracer: Send + Sync {
    /// Whether a request that comes from no trace begins one.
    fn samples(&self, random: u64) -> bool;

    /// Keeps a span. Must not wait.
    fn keep(&self, span: RequestSpan);
}

/// A request that is traced, until it is answered. Dropped before, its client has left.
pub(crate) struct Tracing {
    tracer: Arc<dyn Tracer>,
    context: TraceContext,
    parent: Option<u64>,
    model: Arc<str>,
    version: u64,
    began: SystemTime,
    since: Instant,
    outcome: Option<Result<Ride, (ErrorCode, String)>>,
}

impl Tracing {
    /// Begins a span, where this request is traced.
    pub(crate) fn begin(
        tracer: &Arc<dyn Tracer>,
        parent: Option<TraceContext>,
        model: &Arc<str>,
        version: u64,
    ) -> Option<Self> {
        let random = random();
        let context = match parent {
            Some(parent) => parent.is_sampled().then(|| parent.with_span(random))?,
            None if !tracer.samples(random) => return None,
            None => {
                let trace = u128::from(random) << 64 | u128::from(self::random());
                TraceContext::new(trace, self::random(), true)?
            }
        };
        Some(Self {
            tracer: Arc::clone(tracer),
            context,
            parent: parent.map(|parent| parent.span()),
            model: Arc::clone(model),
            version,
            began: SystemTime::now(),
            since: Instant::now(),
            outcome: None,
        })
    }

    /// Its own place.
    pub(crate) const fn context(&self) -> TraceContext {
        self.context
    }

    /// It was answered.
    pub(crate) fn end<T>(mut self, answer: &Result<(T, Ride), InferError>) {
        self.outcome = Some(match answer {
            Ok((_, ride)) => Ok(*ride),
            Err(error) => Err((error.code(), error.to_string())),
        });
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let left = || Err((ErrorCode::Cancelled, "the client left".to_owned()));
        let (outcome, message) = match self.outcome.take().unwrap_or_else(left) {
            Ok(ride) => (Ok(ride), String::new()),
            Err((code, message)) => (Err(code), message),
        };
        self.tracer.keep(RequestSpan {
            context: self.context,
            parent: self.parent,
            model: Arc::clone(&self.model),
            version: self.version,
            began: self.began,
            took: self.since.elapsed(),
            outcome,
            message,
        });
    }
}

impl std::fmt::Debug for Tracing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracing").field("context", &self.context).finish_non_exhaustive()
    }
}

/// A number that nobody can guess and that does not come again; never 0.
fn random() -> u64 {
    static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    SECRET.hash_one(NEXT.fetch_add(1, Ordering::Relaxed)).max(1)
}
