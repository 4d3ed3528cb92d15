//! Why a request could not be understood, or an answer not be written.

use paceline_types::{DType, ErrorCode, TensorError};

use super::{MAX_DEPTH, MAX_RANK, Name};

/// A request that cannot be read or an answer that cannot be written. Every message is bounded,
/// whatever the client sent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OipError {
    /// Not JSON.
    #[error("the JSON is malformed at byte {at}, where {expected} is expected")]
    Syntax {
        /// Counted from the start of the body.
        at: usize,
        /// What would have been right.
        expected: &'static str,
    },
    /// JSON within JSON within JSON.
    #[error("the JSON is nested deeper than {MAX_DEPTH} levels at byte {at}")]
    TooDeep {
        /// Counted from the start of the body.
        at: usize,
    },
    /// A key that may stand once stands twice.
    #[error("`{key}` occurs twice in one object, at byte {at}")]
    RepeatedKey {
        /// Which key.
        key: &'static str,
        /// Where the second one is, counted from the start of the body.
        at: usize,
    },
    /// A header that is not a length.
    #[error("Inference-Header-Content-Length is `{0}`, where a number of bytes is expected")]
    HeaderLength(Name),
    /// A header that points behind the body.
    #[error("Inference-Header-Content-Length is {header}, but the body has {body} bytes")]
    HeaderBeyondBody {
        /// As the header says.
        header: usize,
        /// As it came.
        body: usize,
    },
    /// A body that is said to be JSON and to have none.
    #[error(
        "Inference-Header-Content-Length is 0, so the body is one raw tensor, but Content-Type says JSON"
    )]
    RawJson,
    /// Bytes at the end that no input claims.
    #[error(
        "the body has {left} bytes more than its JSON and the `binary_data_size` of its inputs add up to"
    )]
    LeftoverBytes {
        /// How many.
        left: usize,
    },
    /// A request without any input.
    #[error("the request has no `inputs`")]
    NoInputs,
    /// An input that the model does not take.
    #[error("the model has no input `{0}`; it takes {1}")]
    UnknownInput(Name, Name),
    /// Labels instead of scores.
    #[error("output `{0}`: `classification` is not supported; ask for the scores themselves")]
    Classification(Name),
    /// An input that the model takes and the request does not have.
    #[error("input `{0}` is missing")]
    MissingInput(Name),
    /// An output that the model does not give.
    #[error("the model has no output `{0}`; it gives {1}")]
    UnknownOutput(Name, Name),
    /// A tensor without a name.
    #[error("entry {index} of `{list}` has no `name`")]
    Unnamed {
        /// `inputs` or `outputs`.
        list: &'static str,
        /// Counted from zero.
        index: usize,
    },
    /// The same name twice.
    #[error("`{name}` occurs twice in `{list}`")]
    RepeatedName {
        /// `inputs`, `outputs` or `parameters`.
        list: &'static str,
        /// Which name.
        name: Name,
    },
    /// A list longer than anyone needs.
    #[error("the request has more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// An input without something it needs.
    #[error("input `{input}` has no `{field}`")]
    MissingField {
        /// Which input.
        input: Name,
        /// What it needs.
        field: &'static str,
    },
    /// A datatype that does not exist.
    #[error(
        "input `{input}` has datatype `{given}`, where one of BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64, BYTES is expected"
    )]
    UnknownDatatype {
        /// Which input.
        input: Name,
        /// As sent.
        given: Name,
    },
    /// An extent below zero or beyond memory.
    #[error("extent {index} of input `{input}` is {extent}, where a size is expected")]
    BadExtent {
        /// Which input.
        input: Name,
        /// Counted from zero.
        index: usize,
        /// As sent.
        extent: i64,
    },
    /// A shape with more extents than any tensor has.
    #[error("a shape has more than {MAX_RANK} extents")]
    TooManyExtents,
    /// A tensor that contradicts itself.
    #[error("input `{input}`: {fault}")]
    Tensor {
        /// Which input.
        input: Name,
        /// How. Part of this message, so it is not also a source.
        fault: TensorError,
    },
    /// An element that its type cannot hold.
    #[error("element {index} of input `{input}` is not {dtype}: {fault}")]
    BadElement {
        /// Which input.
        input: Name,
        /// Counted from zero in row-major order.
        index: usize,
        /// As declared.
        dtype: DType,
        /// What is wrong with it.
        fault: ElementFault,
    },
    /// `data` that does not have the declared shape.
    #[error("`data` of input `{input}` has {problem}, where shape {shape:?} asks for {expected}")]
    DataShape {
        /// Which input.
        input: Name,
        /// As declared.
        shape: Vec<usize>,
        /// What was found.
        problem: &'static str,
        /// What the shape asks for at that place.
        expected: usize,
    },
    /// A type that JSON has no form for.
    #[error(
        "input `{input}` is {dtype}, which has no JSON form; send its bytes with `binary_data_size` over HTTP or in `raw_input_contents` over gRPC"
    )]
    BinaryOnly {
        /// Which input.
        input: Name,
        /// As declared.
        dtype: DType,
    },
    /// Two forms of the same data.
    #[error(
        "input `{input}` has both `data` and `binary_data_size`, where one of them is expected"
    )]
    TwoForms {
        /// Which input.
        input: Name,
    },
    /// Binary data announced, but no header that says where the JSON ends.
    #[error(
        "input `{input}` has `binary_data_size`, but there is no Inference-Header-Content-Length that says where the JSON ends"
    )]
    NoBinarySection {
        /// Which input.
        input: Name,
    },
    /// More bytes announced than came.
    #[error("input `{input}` announces {announced} bytes, but {left} are left in the body")]
    BinaryBeyondBody {
        /// Which input.
        input: Name,
        /// As `binary_data_size` says.
        announced: u64,
        /// As there are.
        left: usize,
    },
    /// A truth value that is neither.
    #[error(
        "element {index} of BOOL input `{input}` is the byte {value}, where 0 or 1 is expected"
    )]
    BadBool {
        /// Which input.
        input: Name,
        /// Counted from zero.
        index: usize,
        /// As sent.
        value: u8,
    },
    /// Tensors that are not in the request at all.
    #[error("`{tensor}` refers to shared memory, which this server does not offer; send the bytes")]
    SharedMemory {
        /// Which input or output.
        tensor: Name,
    },
    /// A parameter of the wrong kind.
    #[error("parameter `{name}` takes {expected}")]
    BadParameter {
        /// Which one.
        name: Name,
        /// What it takes.
        expected: &'static str,
    },
    /// A parameter that clients may not choose.
    #[error("parameter `{0}` is reserved; names starting with `triton_` belong to the protocol")]
    ReservedParameter(Name),
    /// The start or the end of nothing.
    #[error("`sequence_start` or `sequence_end` is set, but there is no `sequence_id`")]
    SequenceWithoutId,
    /// A version that is not a number.
    #[error("model version `{0}` is not a decimal number")]
    Version(Name),
    /// A body without JSON for a model that needs names.
    #[error(
        "a body without JSON is the model's only input, but this model has {inputs} inputs; describe them in JSON"
    )]
    RawInputs {
        /// How many it has.
        inputs: usize,
    },
    /// A body without JSON whose shape cannot be told.
    #[error(
        "a body without JSON of {bytes} bytes does not determine the shape of input `{input}`; describe it in JSON"
    )]
    RawShape {
        /// Which input.
        input: Name,
        /// The body's length.
        bytes: usize,
    },
    /// Raw and typed contents in one gRPC request.
    #[error(
        "input `{input}` has typed `contents`, but the request also has `raw_input_contents`; all inputs take the same form"
    )]
    MixedContents {
        /// Which input.
        input: Name,
    },
    /// A list of raw contents that does not fit the list of inputs.
    #[error("the request has {inputs} inputs but {raw} `raw_input_contents`")]
    RawCount {
        /// Inputs.
        inputs: usize,
        /// Raw contents.
        raw: usize,
    },
    /// Typed contents in the field of another type.
    #[error(
        "{dtype} input `{input}` has its contents in `{given}`, where `{expected}` is expected"
    )]
    WrongContents {
        /// Which input.
        input: Name,
        /// As declared.
        dtype: DType,
        /// The field for this type.
        expected: &'static str,
        /// The field that was used.
        given: &'static str,
    },
    /// Typed contents that are more or fewer than the shape says.
    #[error(
        "input `{input}` has {actual} elements in its `contents`, where shape {shape:?} asks for {expected}"
    )]
    ContentsCount {
        /// Which input.
        input: Name,
        /// As declared.
        shape: Vec<usize>,
        /// The product of its extents.
        expected: usize,
        /// As sent.
        actual: usize,
    },
    /// A number that JSON cannot write.
    #[error(
        "element {index} of output `{output}` is {value}, which JSON cannot write; ask for binary output"
    )]
    NonFinite {
        /// Which output.
        output: Name,
        /// Counted from zero.
        index: usize,
        /// `NaN`, `inf` or `-inf`.
        value: f64,
    },
    /// Bytes that are not text.
    #[error(
        "element {index} of BYTES output `{output}` is not UTF-8, which JSON needs; ask for binary output"
    )]
    NotText {
        /// Which output.
        output: Name,
        /// Counted from zero.
        index: usize,
    },
    /// A type that JSON has no form for, on the way out.
    #[error("output `{output}` is {dtype}, which has no JSON form; ask for binary output")]
    BinaryOutputOnly {
        /// Which output.
        output: Name,
        /// Its type.
        dtype: DType,
    },
}

/// What is wrong with one element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElementFault {
    /// Another kind of JSON value.
    #[error("{found} was given where {expected} is expected")]
    Kind {
        /// What the type takes.
        expected: &'static str,
        /// What there was.
        found: &'static str,
    },
    /// A number beyond the type.
    #[error("{0} is out of range")]
    Range(Name),
}

impl OipError {
    /// What the outside is told.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::SharedMemory { .. }
            | Self::Classification(_)
            | Self::BinaryOutputOnly { .. }
            | Self::NotText { .. } => ErrorCode::Unsupported,
            Self::NonFinite { .. } => ErrorCode::ModelFailed,
            _ => ErrorCode::InvalidInput,
        }
    }
}
