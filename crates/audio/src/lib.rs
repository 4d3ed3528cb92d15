//! Bytes to samples: formats, resampling, voice activity, segmentation. Synchronous; no clock.
//!
//! Nothing is here yet; ARCHITECTURE.md says what belongs here and what this crate may depend on.
