//! Entries of camera streams: a frame within its bounds, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_ingest::{
    EntryId,
    entry::{Origin, read},
};

const MAX: usize = 100;

fuzz_target!(|data: &[u8]| {
    // A name of one byte, a length, and so many bytes.
    let mut fields = Vec::new();
    let mut rest = data;
    while let [name, length, tail @ ..] = rest {
        let (value, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        fields.push((vec![*name], value.to_vec()));
        rest = tail;
    }
    let origin = Origin { id: EntryId::default(), camera: None, max_bytes: MAX };
    if let Ok(frame) = read(origin, fields) {
        assert!(!frame.camera.is_empty() && frame.payload.len() <= MAX);
    }
});
