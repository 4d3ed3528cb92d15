//! Ways in for fuzz targets: what strangers send to a door, without the door.
//!
//! What is wrong with it is of no interest here; that it is found without a panic, in bounded work,
//! is.

pub use crate::{
    http::plain_value,
    speak::fuzz::speak,
    speech::fuzz::{deepgram, openai_form, openai_realtime, vosk, wyoming},
    ws::read_message,
};
