//! Deepgram's speech API: a query, and the messages of the stream that it asks for.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| paceline_api::fuzz::deepgram(data));
