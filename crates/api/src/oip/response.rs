//! One inference response, whichever wire it leaves by.

use paceline_types::Tensor;

use super::ParamValue;

/// What a model answered.
#[derive(Debug, Clone, PartialEq)]
pub struct InferResponse {
    /// Which model answered.
    pub model_name: String,
    /// Which version of it, as the protocol writes it: digits.
    pub model_version: String,
    /// The id that the request had.
    pub id: Option<String>,
    /// What the server or the model adds about the answer as a whole.
    pub parameters: Vec<(String, ParamValue)>,
    /// The outputs, in the order in which they are sent.
    pub outputs: Vec<(String, Tensor)>,
}
