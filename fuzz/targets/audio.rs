//! Audio of every encoding: nothing panics or grows, and any chunking gives the same samples.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use paceline_audio::{Bounds, Decoder, Encoding, Source};

const ENCODINGS: [Encoding; 14] = [
    Encoding::Auto,
    Encoding::S16le,
    Encoding::S24le,
    Encoding::S32le,
    Encoding::F32le,
    Encoding::Mulaw,
    Encoding::Alaw,
    Encoding::Wav,
    Encoding::Flac,
    Encoding::Mp3,
    Encoding::Aac,
    Encoding::M4a,
    Encoding::Ogg,
    Encoding::Webm,
];

fn decode(encoding: Encoding, bytes: &[u8], chunk: usize) -> (Vec<Vec<f32>>, String) {
    // Short, so that an input that asks for hours is refused soon.
    let bounds = Bounds { max_duration: Duration::from_millis(100), ..Bounds::default() };
    let is_raw = (1..7).contains(&(encoding as usize));
    // Raw samples have the rate that is wanted: resampling is what takes longest, and containers say
    // every rate there is.
    let source =
        if is_raw { Source::raw(encoding, 16_000, 2) } else { Source::container(encoding) };
    let mut samples: Vec<Vec<f32>> = Vec::new();
    let end = (|| {
        let mut decoder = Decoder::new(source, 16_000, &bounds)?;
        for piece in bytes.chunks(chunk) {
            decoder.push(piece, &mut samples)?;
        }
        decoder.finish(&mut samples)
    })();
    (samples, format!("{end:?}"))
}

/// By bits: what is not a number is equal to itself here.
fn bits((samples, end): (Vec<Vec<f32>>, String)) -> (Vec<Vec<u32>>, String) {
    let bits = samples.iter().map(|plane| plane.iter().map(|sample| sample.to_bits()).collect());
    (bits.collect(), end)
}

fuzz_target!(|data: &[u8]| {
    let [which, chunk, rest @ ..] = data else { return };
    let encoding = ENCODINGS[usize::from(*which & 0x7f) % ENCODINGS.len()];
    let cut = decode(encoding, rest, usize::from(*chunk) + 1);
    // Twice only for some: decoding is slow.
    if 0x80 <= *which {
        let whole = decode(encoding, rest, rest.len().max(1));
        assert_eq!(bits(whole), bits(cut), "{encoding:?}");
    }
});
