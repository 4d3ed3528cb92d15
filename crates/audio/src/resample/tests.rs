//! Lengths, places and purity of what the resampler makes.

use std::f64::consts::TAU;

use proptest::prelude::*;

use super::Resampler;

const RATES: [u32; 14] = [
    8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 176_400,
    192_000, 44_101,
];

fn resample(input: &[f32], rate_in: u32, rate_out: u32, chunks: &[usize]) -> Vec<f32> {
    let mut resampler = Resampler::new(rate_in, rate_out, 1);
    let mut planes: Vec<Vec<f32>> = Vec::new();
    let (mut rest, mut chunks) = (input, chunks.iter().cycle());
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*chunks.next().unwrap()).clamp(1, rest.len()));
        resampler.push(&[now], &mut planes);
        rest = later;
    }
    resampler.finish(&mut planes);
    planes.pop().unwrap_or_default()
}

fn sine(frequency: f64, rate: u32, n: usize) -> Vec<f32> {
    let step = TAU * frequency / f64::from(rate);
    (0..n).map(|i| (0.5 * (step * i as f64).sin()) as f32).collect()
}

fn rounded(n: usize, rate_in: u32, rate_out: u32) -> usize {
    (n as f64 * f64::from(rate_out) / f64::from(rate_in)).round() as usize
}

/// Power of what is left of `heard` when the best fit of `wanted` is taken away, in dB of `wanted`.
fn error_db(heard: &[f32], wanted: &[f32]) -> f64 {
    assert_eq!(heard.len(), wanted.len());
    let power = |x: f64| x * x;
    let error: f64 = heard.iter().zip(wanted).map(|(a, b)| power(f64::from(a - b))).sum();
    let signal: f64 = wanted.iter().map(|x| power(f64::from(*x))).sum();
    10.0 * (error / signal).log10()
}

#[test]
fn a_sine_stays_where_it_is_at_every_rate() {
    for rate_in in RATES {
        for rate_out in [8_000, 16_000, 24_000, 48_000] {
            let frequency = f64::from(rate_in.min(rate_out)) * 0.4; // 0.8 of the lower band
            let n = rate_in as usize / 2;
            let heard = resample(&sine(frequency, rate_in, n), rate_in, rate_out, &[480]);
            let wanted = sine(frequency, rate_out, heard.len());
            assert_eq!(heard.len(), rounded(n, rate_in, rate_out));
            // But for the ends, where the sine begins and stops.
            let inner = heard.len() / 10..heard.len() * 9 / 10;
            let error = error_db(&heard[inner.clone()], &wanted[inner]);
            assert!(error < -65.0, "{rate_in} to {rate_out}: {error:.1} dB");
        }
    }
}

#[test]
fn a_chirp_keeps_its_shape_and_its_place() {
    let chirp = |rate: u32, n: usize| -> Vec<f32> {
        let at = |i: usize| i as f64 / f64::from(rate);
        (0..n).map(|i| (0.5 * (TAU * (100.0 + 1_500.0 * at(i)) * at(i)).sin()) as f32).collect()
    };
    for rate_in in RATES {
        let heard = resample(&chirp(rate_in, rate_in as usize), rate_in, 16_000, &[1000]);
        let wanted = chirp(16_000, 16_000);
        let correlation = |lag: usize| -> f64 {
            let pairs = heard[lag..].iter().zip(&wanted);
            let sum: f64 = pairs.map(|(a, b)| f64::from(a * b)).sum();
            let power = |x: &[f32]| x.iter().map(|x| f64::from(x * x)).sum::<f64>();
            sum / (power(&heard) * power(&wanted)).sqrt()
        };
        assert!(correlation(0) > 0.999, "{rate_in}: {}", correlation(0));
        assert!(correlation(0) > correlation(1), "{rate_in}");
    }
}

#[test]
fn what_the_new_rate_cannot_hold_is_gone() {
    for rate_in in [22_050, 24_000, 32_000, 44_100, 48_000, 96_000, 192_000] {
        for frequency in [8_100.0, 9_000.0, 10_500.0] {
            let input = sine(frequency, rate_in, rate_in as usize);
            let heard = resample(&input, rate_in, 16_000, &[4096]);
            let inner = &heard[1_600..14_400];
            let power: f64 = inner.iter().map(|x| f64::from(x * x)).sum::<f64>();
            let db = 10.0 * (power / inner.len() as f64 / 0.125).log10();
            assert!(db < -75.0, "{frequency} Hz at {rate_in}: {db:.1} dB");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_chunking_gives_the_same_samples_and_the_exact_number(
        input in prop::collection::vec(-1.0_f32..=1.0, 0..3000),
        rate_in in prop::sample::select(&RATES[..]),
        rate_out in prop::sample::select(&[8_000_u32, 16_000, 24_000][..]),
        chunks in prop::collection::vec(1_usize..700, 1..9),
    ) {
        let whole = resample(&input, rate_in, rate_out, &[usize::MAX]);
        prop_assert_eq!(whole.len(), rounded(input.len(), rate_in, rate_out));
        prop_assert_eq!(&whole, &resample(&input, rate_in, rate_out, &chunks));
        prop_assert_eq!(&whole, &resample(&input, rate_in, rate_out, &[1]));
        prop_assert!(whole.iter().all(|x| x.abs() <= 1.0));
    }
}
