//! One inference request, whichever wire it came over.

use std::time::Duration;

pub use paceline_pipeline::{Sequence, SequenceId};
use paceline_types::Tensor;

use super::{MAX_PARAMETERS, Name, OipError};

/// What a client asks of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct InferRequest {
    /// Which model.
    pub model: String,
    /// Which version of it; the server chooses where the client did not.
    pub version: Option<u64>,
    /// The client's own name for the request, repeated in the response.
    pub id: Option<String>,
    /// How to run it.
    pub params: InferParams,
    /// What to run it on, in the client's order. No name occurs twice.
    pub inputs: Vec<(String, Tensor)>,
    /// Which outputs to send, and how; all of them where this is empty. No name occurs twice.
    pub outputs: Vec<RequestedOutput>,
}

/// One output that a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Its name in the model.
    pub name: String,
    /// Whether it travels as raw bytes over HTTP; else as
    /// [`InferParams::binary_data_output`] says. Means nothing over gRPC, which is always raw.
    pub binary: Option<bool>,
    /// How many of the highest scores to send as labels instead of the tensor itself.
    pub classes: Option<u32>,
}

/// Request parameters that the protocol gives a meaning, and the model's own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InferParams {
    /// 1 is the most urgent. The wire's 0 means "default" and is `None` here.
    pub priority: Option<u64>,
    /// How long the answer is of use. The wire's 0 means "no limit" and is `None` here.
    pub timeout: Option<Duration>,
    /// The sequence that the request belongs to.
    pub sequence: Option<Sequence>,
    /// Whether outputs travel as raw bytes over HTTP unless they say otherwise themselves.
    pub binary_data_output: bool,
    /// Whether a stream should end in an empty response that only says "final".
    pub empty_final_response: bool,
    /// Every other parameter, for the model, in the order sent. No key occurs twice.
    pub other: Vec<(String, ParamValue)>,
}

/// A parameter's value. JSON integers are `Int` where they fit, else `Uint`.
#[derive(Debug, Clone, PartialEq)]
pub enum ParamValue {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that was sent as unsigned, or is too large for `Int`.
    Uint(u64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(String),
}

/// Reads a version as it stands in a URL or in a gRPC field, where empty means "you choose".
///
/// # Errors
///
/// When it is not a decimal number.
pub fn parse_version(text: &str) -> Result<Option<u64>, OipError> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits
        .then(|| text.parse().ok())
        .flatten()
        .map(Some)
        .ok_or_else(|| OipError::Version(text.into()))
}

/// Parameters while they arrive one by one, in any order.
#[derive(Debug, Default)]
pub(super) struct ParamsReader {
    params: InferParams,
    sequence_id: Option<SequenceId>,
    start: bool,
    end: bool,
}

impl ParamsReader {
    /// Takes one parameter.
    pub(super) fn read(&mut self, key: &str, value: ParamValue) -> Result<(), OipError> {
        let wrong = |expected| OipError::BadParameter { name: key.into(), expected };
        match key {
            "priority" => {
                let priority = value.as_u64().ok_or_else(|| wrong("a non-negative integer"))?;
                self.params.priority = (priority > 0).then_some(priority);
            }
            "timeout" => {
                let micros =
                    value.as_u64().ok_or_else(|| wrong("a non-negative number of microseconds"))?;
                self.params.timeout = (micros > 0).then(|| Duration::from_micros(micros));
            }
            "sequence_id" => {
                self.sequence_id = match value {
                    ParamValue::Text(text) if MAX_SEQUENCE_ID < text.len() => {
                        return Err(wrong("a non-negative integer or a string of up to 128 bytes"));
                    }
                    ParamValue::Text(text) => (!text.is_empty()).then_some(SequenceId::Text(text)),
                    value => {
                        let id = value
                            .as_u64()
                            .ok_or_else(|| wrong("a non-negative integer or a string"))?;
                        (id > 0).then_some(SequenceId::Number(id))
                    }
                };
            }
            "sequence_start" => self.start = value.as_bool().ok_or_else(|| wrong(A_BOOL))?,
            "sequence_end" => self.end = value.as_bool().ok_or_else(|| wrong(A_BOOL))?,
            "binary_data_output" => {
                self.params.binary_data_output = value.as_bool().ok_or_else(|| wrong(A_BOOL))?;
            }
            "triton_enable_empty_final_response" => {
                self.params.empty_final_response = value.as_bool().ok_or_else(|| wrong(A_BOOL))?;
            }
            key if key.starts_with("triton_") => {
                return Err(OipError::ReservedParameter(key.into()));
            }
            key => self.keep(key, value)?,
        }
        Ok(())
    }

