//! The body of an HTTP inference response.
//!
//! JSON has no NaN and no infinity. Writing `null` instead would hand a client wrong numbers with
//! a 200, so such an output is an error that says to ask for binary.

use bytes::{Bytes, BytesMut};
use paceline_types::{DType, Tensor};

use super::{InferResponse, Name, OipError, ParamValue, RequestedOutput};

/// A response body in pieces: the JSON, then raw tensors that are shared, not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedResponse {
    /// The JSON.
    pub json: Bytes,
    /// The raw tensors behind it, in the order of the outputs.
    pub tensors: Vec<Bytes>,
    /// What `Inference-Header-Content-Length` must say; no such header where this is `None`.
    pub header: Option<usize>,
}

impl EncodedResponse {
    /// The body in one piece. Copies the raw tensors, if there are any.
    #[must_use]
    pub fn into_body(self) -> Bytes {
        if self.tensors.is_empty() {
            return self.json;
        }
        let size = self.tensors.iter().map(Bytes::len).sum::<usize>() + self.json.len();
        let mut body = BytesMut::with_capacity(size);
        body.extend_from_slice(&self.json);
        for tensor in &self.tensors {
            body.extend_from_slice(tensor);
        }
        body.freeze()
    }
}

/// Writes a response. Each output is raw where its entry in `requested` says so, or, where that
/// says nothing, where `binary_default` does (`InferParams::binary_data_output`).
///
/// # Errors
///
/// When an output that JSON cannot hold was not asked for as binary.
pub fn encode_http(
    response: &InferResponse,
    requested: &[RequestedOutput],
    binary_default: bool,
) -> Result<EncodedResponse, OipError> {
    let is_binary = |name: &str| {
        let entry = requested.iter().find(|output| output.name == name);
        entry.and_then(|output| output.binary).unwrap_or(binary_default)
    };
    let room = response.outputs.iter().map(|(name, tensor)| {
        96 + name.len() + if is_binary(name) { 0 } else { text_room(tensor) }
    });
    let mut out = Vec::with_capacity(128 + room.sum::<usize>());
    let mut tensors = Vec::new();
    out.extend_from_slice(b"{\"model_name\":");
    write_string(&mut out, &response.model_name);
    out.extend_from_slice(b",\"model_version\":");
    write_string(&mut out, &response.model_version);
    if let Some(id) = &response.id {
        out.extend_from_slice(b",\"id\":");
        write_string(&mut out, id);
    }
    if !response.parameters.is_empty() {
        out.extend_from_slice(b",\"parameters\":");
        write_parameters(&mut out, &response.parameters);
    }
    out.extend_from_slice(b",\"outputs\":[");
    for (index, (name, tensor)) in response.outputs.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"name\":");
        write_string(&mut out, name);
        out.extend_from_slice(b",\"datatype\":\"");
        out.extend_from_slice(tensor.dtype().as_str().as_bytes());
        out.extend_from_slice(b"\",\"shape\":[");
        join(&mut out, tensor.shape(), |out, extent| write_integer(out, *extent));
        // INVARIANT: `parameters` stands only where it has `binary_data_size`; clients fail on
        // an output whose parameters lack it.
        if is_binary(name) {
            out.extend_from_slice(b"],\"parameters\":{\"binary_data_size\":");
            write_integer(&mut out, tensor.data().len());
            out.extend_from_slice(b"}}");
            tensors.push(tensor.data().clone());
        } else {
            out.extend_from_slice(b"],\"data\":[");
            write_data(&mut out, name, tensor)?;
            out.extend_from_slice(b"]}");
        }
    }
    out.extend_from_slice(b"]}");
    let header = (!tensors.is_empty()).then_some(out.len());
    Ok(EncodedResponse { json: out.into(), tensors, header })
}

/// About how many bytes the data takes as text; more is never wrong, only slower.
fn text_room(tensor: &Tensor) -> usize {
    let per_element = match tensor.dtype() {
        DType::U8 | DType::I8 => 4,
        DType::Bool | DType::U16 | DType::I16 => 6,
        DType::U32 | DType::I32 | DType::F32 => 12,
        DType::U64 | DType::I64 | DType::F64 => 20,
        DType::F16 | DType::BF16 => 0,
        DType::Bytes => return tensor.data().len(),
    };
    tensor.n_elements() * per_element
}

