//! Plain JSON as a model's input.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let [dtype, n_dims, body @ ..] = data {
        paceline_api::fuzz::plain_value(*dtype, *n_dims, body);
    }
});