    /// All parameters, once the last has come.
    pub(super) fn finish(self) -> Result<InferParams, OipError> {
        let Self { mut params, sequence_id, start, end } = self;
        if sequence_id.is_none() && (start || end) {
            return Err(OipError::SequenceWithoutId);
        }
        params.sequence = sequence_id.map(|id| Sequence { id, start, end });
        Ok(params)
    }

    fn keep(&mut self, key: &str, value: ParamValue) -> Result<(), OipError> {
        let other = &mut self.params.other;
        if other.len() == MAX_PARAMETERS {
            return Err(OipError::TooMany { what: "parameters", limit: MAX_PARAMETERS });
        }
        if other.iter().any(|(known, _)| known == key) {
            return Err(OipError::RepeatedName { list: "parameters", name: Name::from(key) });
        }
        other.push((key.to_owned(), value));
        Ok(())
    }
}

/// Longest name of a sequence in bytes: it is kept for as long as the sequence is open.
const MAX_SEQUENCE_ID: usize = 128;
const A_BOOL: &str = "true or false";

impl ParamValue {
    /// The value, where it is a whole number that is not negative.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Int(value) => u64::try_from(*value).ok(),
            Self::Uint(value) => Some(*value),
            _ => None,
        }
    }

    /// The value, where it is true or false.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, ParamValue)]) -> Result<InferParams, OipError> {
        let mut reader = ParamsReader::default();
        for (key, value) in pairs {
            reader.read(key, value.clone())?;
        }
        reader.finish()
    }

    #[test]
    fn zero_means_not_given() {
        let params = read(&[
            ("priority", ParamValue::Int(0)),
            ("timeout", ParamValue::Int(0)),
            ("sequence_id", ParamValue::Text(String::new())),
            ("sequence_start", ParamValue::Bool(false)),
        ]);

        assert_eq!(params.unwrap(), InferParams::default());
    }

    #[test]
    fn a_timeout_is_in_microseconds() {
        let params = read(&[("timeout", ParamValue::Int(1500))]).unwrap();

        assert_eq!(params.timeout, Some(Duration::from_micros(1500)));
    }

    #[test]
    fn the_parts_of_a_sequence_may_come_in_any_order_but_need_an_id() {
        let start = ("sequence_start", ParamValue::Bool(true));
        let id = ("sequence_id", ParamValue::Uint(7));

        let sequence = read(&[start.clone(), id]).unwrap().sequence;
        assert_eq!(sequence, Some(Sequence { id: SequenceId::Number(7), start: true, end: false }));
        assert!(matches!(read(&[start]), Err(OipError::SequenceWithoutId)));
    }

    #[test]
    fn a_wrong_type_names_the_parameter_and_what_it_takes() {
        let text = |key, value| read(&[(key, value)]).unwrap_err().to_string();

        assert_eq!(
            text("priority", ParamValue::Int(-1)),
            "parameter `priority` takes a non-negative integer"
        );
        assert_eq!(
            text("triton_secret", ParamValue::Int(1)),
            "parameter `triton_secret` is reserved; names starting with `triton_` belong to the protocol"
        );
    }

    #[test]
    fn the_models_own_parameters_keep_their_order_and_do_not_repeat() {
        let pair = |key: &'static str| (key, ParamValue::Bool(true));

        let kept = read(&[pair("b"), pair("a")]).unwrap().other;
        assert_eq!(kept.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), ["b", "a"]);
        assert!(read(&[pair("a"), pair("a")]).is_err());
    }

    #[test]
    fn versions_are_digits_or_absent() {
        assert_eq!(parse_version("").unwrap(), None);
        assert_eq!(parse_version("12").unwrap(), Some(12));
        for wrong in ["-1", "+1", "v2", "1.0", "99999999999999999999999"] {
            assert!(parse_version(wrong).is_err(), "{wrong}");
        }
    }
}
