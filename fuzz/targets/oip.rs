//! Bodies of the Open Inference Protocol: JSON, JSON with tensors behind it, and bare tensors.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use paceline_api::oip::decode_http;
use paceline_types::{DType, Dim, Signature, TensorSpec};

fuzz_target!(|data: &[u8]| {
    let [kind, low, high, body @ ..] = data else { return };
    let length = u16::from_le_bytes([*low, *high]).to_string();
    let header = match kind % 4 {
        0 => None,
        1 => Some("0".as_bytes()),
        _ => Some(length.as_bytes()),
    };
    let signature = Signature {
        inputs: vec![TensorSpec { name: "x".into(), dtype: DType::F32, dims: vec![Dim::Any] }],
        outputs: Vec::new(),
        batched: kind & 8 == 0,
    };
    let body = Bytes::copy_from_slice(body);
    let _ = decode_http("model".to_owned(), None, header, &body, &signature);
});
