//! Requests for speech: what stands in an address, and bodies.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (query, body) = data.split_at(end);
    if let Ok(query) = str::from_utf8(query) {
        paceline_api::fuzz::speak(query, body);
    }
});
