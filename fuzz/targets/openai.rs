//! `OpenAI`'s speech API: forms with a file, and realtime sessions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_api::fuzz::{openai_form, openai_realtime};

fuzz_target!(|data: &[u8]| match data {
    [0, piece, form @ ..] => openai_form(*piece, form),
    [1, messages @ ..] => openai_realtime(messages),
    _ => {}
});
