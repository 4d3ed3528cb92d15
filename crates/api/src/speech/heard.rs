//! What a session says, in words: the form that dialects translate from whose clients know nothing
//! but text.

use paceline_pipeline::{
    Model,
    speech::{EndReason, Event, Lost, RATE, Report, Span, Transcript},
};
use paceline_types::{ErrorCode, Tensor};
use serde_json::Value;

use crate::{ApiError, http::value::from_tensor};

/// What a session says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Heard {
    Active {
        channel: usize,
        at: u64,
    },
    Inactive {
        channel: usize,
        at: u64,
    },
    Paused {
        channel: usize,
        since: u64,
    },
    /// What an utterance under way is so far.
    Interim {
        channel: usize,
        span: Span,
        said: Transcript,
    },
    Final(Final),
    /// An utterance without a result, where it says why it ended; else something less.
    Lost {
        channel: usize,
        span: Span,
        ended: Option<EndReason>,
        lost: Lost,
    },
    /// What was pushed is taken in.
    Room,
    Flushed,
    Undecodable(ErrorCode, String),
    Ended(Report),
}

/// What was said in an utterance.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Final {
    pub(super) channel: usize,
    pub(super) span: Span,
    pub(super) text: String,
    pub(super) ended: EndReason,
}

/// A word, and where it is, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    pub(super) start: f64,
    pub(super) end: f64,
}

impl From<Event> for Heard {
    fn from(event: Event) -> Self {
        match event {
            Event::Active { channel, at } => Self::Active { channel, at },
            Event::Inactive { channel, at } => Self::Inactive { channel, at },
            Event::Paused { channel, since } => Self::Paused { channel, since },
            Event::Segment { channel, span, is_final, ended, model, output, transcript } => {
                let said = transcript.map_or_else(|| shown(&model, &output), Ok);
                match (said, is_final) {
                    (Err(ApiError { code, message, .. }), _) => {
                        Self::Lost { channel, span, ended, lost: Lost { code, message } }
                    }
                    (Ok(said), Some(false)) => Self::Interim { channel, span, said },
                    (Ok(Transcript { text, .. }), _) => {
                        let ended = ended.unwrap_or(EndReason::Silence);
                        Self::Final(Final { channel, span, text, ended })
                    }
                }
            }
            Event::Lost { channel, span, ended, lost } => Self::Lost { channel, span, ended, lost },
            Event::Room => Self::Room,
            Event::Flushed => Self::Flushed,
            Event::Undecodable(error) => Self::Undecodable(error.code(), error.to_string()),
            Event::Ended(report) => Self::Ended(report),
        }
    }
}

/// What a model that recognises nothing gives, such as the simulated one: of use in tests.
fn shown(model: &Model, output: &[Tensor]) -> Result<Transcript, ApiError> {
    let Some(tensor) = output.first() else { return Ok(Transcript::default()) };
    let text = match from_tensor(tensor, model.signature().batched)? {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(Transcript { text, stable: 0 })
}

/// Its words, spread over its span by their letters: the model does not say where they are.
pub(super) fn words<'a>(text: &'a str, span: &Span) -> impl Iterator<Item = Word<'a>> {
    let (start, end) = span.seconds();
    let weigh = |word: &str| word.chars().count() + 1;
    let total = text.split_whitespace().map(weigh).sum::<usize>().max(1);
    #[expect(clippy::cast_precision_loss, reason = "letters of an utterance")]
    let at = move |weight: usize| start + (end - start) * weight as f64 / total as f64;
    text.split_whitespace().scan(0, move |before, text| {
        let start = at(*before);
        *before += weigh(text);
        Some(Word { text, start: round(start), end: round(at(*before)) })
    })
}

/// To the millisecond.
pub(super) fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// Samples in seconds.
pub(super) fn seconds(samples: u64) -> f64 {
    RATE.seconds(samples)
}

/// Texts one after the other.
pub(super) fn join<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut joined = String::new();
    for text in texts.into_iter().filter(|text| !text.is_empty()) {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(text);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_are_all_there_one_after_the_other_within_their_span(
            text in "[a-z .]{0,40}", start in 0_u64..1_000_000, length in 0_u64..500_000
        ) {
            let span = Span { start, end: start + length };
            let words: Vec<Word<'_>> = words(&text, &span).collect();

            let joined: Vec<&str> = words.iter().map(|word| word.text).collect();
            prop_assert_eq!(joined.join(" "), join(text.split_whitespace()));
            let mut at = round(span.seconds().0);
            for word in &words {
                prop_assert!(at == word.start && word.start <= word.end);
                at = word.end;
            }
            prop_assert!(at <= round(span.seconds().1));
        }
    }
}
