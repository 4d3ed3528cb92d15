//! Speech to text: Moonshine tiny (English) as a kernel of our own. Synchronous; no clock.
//!
//! An [`Encoder`] turns an utterance into what there is to say, whole, by itself: hundreds of
//! frames fill the CPU, so nothing is padded. A [`Decoder`] says it token by token, for all
//! utterances that are live: each has its own past, joins at any step and leaves when it is done,
//! so none waits for a neighbour's long sentence. An utterance's tokens are the same whichever
//! others are live beside it. A [`Recogniser`] is both together, in steps that are bounded.
//!
//! ```
//! use paceline_asr::{Decoder, Encoder, Event, Tokens, Weights};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/moonshine/1");
//! let weights = Weights::load(folder)?;
//! let tokens = Tokens::load(folder)?;
//! let mut encoder = Encoder::new(weights.clone());
//! let mut decoder = Decoder::new(weights, 16);
//!
//! let samples = vec![0.0; 16_000];
//! decoder.join(encoder.encode(&samples)?)?;
//! let mut said = Vec::new();
//! while decoder.n_live() > 0 {
//!     for event in decoder.step() {
//!         if let Event::Token { token, .. } = event {
//!             said.push(*token);
//!         }
//!     }
//! }
//! println!("{}", tokens.text(&said));
//! # Ok(())
//! # }
//! ```

#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod attention;
#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod decoder;
#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod encoder;
mod error;
mod file;
#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod layer;
mod recogniser;
#[expect(clippy::inline_always, reason = "what is generic over SIMD must become one function")]
mod rotary;
mod sequence;
mod shape;
mod tokens;
mod weights;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use error::{AudioError, Full, LoadError};
pub use recogniser::Recogniser;
pub use sequence::{Encoded, End, Event, Id};
pub use shape::{MAX_SAMPLES, MIN_SAMPLES, SAMPLE_RATE};
pub use tokens::Tokens;
pub use weights::Weights;

#[cfg(test)]
mod tests;
