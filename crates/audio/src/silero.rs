//! Silero VAD 6.2: how likely each 32 ms of audio is speech, for many streams in one call.

mod rate;

pub use rate::{Rate, UnknownRate};
