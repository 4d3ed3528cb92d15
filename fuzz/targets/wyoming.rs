//! Wyoming's frames, and vosk's messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_api::fuzz::{vosk, wyoming};

fuzz_target!(|data: &[u8]| match data {
    [0, piece, frames @ ..] => wyoming(*piece, frames),
    [1, messages @ ..] => vosk(messages),
    _ => {}
});
