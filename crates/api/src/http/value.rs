//! Ordinary JSON values to one row of a tensor, and back.

use bytes::Bytes;
use paceline_types::{DType, Dim, ErrorCode, Shape, Tensor, TensorSpec};
use serde_json::Value;

use super::ApiError;

/// Deepest nesting of a value.
const MAX_DEPTH: usize = 16;

/// One row of a tensor from a value: nested lists of numbers, true and false, or strings. Where a
/// model takes a list of any length, a lone string or number is a list of one.
pub(super) fn to_tensor(
    spec: &TensorSpec,
    value: &Value,
    batched: bool,
) -> Result<Tensor, ApiError> {
    let wrong = |what: &str| {
        ApiError::new(ErrorCode::InvalidInput, format!("input `{}`: {what}", spec.name))
    };
    let mut shape = Shape::new();
    let mut inner = value;
    while let Value::Array(values) = inner {
        if shape.len() == MAX_DEPTH {
            return Err(wrong("lists are nested too deeply"));
        }
        shape.push(values.len());
        let Some(first) = values.first() else { break };
        inner = first;
    }
    let mut data = Vec::new();
    write(value, &shape, spec.dtype, &mut data).map_err(|what| wrong(&what))?;
    // A string is the list of its bytes where a model takes bytes, and one element where it takes
    // strings.
    if shape.is_empty() && spec.dims == [Dim::Any] {
        shape.push(match (spec.dtype, value) {
            (DType::U8, Value::String(text)) => text.len(),
            _ => 1,
        });
    }
    if batched {
        shape.insert(0, 1);
    }
    Tensor::build(spec.dtype, shape, Bytes::from(data)).map_err(|error| wrong(&error.to_string()))
}

fn write(value: &Value, shape: &[usize], dtype: DType, data: &mut Vec<u8>) -> Result<(), String> {
    if let (Value::Array(values), Some((&extent, inner))) = (value, shape.split_first()) {
        if values.len() != extent {
            return Err(format!(
                "lists of {extent} and of {} elements stand side by side",
                values.len()
            ));
        }
        return values.iter().try_for_each(|value| write(value, inner, dtype, data));
    }
    if !shape.is_empty() {
        return Err("a list is expected where there is none".to_owned());
    }
    element(value, dtype, data).ok_or_else(|| format!("{} is no {dtype}", brief(value)))
}

fn element(value: &Value, dtype: DType, data: &mut Vec<u8>) -> Option<()> {
    macro_rules! integer {
        ($as:ident, $type:ty) => {
            data.extend(<$type>::try_from(value.$as()?).ok()?.to_le_bytes())
        };
    }
    match dtype {
        DType::Bool => data.push(u8::from(value.as_bool()?)),
        DType::U8 => match value {
            Value::String(text) => data.extend(text.as_bytes()),
            _ => integer!(as_u64, u8),
        },
        DType::U16 => integer!(as_u64, u16),
        DType::U32 => integer!(as_u64, u32),
        DType::U64 => integer!(as_u64, u64),
        DType::I8 => integer!(as_i64, i8),
        DType::I16 => integer!(as_i64, i16),
        DType::I32 => integer!(as_i64, i32),
        DType::I64 => integer!(as_i64, i64),
        DType::F32 => {
            #[expect(clippy::cast_possible_truncation, reason = "rounding is what FP32 means")]
            let value = value.as_f64()? as f32;
            data.extend(value.is_finite().then_some(value)?.to_le_bytes());
        }
        DType::F64 => data.extend(value.as_f64()?.to_le_bytes()),
        DType::Bytes => {
            let text = value.as_str()?;
            data.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
            data.extend(text.as_bytes());
        }
        // There is no number in JSON that is meant as half precision.
        DType::F16 | DType::BF16 => return None,
    }
    Some(())
}

/// A value for a message, short.
fn brief(value: &Value) -> String {
    value.to_string().chars().take(40).collect()
}

/// The value of one row of a tensor: a lone element without its brackets.
pub(crate) fn from_tensor(tensor: &Tensor, batched: bool) -> Result<Value, ApiError> {
    let shape = &tensor.shape()[usize::from(batched)..];
    let mut elements = elements(tensor)?.into_iter();
    if shape.iter().product::<usize>() == 1
        && let Some(only) = elements.next()
    {
        return Ok(only);
    }
    Ok(nest(shape, &mut elements))
}

