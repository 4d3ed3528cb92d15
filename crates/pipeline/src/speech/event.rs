//! What a session says. Times are counts of samples, so that they are exact after hours.

use std::sync::Arc;

use paceline_audio::{DecodeError, Ending, segment::EndReason};
use paceline_backend::Output;
use paceline_types::ErrorCode;

use super::RATE;
use crate::Model;

/// Samples from `start` to `end`, exclusive, counted from the beginning of the round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub start: u64,
    /// One past the last.
    pub end: u64,
}

impl Span {
    /// How many.
    #[must_use]
    pub const fn n_samples(&self) -> u64 {
        self.end - self.start
    }

    /// Both ends in seconds.
    #[must_use]
    pub fn seconds(&self) -> (f64, f64) {
        (RATE.seconds(self.start), RATE.seconds(self.end))
    }
}

/// What a session says.
///
/// Of one channel, segments come in the order of their audio. Voice activity comes at once, whatever
/// models are still busy with; but an utterance's `Inactive` always comes before its final segment.
#[derive(Debug, Clone)]
pub enum Event {
    /// Somebody speaks.
    Active {
        /// On this audio channel.
        channel: usize,
        /// Since this sample.
        at: u64,
    },
    /// Nobody speaks any more.
    Inactive {
        /// On this audio channel.
        channel: usize,
        /// Since this sample.
        at: u64,
    },
    /// Nobody has spoken for as long as the client asked to be told of. Comes after the final
    /// segment of the utterance before it.
    Paused {
        /// On this audio channel.
        channel: usize,
        /// Where the last utterance ended.
        since: u64,
    },
    /// What the model said about a segment.
    Segment {
        /// Of this audio channel.
        channel: usize,
        /// Where it is.
        span: Span,
        /// Whether it is an utterance's last word; `None` where there are no utterances.
        is_final: Option<bool>,
        /// Why the utterance ended, where this is its last word.
        ended: Option<EndReason>,
        /// The model that said it, which knows its outputs' names.
        model: Arc<Model>,
        /// Its outputs.
        output: Output,
        /// What was said, where the model's one output is text.
        transcript: Option<Transcript>,
    },
    /// A segment or some frames have no result. The stream goes on.
    Lost {
        /// Of this audio channel.
        channel: usize,
        /// Where.
        span: Span,
        /// Why the utterance ended, where this would have been its last word.
        ended: Option<EndReason>,
        /// Why.
        lost: Lost,
    },
    /// There is room for more audio again.
    Room,
    /// Everything that came before a flush is answered.
    Flushed,
    /// The audio cannot be decoded. What was decoded before is answered, and the round ends.
    Undecodable(DecodeError),
    /// The round is over. Nothing comes after it.
    Ended(Report),
}

/// What was said, or has been said so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// The words, from the beginning of the utterance on.
    pub text: String,
    /// How many bytes of it will not change any more: all, once the segment is final. What is
    /// stable of one transcript is how the next one of the same utterance begins; the final one
    /// too, where that was asked for.
    pub stable: usize,
}

impl Transcript {
    /// What will not change any more.
    #[must_use]
    pub fn stable(&self) -> &str {
        self.text.get(..self.stable).unwrap_or(&self.text)
    }
}

/// Why there is no result, as clients are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// What kind of failure.
    pub code: ErrorCode,
    /// The model's own words, or ours.
    pub message: String,
}

/// What became of a round's audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// What the decoder said at the end; nothing where it had failed before.
    pub ending: Ending,
    /// Samples of each channel that came after the one utterance that was asked for.
    pub ignored: u64,
    /// Bytes that came after the round had ended by itself.
    pub unread: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_seconds_of_the_rate() {
        let span = Span { start: 32_000, end: 80_000 };

        assert_eq!((span.n_samples(), span.seconds()), (48_000, (2.0, 5.0)));
    }
}
