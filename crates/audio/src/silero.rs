//! Silero VAD 6.2: how likely each 32 ms of audio is speech, for many streams in one call.
//!
//! A kernel of our own in plain `f32`, with SIMD where the CPU has it. A stream's probabilities
//! are the same to the last bit whichever streams share its calls.
//!
//! ```
//! use paceline_audio::silero::{Rate, Silero, StreamState};
//!
//! let mut silero = Silero::new(Rate::Hz16000);
//! let mut stream = StreamState::default();
//! let mut probability = [0.0];
//! silero.detect(&[&[0.0; 512]], &mut [&mut stream], &mut probability);
//! assert!(probability[0] < 0.1);
//! ```

#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod fourier;
#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod network;
mod rate;
mod state;
mod weights;

use network::{Detect, MAX_STREAMS, Network, Step};
use paceline_simd::Kind;
pub use rate::{Rate, UnknownRate};
pub use state::StreamState;

/// The detector for one rate. The weights are shared by all; what it holds itself is where it
/// works.
#[derive(Debug)]
pub struct Silero {
    rate: Rate,
    kind: Kind,
    network: Network,
}

impl Silero {
    /// A detector that uses the best of what this CPU has.
    #[must_use]
    pub fn new(rate: Rate) -> Self {
        Self { rate, kind: Kind::best(), network: Network::new(rate) }
    }

    /// A detector for each set of instructions that this CPU has, the best first: to compare them.
    #[must_use]
    pub fn every_kind(rate: Rate) -> Vec<Self> {
        Kind::every().map(|kind| Self { kind, ..Self::new(rate) }).collect()
    }

    /// Which instructions it uses: `avx512`, `avx2` or `portable`.
    #[must_use]
    pub const fn instructions(&self) -> &'static str {
        self.kind.name()
    }

    /// Its sample rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// How likely the next frame of each stream is speech, from 0 to 1. Samples are from -1 to 1;
    /// one that is no number counts as 0.
    ///
    /// # Panics
    ///
    /// When there are not as many states and probabilities as frames, or a frame has another
    /// length than [`Rate::frame`].
    pub fn detect<'a>(
        &mut self,
        frames: &[&'a [f32]],
        states: &mut [&'a mut StreamState],
        probabilities: &mut [f32],
    ) {
        assert!(
            frames.len() == states.len() && frames.len() == probabilities.len(),
            "as many states and probabilities as frames"
        );
        assert!(
            frames.iter().all(|frame| frame.len() == self.rate.frame()),
            "a frame has {} samples",
            self.rate.frame()
        );
        let parts = frames
            .chunks(MAX_STREAMS)
            .zip(states.chunks_mut(MAX_STREAMS))
            .zip(probabilities.chunks_mut(MAX_STREAMS));
        for ((frames, states), probabilities) in parts {
            let step = Step { frames, states, probabilities };
            self.kind.run(Detect { network: &mut self.network, step });
        }
    }
}

#[cfg(test)]
mod tests;
