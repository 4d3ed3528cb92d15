//! Requests in the Open Inference Protocol, built from what a server says about a model. Pure.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What `GET /v2/models/{model}` answers.
#[derive(Debug, Clone, Deserialize)]
pub struct Metadata {
    /// What the model takes.
    pub inputs: Vec<Input>,
}

/// One input of a model.
#[derive(Debug, Clone, Deserialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its type.
    pub datatype: String,
    /// Its extents; -1 is free.
    pub shape: Vec<i64>,
}

/// What `GET /v2/models/{model}/stats` answers.
#[derive(Debug, Clone, Deserialize)]
pub struct Statistics {
    /// One entry per version.
    pub model_stats: Vec<ModelStatistics>,
}

/// What one version did so far.
#[derive(Debug, Clone, Deserialize)]
pub struct ModelStatistics {
    /// Rows.
    pub inference_count: u64,
    /// Calls.
    pub execution_count: u64,
}

/// A value for one input.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// The input's name.
    pub name: String,
    /// Its type.
    pub datatype: String,
    /// Its extents.
    pub shape: Vec<i64>,
    /// Its elements as the wire has them: little-endian, in order.
    pub data: Vec<u8>,
    elements: Vec<Value>,
}

/// Why no request can be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A type that is not in the protocol.
    #[error("input `{0}` has a type that is not known here; give a body with --body")]
    Datatype(String),
    /// More than anybody would send.
    #[error("input `{0}` has more than a billion elements; give a body with --body")]
    TooLarge(String),
    /// A type that JSON does not have.
    #[error("input `{0}` cannot be written in JSON; use --protocol binary")]
    NotJson(String),
}

const MAX_ELEMENTS: i64 = 1 << 30;

impl Input {
    /// A value for this input: one row where the first extent is free, `extent` for other free
    /// ones, and elements that differ from each other.
    ///
    /// # Errors
    ///
    /// When the type or the shape is not usable.
    pub fn sample(&self, extent: usize) -> Result<Tensor, BuildError> {
        let extent = i64::try_from(extent).unwrap_or(i64::MAX);
        let fixed = |(axis, &size): (usize, &i64)| match (axis, size) {
            (0, ..0) => 1,
            (_, ..0) => extent,
            _ => size,
        };
        let shape: Vec<i64> = self.shape.iter().enumerate().map(fixed).collect();
        let count = shape.iter().try_fold(1_i64, |product, &size| product.checked_mul(size));
        let count = count.filter(|&count| count <= MAX_ELEMENTS);
        let count = count.ok_or_else(|| BuildError::TooLarge(self.name.clone()))?;
        let (mut data, mut elements) = (Vec::new(), Vec::new());
        for number in 0..count {
            // Small enough for every type.
            let small = u8::try_from(number % 100).unwrap_or(0);
            let element = element(&self.datatype, small, &mut data);
            elements.push(element.ok_or_else(|| BuildError::Datatype(self.name.clone()))?);
        }
        let (name, datatype) = (self.name.clone(), self.datatype.clone());
        Ok(Tensor { name, datatype, shape, data, elements })
    }
}

/// Writes one element, and gives it as JSON; null where JSON has no such thing.
fn element(datatype: &str, small: u8, data: &mut Vec<u8>) -> Option<Value> {
    let share = f32::from(small) / 100.0;
    Some(match datatype {
        "BOOL" => {
            data.push(small % 2);
            json!(small % 2 == 1)
        }
        "UINT8" | "INT8" => {
            data.push(small);
            json!(small)
        }
        "UINT16" | "INT16" => {
            data.extend(u16::from(small).to_le_bytes());
            json!(small)
        }
        "UINT32" | "INT32" => {
            data.extend(u32::from(small).to_le_bytes());
            json!(small)
        }
        "UINT64" | "INT64" => {
            data.extend(u64::from(small).to_le_bytes());
            json!(small)
        }
        "FP32" => {
            data.extend(share.to_le_bytes());
            json!(f64::from(small) / 100.0)
        }
        "FP64" => {
            data.extend(f64::from(share).to_le_bytes());
            json!(f64::from(small) / 100.0)
        }
        // One in both: half floats are never written in JSON.
        "FP16" => {
            data.extend(0x3c00_u16.to_le_bytes());
            Value::Null
        }
        "BF16" => {
            data.extend(0x3f80_u16.to_le_bytes());
            Value::Null
        }
        "BYTES" => {
            let text = format!("text {small}");
            data.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
            data.extend(text.bytes());
            json!(text)
        }
        _ => return None,
    })
}

