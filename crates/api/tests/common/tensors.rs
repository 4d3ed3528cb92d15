//! Arbitrary tensors, and requests written as clients write them.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use bytes::Bytes;
use paceline_api::oip::{
    InferRequest, InferResponse, OipError, decode_http, encode_http, proto::InferTensorContents,
};
use paceline_types::{DType, Shape, Signature, Tensor};
use proptest::{collection::vec, prelude::*, sample::select};

/// Types that JSON and typed gRPC contents can hold.
pub(crate) fn textual() -> impl Strategy<Value = DType> {
    let types: Vec<_> =
        DType::ALL.into_iter().filter(|dtype| !matches!(dtype, DType::F16 | DType::BF16)).collect();
    select(types)
}

/// A tensor of that type; numbers are finite and strings are text.
pub(crate) fn tensor(dtype: DType) -> impl Strategy<Value = Tensor> {
    vec(0_usize..4, 0..4).prop_flat_map(move |shape| {
        let n_elements = shape.iter().product::<usize>();
        vec(element(dtype), n_elements).prop_map(move |elements| {
            let data = Bytes::from(elements.concat());
            Tensor::build(dtype, Shape::from(&*shape), data).unwrap()
        })
    })
}

fn element(dtype: DType) -> BoxedStrategy<Vec<u8>> {
    match dtype {
        DType::Bool => any::<bool>().prop_map(|value| vec![u8::from(value)]).boxed(),
        DType::F32 => any::<f32>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(|value| value.to_le_bytes().to_vec())
            .boxed(),
        DType::F64 => any::<f64>()
            .prop_filter("finite", |value| value.is_finite())
            .prop_map(|value| value.to_le_bytes().to_vec())
            .boxed(),
        DType::Bytes => any::<String>()
            .prop_map(|text| {
                let length = u32::try_from(text.len()).unwrap();
                [&length.to_le_bytes(), text.as_bytes()].concat()
            })
            .boxed(),
        other => vec(any::<u8>(), other.size().unwrap()).boxed(),
    }
}

/// Several named tensors of any type.
pub(crate) fn named(
    dtype: impl Strategy<Value = DType> + 'static,
) -> impl Strategy<Value = Vec<(String, Tensor)>> {
    vec(dtype.prop_flat_map(tensor), 1..4).prop_map(|tensors| {
        let name = |index| format!("in \"{index}\"");
        tensors.into_iter().enumerate().map(|(index, tensor)| (name(index), tensor)).collect()
    })
}

/// A request body with those inputs and the header to send along. An output is written exactly as
/// an input is, so the response writer makes it.
pub(crate) fn body(inputs: &[(String, Tensor)], binary: bool) -> (Option<String>, Bytes) {
    let response = InferResponse {
        model_name: "m".to_owned(),
        model_version: "1".to_owned(),
        id: None,
        parameters: vec![],
        outputs: inputs.to_vec(),
    };
    let encoded = encode_http(&response, &[], binary).unwrap();
    let header = encoded.header.map(|length| length.to_string());
    let body = encoded.into_body();
    let at = body.windows(11).position(|part| part == b"\"outputs\":[").unwrap();
    let mut body = body.to_vec();
    body[at..at + 11].copy_from_slice(b"\"inputs\" :[");
    (header, body.into())
}

pub(crate) fn decode(header: Option<&str>, body: &Bytes) -> Result<InferRequest, OipError> {
    let header = header.map(str::as_bytes);
    decode_http("m".to_owned(), None, header, body, &Signature::default())
}

pub(crate) fn decode_text(json: &str) -> Result<InferRequest, OipError> {
    decode(None, &Bytes::copy_from_slice(json.as_bytes()))
}

/// The elements of a tensor in the typed list for its type.
pub(crate) fn contents(tensor: &Tensor) -> InferTensorContents {
    macro_rules! numbers {
        ($type:ty) => {
            tensor
                .data()
                .as_chunks()
                .0
                .iter()
                .map(|bytes| <$type>::from_le_bytes(*bytes).into())
                .collect()
        };
    }
    let mut contents = InferTensorContents::default();
    match tensor.dtype() {
        DType::Bool => {
            contents.bool_contents = tensor.data().iter().map(|&byte| byte == 1).collect();
        }
        DType::I8 => contents.int_contents = numbers!(i8),
        DType::I16 => contents.int_contents = numbers!(i16),
        DType::I32 => contents.int_contents = numbers!(i32),
        DType::I64 => contents.int64_contents = numbers!(i64),
        DType::U8 => contents.uint_contents = numbers!(u8),
        DType::U16 => contents.uint_contents = numbers!(u16),
        DType::U32 => contents.uint_contents = numbers!(u32),
        DType::U64 => contents.uint64_contents = numbers!(u64),
        DType::F32 => contents.fp32_contents = numbers!(f32),
        DType::F64 => contents.fp64_contents = numbers!(f64),
        DType::Bytes => {
            contents.bytes_contents = tensor.byte_elements().map(Bytes::copy_from_slice).collect();
        }
        DType::F16 | DType::BF16 => {}
    }
    contents
}
