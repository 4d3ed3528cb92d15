//! What a client says of its stream beside its audio: its language, and whatever else a model has an
//! input for. A model that wants to know something has an input of that name with one element; what
//! no model asks for only decides which streams share its calls.

use std::sync::Arc;

use bytes::Bytes;
use paceline_types::{DType, Dim, Shape, Tensor, TensorSpec};

use super::SpeechError;

/// One of the things that a client may say.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// For an input of `BYTES`.
    Text(String),
    /// For an input of numbers.
    Number(f64),
    /// For an input of `BOOL`.
    Flag(bool),
}

/// All that a client said, by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Values(Arc<[(String, Value)]>);

impl FromIterator<(String, Value)> for Values {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Values {
    /// The tensor of an input that is no audio. What was not said is empty, zero or false.
    pub(super) fn tensor(&self, spec: &TensorSpec, batched: bool) -> Result<Tensor, SpeechError> {
        let said = self.0.iter().find(|(name, _)| *name == spec.name).map(|(_, value)| value);
        let data = encode(spec.dtype, said)
            .ok_or_else(|| SpeechError::Value { name: spec.name.clone(), wanted: spec.dtype })?;
        let shape: Shape =
            if batched { [1, 1].into_iter().collect() } else { Shape::from_slice(&[1]) };
        Ok(Tensor::build(spec.dtype, shape, Bytes::from(data)).expect("one element"))
    }
}

/// Whether an input is one that a client's word can fill.
pub(super) fn is_value(spec: &TensorSpec) -> bool {
    use DType::{Bool, Bytes, F32, F64, I32, I64};
    spec.dims == [Dim::Fixed(1)] && matches!(spec.dtype, Bytes | Bool | F32 | F64 | I32 | I64)
}

fn encode(dtype: DType, said: Option<&Value>) -> Option<Vec<u8>> {
    #[expect(clippy::cast_possible_truncation, reason = "whole numbers within bounds, or rounding")]
    Some(match (dtype, said) {
        (DType::Bytes, Some(Value::Text(text))) => {
            let length = u32::try_from(text.len()).ok()?;
            [&length.to_le_bytes(), text.as_bytes()].concat()
        }
        (DType::Bytes, None) => vec![0; 4],
        (DType::Bool, Some(Value::Flag(flag))) => vec![u8::from(*flag)],
        (DType::F32, Some(Value::Number(number))) => (*number as f32).to_le_bytes().to_vec(),
        (DType::F64, Some(Value::Number(number))) => number.to_le_bytes().to_vec(),
        (DType::I32, Some(Value::Number(number))) if is_whole(*number, f64::from(i32::MAX)) => {
            (*number as i32).to_le_bytes().to_vec()
        }
        // Beyond this, a number of JSON is not exact.
        (DType::I64, Some(Value::Number(number))) if is_whole(*number, 9e15) => {
            (*number as i64).to_le_bytes().to_vec()
        }
        (_, None) => vec![0; dtype.size()?],
        (_, Some(_)) => return None,
    })
}

fn is_whole(number: f64, most: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_becomes_the_input_of_its_name_and_silence_is_zero() {
        let spec = |name: &str, dtype| TensorSpec {
            name: name.to_owned(),
            dtype,
            dims: vec![Dim::Fixed(1)],
        };
        let values: Values = [
            ("language", Value::Text("de".to_owned())),
            ("beam", Value::Number(5.0)),
            ("half", Value::Number(0.5)),
            ("punctuate", Value::Flag(true)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
        let bytes =
            |name: &str, dtype| values.tensor(&spec(name, dtype), true).map(|t| t.data().to_vec());

        assert_eq!(bytes("language", DType::Bytes).unwrap(), b"\x02\0\0\0de");
        assert_eq!(bytes("beam", DType::I64).unwrap(), 5_i64.to_le_bytes());
        assert_eq!(bytes("beam", DType::I32).unwrap(), 5_i32.to_le_bytes());
        assert_eq!(bytes("half", DType::F32).unwrap(), 0.5_f32.to_le_bytes());
        assert_eq!(bytes("punctuate", DType::Bool).unwrap(), [1]);
        assert_eq!(bytes("other", DType::Bytes).unwrap(), [0; 4]);
        assert_eq!(bytes("other", DType::I32).unwrap(), [0; 4]);
        for (name, dtype) in [
            ("half", DType::I32),
            ("half", DType::I64),
            ("language", DType::I64),
            ("beam", DType::Bool),
            ("punctuate", DType::Bytes),
        ] {
            assert!(
                matches!(bytes(name, dtype), Err(SpeechError::Value { .. })),
                "{name} as {dtype}"
            );
        }
        assert_eq!(values.tensor(&spec("beam", DType::F64), false).unwrap().shape(), [1]);
    }
}
