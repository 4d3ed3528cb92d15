//! What a second of audio costs, from bytes to samples at 16 kHz. Elements are frames that come out:
//! 16 000 are one second.

use std::{hint::black_box, path::Path, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use paceline_audio::{Bounds, Decoder, Encoding, Source};

fn decode(source: Source, bytes: &[u8]) -> u64 {
    let mut decoder = Decoder::new(source, 16_000, &Bounds::default()).expect("a source");
    let mut sink = |planes: &[&[f32]]| {
        black_box(planes);
    };
    for chunk in bytes.chunks(3200) {
        decoder.push(chunk, &mut sink).expect("audio");
    }
    decoder.finish(&mut sink).expect("an end").frames
}

fn measure(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    group.sample_size(10).measurement_time(Duration::from_secs(1));
    group.warm_up_time(Duration::from_millis(300));
    let mut bench = |name: &str, source: Source, bytes: &[u8]| {
        group.throughput(Throughput::Elements(decode(source, bytes)));
        group.bench_function(name, |bencher| bencher.iter(|| decode(source, bytes)));
    };
    for rate in [8_000_u32, 16_000, 44_100, 48_000] {
        let second: Vec<u8> = (0..rate * 2).map(|i| (i.wrapping_mul(40_503) >> 8) as u8).collect();
        bench(&format!("s16le {rate}"), Source::raw(Encoding::S16le, rate, 1), &second);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for name in [
        "speech.flac",
        "mono.mp3",
        "mono.aac",
        "index-first.m4a",
        "silk.ogg",
        "hybrid.ogg",
        "live.webm",
    ] {
        let bytes = std::fs::read(folder.join(name)).expect("a fixture");
        bench(name, Source::container(Encoding::Auto), &bytes);
    }
    group.finish();
}

criterion_group!(benches, measure);
criterion_main!(benches);
