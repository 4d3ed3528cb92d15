//! How long one request takes to read and one response to write, without any socket.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use paceline_api::oip::{InferRequest, InferResponse, OipError, decode_http, encode_http};
use paceline_types::{DType, Signature, Tensor};
use serde::Deserialize;

/// What a derived reader would take, told the type beforehand and checking no shape: the
/// comparison that the hand-written reader has to win.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only the reading is measured")]
struct Body<T> {
    inputs: Vec<Input<T>>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only the reading is measured")]
struct Input<T> {
    name: String,
    shape: Vec<usize>,
    datatype: String,
    data: Vec<T>,
}

/// The JSON body that the comparison with other servers sends: 64 bytes of one value.
fn peers_body() -> Bytes {
    let data = ["120"; 64].join(",");
    format!(
        r#"{{"inputs":[{{"name":"input","shape":[1,64],"datatype":"UINT8","data":[{data}]}}]}}"#
    )
    .into()
}

/// A thousand numbers as a client would print them: seven to nine significant digits.
fn floats() -> Vec<f32> {
    let mut state = 0x2545_F491_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from_bits(0x3F80_0000 | state >> 9) * 2.0 - 3.0
    };
    (0..1000).map(|_| next()).collect()
}

fn float_body() -> Bytes {
    let data = floats().iter().map(f32::to_string).collect::<Vec<_>>().join(",");
    format!(r#"{{"inputs":[{{"name":"x","shape":[1,1000],"datatype":"FP32","data":[{data}]}}]}}"#)
        .into()
}

/// The same numbers as raw bytes; the length of the JSON comes along.
fn binary_body() -> (String, Bytes) {
    let json = r#"{"inputs":[{"name":"x","shape":[1,1000],"datatype":"FP32","parameters":{"binary_data_size":4000}}]}"#;
    let mut body = json.as_bytes().to_vec();
    body.extend(floats().iter().flat_map(|value| value.to_le_bytes()));
    (json.len().to_string(), body.into())
}

fn decode(header: Option<&[u8]>, body: &Bytes) -> Result<InferRequest, OipError> {
    decode_http("m".to_owned(), None, header, black_box(body), &Signature::default())
}

fn response(tensor: Tensor) -> InferResponse {
    InferResponse {
        model_name: "m".to_owned(),
        model_version: "1".to_owned(),
        id: None,
        parameters: Vec::new(),
        outputs: vec![("y".to_owned(), tensor)],
    }
}

fn decoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    let peers = peers_body();
    group.throughput(Throughput::Bytes(peers.len() as u64));
    group.bench_function("json_uint8_64", |bench| bench.iter(|| decode(None, &peers)));
    let json = float_body();
    group.throughput(Throughput::Bytes(json.len() as u64));
    group.bench_function("json_fp32_1000", |bench| bench.iter(|| decode(None, &json)));
    let (header, binary) = binary_body();
    group.throughput(Throughput::Bytes(binary.len() as u64));
    group.bench_function("binary_fp32_1000", |bench| {
        bench.iter(|| decode(Some(header.as_bytes()), &binary));
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("serde_uint8_64", |bench| {
        bench.iter(|| serde_json::from_slice::<Body<u8>>(black_box(&peers)));
    });
    group.bench_function("serde_fp32_1000", |bench| {
        bench.iter(|| serde_json::from_slice::<Body<f32>>(black_box(&json)));
    });
    group.finish();
}

fn encoding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    let bytes = Tensor::build(DType::U8, [1, 64].as_slice().into(), vec![120; 64].into());
    let bytes = response(bytes.expect("64 bytes make 64 elements"));
    group.bench_function("json_uint8_64", |bench| {
        bench.iter(|| encode_http(black_box(&bytes), &[], false));
    });
    let floats = Tensor::from_f32(&[1, 1000], &floats()).expect("there are a thousand");
    let floats = response(floats);
    group.bench_function("json_fp32_1000", |bench| {
        bench.iter(|| encode_http(black_box(&floats), &[], false));
    });
    group.bench_function("binary_fp32_1000", |bench| {
        bench.iter(|| encode_http(black_box(&floats), &[], true));
    });
    group.finish();
}

criterion_group!(benches, decoding, encoding);
criterion_main!(benches);
