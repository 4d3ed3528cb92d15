//! How a frame becomes what a model takes, and how what the model gave becomes a result.
//!
//! Raw tensors are taken as they are; pictures go through the model's adapter, which `[picture]` in
//! its configuration makes, or one of its own. Frames in shared memory are copied out first. Nothing
//! here knows Redis or a clock. What takes long says so with [`Payloads::is_heavy`] and is then run
//! off the async threads, a bounded number at a time.

use std::{fmt, path::PathBuf};

use bytes::Bytes;
use paceline_frames::{Reader, ring::ReadError};
use paceline_pipeline::{
    Model,
    adapt::{Adapter, Encoded},
};
use paceline_types::{DType, Dim, Shape, Signature, Tensor, TensorSpec};
use smallvec::{SmallVec, smallvec};

use crate::entry::{Data, Form, Frame};

/// Copying more than this is not done on the async threads.
const HEAVY_BYTES: usize = 256 << 10;

/// Makes a model's inputs from frames.
#[derive(Debug)]
pub struct Payloads {
    rings: Reader,
}

impl Payloads {
    /// Reads frames in shared memory from the rings of this folder.
    #[must_use]
    pub fn new(ring_folder: PathBuf) -> Self {
        Self { rings: Reader::new(ring_folder) }
    }

    /// Whether preparing this takes longer than a few microseconds.
    #[must_use]
    pub fn is_heavy(&self, frame: &Frame) -> bool {
        let is_copied = matches!(frame.payload.data, Data::Shared(_));
        frame.payload.form == Form::Picture || is_copied && HEAVY_BYTES < frame.payload.len()
    }

    /// Makes the inputs of one item, or answers at once where the model is not needed.
    ///
    /// # Errors
    ///
    /// When the frame cannot be used, now or ever.
    pub fn prepare(&self, frame: &Frame, model: &Model) -> Result<Prepared, Unfit> {
        let data = match &frame.payload.data {
            Data::Inline(data) => data.clone(),
            Data::Shared(handle) => self.rings.read(handle)?.into(),
        };
        match &frame.payload.form {
            Form::Raw { dtype, shape } => {
                let inputs = raw_input((*dtype, shape.as_ref()), data, model.signature())?;
                Ok(Prepared::Ask { inputs, finish: None })
            }
            Form::Picture => {
                let none = "the model takes no pictures; give it `picture` or `adapter` in its \
                            configuration, or send raw tensors";
                picture(&data, model.adapter().ok_or_else(|| Unfit::Poison(none.to_owned()))?)
            }
        }
    }

    /// Lets go of rings that are not there any more.
    pub(crate) fn close_rings(&self) {
        self.rings.close_all();
    }
}

fn picture(data: &[u8], adapter: &dyn Adapter) -> Result<Prepared, Unfit> {
    let poison = |error: paceline_pipeline::adapt::AdaptError| Unfit::Poison(error.to_string());
    match adapter.encode(data).map_err(poison)? {
        Encoded::Answer(answer) => Ok(Prepared::Answer(Answer::of_json(&answer))),
        Encoded::Ask { inputs, .. } if adapter.leaves_outputs() => {
            Ok(Prepared::Ask { inputs: inputs.into(), finish: None })
        }
        Encoded::Ask { inputs, decode } => {
            let finish: Finish =
                Box::new(move |outputs| Ok(Answer::of_json(&decode(outputs).map_err(poison)?)));
            Ok(Prepared::Ask { inputs: inputs.into(), finish: Some(finish) })
        }
    }
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

impl From<ReadError> for Unfit {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Overwritten => Self::Overwritten,
            other => Self::Poison(other.to_string()),
        }
    }
}

/// What the model gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The outputs as they are.
    Tensors {
        /// A JSON list of names, types and shapes in the words of the Open Inference Protocol.
        outputs: Bytes,
        /// Their bytes, one after the other.
        data: Bytes,
    },
    /// An answer in words: a JSON document.
    Json(Bytes),
}

impl Answer {
    /// The field of a result that says it. The name tells what the value is: in a stream names that
    /// stay the same are kept once for many entries.
    pub(crate) fn field(&self) -> (&[u8], &[u8]) {
        match self {
            Self::Tensors { outputs, data } => (outputs, data),
            Self::Json(json) => (b"j", json),
        }
    }

