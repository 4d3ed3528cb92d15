//! How a frame becomes what a model takes, and how what the model gave becomes a result.
//!
//! [`Prepare`] is the seam for payload kinds: pictures, frame handles, a model's own adapter. It is
//! synchronous and knows neither Redis nor a clock. What takes long says so with
//! [`Prepare::is_heavy`] and is then run off the async threads, a bounded number at a time.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use paceline_types::{Dim, Signature, Tensor, TensorSpec};
use smallvec::{SmallVec, smallvec};

use crate::entry::{Frame, Payload};

/// Makes a model's inputs from frames.
pub trait Prepare: fmt::Debug + Send + Sync + 'static {
    /// Whether preparing this takes longer than a few microseconds.
    fn is_heavy(&self, payload: &Payload) -> bool;

    /// Makes the inputs of one item, or answers at once where the model is not needed.
    ///
    /// # Errors
    ///
    /// When the frame cannot be used, now or ever.
    fn prepare(&self, frame: &Frame, signature: &Signature) -> Result<Prepared, Unfit>;
}

/// What becomes of a frame.
pub enum Prepared {
    /// The answer is known; the model is not asked.
    Answer(Answer),
    /// The model is asked.
    Ask {
        /// One item, in the order of the signature, each with a batch extent where it has one.
        inputs: SmallVec<[Tensor; 2]>,
        /// Makes the answer from the outputs; [`Answer::of_tensors`] where there is none.
        finish: Option<Finish>,
    },
}

/// Makes the answer from one item's outputs.
pub type Finish = Box<dyn FnOnce(&[Tensor]) -> Result<Answer, Unfit> + Send>;

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(answer) => f.debug_tuple("Answer").field(answer).finish(),
            Self::Ask { inputs, .. } => {
                f.debug_struct("Ask").field("inputs", inputs).finish_non_exhaustive()
            }
        }
    }
}

/// Why a frame cannot be used. Trying again cannot help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Its content is wrong; it goes to the dead letters with this reason.
    #[error("{0}")]
    Poison(String),
    /// The memory that its handle points to holds a later frame by now; it is dropped and counted.
    #[error("the frame was overwritten before it was read")]
    Overwritten,
}

/// The fields of a result that say what the model gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Names and values, as they are written to the result stream.
    pub fields: SmallVec<[(Cow<'static, str>, Bytes); 2]>,
}

impl Answer {
    /// The outputs as they are: `m`, a JSON list of names, types and shapes in the words of the
    /// Open Inference Protocol, and `d`, their bytes one after the other.
    #[must_use]
    pub fn of_tensors(tensors: &[Tensor], signature: &Signature) -> Self {
        let name = |at: usize| signature.outputs.get(at).map_or("", |spec| &spec.name);
        let described: Vec<_> = tensors
            .iter()
            .enumerate()
            .map(|(at, tensor)| {
                serde_json::json!({
                    "name": name(at),
                    "datatype": tensor.dtype().as_str(),
                    "shape": tensor.shape(),
                })
            })
            .collect();
        let data = match tensors {
            [only] => only.data().clone(),
            several => several.iter().flat_map(|tensor| tensor.data().iter().copied()).collect(),
        };
        let described = serde_json::Value::from(described).to_string().into();
        Self { fields: smallvec![(Cow::Borrowed("m"), described), (Cow::Borrowed("d"), data)] }
    }

    /// An answer in words: `j`, a JSON document.
    #[must_use]
    pub fn of_json(answer: &serde_json::Value) -> Self {
        Self { fields: smallvec![(Cow::Borrowed("j"), answer.to_string().into())] }
    }
}

/// Raw tensors only: the frame's bytes are the model's one input.
#[derive(Debug, Clone, Copy, Default)]
pub struct RawTensors;

impl Prepare for RawTensors {
    fn is_heavy(&self, _: &Payload) -> bool {
        false
    }

    fn prepare(&self, frame: &Frame, signature: &Signature) -> Result<Prepared, Unfit> {
        let inputs = raw_input(&frame.payload, signature)?;
        Ok(Prepared::Ask { inputs, finish: None })
    }
}

/// The one input of a model from a raw payload; what the producer leaves out is found from the
/// signature.
///
/// # Errors
///
/// When the payload is not raw, or does not make the tensor that it says or that the model takes.
pub fn raw_input(payload: &Payload, signature: &Signature) -> Result<SmallVec<[Tensor; 2]>, Unfit> {
    let poison = |what: String| Unfit::Poison(what);
    let Payload::Raw { dtype, shape, data } = payload else {
        return Err(poison("only raw tensors are taken here".to_owned()));
    };
    let [spec] = signature.inputs.as_slice() else {
        let n = signature.inputs.len();
        return Err(poison(format!("the model takes {n} inputs, and a frame is one")));
    };
    let dtype = dtype.unwrap_or(spec.dtype);
    let shape = match shape {
        Some(shape) => shape.clone(),
        None => guess_shape(spec, signature.batched, data.len() / dtype.size().unwrap_or(1))
            .ok_or_else(|| {
                poison("the shape cannot be found from the model; send it as field `s`".to_owned())
            })?,
    };
    let tensor =
        Tensor::build(dtype, shape, data.clone()).map_err(|error| poison(error.to_string()))?;
    Ok(smallvec![tensor])
}

/// The shape of `n` elements where at most one extent is free.
fn guess_shape(spec: &TensorSpec, batched: bool, n: usize) -> Option<paceline_types::Shape> {
    let is_free = |dim: &&Dim| **dim == Dim::Any;
    if 1 < spec.dims.iter().filter(is_free).count() {
        return None;
    }
    let known: usize = spec
        .dims
        .iter()
        .map(|dim| if let Dim::Fixed(extent) = dim { *extent } else { 1 })
        .product();
    let free = n.checked_div(known)?;
    let own = spec.dims.iter().map(|dim| match dim {
        Dim::Fixed(extent) => *extent,
        Dim::Any => free,
    });
    Some(batched.then_some(1).into_iter().chain(own).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_types::DType;

    fn signature(dims: &[Dim]) -> Signature {
        let spec = |name: &str| TensorSpec {
            name: name.to_owned(),
            dtype: DType::U8,
            dims: dims.to_vec(),
        };
        Signature { inputs: vec![spec("in")], outputs: vec![spec("out")], batched: true }
    }

    fn raw(data: &'static [u8]) -> Payload {
        Payload::Raw { dtype: None, shape: None, data: Bytes::from_static(data) }
    }

    #[test]
    fn a_shape_that_is_left_out_is_found() {
        let fixed = signature(&[Dim::Fixed(2), Dim::Any]);

        let inputs = raw_input(&raw(b"abcdef"), &fixed).unwrap();
        assert_eq!(inputs[0].shape(), [1, 2, 3]);
        assert!(raw_input(&raw(b"abcde"), &fixed).is_err());
        assert!(raw_input(&raw(b"ab"), &signature(&[Dim::Any, Dim::Any])).is_err());
        assert!(raw_input(&Payload::Jpeg(Bytes::new()), &fixed).is_err());
    }

    #[test]
    fn an_answer_describes_its_bytes() {
        let signature = signature(&[Dim::Any]);
        let tensor = Tensor::build(DType::U8, [1, 2].as_slice().into(), Bytes::from_static(b"hi"));
        let answer = Answer::of_tensors(&[tensor.unwrap()], &signature);

        let expected = r#"[{"datatype":"UINT8","name":"out","shape":[1,2]}]"#;
        assert_eq!(answer.fields[0].1, expected.as_bytes());
        assert_eq!(answer.fields[1].1, b"hi"[..]);
    }
}
