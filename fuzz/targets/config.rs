//! Configuration files, and the command line's settings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_server::config::{Config, load};

fuzz_target!(|text: &str| {
    let _ = load::check::<Config>(text, "fuzz");
    let _ = load::load(None, [], &[text.to_owned()]);
});
