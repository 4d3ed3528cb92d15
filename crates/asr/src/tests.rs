//! The model against ONNX Runtime's answers, and against itself in any company.

use std::sync::{Arc, LazyLock};

use paceline_simd::Kind;
use proptest::prelude::*;

use super::{shape::WIDTH, *};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/moonshine/1");

static WEIGHTS: LazyLock<Arc<Weights>> = LazyLock::new(|| Weights::load(FOLDER).unwrap());

/// A piece of speech and what the reference says it says.
struct Clip {
    samples: Vec<f32>,
    tokens: Vec<u32>,
    text: &'static str,
}

/// The samples of a WAV file of 16-bit samples.
fn wav(file: &[u8]) -> Vec<f32> {
    let data = file.windows(4).position(|name| name == b"data").unwrap() + 8;
    let samples = file[data..].as_chunks().0.iter();
    samples.map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32768.0).collect()
}

fn jfk() -> Vec<f32> {
    wav(include_bytes!("../../audio/tests/golden/jfk.wav"))
}

static CLIPS: LazyLock<Vec<Clip>> = LazyLock::new(|| {
    let lines: Vec<&str> = include_str!("../tests/golden/clips.txt").lines().collect();
    let clip = |lines: &[&'static str; 2]| {
        let mut words = lines[0].split(' ');
        let file = match words.next().unwrap() {
            "jfk" => jfk(),
            "beckett" => wav(include_bytes!("../tests/golden/beckett.wav")),
            _ => wav(include_bytes!("../tests/golden/two_cities.wav")),
        };
        let mut number = || words.next().unwrap().parse::<usize>().unwrap();
        let (first, n_samples) = (number(), number());
        let tokens = words.map(|word| word.parse().unwrap()).collect();
        Clip { samples: file[first..first + n_samples].to_vec(), tokens, text: lines[1] }
    };
    lines.as_chunks().0.iter().map(clip).collect()
});

/// What an utterance says when nobody else is there.
fn alone(kind: Kind, samples: &[f32]) -> (Vec<u32>, End) {
    let encoded = Encoder::with_kind(WEIGHTS.clone(), kind).encode(samples).unwrap();
    let mut decoder = Decoder::with_kind(WEIGHTS.clone(), 1, kind);
    decoder.join(encoded).unwrap();
    let mut said = Vec::new();
    loop {
        for event in decoder.step() {
            match event {
                Event::Token { token, .. } => said.push(*token),
                Event::End { end, .. } => return (said, *end),
            }
        }
    }
}

#[test]
fn the_encoder_is_the_graph() {
    let expected: Vec<f32> = include_bytes!("../tests/golden/encoder.f32")
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    for kind in Kind::every() {
        let mut encoder = Encoder::with_kind(WEIGHTS.clone(), kind);
        encoder.encode(&jfk()[..3 * SAMPLE_RATE]).unwrap();
        let hidden = encoder.output().chunks(WIDTH).step_by(10).flatten();
        let (mut far, mut size, mut n) = (0_f32, 0_f32, 0);
        for (actual, expected) in hidden.zip(&expected) {
            far = far.max((actual - expected).abs());
            size = size.max(expected.abs());
            n += 1;
        }
        println!("{}: {far} of {size}", kind.name());
        assert_eq!(n, expected.len());
        assert!(far < 1e-3 * size, "{}: {far} of {size}", kind.name());
    }
}

#[test]
fn every_kind_of_instructions_says_what_the_graph_says() {
    let tokens = Tokens::load(FOLDER).unwrap();
    for kind in Kind::every() {
        for clip in &*CLIPS {
            let (said, _) = alone(kind, &clip.samples);
            assert_eq!(tokens.text(&said), clip.text, "{}", kind.name());
            assert_eq!(said, clip.tokens, "{}", kind.name());
        }
    }
}

/// Samples, and what they say alone.
type Utterance = (Vec<f32>, Vec<u32>, End);

