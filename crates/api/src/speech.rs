//! Streams of speech: our own protocol (`native.rs`), and those that people's programs already speak:
//! Deepgram's, `OpenAI`'s, vosk's and Wyoming. `docs/protocol.md` is the contract of the first;
//! `docs/speech-apis.md` says of each other what works, what is ignored and what is refused.
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
pub(crate) mod native;
pub(crate) mod openai;
mod recital;
pub mod vosk;
pub mod wyoming;

#[cfg(test)]
mod tests;
