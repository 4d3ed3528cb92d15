//! What works on items at their own pace, as the caller writes it.
//!
//! An [`Executor`](crate::Executor) runs a batch that is closed when it leaves. A model that works
//! in many small steps, such as one that says a word at a time, would make everybody in it wait for
//! the longest, and everybody outside wait for all of them. Here items come on board between two
//! steps and each is answered with the step that ends it.

use std::future::Future;

use crate::{Cause, slot::ItemId};

/// An item that is done: its result, or why it has none.
pub type Done<R> = (ItemId, Result<R, Cause>);

/// The one owner of one instance of a model that works in steps.
///
/// Items of all keys are on board together, so what one is answered must not depend on who else is.
pub trait Stepping<T, R>: Send {
    /// Takes an item on board. It is worked on from the next step on.
    ///
    /// # Errors
    ///
    /// Why it has no result, where that is known at once; it is then not on board.
    fn board(&mut self, id: ItemId, item: &T) -> Result<(), Cause>;

    /// One step for everybody on board. Those that it ends are not on board any more, and `done`
    /// says what became of them.
    ///
    /// Others come and go between two steps only, so it should be short.
    fn step(&mut self, done: &mut Vec<Done<R>>) -> impl Future<Output = ()> + Send;

    /// Lets go of an item on board that nobody waits for any more.
    fn leave(&mut self, id: ItemId);

    /// Waits until it can work. Asked whenever nobody is on board.
    fn ready(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Makes it whole again, with nobody on board, after a step or a boarding panicked.
    ///
    /// # Errors
    ///
    /// When it cannot be; its stepper then ends, and the others go on.
    fn recover(&mut self) -> impl Future<Output = Result<(), Cause>> + Send;
}
