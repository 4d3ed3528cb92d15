//! The speech APIs that people's programs already speak: Deepgram's, `OpenAI`'s, vosk's and
//! Wyoming. `docs/speech-apis.md` says of each what works, what is ignored and what is refused.
//!
//! A door here is a translation. What it hears becomes orders to a session of
//! [`paceline_pipeline::speech`], and what the session says becomes its own messages; both are pure
//! (`dialect.rs`). One loop (`conversation.rs`) waits for all of them, and one (`recital.rs`) for
//! all files.

mod conversation;
pub(crate) mod deepgram;
mod dialect;
mod fields;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod heard;
mod name;
pub(crate) mod openai;
mod recital;
pub mod vosk;
pub mod wyoming;

#[cfg(test)]
mod tests;
