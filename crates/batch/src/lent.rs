//! An executor without a thread: whoever brings an item while it is idle runs it there and then.
//!
//! For calls of microseconds. To wake a thread and to be woken by it takes longer than several such
//! calls, and who runs its own call has the answer before it would have fallen asleep.
//!
//! To wake an idle device is to run it. The batcher wakes devices after it has let go of its lock,
//! so nothing runs under one. While it runs, the executor is not in its place: it has one owner at
//! any time, as every executor has. What it cannot do is wait, so the timekeeper looks for it.

use std::{
    sync::Arc,
    task::{Wake, Waker},
};

use parking_lot::Mutex;

use crate::{Cause, Executor, Runner, runner::Visit};

/// Told how an executor ended.
type Ended = Box<dyn FnOnce(Result<(), Cause>) + Send>;

/// Where a lent executor is when nobody runs it.
struct Lent<E, T, R, S> {
    place: Mutex<Place<E, T, R, S>>,
}

enum Place<E, T, R, S> {
    Idle(Box<Lodger<E, T, R, S>>),
    /// Somebody runs it; whether it was woken meanwhile.
    Away(bool),
}

struct Lodger<E, T, R, S> {
    runner: Runner<E, T, R, S>,
    ended: Ended,
}

/// Lends an executor to whoever submits, until its batcher is closed and empty.
pub(crate) fn lend<E, T, R, S>(runner: Runner<E, T, R, S>, ended: Ended)
where
    E: Executor<T, R, S> + 'static,
    T: Send + Sync + 'static,
    R: Send + 'static,
    S: Send + Sync + 'static,
{
    let place = Mutex::new(Place::Idle(Box::new(Lodger { runner, ended })));
    // The first look puts it among the devices that are idle.
    Arc::new(Lent { place }).wake();
}

impl<E, T, R, S> Lent<E, T, R, S> {
    fn take(&self) -> Option<Box<Lodger<E, T, R, S>>> {
        let mut place = self.place.lock();
        match std::mem::replace(&mut *place, Place::Away(false)) {
            Place::Idle(lodger) => Some(lodger),
            Place::Away(_) => {
                // Whoever runs it looks again before putting it back.
                *place = Place::Away(true);
                None
            }
        }
    }

    /// Puts it back, unless it was woken since it last looked.
    fn put_back(&self, lodger: Box<Lodger<E, T, R, S>>) -> Option<Box<Lodger<E, T, R, S>>> {
        let mut place = self.place.lock();
        if matches!(*place, Place::Away(true)) {
            *place = Place::Away(false);
            return Some(lodger);
        }
        *place = Place::Idle(lodger);
        None
    }
}

impl<E, T, R, S> Wake for Lent<E, T, R, S>
where
    E: Executor<T, R, S> + 'static,
    T: Send + Sync + 'static,
    R: Send + 'static,
    S: Send + Sync + 'static,
{
    fn wake(self: Arc<Self>) {
        let Some(mut lodger) = self.take() else { return };
        let waker = Waker::from(Arc::clone(&self));
        loop {
            match lodger.runner.visit(&waker) {
                Ok(Visit::Over) => match self.put_back(lodger) {
                    Some(back) => lodger = back,
                    None => return,
                },
                Ok(Visit::Closed) => return (lodger.ended)(Ok(())),
                Err(cause) => return (lodger.ended)(Err(cause)),
            }
        }
    }
}
