//! Bytes to samples: formats, resampling, voice activity, segmentation. Synchronous; no clock.
//!
//! [`silero`] says how likely each 32 ms of audio is speech; [`segment`] makes utterances of that.

pub mod segment;
pub mod silero;