    /// The outputs as they are.
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
        Self::Tensors { outputs: serde_json::Value::from(described).to_string().into(), data }
    }

    /// An answer in words.
    #[must_use]
    pub fn of_json(answer: &serde_json::Value) -> Self {
        Self::Json(answer.to_string().into())
    }
}

/// The one input of a model from raw bytes; what the producer leaves out is found from the
/// signature.
fn raw_input(
    (dtype, shape): (Option<DType>, Option<&Shape>),
    data: Bytes,
    signature: &Signature,
) -> Result<SmallVec<[Tensor; 2]>, Unfit> {
    let poison = |what: String| Unfit::Poison(what);
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
    let tensor = Tensor::build(dtype, shape, data).map_err(|error| poison(error.to_string()))?;
    Ok(smallvec![tensor])
}

/// The shape of `n` elements where at most one extent is free.
fn guess_shape(spec: &TensorSpec, batched: bool, n: usize) -> Option<Shape> {
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
    use paceline_frames::Ring;

    use super::*;

    fn signature(dims: &[Dim]) -> Signature {
        let spec = |name: &str| TensorSpec {
            name: name.to_owned(),
            dtype: DType::U8,
            dims: dims.to_vec(),
        };
        Signature { inputs: vec![spec("in")], outputs: vec![spec("out")], batched: true }
    }

    fn raw(data: &'static [u8], signature: &Signature) -> Result<SmallVec<[Tensor; 2]>, Unfit> {
        raw_input((None, None), Bytes::from_static(data), signature)
    }

    #[test]
    fn a_shape_that_is_left_out_is_found() {
        let fixed = signature(&[Dim::Fixed(2), Dim::Any]);

        let inputs = raw(b"abcdef", &fixed).unwrap();
        assert_eq!(inputs[0].shape(), [1, 2, 3]);
        assert!(raw(b"abcde", &fixed).is_err());
        assert!(raw(b"ab", &signature(&[Dim::Any, Dim::Any])).is_err());
    }

    #[test]
    fn what_the_producer_says_goes_before_what_the_model_says() {
        let signature = signature(&[Dim::Any]);
        let shape = Shape::from_slice(&[1, 3]);
        let inputs =
            raw_input((Some(DType::F32), None), Bytes::from_static(&[0; 8]), &signature).unwrap();
        assert_eq!((inputs[0].dtype(), inputs[0].shape()), (DType::F32, &[1, 2][..]));

        let inputs = raw_input((None, Some(&shape)), Bytes::from_static(b"abc"), &signature);
        assert_eq!(inputs.unwrap()[0].shape(), [1, 3]);
    }

    #[test]
    fn a_frame_is_one_input_and_has_a_batch_extent_where_the_model_does() {
        let mut two = signature(&[Dim::Any]);
        two.inputs.extend(two.inputs.clone());
        let error = raw(b"a", &two).unwrap_err();
        assert_eq!(error, Unfit::Poison("the model takes 2 inputs, and a frame is one".to_owned()));

        let single = Signature { batched: false, ..signature(&[Dim::Any]) };
        assert_eq!(raw(b"abc", &single).unwrap()[0].shape(), [3]);
        let fixed = signature(&[Dim::Fixed(2), Dim::Fixed(2)]);
        assert_eq!(raw(b"abcd", &fixed).unwrap()[0].shape(), [1, 2, 2]);
        assert!(raw(b"", &signature(&[Dim::Fixed(0), Dim::Any])).is_err(), "any would fit");
    }

    #[test]
    fn pictures_and_what_is_copied_at_length_are_heavy() {
        let payloads = Payloads::new(PathBuf::new());
        let is_heavy = |form: Form, data: Data| {
            let payload = crate::Payload { form, data };
            payloads.is_heavy(&Frame { camera: String::new(), seq: None, taken_ms: 0, payload })
        };
        let raw = || Form::Raw { dtype: None, shape: None };
        let here = |n: usize| Data::Inline(vec![0; n].into());
        let shared = |n: usize| Data::Shared(format!("ring:1:2:{n}").parse().unwrap());

        assert!(is_heavy(Form::Picture, here(1)));
        assert!(!is_heavy(raw(), here((256 << 10) + 1)), "it is not copied");
        assert!(!is_heavy(raw(), shared(256 << 10)));
        assert!(is_heavy(raw(), shared((256 << 10) + 1)));
    }

    #[test]
    fn a_ring_that_was_removed_is_kept_until_rings_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let payloads = Payloads::new(folder.path().to_owned());
        let mut ring = Ring::create(folder.path(), "door", 16, 2).unwrap();
        let handle = ring.write(b"frame").unwrap();
        assert_eq!(payloads.rings.read(&handle).unwrap(), b"frame");

        ring.remove().unwrap();
        assert_eq!(payloads.rings.read(&handle).unwrap(), b"frame", "it is open");
        payloads.close_rings();

        assert!(matches!(payloads.rings.read(&handle), Err(ReadError::NoRing(_))));
    }

    /// Answers at once, or asks the model and says how many bytes it gave.
    #[derive(Debug)]
    struct Words {
        leaves_outputs: bool,
    }

    impl Adapter for Words {
        fn encode(&self, body: &[u8]) -> Result<Encoded, paceline_pipeline::adapt::AdaptError> {
            if body.is_empty() {
                return Ok(Encoded::Answer("nothing".into()));
            }
            let data = Bytes::copy_from_slice(body);
            let inputs = vec![Tensor::build(DType::U8, Shape::from_slice(&[1, 2]), data).unwrap()];
            let decode = |outputs: &[Tensor]| Ok(outputs[0].data().len().into());
            Ok(Encoded::Ask { inputs, decode: Box::new(decode) })
        }

        fn leaves_outputs(&self) -> bool {
            self.leaves_outputs
        }
    }

    #[test]
    fn an_adapter_answers_at_once_or_in_its_words_or_leaves_the_outputs() {
        let words = Words { leaves_outputs: false };
        let prepared = picture(b"", &words).unwrap();
        assert_eq!(format!("{prepared:?}"), r#"Answer(Json(b"\"nothing\""))"#);
        let asks = picture(b"hi", &words).unwrap();
        assert!(format!("{asks:?}").starts_with("Ask { inputs: [Tensor"), "{asks:?}");
        let Prepared::Ask { inputs, finish: Some(finish) } = asks else { panic!("{asks:?}") };
        assert_eq!(finish(&inputs), Ok(Answer::Json(Bytes::from_static(b"2"))));
        let left = picture(b"hi", &Words { leaves_outputs: true }).unwrap();
        assert!(matches!(left, Prepared::Ask { finish: None, .. }));
    }

    #[test]
    fn only_a_frame_that_was_written_over_may_be_dropped() {
        assert_eq!(Unfit::from(ReadError::Overwritten), Unfit::Overwritten);
        let missing = Payloads::new(PathBuf::from("/nowhere"));
        let error = missing.rings.read(&"ring:1:2:3".parse().unwrap()).unwrap_err();
        assert!(matches!(Unfit::from(error), Unfit::Poison(_)));
    }

    #[test]
    fn several_outputs_lie_one_after_the_other() {
        let signature = signature(&[Dim::Any]);
        let tensor = |data: &'static [u8]| {
            let shape = Shape::from_slice(&[1, data.len()]);
            Tensor::build(DType::U8, shape, Bytes::from_static(data)).unwrap()
        };
        let answer = Answer::of_tensors(&[tensor(b"ab"), tensor(b"c")], &signature);

        let expected = r#"[{"datatype":"UINT8","name":"out","shape":[1,2]},{"datatype":"UINT8","name":"","shape":[1,1]}]"#;
        assert_eq!(answer.field(), (expected.as_bytes(), &b"abc"[..]));
        assert_eq!(Answer::of_json(&7.into()).field(), (&b"j"[..], &b"7"[..]));
    }

    #[test]
    fn an_answer_describes_its_bytes() {
        let signature = signature(&[Dim::Any]);
        let tensor = Tensor::build(DType::U8, [1, 2].as_slice().into(), Bytes::from_static(b"hi"));
        let answer = Answer::of_tensors(&[tensor.unwrap()], &signature);

        let expected = r#"[{"datatype":"UINT8","name":"out","shape":[1,2]}]"#;
        assert_eq!(answer.field(), (expected.as_bytes(), &b"hi"[..]));
    }
}
