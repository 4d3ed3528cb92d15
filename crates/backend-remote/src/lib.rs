//! Models that live on another server which speaks the Open Inference Protocol.
//!
//! Nothing is here yet; ARCHITECTURE.md says what belongs here and what this crate may depend on.
