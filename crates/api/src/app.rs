//! What every door can reach, whichever protocol it speaks.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::BoxFuture;
use paceline_pipeline::{CameraControl, Control, Models};

use crate::{http::Bodies, live::Live, ws::Streams};

/// What every handler can reach.
#[derive(Clone)]
pub struct App {
    /// What is served.
    pub models: Arc<Models>,
    /// Whether the server as a whole can answer.
    pub readiness: Arc<Readiness>,
    /// Who loads and unloads models.
    pub control: Arc<dyn Control>,
    /// Who reads cameras, where somebody does.
    pub cameras: Option<Arc<dyn CameraControl>>,
    /// Bodies of requests.
    pub bodies: Bodies,
    /// Who writes the page of metrics, if anybody does.
    pub metrics: Option<Arc<dyn Exposition>>,
    /// What streams of audio need.
    pub streams: Streams,
    /// What those see who watch.
    pub live: Arc<Live>,
}

/// Who writes the page of metrics.
pub trait Exposition: Send + Sync {
    /// Looks at everything and writes it, in the text format of Prometheus.
    fn expose(&self) -> BoxFuture<'_, String>;
}

impl App {
    /// Every model is warm, has a living executor, and the server is not draining.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.readiness.get() && self.models.all().iter().all(|model| model.is_ready())
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("models", &self.models).finish_non_exhaustive()
    }
}

/// Whether the server as a whole can answer.
#[derive(Debug, Default)]
pub struct Readiness {
    is_open: AtomicBool,
}

impl Readiness {
    /// Says whether it can.
    pub fn set(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    /// Whether it can.
    #[must_use]
    pub fn get(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}
