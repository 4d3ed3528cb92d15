//! Adapters: plain bytes in, plain JSON out, for models whose tensors nobody wants to make by hand.
//!
//! Pure: no clock, no device, no model. An adapter makes one item's tensors from a request's body
//! and its answer from the item's outputs; what happens between is the batcher's.

mod blazeface;
mod decode;
mod magika;
mod moonshine;
mod picture;

use std::{fmt, fs, io, path::Path};

use paceline_types::{ErrorCode, Tensor, TensorError};
use serde_json::Value;

pub use blazeface::BlazeFace;
pub use magika::Magika;
pub use moonshine::Moonshine;
pub use picture::{Channels, Elements, Picture, PictureError, PictureSettings, Planes, Resize};

/// Both ends of one model.
pub trait Adapter: fmt::Debug + Send + Sync {
    /// Makes the tensors of one item, or answers at once where the model is not needed.
    ///
    /// # Errors
    ///
    /// When the body is not what the model is for, or is too large to look at.
    fn encode(&self, body: &[u8]) -> Result<Encoded, AdaptError>;

    /// Whether the model's outputs are the answer, so that whoever can take tensors takes them as
    /// they are.
    fn leaves_outputs(&self) -> bool {
        false
    }
}

/// What becomes of a body.
pub enum Encoded {
    /// The answer is known; the model is not asked.
    Answer(Value),
    /// The model is asked.
    Ask {
        /// One item, in the order of the model's signature, each with a batch extent of one.
        inputs: Vec<Tensor>,
        /// Makes the answer from that item's outputs.
        decode: Decode,
    },
}

/// Makes the answer from one item's outputs. Carries what `encode` knew and the outputs do not
/// say, such as the size of the picture.
pub type Decode = Box<dyn FnOnce(&[Tensor]) -> Result<Value, AdaptError> + Send>;

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(answer) => f.debug_tuple("Answer").field(answer).finish(),
            Self::Ask { inputs, .. } => {
                f.debug_struct("Ask").field("inputs", inputs).finish_non_exhaustive()
            }
        }
    }
}

/// Opens the adapter that a model's `adapter` key names, with the files beside the model.
///
/// # Errors
///
/// When there is no such adapter, or a file that it needs is missing or malformed.
pub fn open(name: &str, folder: &Path) -> Result<Box<dyn Adapter>, AdaptError> {
    let read = |file: &'static str| {
        fs::read(folder.join(file)).map_err(|cause| AdaptError::Unreadable { file, cause })
    };
    match name {
        "magika" => {
            Ok(Box::new(Magika::build(&read("config.json")?, &read("content_types.json")?)?))
        }
        "blazeface" => Ok(Box::new(BlazeFace::new())),
        "moonshine" => Ok(Box::new(Moonshine)),
        _ => Err(AdaptError::Unknown(name.to_owned())),
    }
}

/// Why there is no adapter, no item or no answer.
#[derive(Debug, thiserror::Error)]
pub enum AdaptError {
    /// A name that is no adapter.
    #[error("there is no adapter `{0}`; there are magika, blazeface and moonshine")]
    Unknown(String),
    /// A file beside the model that cannot be read.
    #[error("the adapter needs `{file}` in the model's folder")]
    Unreadable {
        /// Its name in the folder.
        file: &'static str,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A file beside the model that is not as it must be.
    #[error("`{file}` in the model's folder is malformed: {problem}")]
    Malformed {
        /// Its name in the folder.
        file: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A body that is no picture, or a broken one.
    #[error("the body is not a PNG or JPEG picture that can be read: {0}")]
    NotAPicture(String),
    /// A body that is no audio, a broken one, or too much of it.
    #[error("the body is not an audio file of one utterance that can be read: {0}")]
    NotAudio(String),
    /// A picture with more pixels than are looked at.
    #[error("the picture has {width} x {height} pixels; at most {limit} pixels are read")]
    TooManyPixels {
        /// As the picture says.
        width: u32,
        /// As the picture says.
        height: u32,
        /// The most that are read.
        limit: u64,
    },
    /// A picture whose pixels take more memory than is spent on one.
    #[error("the picture takes {n_bytes} bytes once decoded; at most {limit} are spent on one")]
    TooManyBytes {
        /// Its pixels, as they are stored.
        n_bytes: u64,
        /// The most that are spent.
        limit: u64,
    },
    /// Outputs that are not this model's.
    #[error("the model gave {actual} where {expected} is expected; is it the adapter's model?")]
    Outputs {
        /// What the adapter reads.
        expected: &'static str,
        /// What there was.
        actual: String,
    },
    /// Values that do not make the tensor they should.
    #[error("an input tensor was made wrong")]
    Tensor(#[from] TensorError),
}

impl AdaptError {
    /// What the outside is told.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotAPicture(_)
            | Self::NotAudio(_)
            | Self::TooManyPixels { .. }
            | Self::TooManyBytes { .. } => ErrorCode::InvalidInput,
            Self::Unknown(_) | Self::Unreadable { .. } | Self::Malformed { .. } => {
                ErrorCode::Unavailable
            }
            Self::Outputs { .. } => ErrorCode::ModelFailed,
            Self::Tensor(_) => ErrorCode::Internal,
        }
    }
}

/// The numbers of an output of one row and a known shape.
fn numbers(
    outputs: &[Tensor],
    index: usize,
    shape: &[usize],
    expected: &'static str,
) -> Result<Vec<f32>, AdaptError> {
    let refuse = |actual: String| AdaptError::Outputs { expected, actual };
    let output = outputs.get(index).ok_or_else(|| refuse(format!("{} outputs", outputs.len())))?;
    output
        .to_f32()
        .filter(|_| output.shape() == shape)
        .ok_or_else(|| refuse(format!("{} of shape {:?}", output.dtype(), output.shape())))
}
