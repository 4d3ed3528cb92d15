//! What every ONNX file goes through before an engine sees it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| paceline_backend_onnx::fuzz::check(data));
