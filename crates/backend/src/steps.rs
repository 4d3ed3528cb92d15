//! Models that work on items at their own pace.

use paceline_batch::ItemId;
use paceline_types::Tensor;

use crate::{BackendError, Output};

/// An item that is done: its outputs, or why it has none.
pub type Ended = (ItemId, Result<Output, BackendError>);

/// A model that works in many small steps, with items that come on board between two of them and
/// are each answered with the step that ends it.
///
/// What an item is answered must not depend on who else is on board.
pub trait Steps {
    /// Takes an item on board: its inputs in the signature's order, of one row.
    ///
    /// # Errors
    ///
    /// Why it has no result, where that is known at once.
    fn board(&mut self, id: ItemId, inputs: &[Tensor]) -> Result<(), BackendError>;

    /// One step for everybody on board. Those that it ends go into `ended` and are off board.
    fn step(&mut self, ended: &mut Vec<Ended>);

    /// Lets go of an item that nobody waits for any more.
    fn leave(&mut self, id: ItemId);
}
