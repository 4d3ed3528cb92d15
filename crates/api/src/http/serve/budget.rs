//! How many bytes of requests may be held at once, over all connections and doors.
//!
//! Each request is bounded by itself; this bounds all of them together. It is counted as bytes come
//! and given back when the request is over, so what a request becomes on its way counts with it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use tonic::{Code, Status};

/// What is left of the memory for requests.
#[derive(Debug)]
pub struct Budget {
    free: AtomicUsize,
}

impl Budget {
    /// So many bytes in all.
    #[must_use]
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { free: AtomicUsize::new(bytes) })
    }

    /// Takes so many, or none.
    fn take(&self, bytes: usize) -> Result<(), NoMemory> {
        let taken = self.free.fetch_update(Relaxed, Relaxed, |free| free.checked_sub(bytes));
        taken.map(drop).map_err(|_| NoMemory::new())
    }
}

/// What one request has taken of it, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    taken: AtomicUsize,
}

impl Share {
    pub(super) const fn none_of(budget: Arc<Budget>) -> Self {
        Self { budget, taken: AtomicUsize::new(0) }
    }

    /// Takes more. Only the request's body does, so there is nobody to add at the same time.
    pub(super) fn take(&self, bytes: usize) -> Result<(), NoMemory> {
        self.budget.take(bytes)?;
        self.taken.store(self.taken.load(Relaxed) + bytes, Relaxed);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let taken = *self.taken.get_mut();
        if taken != 0 {
            self.budget.free.fetch_add(taken, Relaxed);
        }
    }
}

/// A body that there is no memory for.
#[derive(Debug)]
pub(crate) struct NoMemory {
    /// The same in the words of gRPC.
    status: Box<Status>,
}

impl NoMemory {
    pub(crate) const MESSAGE: &str =
        "the server holds as many bytes of requests as it may; try again later";

    fn new() -> Self {
        Self { status: Box::new(Status::new(Code::ResourceExhausted, Self::MESSAGE)) }
    }

    /// Whether this is why something went wrong.
    pub(crate) fn is_cause_of(error: &(dyn std::error::Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            if error.is::<Self>() {
                return true;
            }
            next = error.source();
        }
        false
    }
}

impl std::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Self::MESSAGE)
    }
}

impl std::error::Error for NoMemory {
    /// Where gRPC looks for its words.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back_and_never_more_than_there_is() {
        let budget = Budget::new(100);
        let share = || Share::none_of(Arc::clone(&budget));
        let (first, second) = (share(), share());
        first.take(60).unwrap();
        first.take(20).unwrap();
        assert!(second.take(21).is_err());
        second.take(20).unwrap();
        assert!(share().take(1).is_err());

        drop(first);
        share().take(80).unwrap();
        drop(second);
        share().take(100).unwrap();
        assert_eq!(budget.free.load(Relaxed), 100);
    }
}
