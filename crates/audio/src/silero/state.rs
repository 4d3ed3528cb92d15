//! What the detector remembers of one stream.

use super::weights::UNITS;

/// What the detector remembers of one stream: 1.3 KB. A new stream begins with nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamState {
    pub(super) hidden: [f32; UNITS],
    pub(super) cell: [f32; UNITS],
    /// The end of the frame before, of which the smaller rate uses half.
    pub(super) context: [f32; 64],
}

impl Default for StreamState {
    fn default() -> Self {
        Self { hidden: [0.0; UNITS], cell: [0.0; UNITS], context: [0.0; 64] }
    }
}
