//! Bytes to samples: formats, resampling, voice activity, segmentation. Synchronous; no clock.
//!
//! A [`Decoder`] is opened for a [`Source`] and fed bytes as they come, in any chunking. It gives
//! samples to a [`Sink`]: planar `f32`, one plane per channel, at the rate the model wants.
//!
//! ```
//! use paceline_audio::{Bounds, Decoder, Encoding, Source};
//!
//! let source = Source::raw(Encoding::S16le, 16_000, 1);
//! let mut decoder = Decoder::new(source, 16_000, &Bounds::default())?;
//! let mut planes: Vec<Vec<f32>> = Vec::new();
//! decoder.push(&[0x00, 0x40, 0x00], &mut planes)?; // one sample and half of the next
//! decoder.push(&[0xc0], &mut planes)?;
//! let ending = decoder.finish(&mut planes)?;
//! assert_eq!(planes, [[0.5, -0.5]]);
//! assert_eq!(ending.frames, 2);
//! # Ok::<(), paceline_audio::DecodeError>(())
//! ```
//!
//! [`encode`] is the way back, for sound that leaves as it is made.
//!
//! [`silero`] says how likely each 32 ms of audio is speech; [`segment`] makes utterances of that.

mod bounds;
mod decode;
pub mod encode;
mod encoding;
mod error;
mod resample;
pub mod segment;
pub mod silero;
mod sink;
mod source;

pub use bounds::Bounds;
pub use decode::{Decoder, Ending};
pub use encoding::{Cost, Encoding, UnknownEncoding};
pub use error::DecodeError;
pub use resample::Resampler;
pub use sink::Sink;
pub use source::{Format, Source};