fn nest(shape: &[usize], elements: &mut impl Iterator<Item = Value>) -> Value {
    match shape.split_first() {
        None => elements.next().unwrap_or(Value::Null),
        Some((&extent, inner)) => (0..extent).map(|_| nest(inner, elements)).collect(),
    }
}

fn elements(tensor: &Tensor) -> Result<Vec<Value>, ApiError> {
    macro_rules! numbers {
        ($type:ty) => {
            tensor
                .data()
                .as_chunks::<{ size_of::<$type>() }>()
                .0
                .iter()
                .map(|bytes| Value::from(<$type>::from_le_bytes(*bytes)))
                .collect()
        };
    }
    Ok(match tensor.dtype() {
        DType::Bool => tensor.data().iter().map(|&byte| Value::from(byte != 0)).collect(),
        DType::U8 => numbers!(u8),
        DType::U16 => numbers!(u16),
        DType::U32 => numbers!(u32),
        DType::U64 => numbers!(u64),
        DType::I8 => numbers!(i8),
        DType::I16 => numbers!(i16),
        DType::I32 => numbers!(i32),
        DType::I64 => numbers!(i64),
        // NaN and infinity have no JSON number; they are `null` here.
        DType::F32 => numbers!(f32),
        DType::F64 => numbers!(f64),
        DType::Bytes => {
            let texts = tensor.byte_elements().map(|bytes| String::from_utf8_lossy(bytes).into());
            texts.collect()
        }
        DType::F16 | DType::BF16 => {
            return Err(ApiError::new(
                ErrorCode::Unsupported,
                format!(
                    "{} outputs have no JSON form; ask for them at /v2 as binary",
                    tensor.dtype()
                ),
            ));
        }
    })
}

/// A way in for fuzz targets: what became a row of a tensor comes back from it.
#[cfg(any(test, feature = "fuzz"))]
pub fn plain_value(dtype: u8, n_dims: u8, body: &[u8]) {
    let Ok(value) = serde_json::from_slice(body) else { return };
    let dtypes = [
        DType::Bool,
        DType::U8,
        DType::U64,
        DType::I8,
        DType::I64,
        DType::F32,
        DType::F64,
        DType::Bytes,
    ];
    let dtype = dtypes[usize::from(dtype) % dtypes.len()];
    let dims = vec![Dim::Any; usize::from(n_dims % 4)];
    let spec = TensorSpec { name: "x".to_owned(), dtype, dims };
    if let Ok(tensor) = to_tensor(&spec, &value, true) {
        drop(from_tensor(&tensor, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(dtype: DType, dims: &[Dim]) -> TensorSpec {
        TensorSpec { name: "x".to_owned(), dtype, dims: dims.to_vec() }
    }

    #[test]
    fn values_become_rows_and_come_back() {
        for (dtype, dims, value) in [
            (DType::F32, vec![Dim::Any], json!([0.5, -1.0, 2.0])),
            (DType::I64, vec![Dim::Any, Dim::Any], json!([[1, 2], [3, 4], [5, 6]])),
            (DType::Bool, vec![Dim::Any], json!([true, false])),
            (DType::Bytes, vec![Dim::Any], json!(["hé", ""])),
            (DType::U64, vec![Dim::Any], json!([u64::MAX, 0])),
        ] {
            let tensor = to_tensor(&spec(dtype, &dims), &value, true).unwrap();
            assert_eq!(tensor.shape()[0], 1);
            assert_eq!(from_tensor(&tensor, true).unwrap(), value);
        }
        let lone = to_tensor(&spec(DType::Bytes, &[Dim::Any]), &json!("hi"), true).unwrap();
        assert_eq!((lone.shape(), from_tensor(&lone, true).unwrap()), (&[1, 1][..], json!("hi")));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_a_sentence() {
        let refused = |dtype, value: Value| {
            format!("{:?}", to_tensor(&spec(dtype, &[Dim::Any]), &value, true).unwrap_err())
        };

        assert!(refused(DType::I8, json!([300])).contains("input `x`: 300 is no INT8"));
        assert!(
            refused(DType::F32, json!([[1.0], [1.0, 2.0]]))
                .contains("lists of 1 and of 2 elements")
        );
        assert!(refused(DType::F32, json!([1.0, [2.0]])).contains("[2.0] is no FP32"));
        assert!(refused(DType::F32, json!([1e300])).contains("is no FP32"));
        assert!(refused(DType::I32, json!("x")).contains("is no INT32"));
    }
}
