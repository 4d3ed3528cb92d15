//! What recognising costs on one core: the encoder for each second of audio, the decoder for each
//! token at several batch sizes, and a whole clip.
//!
//! `cargo bench -p paceline-asr --bench recognise`

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a benchmark measures and prints"
)]

use std::time::Instant;

use paceline_asr::{Decoder, Encoded, Encoder, Event, SAMPLE_RATE, Tokens, Weights};
use paceline_simd::Kind;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/moonshine/1");

fn main() {
    let start = Instant::now();
    let weights = Weights::load(FOLDER).unwrap();
    println!("load: {:.0} ms", ms(start));
    let file = include_bytes!("../../audio/tests/golden/jfk.wav");
    let data = file.windows(4).position(|name| name == b"data").unwrap() + 8;
    let samples: Vec<f32> = file[data..]
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32768.0)
        .collect();

    for kind in Kind::every() {
        let mut encoder = Encoder::with_kind(weights.clone(), kind);
        let mut encode = |n_samples: usize| encoder.encode(&samples[..n_samples]).unwrap();
        println!("{}", kind.name());
        for seconds in [1, 3, 11] {
            let best = best_of(|| drop(encode(seconds * SAMPLE_RATE)));
            let each = best / seconds as f64;
            println!("  encode {seconds:>2} s: {best:>6.1} ms, {each:.2} ms a second");
        }
        for n_live in [1, 4, 8, 16] {
            let step = best_of_steps(kind, &weights, n_live, &mut encode);
            let each = step / n_live as f64;
            println!("  decode {n_live:>2} at once: {step:>5.2} ms a step, {each:.3} ms a token");
        }
        let mut said = Vec::new();
        let best = best_of(|| {
            let mut decoder = Decoder::with_kind(weights.clone(), 1, kind);
            decoder.join(encode(samples.len())).unwrap();
            said.clear();
            while decoder.n_live() > 0 {
                said.extend(decoder.step().iter().filter_map(|event| match event {
                    Event::Token { token, .. } => Some(*token),
                    Event::End { .. } => None,
                }));
            }
        });
        let seconds = samples.len() as f64 / SAMPLE_RATE as f64;
        let factor = best / 1e3 / seconds;
        println!("  {seconds} s, {} tokens: {best:.1} ms, factor {factor:.4}", said.len());
        println!("  {}", Tokens::load(FOLDER).unwrap().text(&said));
    }
}

/// The quickest step, in milliseconds, of as many utterances of 5 s.
fn best_of_steps(
    kind: Kind,
    weights: &std::sync::Arc<Weights>,
    n_live: usize,
    encode: &mut impl FnMut(usize) -> Encoded,
) -> f64 {
    let mut decoder = Decoder::with_kind(weights.clone(), n_live, kind);
    let mut best = f64::MAX;
    for _ in 0..3 {
        for _ in 0..n_live {
            decoder.join(encode(5 * SAMPLE_RATE)).unwrap();
        }
        while decoder.n_live() == n_live {
            let start = Instant::now();
            decoder.step();
            best = best.min(ms(start));
        }
        assert_eq!(decoder.n_live(), 0, "the same utterance ends at the same step");
    }
    best
}

/// The quickest of several runs, in milliseconds.
fn best_of(mut run: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..4 {
        let start = Instant::now();
        run();
        best = best.min(ms(start));
    }
    best
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}
