//! Moonshine, the speech recogniser, as a model that is served: samples in, text out.
//!
//! It works in steps: utterances come on board between two tokens and each is answered with its
//! last one, so nobody pays for a neighbour's long sentence. What the network itself does is in
//! `paceline-asr`.

mod backend;

pub use backend::{Knowledge, MoonshineBackend};
pub use paceline_asr::{MAX_SAMPLES, MIN_SAMPLES, SAMPLE_RATE};
