//! What the server as a whole did so far.

use serde::Serialize;

use super::{ModelView, model};
use crate::App;

/// What the server as a whole did so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerView {
    /// Of the server.
    pub version: &'static str,
    /// Whether it can answer.
    pub ready: bool,
    /// Every model that is served, in the order of their names.
    pub models: Vec<ModelView>,
    /// Streams of speech.
    pub speech: SpeechView,
}

/// Streams of speech so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SpeechView {
    /// Open now.
    pub open: usize,
    /// Most that may be.
    pub max: usize,
    /// For which there was no place.
    pub refused: u64,
    /// Rounds that were begun.
    pub rounds: u64,
    /// Samples that were taken in.
    pub samples: u64,
    /// Segments with a result.
    pub segments: u64,
    /// Segments without.
    pub failed: u64,
    /// Interim segments that the final one overtook.
    pub superseded: u64,
    /// Segments whose client left.
    pub cancelled: u64,
}

/// What the server as a whole did so far.
#[must_use]
pub fn server(app: &App) -> ServerView {
    let all = app.models.all();
    let of_one_name = all.chunk_by(|one, other| one.facts().name == other.facts().name);
    let stats = app.streams.speech.stats();
    ServerView {
        version: env!("CARGO_PKG_VERSION"),
        ready: app.is_ready(),
        models: of_one_name
            .map(|versions| model(versions[0].facts().name.clone(), versions))
            .collect(),
        speech: SpeechView {
            open: stats.streams,
            max: app.streams.speech.settings().limits.max_streams,
            refused: stats.refused,
            rounds: stats.rounds,
            samples: stats.samples,
            segments: stats.segments,
            failed: stats.failed,
            superseded: stats.superseded,
            cancelled: stats.cancelled,
        },
    }
}
