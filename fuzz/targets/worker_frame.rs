//! What a Python worker answers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| paceline_backend_python::fuzz::results(data));