/// Speech of many lengths.
static UTTERANCES: LazyLock<Vec<Utterance>> = LazyLock::new(|| {
    let mut utterances = Vec::new();
    for (clip, first, n_samples) in [
        (0, 0, MIN_SAMPLES),
        (0, 5000, 3000),
        (0, 0, 20_000),
        (0, 40_000, 40_001),
        (2, 0, 31_111),
        (2, 60_000, 70_000),
        (3, 10_000, 50_000),
        (4, 0, 100_000),
        (5, 1, 39_999),
    ] {
        let samples = CLIPS[clip].samples[first..first + n_samples].to_vec();
        let (said, end) = alone(Kind::best(), &samples);
        utterances.push((samples, said, end));
    }
    utterances
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn an_utterance_says_the_same_in_any_company(
        // Which utterances, and after how many steps from the one before each joins.
        arrivals in prop::collection::vec((0..9_usize, 0..12_usize), 1..14),
        capacity in 1..11_usize,
        // One that leaves before its end.
        quitter in 0..14_usize,
    ) {
        let mut encoder = Encoder::new(WEIGHTS.clone());
        let mut decoder = Decoder::new(WEIGHTS.clone(), capacity);
        let mut live: Vec<(Id, usize, Vec<u32>)> = Vec::new();
        let mut n_ended = 0;
        let mut step = |decoder: &mut Decoder, live: &mut Vec<(Id, usize, Vec<u32>)>| {
            for event in decoder.step() {
                match event {
                    Event::Token { id, token } => {
                        let said = live.iter_mut().find(|said| said.0 == *id).unwrap();
                        said.2.push(*token);
                    }
                    Event::End { id, end } => {
                        let at = live.iter().position(|said| said.0 == *id).unwrap();
                        let (_, utterance, said) = live.remove(at);
                        assert_eq!(&(&said, *end), &(&UTTERANCES[utterance].1, UTTERANCES[utterance].2));
                        n_ended += 1;
                    }
                }
            }
        };
        let mut n_left = 0;
        for (at, (utterance, n_steps)) in arrivals.iter().enumerate() {
            for _ in 0..*n_steps {
                step(&mut decoder, &mut live);
            }
            while decoder.room() == 0 {
                let encoded = encoder.encode(&UTTERANCES[0].0).unwrap();
                prop_assert_eq!(decoder.join(encoded), Err(Full { capacity }));
                step(&mut decoder, &mut live);
            }
            let id = decoder.join(encoder.encode(&UTTERANCES[*utterance].0).unwrap()).unwrap();
            live.push((id, *utterance, Vec::new()));
            if at == quitter {
                let (id, ..) = live.remove(0);
                prop_assert!(decoder.leave(id));
                prop_assert!(!decoder.leave(id));
                n_left += 1;
            }
        }
        while decoder.n_live() > 0 {
            step(&mut decoder, &mut live);
        }
        prop_assert_eq!(n_ended + n_left, arrivals.len());
        prop_assert!(decoder.step().is_empty());
    }
}

#[test]
fn what_is_no_utterance_is_refused() {
    let mut encoder = Encoder::new(WEIGHTS.clone());
    let mut refused = |samples: &[f32]| encoder.encode(samples).unwrap_err();
    assert_eq!(refused(&[]), AudioError::TooShort { n_samples: 0 });
    let n_samples = MIN_SAMPLES - 1;
    assert_eq!(refused(&vec![0.0; n_samples]), AudioError::TooShort { n_samples });
    let n_samples = MAX_SAMPLES + 1;
    assert_eq!(refused(&vec![0.0; n_samples]), AudioError::TooLong { n_samples });
    let mut samples = vec![0.0; MIN_SAMPLES];
    for sample in [f32::NAN, f32::INFINITY, -1e9] {
        samples[7] = sample;
        assert_eq!(refused(&samples), AudioError::NotSound { at: 7 });
    }
}

#[test]
fn silence_and_the_longest_noise_come_to_an_end() {
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    let noise: Vec<f32> = (0..MAX_SAMPLES).map(|_| noise()).collect();
    for samples in [vec![0.0; MIN_SAMPLES], vec![0.0; SAMPLE_RATE], noise] {
        let (said, _) = alone(Kind::best(), &samples);
        assert!(said.len() <= shape::max_tokens(samples.len()), "{}", said.len());
    }
}
