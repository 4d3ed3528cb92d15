//! Messages of streams of speech.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| paceline_api::fuzz::read_message(text));
