//! Sentence embeddings on both engines: alone, and padded beside longer and shorter sentences.
//!
//! The goldens were made alone and without padding, so a padded batch that agrees with them shows
//! that neither the padding nor the company changes an answer.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "onnx/support.rs"]
#[expect(dead_code, reason = "not every test needs every helper")]
mod support;

use std::fs;

use paceline_backend::Backend as _;
use paceline_backend_onnx::{Engine, OnnxBackend};
use paceline_types::{DType, Dim, Tensor};

use crate::support::{ENGINES, assert_close, golden, in_repository, in_tests, options, run};

/// Of numbers whose squares sum to one.
const TOLERANCE: f32 = 1e-5;

fn minilm(engine: Engine) -> OnnxBackend {
    let path = in_repository(".cache/minilm/model.onnx");
    assert!(path.is_file(), "MiniLM is not in .cache/minilm; run scripts/fetch-minilm first");
    OnnxBackend::load(&options(path, engine)).unwrap()
}

/// The tokens of the golden sentences, of 3 to 45 tokens.
fn sentences() -> Vec<Vec<i64>> {
    let text = fs::read_to_string(in_tests("golden/minilm.json")).unwrap();
    let sentences: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let ids = |sentence: &serde_json::Value| serde_json::from_value(sentence["ids"].clone());
    sentences.iter().map(|sentence| ids(sentence).unwrap()).collect()
}

/// Sentences filled up to one length: tokens, mask and segments.
fn stacked(sentences: &[Vec<i64>], length: usize, filler: i64) -> [Tensor; 3] {
    let (mut ids, mut mask) = (Vec::new(), Vec::new());
    for sentence in sentences {
        let n_padding = length - sentence.len();
        ids.extend_from_slice(sentence);
        ids.extend(vec![filler; n_padding]);
        mask.extend(vec![1; sentence.len()]);
        mask.extend(vec![0; n_padding]);
    }
    let segments = vec![0; ids.len()];
    [ids, mask, segments].map(|values: Vec<i64>| {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let shape = [sentences.len(), length];
        Tensor::build(DType::I64, shape.as_slice().into(), data.into()).unwrap()
    })
}

#[test]
fn a_sentence_alone_has_its_golden_embedding() {
    let expected = golden("minilm.f32");
    for engine in ENGINES {
        let mut backend = minilm(engine);
        for (sentence, expected) in sentences().iter().zip(expected.chunks(384)) {
            let inputs = stacked(std::slice::from_ref(sentence), sentence.len(), 0);

            let outputs = run(&mut backend, &inputs, 1);

            assert_close(&outputs[0], expected, TOLERANCE, &format!("{engine:?}, alone"));
        }
    }
}

#[test]
fn neither_company_nor_padding_changes_an_embedding() {
    let expected = golden("minilm.f32");
    let sentences = sentences();
    for engine in ENGINES {
        let mut backend = minilm(engine);
        // What stands behind the mask must not matter, so it is not always the padding token.
        for (length, filler) in [(45, 0), (64, 0), (64, 7852)] {
            let inputs = stacked(&sentences, length, filler);

            let outputs = run(&mut backend, &inputs, sentences.len());

            let what = format!("{engine:?}, {length} tokens filled with {filler}");
            assert_close(&outputs[0], &expected, TOLERANCE, &what);
        }
    }
}

#[test]
fn the_mask_is_what_makes_padding_harmless() {
    let sentences = sentences();
    let mut backend = minilm(Engine::Rten);
    let [ids, _, segments] = stacked(&sentences, 64, 7852);
    let [_, everything, _] = stacked(&vec![vec![0; 64]; sentences.len()], 64, 0);

    let outputs = run(&mut backend, &[ids, everything, segments], sentences.len());

    let expected = golden("minilm.f32");
    let distances = outputs[0].iter().zip(&expected).map(|(a, e)| (a - e).abs());
    assert!(distances.fold(0.0, f32::max) > 0.01, "the mask changed nothing");
}

#[test]
fn tokens_are_64_bit_on_both_engines() {
    for engine in ENGINES {
        let backend = minilm(engine);
        let signature = backend.signature();

        assert!(signature.batched);
        assert!(signature.inputs.iter().all(|input| input.dtype == DType::I64));
        assert!(signature.inputs.iter().all(|input| input.dims == [Dim::Any]));
        assert_eq!(signature.outputs[0].dims, [Dim::Fixed(384)]);
    }
}