/// The body of an inference, all in JSON.
///
/// # Errors
///
/// When a type cannot be written in JSON.
pub fn json_body(tensors: &[Tensor]) -> Result<Vec<u8>, BuildError> {
    let mut inputs = Vec::new();
    for tensor in tensors {
        let Tensor { name, datatype, shape, .. } = tensor;
        inputs.push(json!({
            "name": name, "datatype": datatype, "shape": shape, "data": tensor.in_json()?,
        }));
    }
    Ok(json!({ "inputs": inputs }).to_string().into_bytes())
}

/// The body of an inference with tensors in binary, both ways, and the length of its JSON part,
/// which goes into the header `Inference-Header-Content-Length`.
#[must_use]
pub fn binary_body(tensors: &[Tensor]) -> (Vec<u8>, usize) {
    let describe = |Tensor { name, datatype, shape, data, .. }: &Tensor| {
        json!({
            "name": name, "datatype": datatype, "shape": shape,
            "parameters": { "binary_data_size": data.len() },
        })
    };
    let inputs: Vec<Value> = tensors.iter().map(describe).collect();
    let parameters = json!({ "binary_data_output": true });
    let mut body = json!({ "inputs": inputs, "parameters": parameters }).to_string().into_bytes();
    let length = body.len();
    for tensor in tensors {
        body.extend(&tensor.data);
    }
    (body, length)
}

/// The body of Paceline's plain endpoint: one instance, without the batch where `is_batched`.
///
/// # Errors
///
/// When a type cannot be written in JSON.
pub fn plain_body(tensors: &[Tensor], is_batched: bool) -> Result<Vec<u8>, BuildError> {
    let mut instance = Map::new();
    for tensor in tensors {
        let elements = tensor.in_json()?;
        let shape = tensor.shape.get(usize::from(is_batched)..).unwrap_or_default();
        instance.insert(tensor.name.clone(), nest(elements, shape));
    }
    Ok(Value::Object(instance).to_string().into_bytes())
}

impl Tensor {
    fn in_json(&self) -> Result<&[Value], BuildError> {
        if self.elements.contains(&Value::Null) {
            return Err(BuildError::NotJson(self.name.clone()));
        }
        Ok(&self.elements)
    }
}

fn nest(elements: &[Value], shape: &[i64]) -> Value {
    let [size, inner @ ..] = shape else { return elements.first().cloned().unwrap_or_default() };
    let size = usize::try_from(*size).unwrap_or(0);
    let each = elements.len().checked_div(size).unwrap_or(0);
    Value::Array((0..size).map(|at| nest(&elements[at * each..(at + 1) * each], inner)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(datatype: &str, shape: &[i64]) -> Input {
        Input { name: "x".to_owned(), datatype: datatype.to_owned(), shape: shape.to_vec() }
    }

    fn text(body: &[u8]) -> &str {
        str::from_utf8(body).unwrap()
    }

    #[test]
    fn free_extents_become_one_row_of_the_extent_asked_for() {
        let tensor = input("INT16", &[-1, 2, -1]).sample(3).unwrap();

        assert_eq!((tensor.shape.as_slice(), tensor.data.len()), (&[1, 2, 3][..], 12));
        assert_eq!(
            text(&plain_body(std::slice::from_ref(&tensor), true).unwrap()),
            r#"{"x":[[0,1,2],[3,4,5]]}"#
        );
        assert_eq!(
            text(&json_body(&[tensor]).unwrap()),
            r#"{"inputs":[{"data":[0,1,2,3,4,5],"datatype":"INT16","name":"x","shape":[1,2,3]}]}"#
        );
    }

    #[test]
    fn binary_tensors_follow_the_json_whose_length_is_told() {
        let tensor = input("BYTES", &[1]).sample(1).unwrap();

        let (body, length) = binary_body(&[tensor]);

        assert_eq!(&body[length..], b"\x06\0\0\0text 0");
        let head: Value = serde_json::from_slice(&body[..length]).unwrap();
        assert_eq!(head["inputs"][0]["parameters"]["binary_data_size"], 10);
    }

    #[test]
    fn scalars_stand_by_themselves() {
        let tensor = input("FP32", &[-1]).sample(1).unwrap();

        assert_eq!(text(&plain_body(&[tensor], true).unwrap()), r#"{"x":0.0}"#);
    }

    #[test]
    fn what_cannot_be_sent_is_said_by_name() {
        let refused = |datatype, shape: &[i64]| input(datatype, shape).sample(1).unwrap_err();

        assert_eq!(refused("FP8", &[1]), BuildError::Datatype("x".to_owned()));
        assert_eq!(refused("FP32", &[1 << 40]), BuildError::TooLarge("x".to_owned()));
        let half = input("FP16", &[2]).sample(1).unwrap();
        assert_eq!(half.data.len(), 4);
        assert_eq!(json_body(&[half]).unwrap_err(), BuildError::NotJson("x".to_owned()));
    }
}
