//! Typed tensor contents of a gRPC message: one list per family of types.

use bytes::Bytes;
use paceline_types::{DType, TensorError};

use super::{ElementFault, Name, OipError, elements::Head, proto::InferTensorContents};

/// Reads the list that suits the tensor's type into little-endian bytes.
pub(super) fn read(head: Head<'_>, contents: &InferTensorContents) -> Result<Bytes, OipError> {
    let dtype = head.dtype;
    let Some(field) = field_of(dtype) else {
        return Err(OipError::BinaryOnly { input: head.name.into(), dtype });
    };
    let lengths = lengths(contents);
    if let Some((given, _)) = lengths.iter().find(|(given, n)| *given != field && *n > 0) {
        return Err(OipError::WrongContents {
            input: head.name.into(),
            dtype,
            expected: field,
            given,
        });
    }
    check_count(head, lengths.iter().map(|(_, n)| n).sum())?;
    let ints = &*contents.int_contents;
    let uints = &*contents.uint_contents;
    match dtype {
        DType::Bool => Ok(contents.bool_contents.iter().map(|&value| u8::from(value)).collect()),
        DType::I8 => narrow(head, ints, |value| i8::try_from(value).map(i8::to_le_bytes)),
        DType::I16 => narrow(head, ints, |value| i16::try_from(value).map(i16::to_le_bytes)),
        DType::I32 => Ok(concat(ints, i32::to_le_bytes)),
        DType::I64 => Ok(concat(&contents.int64_contents, i64::to_le_bytes)),
        DType::U8 => narrow(head, uints, |value| u8::try_from(value).map(u8::to_le_bytes)),
        DType::U16 => narrow(head, uints, |value| u16::try_from(value).map(u16::to_le_bytes)),
        DType::U32 => Ok(concat(uints, u32::to_le_bytes)),
        DType::U64 => Ok(concat(&contents.uint64_contents, u64::to_le_bytes)),
        DType::F32 => Ok(concat(&contents.fp32_contents, f32::to_le_bytes)),
        DType::F64 => Ok(concat(&contents.fp64_contents, f64::to_le_bytes)),
        DType::F16 | DType::BF16 => Err(OipError::BinaryOnly { input: head.name.into(), dtype }),
        DType::Bytes => strings(head, &contents.bytes_contents),
    }
}

/// Whether every list is empty, which is how some clients say "see raw".
pub(super) fn is_empty(contents: &InferTensorContents) -> bool {
    lengths(contents).iter().all(|(_, length)| *length == 0)
}

fn field_of(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "bool_contents",
        DType::I8 | DType::I16 | DType::I32 => "int_contents",
        DType::I64 => "int64_contents",
        DType::U8 | DType::U16 | DType::U32 => "uint_contents",
        DType::U64 => "uint64_contents",
        DType::F32 => "fp32_contents",
        DType::F64 => "fp64_contents",
        DType::Bytes => "bytes_contents",
        DType::F16 | DType::BF16 => return None,
    })
}

fn lengths(contents: &InferTensorContents) -> [(&'static str, usize); 8] {
    [
        ("bool_contents", contents.bool_contents.len()),
        ("int_contents", contents.int_contents.len()),
        ("int64_contents", contents.int64_contents.len()),
        ("uint_contents", contents.uint_contents.len()),
        ("uint64_contents", contents.uint64_contents.len()),
        ("fp32_contents", contents.fp32_contents.len()),
        ("fp64_contents", contents.fp64_contents.len()),
        ("bytes_contents", contents.bytes_contents.len()),
    ]
}

fn check_count(head: Head<'_>, actual: usize) -> Result<(), OipError> {
    let product =
        head.shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
    let Some(expected) = product else {
        let fault = TensorError::TooLarge(head.shape.to_vec());
        return Err(OipError::Tensor { input: head.name.into(), fault });
    };
    if expected == actual {
        return Ok(());
    }
    Err(OipError::ContentsCount {
        input: head.name.into(),
        shape: head.shape.to_vec(),
        expected,
        actual,
    })
}

fn concat<T: Copy, const N: usize>(values: &[T], to_bytes: fn(T) -> [u8; N]) -> Bytes {
    let mut data = vec![0; values.len() * N];
    for (slot, value) in data.as_chunks_mut().0.iter_mut().zip(values) {
        *slot = to_bytes(*value);
    }
    data.into()
}

fn narrow<T: Copy + ToString, E, const N: usize>(
    head: Head<'_>,
    values: &[T],
    to_bytes: impl Fn(T) -> Result<[u8; N], E>,
) -> Result<Bytes, OipError> {
    let mut data = vec![0; values.len() * N];
    for (index, (slot, value)) in data.as_chunks_mut().0.iter_mut().zip(values).enumerate() {
        *slot = to_bytes(*value).map_err(|_| OipError::BadElement {
            input: head.name.into(),
            index,
            dtype: head.dtype,
            fault: ElementFault::Range(Name::from(&*value.to_string())),
        })?;
    }
    Ok(data.into())
}

fn strings(head: Head<'_>, values: &[Bytes]) -> Result<Bytes, OipError> {
    let mut data = Vec::with_capacity(values.iter().map(|value| 4 + value.len()).sum());
    for (index, value) in values.iter().enumerate() {
        let length = u32::try_from(value.len()).map_err(|_| OipError::BadElement {
            input: head.name.into(),
            index,
            dtype: head.dtype,
            fault: ElementFault::Range(Name::from("a length of more than 32 bits")),
        })?;
        data.extend_from_slice(&length.to_le_bytes());
        data.extend_from_slice(value);
    }
    Ok(data.into())
}
