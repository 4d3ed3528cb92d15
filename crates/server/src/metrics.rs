//! What Prometheus is told: snapshots that are taken when it asks.
//!
//! `table` has every metric's name, kind, labels and meaning; `page` writes; the others each look at
//! one part of the server. Nothing here is called by whoever serves.

mod cameras;
mod gpu;
mod models;
mod page;
mod process;
mod speech;
mod synthesis;
mod table;

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use paceline_api::{Exposition, Readiness};
use paceline_ingest::Cameras;
use paceline_pipeline::{Models, VoiceDetector, speech::Speech, synthesis::Synthesis};

use self::{cameras::Frames, gpu::Gpus, page::Page, table as t};
use crate::spans::Spans;

/// What is looked at.
#[derive(Debug)]
pub(crate) struct Metrics {
    readiness: Arc<Readiness>,
    models: Arc<Models>,
    speech: Speech,
    voices: VoiceDetector,
    synthesis: Synthesis,
    spans: Option<Arc<Spans>>,
    frames: OnceLock<Frames>,
    gpus: Gpus,
}

impl Metrics {
    pub(crate) fn new(
        readiness: &Arc<Readiness>,
        models: &Arc<Models>,
        (speech, voices, synthesis): (&Speech, &VoiceDetector, &Synthesis),
        spans: Option<Arc<Spans>>,
    ) -> Self {
        Self {
            readiness: Arc::clone(readiness),
            models: Arc::clone(models),
            speech: speech.clone(),
            voices: voices.clone(),
            synthesis: synthesis.clone(),
            spans,
            frames: OnceLock::new(),
            gpus: Gpus::find(),
        }
    }

    /// Looks at cameras too.
    pub(crate) fn watch(&self, cameras: Cameras) {
        drop(self.frames.set(Frames::new(cameras)));
    }

    async fn page(&self) -> String {
        let mut page = Page::default();
        page.family(&t::INFO).flag(&[env!("CARGO_PKG_VERSION")], true);
        page.family(&t::READY).flag(&[], self.readiness.get());
        models::write(&mut page, &self.models);
        speech::write(&mut page, &self.speech, &self.voices);
        synthesis::write(&mut page, &self.synthesis);
        if let Some(frames) = self.frames.get() {
            frames.write(&mut page).await;
        }
        if let Some(spans) = &self.spans {
            let (sent, dropped) = spans.counts();
            let mut series = page.family(&t::SPANS);
            series.count(&["sent"], sent);
            series.count(&["dropped"], dropped);
        }
        self.gpus.write(&mut page);
        process::write(&mut page);
        page.finish()
    }
}

impl Exposition for Metrics {
    fn expose(&self) -> BoxFuture<'_, String> {
        Box::pin(self.page())
    }
}
