//! Streaming speech: sessions that take audio in any chunking and give results in order.
//!
//! ```text
//! bytes ─▶ Intake ─▶ one Channel per audio channel ─▶ Event
//!          decodes    decides; pure        ▲ │
//!                                          │ ▼ Step: detect, infer, withdraw
//!                                        Session: waits; thin
//! ```
//!
//! A [`Session`] is one round of one client: from the moment it says what it is going to send until
//! that is answered. `channel` decides what happens to the samples of one audio channel and knows
//! no task and no clock: all times are counts of samples. The session only carries out its steps.
//!
//! Nothing here is unbounded: a session that has no room is not given more
//! ([`Session::has_room`]), so that pressure reaches whoever sends.

mod agreement;
mod board;
mod channel;
mod counts;
mod error;
mod event;
mod infer;
mod intake;
mod order;
mod segmented;
mod session;
mod simple;
mod terms;
mod values;

use std::{
    num::NonZeroUsize,
    sync::{Arc, atomic::Ordering},
    thread::available_parallelism,
};

pub use board::RoundSight;
pub use counts::{SpeechStats, Stage};
pub use error::SpeechError;
pub use event::{Event, Lost, Report, Span, Transcript};
pub use paceline_audio::{
    Bounds, Cost, DecodeError, Encoding, Format, Source, UnknownEncoding,
    segment::{EndReason, SegmentSettings, SegmentSettingsError, ValidSettings},
    silero::Rate,
};
pub use session::Session;
pub use terms::{INTERIM_INTERVAL, SpeechLimits, SpeechSettings, Style, Terms, Utterances};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
pub use values::{Value, Values};

use crate::{Model, Models, VoiceDetector};
use board::Board;
use counts::Counts;

/// Samples a second that models and the voice detector get.
pub const RATE: Rate = Rate::Hz16000;

/// A cheap handle to what all sessions share.
#[derive(Debug, Clone)]
pub struct Speech(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    models: Arc<Models>,
    voices: VoiceDetector,
    settings: SpeechSettings,
    /// Streams that may still be opened.
    streams: Arc<Semaphore>,
    /// Segments that may still be with models, over all streams.
    flights: Arc<Semaphore>,
    /// Interim ones of these.
    interims: Semaphore,
    /// Heavy decoding that may still begin.
    decoders: Arc<Semaphore>,
    counts: Counts,
    board: Arc<Board>,
}

impl Speech {
    /// What sessions on these models and this voice detector share.
    #[must_use]
    pub fn new(models: Arc<Models>, voices: VoiceDetector, settings: SpeechSettings) -> Self {
        let limits = &settings.limits;
        let n_cores = available_parallelism().map_or(1, NonZeroUsize::get);
        Self(Arc::new(Shared {
            streams: Arc::new(Semaphore::new(limits.max_streams)),
            flights: Arc::new(Semaphore::new(limits.max_in_flight)),
            interims: Semaphore::new(limits.max_interims),
            decoders: Arc::new(Semaphore::new(n_cores)),
            counts: Counts::default(),
            board: Arc::default(),
            models,
            voices,
            settings,
        }))
    }

    /// A place for one more stream, for as long as it is held; `None` where there is none.
    #[must_use]
    pub fn admit(&self) -> Option<Place> {
        let permit = Arc::clone(&self.0.streams).try_acquire_owned().ok();
        if permit.is_none() {
            self.0.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        permit.map(Place)
    }

    /// Begins a round.
    ///
    /// # Errors
    ///
    /// When the client's terms cannot be met, and why.
    pub fn open(&self, terms: Terms) -> Result<Session, SpeechError> {
        self.open_with(terms, Values::default())
    }

    /// As [`open`](Self::open), with what the model may want to know beside the audio. It should be
    /// a part of the terms' fingerprint, since those who differ in it must not share calls.
    ///
    /// # Errors
    ///
    /// When the client's terms cannot be met, and why.
    pub fn open_with(&self, terms: Terms, values: Values) -> Result<Session, SpeechError> {
        Session::open(self.clone(), terms, values)
    }

    /// The model that a round with this name would ask; the server's choice where none is said.
    ///
    /// # Errors
    ///
    /// When there is none of this name, or it does not take audio.
    pub fn model(&self, name: Option<&str>) -> Result<Arc<Model>, SpeechError> {
        let name = name.unwrap_or(&self.0.settings.model);
        let model = self.0.models.find(name, None)?;
        if infer::takes_audio(&model) {
            return Ok(model);
        }
        Err(SpeechError::NotForAudio(model.facts().name.clone()))
    }

    /// Bounds and defaults.
    #[must_use]
    pub fn settings(&self) -> &SpeechSettings {
        &self.0.settings
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> SpeechStats {
        let in_use = self.0.settings.limits.max_streams - self.0.streams.available_permits();
        self.0.counts.read(in_use)
    }

    /// Every round that is under way, the oldest first.
    #[must_use]
    pub fn rounds(&self) -> Vec<RoundSight> {
        self.0.board.look()
    }
}

/// A stream's place among those that are open.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);
