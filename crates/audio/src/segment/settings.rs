//! What a client may set about segmentation, and within which bounds.

use std::{ops::RangeInclusive, time::Duration};

/// How probabilities become utterances. A client may set all of it, so all of it is bounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentSettings {
    /// Above this, a frame may begin an utterance.
    pub positive_threshold: f32,
    /// Below this, a frame is silent. Between the two thresholds, what was goes on.
    pub negative_threshold: f32,
    /// How much audio before its first frame an utterance has.
    pub pre_speech_pad: Duration,
    /// How much audio after its last frame that was not silent an utterance has; no more than the
    /// silence that ends it.
    pub post_speech_pad: Duration,
    /// An utterance ends once silence has lasted longer than this.
    pub redemption_time: Duration,
    /// An utterance is believed once it has gone on for longer than this after its first frame.
    pub min_speech_time: Duration,
    /// An utterance that reaches this is cut, and goes on as the next one without a gap.
    pub max_utterance: Duration,
}

/// How far back from its end an utterance that became too long may be cut.
pub(super) const CUT_WINDOW: Duration = Duration::from_secs(3);

const THRESHOLD: RangeInclusive<f32> = 0.01..=0.99;
const PAD: Duration = Duration::from_secs(2);
const REDEMPTION: Duration = Duration::from_secs(5);
const MIN_SPEECH: Duration = Duration::from_secs(2);
const UTTERANCE: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_mins(1);

impl Default for SegmentSettings {
    fn default() -> Self {
        Self {
            positive_threshold: 0.5,
            negative_threshold: 0.35,
            // By word error rates: less loses first words, more of either gains nothing.
            pre_speech_pad: Duration::from_millis(400),
            post_speech_pad: Duration::from_millis(300),
            redemption_time: Duration::from_millis(600),
            min_speech_time: Duration::from_millis(90),
            max_utterance: Duration::from_secs(30),
        }
    }
}

/// A setting that makes no sense: which one, what it is, and what it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; {allowed}")]
pub struct SegmentSettingsError {
    /// The setting's name.
    pub field: &'static str,
    /// As given.
    pub value: String,
    /// What would have been right, as a clause.
    pub allowed: String,
}

impl SegmentSettings {
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// Names the first setting that is out of its bounds, and the bounds.
    pub fn validate(self) -> Result<ValidSettings, SegmentSettingsError> {
        for (field, value) in [
            ("positive_threshold", self.positive_threshold),
            ("negative_threshold", self.negative_threshold),
        ] {
            let (low, high) = (THRESHOLD.start(), THRESHOLD.end());
            check(THRESHOLD.contains(&value), field, value, || {
                format!("it must be from {low} to {high}")
            })?;
        }
        check(
            self.negative_threshold <= self.positive_threshold,
            "negative_threshold",
            self.negative_threshold,
            || format!("it must be at most positive_threshold, {}", self.positive_threshold),
        )?;
        for (field, value, most) in [
            ("pre_speech_pad", self.pre_speech_pad, PAD),
            ("post_speech_pad", self.post_speech_pad, PAD),
            ("redemption_time", self.redemption_time, REDEMPTION),
            ("min_speech_time", self.min_speech_time, MIN_SPEECH),
        ] {
            check(value <= most, field, Shown(value), || {
                format!("it must be at most {}", Shown(most))
            })?;
        }
        // Else a cut could fall before the utterance, or leave nothing but silence after it.
        let least = (self.pre_speech_pad + self.min_speech_time + self.redemption_time)
            .saturating_add(CUT_WINDOW)
            .max(*UTTERANCE.start());
        check(
            (least..=*UTTERANCE.end()).contains(&self.max_utterance),
            "max_utterance",
            Shown(self.max_utterance),
            || {
                let most = Shown(*UTTERANCE.end());
                format!("with these pads and times it must be from {} to {most}", Shown(least))
            },
        )?;
        Ok(ValidSettings(self))
    }
}

/// Settings that were checked.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ValidSettings(SegmentSettings);

impl ValidSettings {
    /// The settings.
    #[must_use]
    pub const fn get(&self) -> &SegmentSettings {
        &self.0
    }
}

/// A duration in milliseconds, as clients write it.
struct Shown(Duration);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ms", self.0.as_millis())
    }
}

fn check(
    holds: bool,
    field: &'static str,
    value: impl std::fmt::Display,
    allowed: impl FnOnce() -> String,
) -> Result<(), SegmentSettingsError> {
    if holds {
        return Ok(());
    }
    Err(SegmentSettingsError { field, value: value.to_string(), allowed: allowed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_default_is_valid() {
        assert_eq!(SegmentSettings::default().validate(), Ok(ValidSettings::default()));
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_with_field_value_and_bound() {
        let default = SegmentSettings::default();
        let cases = [
            (
                SegmentSettings { positive_threshold: f32::NAN, ..default },
                "positive_threshold is NaN; it must be from 0.01 to 0.99",
            ),
            (
                SegmentSettings { negative_threshold: 0.6, ..default },
                "negative_threshold is 0.6; it must be at most positive_threshold, 0.5",
            ),
            (
                SegmentSettings { pre_speech_pad: ms(2001), ..default },
                "pre_speech_pad is 2001 ms; it must be at most 2000 ms",
            ),
            (
                SegmentSettings { redemption_time: Duration::MAX, ..default },
                "redemption_time is 18446744073709551615999 ms; it must be at most 5000 ms",
            ),
            (
                SegmentSettings { post_speech_pad: ms(2001), ..default },
                "post_speech_pad is 2001 ms; it must be at most 2000 ms",
            ),
            (
                SegmentSettings { max_utterance: ms(61_000), ..default },
                "max_utterance is 61000 ms; with these pads and times it must be from 5000 ms to 60000 ms",
            ),
            (
                SegmentSettings { redemption_time: ms(5000), max_utterance: ms(8000), ..default },
                "max_utterance is 8000 ms; with these pads and times it must be from 8490 ms to 60000 ms",
            ),
        ];
        for (settings, sentence) in cases {
            assert_eq!(settings.validate().unwrap_err().to_string(), sentence);
        }
    }
}
