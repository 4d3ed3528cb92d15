//! Configuration files, the command line's settings, and addresses of Redis.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_server::config::{Config, load};

fuzz_target!(|text: &str| match text.split_once(' ') {
    // A folder of models is looked at, and there is no saying which.
    Some(("--set", set)) if !set.contains("repository") => {
        drop(load::load(None, [], &[set.to_owned()]));
    }
    Some(("--redis", url)) => {
        let cameras = paceline_ingest::Config { url: url.to_owned(), ..Default::default() };
        drop(cameras.address());
    }
    _ => drop(load::check::<Config>(text, "fuzz")),
});
