//! What a model says of itself once it is loaded, checked.

use paceline_types::{DType, Dim, Signature, TensorSpec};
use serde::Deserialize;

use crate::message::Violation;

const MAX_TENSORS: usize = 256;
const MAX_DIMS: usize = 16;
const MAX_NAME: usize = 256;

/// What a model says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) signature: Signature,
    /// Most rows in one call; `None` where the model does not batch.
    pub(crate) max_rows: Option<usize>,
    /// Whether it gives several results for each item.
    pub(crate) streams: bool,
}

#[derive(Debug, Deserialize)]
struct Written {
    inputs: Vec<WrittenSpec>,
    outputs: Vec<WrittenSpec>,
    max_batch: usize,
    streams: bool,
}

#[derive(Debug, Deserialize)]
struct WrittenSpec {
    name: String,
    dtype: String,
    dims: Vec<i64>,
}

impl Declared {
    /// Reads what a worker wrote.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Violation> {
        let wrong = |error: &dyn ToString| Violation::Declaration(error.to_string());
        let written: Written = serde_json::from_slice(text).map_err(|error| wrong(&error))?;
        let specs = |specs: Vec<WrittenSpec>| {
            if !(1..=MAX_TENSORS).contains(&specs.len()) {
                return Err(wrong(&format_args!("{} tensors", specs.len())));
            }
            specs.into_iter().map(spec).collect::<Result<Vec<_>, _>>()
        };
        let signature = Signature {
            inputs: specs(written.inputs)?,
            outputs: specs(written.outputs)?,
            batched: written.max_batch != 0,
        };
        let max_rows = (written.max_batch != 0).then_some(written.max_batch);
        Ok(Self { signature, max_rows, streams: written.streams })
    }
}

fn spec(written: WrittenSpec) -> Result<TensorSpec, Violation> {
    let wrong = |error: String| Violation::Declaration(error);
    if MAX_NAME < written.name.len() || MAX_DIMS < written.dims.len() {
        return Err(wrong("a name or a shape that is too long".to_owned()));
    }
    let dim = |dim: i64| match dim {
        -1 => Ok(Dim::Any),
        _ => usize::try_from(dim).map(Dim::Fixed).map_err(|_| wrong(format!("an extent of {dim}"))),
    };
    Ok(TensorSpec {
        dtype: written.dtype.parse::<DType>().map_err(|error| wrong(error.to_string()))?,
        dims: written.dims.into_iter().map(dim).collect::<Result<_, _>>()?,
        name: written.name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_is_read_and_a_wrong_one_says_what_is_wrong() {
        let text = |dtype: &str, dim: i64| {
            format!(
                r#"{{"inputs": [{{"name": "x", "dtype": "{dtype}", "dims": [{dim}, 3]}}],
                     "outputs": [{{"name": "y", "dtype": "BYTES", "dims": []}}],
                     "max_batch": 8, "streams": false}}"#
            )
        };
        let declared = Declared::parse(text("FP32", -1).as_bytes()).unwrap();

        assert_eq!(declared.max_rows, Some(8));
        assert!(declared.signature.batched);
        assert_eq!(declared.signature.inputs[0].dims, [Dim::Any, Dim::Fixed(3)]);
        for (wrong, says) in [(text("FP31", 1), "FP31"), (text("FP32", -2), "-2"), ("7".into(), "")]
        {
            let error = Declared::parse(wrong.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
