//! Every rate, channel count and way of writing samples, to the rate of a model.

use std::f64::consts::TAU;

use paceline_audio::{Encoding, Source};

use crate::{fixtures::decode_chunks, flac::verbatim, wav::wav};

const RATES: [u32; 13] = [
    8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400,
    192_000,
];
const SECONDS: f64 = 0.2503; // an odd number of frames at most rates

/// Channel `channel` at `rate`: a sine of its own.
fn sine(channel: usize, rate: u32, n_frames: usize) -> Vec<f32> {
    let step = TAU * (300.0 + 170.0 * channel as f64) / f64::from(rate);
    (0..n_frames).map(|i| (0.6 * (step * i as f64 + 0.5).sin()) as f32).collect()
}

fn interleaved(rate: u32, channels: usize) -> (Vec<f32>, usize) {
    let n_frames = (SECONDS * f64::from(rate)) as usize;
    let planes: Vec<_> = (0..channels).map(|channel| sine(channel, rate, n_frames)).collect();
    ((0..n_frames).flat_map(|at| planes.iter().map(move |plane| plane[at])).collect(), n_frames)
}

fn encode(encoding: Encoding, samples: &[f32]) -> Vec<u8> {
    let s32 = |x: f32| (f64::from(x) * 2_147_483_647.0) as i32;
    match encoding {
        Encoding::S16le => {
            samples.iter().flat_map(|x| ((s32(*x) >> 16) as i16).to_le_bytes()).collect()
        }
        Encoding::S24le => {
            samples.iter().flat_map(|x| s32(*x).to_le_bytes()[1..].to_vec()).collect()
        }
        Encoding::S32le => samples.iter().flat_map(|x| s32(*x).to_le_bytes()).collect(),
        Encoding::F32le => samples.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Encoding::Mulaw => samples.iter().map(|x| mulaw((s32(*x) >> 16) as i16)).collect(),
        _ => samples.iter().map(|x| alaw((s32(*x) >> 16) as i16)).collect(),
    }
}

fn mulaw(sample: i16) -> u8 {
    let magnitude = i32::from(sample).abs().min(32_635) + 0x84;
    let exponent = (24 - magnitude.leading_zeros()).min(7) as i32;
    let sign = if sample < 0 { 0x80 } else { 0 };
    !(sign | exponent << 4 | (magnitude >> (exponent + 3)) & 0xf) as u8
}

fn alaw(sample: i16) -> u8 {
    let magnitude = i32::from(sample).abs().min(32_767);
    let exponent = (24_i32 - magnitude.leading_zeros() as i32).clamp(0, 7);
    let mantissa = (magnitude >> if exponent == 0 { 4 } else { exponent + 3 }) & 0xf;
    let sign = if sample < 0 { 0 } else { 0x80 };
    (sign | exponent << 4 | mantissa) as u8 ^ 0x55
}

fn correlation(heard: &[f32], wanted: &[f32]) -> f64 {
    let product = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    product(heard, wanted) / (product(heard, heard) * product(wanted, wanted)).sqrt()
}

/// Decodes in chunks that split samples, and looks at length and place of every channel.
fn check(source: Source, bytes: &[u8], rate: u32, channels: usize, n_frames: usize) {
    let what = format!("{} {rate} Hz x{channels}", source.encoding);
    let (planes, ending) = decode_chunks(source, 16_000, bytes, &[977, 1, 20_011])
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let length = (n_frames as f64 * 16_000.0 / f64::from(rate)).round() as usize;
    assert_eq!(planes.len(), channels, "{what}");
    assert_eq!((ending.damaged, ending.left_over), (0, 0), "{what}");
    for (channel, plane) in planes.iter().enumerate() {
        assert_eq!(plane.len(), length, "{what}");
        let likeness = correlation(plane, &sine(channel, 16_000, length));
        assert!(likeness > 0.998, "{what} channel {channel}: {likeness}");
    }
}

#[test]
fn raw_samples_of_every_kind_at_every_rate() {
    for rate in RATES {
        for channels in [1_u16, 2, 6] {
            let (samples, n_frames) = interleaved(rate, usize::from(channels));
            for encoding in Encoding::all().filter(|encoding| encoding.is_raw()) {
                let source = Source::raw(encoding, rate, channels);
                let bytes = encode(encoding, &samples);
                check(source, &bytes, rate, usize::from(channels), n_frames);
            }
        }
    }
}

#[test]
fn wavs_of_every_kind_at_every_rate() {
    let kinds = [
        (Encoding::S16le, 1, 16),
        (Encoding::S24le, 1, 24),
        (Encoding::S32le, 1, 32),
        (Encoding::F32le, 3, 32),
        (Encoding::Mulaw, 7, 8),
        (Encoding::Alaw, 6, 8),
    ];
    for rate in RATES {
        for channels in [1_u16, 2, 6] {
            let (samples, n_frames) = interleaved(rate, usize::from(channels));
            for (encoding, tag, bits) in kinds {
                let bytes = wav(tag, bits, channels, rate, &encode(encoding, &samples));
                let source = Source::container(Encoding::Auto);
                check(source, &bytes, rate, usize::from(channels), n_frames);
            }
        }
    }
}

#[test]
fn flacs_at_every_rate() {
    for rate in RATES {
        for channels in [1_u16, 2, 6] {
            let (samples, n_frames) = interleaved(rate, usize::from(channels));
            let samples: Vec<i16> = samples.iter().map(|x| (x * 32_767.0) as i16).collect();
            let bytes = verbatim(rate, usize::from(channels), &samples);
            let source = Source::container(Encoding::Flac);
            check(source, &bytes, rate, usize::from(channels), n_frames);
        }
    }
}
