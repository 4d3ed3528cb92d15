//! What a client asks for, and what it may ask for.

use std::time::Duration;

use paceline_audio::{Bounds, Source, segment::ValidSettings};
use paceline_batch::Key;
use paceline_types::TraceContext;

use super::{RATE, SpeechError};

/// What one round is to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// What is going to be sent.
    pub source: Source,
    /// The model; the server's choice where it is not said.
    pub model: Option<String>,
    /// A fingerprint of everything that changes what the model answers, such as the language.
    pub params: Key,
    /// Which parts go to the model.
    pub style: Style,
    /// Whether all audio channels are heard as one.
    pub mix: bool,
    /// Where the client stands in a trace.
    pub trace: Option<TraceContext>,
}

/// Which parts of the audio go to the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Style {
    /// Every sample.
    Simple,
    /// Utterances only.
    Segmented(Utterances),
}

/// How utterances are found and told.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Utterances {
    /// How voice becomes utterances.
    pub settings: ValidSettings,
    /// How often an utterance under way is told; never where it is not said.
    pub interim: Option<Duration>,
    /// The final word begins with all that interim ones called stable, for clients who are told what
    /// that is. Else it is the model's own, whatever was said before.
    pub keeps_stable: bool,
    /// How long nobody must have spoken for that to be told; never where it is not said.
    pub pause: Option<Duration>,
    /// The round ends with the first utterance.
    pub single: bool,
}

/// How often an utterance under way is told, unless the client says.
pub const INTERIM_INTERVAL: Duration = Duration::from_millis(500);

/// Bounds and defaults of all streams.
#[derive(Debug, Clone)]
pub struct SpeechSettings {
    /// The model of clients who name none.
    pub model: String,
    /// What a stream's audio may be.
    pub bounds: Bounds,
    /// How much there may be of everything.
    pub limits: SpeechLimits,
}

/// How much there may be of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpeechLimits {
    /// Streams at once.
    pub max_streams: usize,
    /// Segments that are with models at once, over all streams.
    pub max_in_flight: usize,
    /// Of these, interim ones: what they leave is for final ones, which then need not wait until a
    /// model that is full of interim ones has done one.
    pub max_interims: usize,
    /// Segments of one channel that are with the model at once.
    pub stream_in_flight: usize,
    /// Audio of one channel that waits for the model; then the stream is not read any more.
    pub max_backlog: Duration,
    /// The shortest interval of interim results that a client may ask for.
    pub min_interim: Duration,
    /// About how many times an utterance is heard for interim results, beside the once for the final
    /// one. Each covers all that was said so far, so the longer that is, the further apart they are.
    pub interim_cost: u32,
}

impl Default for SpeechLimits {
    fn default() -> Self {
        Self {
            max_streams: 4096,
            max_in_flight: 1024,
            max_interims: 16,
            stream_in_flight: 4,
            max_backlog: Duration::from_secs(10),
            min_interim: Duration::from_millis(200),
            interim_cost: 8,
        }
    }
}

/// The longest interval of interim results: longer than any utterance may be.
const MAX_INTERIM: Duration = Duration::from_mins(1);

impl SpeechLimits {
    /// Checks an interval of interim results.
    pub(super) fn check_interim(&self, asked: Duration) -> Result<(), SpeechError> {
        if (self.min_interim..=MAX_INTERIM).contains(&asked) {
            return Ok(());
        }
        Err(SpeechError::Interim {
            asked: asked.as_millis(),
            least: self.min_interim.as_millis(),
            most: MAX_INTERIM.as_millis(),
        })
    }

    /// Samples of one channel that may wait.
    pub(super) fn backlog(&self) -> usize {
        usize::try_from(RATE.samples(self.max_backlog)).unwrap_or(usize::MAX)
    }
}
