//! The body of an HTTP inference request: JSON, JSON followed by raw tensors, or one raw tensor.
//!
//! Which of the three it is, the header `Inference-Header-Content-Length` says: absent, the
//! length of the JSON, or 0. Raw tensors are slices of the body and are not copied, so they start
//! wherever the client put them: whoever reads them as numbers must not expect alignment.

use bytes::{BufMut, Bytes, BytesMut};
use paceline_types::{DType, Dim, Shape, Signature, TensorSpec};

use super::{
    InferParams, InferRequest, Name, OipError,
    elements::Head,
    json::{self, Tail},
};

/// Reads the body of a request to `model`.
///
/// `header` is the value of `Inference-Header-Content-Length`, where there is one; it counts bytes
/// of the body after decompression. `signature` gives a body without JSON its name and shape.
///
/// # Errors
///
/// When the body is not exactly what the protocol asks for; the message names the input.
pub fn decode_http(
    model: String,
    version: Option<u64>,
    header: Option<&[u8]>,
    body: &Bytes,
    signature: &Signature,
) -> Result<InferRequest, OipError> {
    let Some(header) = header else {
        return json::decode(body, &mut Tail(None), model, version);
    };
    let length = parse_length(header)?;
    if length == 0 {
        return decode_raw(model, version, body, signature);
    }
    let text = body
        .get(..length)
        .ok_or(OipError::HeaderBeyondBody { header: length, body: body.len() })?;
    let mut tail = Tail(Some(body.slice(length..)));
    let request = json::decode(text, &mut tail, model, version)?;
    match tail.0.map_or(0, |rest| rest.len()) {
        0 => Ok(request),
        left => Err(OipError::LeftoverBytes { left }),
    }
}

fn parse_length(header: &[u8]) -> Result<usize, OipError> {
    let text = std::str::from_utf8(header).ok().map(str::trim);
    text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| OipError::HeaderLength(Name::from(header)))
}

/// Reads a body that is the model's only input: one row, all outputs raw.
fn decode_raw(
    model: String,
    version: Option<u64>,
    body: &Bytes,
    signature: &Signature,
) -> Result<InferRequest, OipError> {
    let [spec] = &*signature.inputs else {
        return Err(OipError::RawInputs { inputs: signature.inputs.len() });
    };
    // Nothing is not an empty tensor: most likely the body was forgotten.
    if body.is_empty() {
        return Err(OipError::NoInputs);
    }
    let mut shape = raw_shape(spec, body.len())
        .ok_or_else(|| OipError::RawShape { input: (&*spec.name).into(), bytes: body.len() })?;
    if signature.batched {
        shape.insert(0, 1);
    }
    let data = if spec.dtype == DType::Bytes { prefixed(body, &spec.name)? } else { body.clone() };
    let head = Head { name: &spec.name, dtype: spec.dtype, shape: &shape };
    let tensor = head.tensor(data)?;
    Ok(InferRequest {
        model,
        version,
        id: None,
        params: InferParams { binary_data_output: true, ..InferParams::default() },
        inputs: vec![(spec.name.clone(), tensor)],
        outputs: Vec::new(),
    })
}

/// The shape without the batch that so many bytes make: the declared one, where at most one
/// extent is open. A body for a BYTES input is one element.
fn raw_shape(spec: &TensorSpec, n_bytes: usize) -> Option<Shape> {
    let mut n_open = 0;
    let mut known = 1_usize;
    for dim in &spec.dims {
        match dim {
            Dim::Fixed(extent) => known = known.checked_mul(*extent)?,
            Dim::Any => n_open += 1,
        }
    }
    let open = match (spec.dtype.size(), n_open) {
        (None, _) if known == 1 => 1,
        (Some(_), 0) => 0,
        (Some(size), 1) => {
            let row = known.checked_mul(size).filter(|row| *row > 0)?;
            (n_bytes.is_multiple_of(row)).then_some(n_bytes / row)?
        }
        _ => return None,
    };
    let extent = |dim: &Dim| match dim {
        Dim::Fixed(extent) => *extent,
        Dim::Any => open,
    };
    Some(spec.dims.iter().map(extent).collect())
}

/// One BYTES element, behind its length.
fn prefixed(body: &Bytes, input: &str) -> Result<Bytes, OipError> {
    let length = u32::try_from(body.len())
        .map_err(|_| OipError::RawShape { input: input.into(), bytes: body.len() })?;
    let mut data = BytesMut::with_capacity(4 + body.len());
    data.put_u32_le(length);
    data.extend_from_slice(body);
    Ok(data.freeze())
}
