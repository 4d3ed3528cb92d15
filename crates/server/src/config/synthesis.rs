//! `[synthesis]`: text that is to be spoken.

use std::time::Duration;

use paceline_pipeline::synthesis::{Pace, SynthesisSettings, VoiceLimits};
use serde::{Deserialize, Serialize};

use super::duration;

/// Text that is to be spoken. Which models speak, and how, is said in their own `model.toml`.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SynthesisSection {
    /// The speaking model of clients who name none; the first one where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Listeners at once.
    pub max_listeners: usize,
    /// Longest text, in characters.
    pub max_text: usize,
    /// By when the first sound is wanted; later, if it may wait for company.
    #[serde(with = "duration")]
    pub first_sound: Duration,
    /// How far ahead of a listener's ear sound is made while there is something else to do.
    #[serde(with = "duration")]
    pub ahead: Duration,
    /// Chunks of one listener that are with the vocoder at once.
    pub in_flight: usize,
    /// Most voices that clients may register, for each speaking model.
    pub max_voices: usize,
}

impl Default for SynthesisSection {
    fn default() -> Self {
        let SynthesisSettings { model, max_listeners, max_text, pace, voices } =
            SynthesisSettings::default();
        Self {
            model,
            max_listeners,
            max_text,
            first_sound: pace.first,
            ahead: pace.ahead,
            in_flight: pace.in_flight,
            max_voices: voices.max_voices,
        }
    }
}

impl SynthesisSection {
    /// What sessions are bound by.
    #[must_use]
    pub fn settings(&self) -> SynthesisSettings {
        SynthesisSettings {
            model: self.model.clone(),
            max_listeners: self.max_listeners,
            max_text: self.max_text,
            pace: Pace {
                first: self.first_sound,
                ahead: self.ahead,
                in_flight: self.in_flight.max(1),
            },
            voices: VoiceLimits { max_voices: self.max_voices, ..VoiceLimits::default() },
        }
    }
}
