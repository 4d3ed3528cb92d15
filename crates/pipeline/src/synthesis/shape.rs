//! How tokens become chunks of sound: the settings, and the check that makes them usable. Pure.

use std::time::Duration;

/// How tokens become chunks of sound. The defaults are those of the system that this grew from:
/// tokens of 40 ms, chunks of 15, the 50 before them as context, a fade of 20 ms.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChunkShape {
    /// Samples in a second of sound.
    pub sample_rate: u32,
    /// Samples that one token stands for.
    pub token_samples: usize,
    /// New tokens in a chunk.
    pub chunk: usize,
    /// New tokens in the first chunk; fewer are sooner there.
    pub first_chunk: usize,
    /// Tokens before the new ones that the vocoder gets with them.
    pub context: usize,
    /// Tokens after the new ones that the vocoder gets with them.
    pub lookahead: usize,
    /// What stands where context or lookahead would reach beyond the ends; nothing does where it
    /// is left out, and the window is shorter there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edge: Option<f32>,
    /// Whether the vocoder gives sound for the new tokens alone. Otherwise it gives sound for the
    /// whole window, and what is not new is cut off.
    pub trims: bool,
    /// What is done where two chunks meet.
    pub seam: Seam,
    /// For how long.
    #[serde(with = "millis", rename = "seam_ms")]
    pub seam_time: Duration,
}

/// What is done where two chunks meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Seam {
    /// Nothing: for vocoders whose chunks meet exactly.
    None,
    /// Each chunk begins softly.
    #[default]
    Fade,
    /// The end of a chunk is mixed with the same sound as the next chunk's window has it.
    Crossfade,
}

impl Default for ChunkShape {
    fn default() -> Self {
        Self {
            sample_rate: 24_000,
            token_samples: 960,
            chunk: 15,
            first_chunk: 15,
            context: 50,
            lookahead: 0,
            edge: None,
            trims: false,
            seam: Seam::Fade,
            seam_time: Duration::from_millis(20),
        }
    }
}

/// A shape that makes no sense: which key, and what it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("synthesis.{field} is {value}; {allowed}")]
pub struct ShapeError {
    field: &'static str,
    value: String,
    allowed: String,
}

/// Longest window, in tokens: what a session holds is bounded by it.
const MAX_WINDOW: usize = 8192;

impl ChunkShape {
    /// Checks it.
    ///
    /// # Errors
    ///
    /// Names the first key that makes no sense.
    pub fn validate(&self) -> Result<(), ShapeError> {
        let wrong = |field, value: String, allowed: &str| {
            Err(ShapeError { field, value, allowed: allowed.to_owned() })
        };
        if !(4_000..=192_000).contains(&self.sample_rate) {
            return wrong("sample_rate", self.sample_rate.to_string(), "4000 to 192000 make sense");
        }
        for (field, value) in [
            ("token_samples", self.token_samples),
            ("chunk", self.chunk),
            ("first_chunk", self.first_chunk),
        ] {
            if !(1..=MAX_WINDOW).contains(&value) {
                return wrong(field, value.to_string(), "it must be from 1 to 8192");
            }
        }
        for (field, value) in [("context", self.context), ("lookahead", self.lookahead)] {
            if MAX_WINDOW < value {
                return wrong(field, value.to_string(), "it must be at most 8192");
            }
        }
        let seam = self.seam_samples();
        let room = match self.seam {
            Seam::Crossfade if self.trims => {
                let allowed = "a crossfade needs sound from before the chunk, which a vocoder that \
                               trims does not give";
                return wrong("seam", "crossfade".to_owned(), allowed);
            }
            Seam::Crossfade => self.context.min(self.chunk).min(self.first_chunk),
            Seam::Fade | Seam::None => self.chunk.min(self.first_chunk),
        };
        if room * self.token_samples < seam && self.seam != Seam::None {
            let value = self.seam_time.as_millis().to_string();
            return wrong(
                "seam_ms",
                value,
                "it must fit into a chunk, and a crossfade into the context",
            );
        }
        Ok(())
    }

    /// How long so many samples sound.
    #[must_use]
    pub fn time(&self, samples: u64) -> Duration {
        let nanos = u128::from(samples) * 1_000_000_000 / u128::from(self.sample_rate.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Samples of a seam.
    #[must_use]
    pub fn seam_samples(&self) -> usize {
        let samples = self.seam_time.as_nanos() * u128::from(self.sample_rate) / 1_000_000_000;
        usize::try_from(samples).unwrap_or(usize::MAX)
    }
}

/// Times in milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_named() {
        ChunkShape::default().validate().unwrap();
        let refused = |shape: ChunkShape| shape.validate().unwrap_err().to_string();

        assert_eq!(
            refused(ChunkShape { chunk: 0, ..ChunkShape::default() }),
            "synthesis.chunk is 0; it must be from 1 to 8192"
        );
        let crossfade = ChunkShape { seam: Seam::Crossfade, trims: true, ..ChunkShape::default() };
        assert!(refused(crossfade).contains("which a vocoder that trims does not give"));
        let long = ChunkShape { seam_time: Duration::from_secs(9), ..ChunkShape::default() };
        assert!(refused(long).starts_with("synthesis.seam_ms is 9000"));
    }

    #[test]
    fn every_bound_is_the_last_that_holds() {
        let with = |change: fn(&mut ChunkShape)| {
            let mut shape = ChunkShape::default();
            change(&mut shape);
            shape.validate().is_ok()
        };

        assert!(with(|shape| (shape.context, shape.lookahead) = (8192, 8192)));
        assert!(!with(|shape| shape.context = 8193));
        assert!(!with(|shape| shape.lookahead = 10_000));
        // A chunk is 15 tokens of 960 samples, which is 600 ms.
        assert!(with(|shape| shape.seam_time = Duration::from_millis(600)));
        assert!(!with(|shape| shape.seam_time = Duration::from_micros(600_050)));
        assert!(with(|shape| shape.seam = Seam::Crossfade));
        assert!(!with(|shape| (shape.seam, shape.context) = (Seam::Crossfade, 0)));
        let untouched = |shape: &mut ChunkShape| {
            (shape.seam, shape.seam_time) = (Seam::None, Duration::from_secs(9));
        };
        assert!(with(untouched), "nothing is done for so long");
    }

    #[test]
    fn times_are_written_in_milliseconds() {
        let shape = ChunkShape { seam_time: Duration::from_millis(35), ..ChunkShape::default() };
        let written = serde_json::to_value(&shape).unwrap();

        assert_eq!(written["seam_ms"], 35);
        assert_eq!(serde_json::from_value::<ChunkShape>(written).unwrap(), shape);
    }
}
