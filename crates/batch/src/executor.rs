//! What runs a batch, as the caller writes it.

use std::{future::Future, time::Duration};

use crate::{Cause, Key, scheduler::Boarded, shared::Parcel, slot::ItemId};

/// The one owner of one instance of a model.
pub trait Executor<T, R, S = ()>: Send {
    /// Runs one call and pushes a reply for each of its riders, by id, in any order.
    ///
    /// The call may be run again in parts, so it must not have done anything that cannot be done
    /// twice when it returns an error.
    ///
    /// # Errors
    ///
    /// When the call as a whole failed. It is then split until whoever is to blame stands alone.
    fn execute(
        &mut self,
        call: &Call<'_, T, R, S>,
        replies: &mut Vec<Reply<R, S>>,
    ) -> impl Future<Output = Result<(), Cause>> + Send;

    /// Waits until it can run a call. Asked before every pull, so that an executor that is down
    /// leaves the items to others. It must end by itself: nothing is answered meanwhile.
    fn ready(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Makes the executor whole again after `execute` panicked.
    ///
    /// # Errors
    ///
    /// When it cannot be; its runner then ends, and the other executors go on.
    fn recover(&mut self) -> impl Future<Output = Result<(), Cause>> + Send {
        async { Ok(()) }
    }
}

/// What one call is to run.
#[derive(Debug)]
pub struct Call<'a, T, R, S = ()> {
    pub(crate) boarded: &'a [Boarded<Parcel<T, R>, S>],
    /// What its items have in common.
    pub key: Key,
    /// Their rows.
    pub rows: usize,
    /// Rows to run, where only some sizes are allowed.
    pub padded_rows: usize,
    /// The longest of their lengths, to which the others are padded.
    pub padded_length: u32,
}

impl<'a, T, R, S> Call<'a, T, R, S> {
    /// How many items it has; never none.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.boarded.len()
    }

    /// Its items.
    #[must_use]
    pub fn riders(&self) -> impl ExactSizeIterator<Item = Rider<'a, T, S>> + use<'a, T, R, S> {
        self.boarded.iter().map(|boarded| Rider {
            id: boarded.id,
            item: &boarded.payload.item,
            rows: boarded.rows,
            length: boarded.length,
            waited: boarded.waited,
            state: boarded.lane.as_ref().map(|(_, state)| state),
        })
    }
}

/// One item of a call.
#[derive(Debug)]
pub struct Rider<'a, T, S = ()> {
    /// Which item; the reply must carry it.
    pub id: ItemId,
    /// What was submitted.
    pub item: &'a T,
    /// How many rows of the batch it takes.
    pub rows: usize,
    /// Its length, as tagged.
    pub length: u32,
    /// How long it waited.
    pub waited: Duration,
    /// Its lane's state as the item before it left it; `None` for items without a lane.
    pub state: Option<&'a S>,
}

/// What the model says to one item.
#[derive(Debug)]
pub struct Reply<R, S = ()> {
    /// Which item.
    pub id: ItemId,
    /// Its result, or why it alone has none.
    pub outcome: Result<R, Cause>,
    /// The state in which its lane goes on; kept as it was where this is `None` or the outcome
    /// is an error.
    pub state: Option<S>,
}

impl<R, S> Reply<R, S> {
    /// A result.
    pub const fn ok(id: ItemId, result: R) -> Self {
        Self { id, outcome: Ok(result), state: None }
    }

    /// An error of this item alone.
    pub const fn error(id: ItemId, cause: Cause) -> Self {
        Self { id, outcome: Err(cause), state: None }
    }
}

/// An executor made of a function of the items alone, for models that need no more.
#[derive(Debug, Clone, Copy)]
pub struct FromFn<F>(F);

/// An executor made of a function that takes the items and gives their results in the same order.
pub const fn from_fn<T, R, F>(function: F) -> FromFn<F>
where
    F: FnMut(&mut dyn ExactSizeIterator<Item = &T>) -> Result<Vec<R>, Cause> + Send,
{
    FromFn(function)
}

impl<T, R, S, F> Executor<T, R, S> for FromFn<F>
where
    F: FnMut(&mut dyn ExactSizeIterator<Item = &T>) -> Result<Vec<R>, Cause> + Send,
    T: Sync,
    R: Send,
    S: Send + Sync,
{
    async fn execute(
        &mut self,
        call: &Call<'_, T, R, S>,
        replies: &mut Vec<Reply<R, S>>,
    ) -> Result<(), Cause> {
        let results = (self.0)(&mut call.riders().map(|rider| rider.item))?;
        // A list of another length is caught as wrong replies: what is over has a stranger's id.
        let ids = call.riders().map(|rider| rider.id).chain(std::iter::repeat(ItemId::NOBODY));
        replies.extend(ids.zip(results).map(|(id, result)| Reply::ok(id, result)));
        Ok(())
    }
}
