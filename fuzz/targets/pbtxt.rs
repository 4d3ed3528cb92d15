//! `config.pbtxt` of Triton model folders.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = paceline_api::oip::pbtxt::parse(text);
});
