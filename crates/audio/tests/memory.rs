//! What a stream costs in memory, counted in bytes that are really held.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicIsize, Ordering},
};

use paceline_audio::{Bounds, Decoder, Encoding, Source};

/// Counts the bytes that are held, now and at most. This file has one test, so nobody else's are
/// counted.
struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "a global allocator can be written no other way")]
// SAFETY: every call is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size().cast_signed();
        let held = HELD.fetch_add(size, Ordering::Relaxed) + size;
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn held() -> isize {
    HELD.load(Ordering::Relaxed)
}

/// Bytes a decoder holds: when new, after `bytes`, and at most while it takes them `times` over.
fn cost(source: Source, bytes: &[u8], times: usize) -> (isize, isize, isize) {
    let before = held();
    let mut decoder = Decoder::new(source, 16_000, &Bounds::default()).unwrap();
    let new = held() - before;
    let mut sink = |_: &[&[f32]]| {};
    decoder.push(bytes, &mut sink).unwrap();
    let idle = held() - before;
    MOST.store(held(), Ordering::Relaxed);
    for _ in 1..times {
        decoder.push(bytes, &mut sink).unwrap();
    }
    (new, idle, MOST.load(Ordering::Relaxed) - before)
}

#[test]
fn a_stream_holds_little_and_no_more_after_an_hour() {
    for (encoding, rate, channels, most, tenths) in [
        (Encoding::S16le, 16_000_u16, 1_u16, 2_048, 36_000),
        (Encoding::Mulaw, 8_000, 1, 10_240, 6_000),
        (Encoding::S16le, 48_000, 1, 10_240, 6_000),
        (Encoding::F32le, 48_000, 2, 20_480, 6_000),
    ] {
        let source = Source::raw(encoding, u32::from(rate), channels);
        let frame = encoding.sample_bytes().unwrap() * usize::from(channels);
        let tenth = vec![7; usize::from(rate) / 10 * frame];
        // The tables of the resampler are made once, for all streams.
        cost(source, &tenth, 1);
        let (new, idle, late) = cost(source, &tenth, tenths);
        println!("{encoding} {rate} Hz x{channels}: new {new}, idle {idle}, at most {late}");
        assert!(new < 512, "{encoding}: {new} bytes when new");
        assert!(idle <= most, "{encoding} {rate}: {idle} bytes after a chunk");
        assert!(late <= idle + 2_048, "{encoding} {rate}: {idle} bytes, then {late}");
    }

    for name in
        ["speech.flac", "mono.mp3", "mono.aac", "hybrid.ogg", "live.webm", "index-first.m4a"]
    {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let bytes = std::fs::read(path).unwrap();
        let source = Source::container(Encoding::Auto);
        // So are those of the codecs.
        cost(source, &bytes, 1);
        let (new, idle, _) = cost(source, &bytes, 1);
        println!("{name}: new {new}, idle {idle}");
        assert!(new < 512, "{name}: {new} bytes when new");
        assert!(idle < 98_304, "{name}: {idle} bytes");
    }
}