fn write_data(out: &mut Vec<u8>, name: &str, tensor: &Tensor) -> Result<(), OipError> {
    /// Writes numbers of one type; each is `from_le_bytes` and then text.
    macro_rules! integers {
        ($type:ty) => {
            join(out, tensor.data().as_chunks().0, |out, bytes| {
                write_integer(out, <$type>::from_le_bytes(*bytes));
            })
        };
    }
    macro_rules! floats {
        ($type:ty) => {{
            let (values, _) = tensor.data().as_chunks();
            // Looked for first: the search is a fraction of the writing, and it leaves the
            // writing with nothing to decide.
            let wide = values.iter().map(|bytes| f64::from(<$type>::from_le_bytes(*bytes)));
            if let Some((index, value)) = wide.enumerate().find(|(_, value)| !value.is_finite()) {
                return Err(OipError::NonFinite { output: name.into(), index, value });
            }
            let mut text = zmij::Buffer::new();
            for (index, bytes) in values.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                let value = <$type>::from_le_bytes(*bytes);
                out.extend_from_slice(text.format_finite(value).as_bytes());
            }
        }};
    }
    match tensor.dtype() {
        DType::Bool => join(out, tensor.data(), |out, byte| {
            out.extend_from_slice(if *byte == 0 { b"false" } else { b"true" });
        }),
        DType::U8 => write_u8(out, tensor.data()),
        DType::U16 => integers!(u16),
        DType::U32 => integers!(u32),
        DType::U64 => integers!(u64),
        DType::I8 => integers!(i8),
        DType::I16 => integers!(i16),
        DType::I32 => integers!(i32),
        DType::I64 => integers!(i64),
        DType::F32 => floats!(f32),
        DType::F64 => floats!(f64),
        DType::Bytes => {
            for (index, element) in tensor.byte_elements().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                let text = std::str::from_utf8(element)
                    .map_err(|_| OipError::NotText { output: name.into(), index })?;
                write_string(out, text);
            }
        }
        dtype @ (DType::F16 | DType::BF16) => {
            return Err(OipError::BinaryOutputOnly { output: Name::from(name), dtype });
        }
    }
    Ok(())
}

/// Writes bytes as numbers from a table, four letters at a time: images are many bytes.
fn write_u8(out: &mut Vec<u8>, values: &[u8]) {
    let mut at = out.len();
    out.resize(at + 4 * values.len(), 0);
    for value in values {
        let (text, length) = DECIMALS[usize::from(*value)];
        // Each value takes at most the four bytes that it was given room for.
        let Some(slot) = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else { break };
        *slot = text;
        at += length;
    }
    out.truncate(if values.is_empty() { at } else { at - 1 });
}

/// Every byte in decimal with a comma behind it, and how many letters that takes.
static DECIMALS: [([u8; 4], usize); 256] = {
    let mut table = [([b','; 4], 0); 256];
    let mut value = 0_u8;
    loop {
        let (ones, tens, hundreds) = (value % 10, value / 10 % 10, value / 100);
        let (ones, tens, hundreds) = (b'0' + ones, b'0' + tens, b'0' + hundreds);
        table[value as usize] = match value {
            0..10 => ([ones, b',', 0, 0], 2),
            10..100 => ([tens, ones, b',', 0], 3),
            100.. => ([hundreds, tens, ones, b','], 4),
        };
        if value == u8::MAX {
            break table;
        }
        value += 1;
    }
};

#[inline]
fn join<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
}

#[inline]
fn write_integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn write_parameters(out: &mut Vec<u8>, parameters: &[(String, ParamValue)]) {
    out.push(b'{');
    join(out, parameters, |out, (key, value)| {
        write_string(out, key);
        out.push(b':');
        match value {
            ParamValue::Bool(value) => {
                out.extend_from_slice(if *value { b"true" } else { b"false" });
            }
            ParamValue::Int(value) => write_integer(out, *value),
            ParamValue::Uint(value) => write_integer(out, *value),
            ParamValue::Float(value) if value.is_finite() => {
                out.extend_from_slice(zmij::Buffer::new().format(*value).as_bytes());
            }
            // A remark about an answer is not worth the answer.
            ParamValue::Float(value) => write_string(out, &value.to_string()),
            ParamValue::Text(value) => write_string(out, value),
        }
    });
    out.push(b'}');
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    let special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    while let Some(index) = rest.iter().position(special) {
        let (plain, from) = rest.split_at(index);
        out.extend_from_slice(plain);
        let byte = from[0];
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
        }
        rest = &from[1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}
