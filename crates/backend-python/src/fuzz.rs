//! A way in for fuzz targets.

use bytes::Bytes;
use paceline_types::{DType, Dim, TensorSpec};

use crate::frame::{Expected, read};

/// Reads a frame as the results of a model with numbers and texts.
pub fn results(frame: &[u8]) {
    let spec =
        |name: &str, dtype| TensorSpec { name: name.to_owned(), dtype, dims: vec![Dim::Any] };
    let outputs = [spec("numbers", DType::F32), spec("texts", DType::Bytes)];
    let expected = Expected { outputs: &outputs, batched: true, rows: 4 };
    // What is wrong with it is of no interest; that it is found without a panic is.
    drop(read(&Bytes::copy_from_slice(frame), 0, &expected));
}
