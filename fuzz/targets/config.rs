//! Configuration files, and the command line's settings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_server::config::{Config, load};

fuzz_target!(|text: &str| match text.strip_prefix("--set ") {
    // A folder of models is looked at, and there is no saying which.
    Some(set) if !set.contains("repository") => drop(load::load(None, [], &[set.to_owned()])),
    _ => drop(load::check::<Config>(text, "fuzz")),
});
