//! Pictures for a model.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use paceline_pipeline::adapt::{Adapter as _, Picture, PictureSettings};

static ADAPTER: LazyLock<Picture> = LazyLock::new(|| {
    let settings: PictureSettings =
        serde_json::from_str(r#"{"width": 4, "height": 4, "resize": "letterbox"}"#)
            .expect("these are settings");
    Picture::build(settings).expect("these make sense")
});

/// What a decoder may take of each execution's time: its own bound is far higher, and large
/// pictures are only slow.
const MAX_SIDE: u16 = 256;

/// Whether a picture says that it is larger. Where a decoder sees more than this, it is tried.
fn is_large(data: &[u8]) -> bool {
    let side = |at: usize| match data.get(at..at + 2) {
        Some(&[high, low]) => MAX_SIDE < u16::from_be_bytes([high, low]),
        _ => false,
    };
    // PNG has the sides at its beginning; of a JPEG the frame's header has to be found.
    let is_png = data.starts_with(b"\x89PNG");
    let frame = data.windows(2).position(|two| two[0] == 0xff && (0xc0..0xc3).contains(&two[1]));
    let large_png = is_png && (side(16) || side(18) || side(20) || side(22));
    large_png || !is_png && frame.is_some_and(|at| side(at + 5) || side(at + 7))
}

fuzz_target!(|data: &[u8]| {
    if !is_large(data) {
        drop(ADAPTER.encode(data));
    }
});
