//! What a stream costs in memory, counted in bytes that are really held.

use paceline_audio::{Bounds, Decoder, Encoding, Source};
use paceline_testkit::Counting;

#[global_allocator]
static MEMORY: Counting = Counting::new();

/// Bytes a decoder holds: when new, after `bytes`, and at most while it takes them `times` over.
fn cost(source: Source, bytes: &[u8], times: usize) -> (isize, isize, isize) {
    let before = MEMORY.held();
    let mut decoder = Decoder::new(source, 16_000, &Bounds::default()).unwrap();
    let new = MEMORY.held() - before;
    let mut sink = |_: &[&[f32]]| {};
    decoder.push(bytes, &mut sink).unwrap();
    let idle = MEMORY.held() - before;
    MEMORY.forget_most();
    for _ in 1..times {
        decoder.push(bytes, &mut sink).unwrap();
    }
    (new, idle, MEMORY.most() - before)
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
