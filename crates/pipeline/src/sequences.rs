//! Sequences: runs of requests to a stateful model, each on a lane of its own.
//!
//! The first request of a sequence says that it starts, the last that it ends; between them only
//! its id is needed. A sequence that stays silent for too long is forgotten, and so is its state.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use paceline_backend::{Item, Output};
use paceline_batch::{Batcher, Lane};
use paceline_types::{ErrorCode, Tensor};
use tokio::time::Instant;

/// A stateful run of requests, and where in it this one stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Which run.
    pub id: SequenceId,
    /// Whether this request opens it.
    pub start: bool,
    /// Whether this request closes it.
    pub end: bool,
}

/// The name of a sequence: never 0, never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SequenceId {
    /// As most clients number theirs.
    Number(u64),
    /// As some name theirs.
    Text(String),
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => text
                .chars()
                .take(64)
                .flat_map(char::escape_default)
                .try_for_each(|c| write!(f, "{c}")),
        }
    }
}

/// Bounds on the sequences of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceLimits {
    /// Most that are open at once.
    pub max_open: usize,
    /// How long one may stay silent before it is forgotten.
    pub max_idle: Duration,
}

impl Default for SequenceLimits {
    fn default() -> Self {
        Self { max_open: 1024, max_idle: Duration::from_mins(1) }
    }
}

/// A request that does not fit into its sequence, or into any.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// A stateful model was asked without one.
    #[error(
        "the model keeps state between requests; give `sequence_id`, and `sequence_start` with the first"
    )]
    Missing,
    /// It was never started, or has ended.
    #[error("sequence `{0}` is not open; begin it with `sequence_start`")]
    NotOpen(SequenceId),
    /// It was silent for too long.
    #[error(
        "sequence `{0}` was silent for longer than {1:?} and is gone; begin it again with `sequence_start`"
    )]
    Expired(SequenceId, Duration),
    /// As many are open as may be.
    #[error("{0} sequences are open, which is as many as may be; end one, or come back later")]
    TooMany(usize),
    /// More than one row.
    #[error("a request of a sequence has one row, and this one has {0}")]
    Rows(usize),
}

impl SequenceError {
    /// What the outside is told.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::TooMany(_) => ErrorCode::Overloaded,
            Self::Missing | Self::NotOpen(_) | Self::Expired(..) | Self::Rows(_) => {
                ErrorCode::InvalidInput
            }
        }
    }
}

/// All sequences of one model.
pub(crate) struct Sequences {
    limits: SequenceLimits,
    /// What every lane begins with.
    state: Vec<Tensor>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    open: HashMap<SequenceId, Arc<Open>>,
    /// Silent ones are looked for no earlier than this, unless there is no room.
    next_sweep: Option<Instant>,
}

/// One open sequence. Whoever holds it keeps it from being forgotten.
pub(crate) struct Open {
    pub(crate) lane: Lane<Item, Output, Vec<Tensor>>,
    last_used: Mutex<Instant>,
}

impl Sequences {
    pub(crate) fn new(limits: SequenceLimits, state: Vec<Tensor>) -> Self {
        Self { limits, state, table: Mutex::default() }
    }

    /// How long one may stay silent.
    pub(crate) const fn max_idle(&self) -> Duration {
        self.limits.max_idle
    }

    /// The lane for a request's place in its sequence. One that starts again what is open begins
    /// anew; one that ends it leaves nothing for those that come after.
    pub(crate) fn enter(
        &self,
        step: &Sequence,
        batcher: &Batcher<Item, Output, Vec<Tensor>>,
    ) -> Result<Arc<Open>, SequenceError> {
        let now = Instant::now();
        let mut table = self.lock();
        if step.start {
            // ORDER: what is forgotten is dropped after the lock, since lanes have one of their own.
            let _forgotten = self.make_room(&mut table, &step.id, now)?;
            let lane = batcher.open_lane(self.state.clone());
            let open = Arc::new(Open { lane, last_used: Mutex::new(now) });
            if !step.end {
                table.open.insert(step.id.clone(), Arc::clone(&open));
            }
            drop(table);
            return Ok(open);
        }
        let Some(open) = table.open.get(&step.id).cloned() else {
            return Err(SequenceError::NotOpen(step.id.clone()));
        };
        let is_silent = self.is_silent(&open, 2, now);
        if step.end || is_silent {
            table.open.remove(&step.id);
        }
        drop(table);
        if is_silent {
            return Err(SequenceError::Expired(step.id.clone(), self.limits.max_idle));
        }
        open.touch(now);
        Ok(open)
    }

    /// A sequence whose first request was refused has not begun.
    pub(crate) fn forget(&self, id: &SequenceId, begun: &Arc<Open>) {
        let mut table = self.lock();
        if table.open.get(id).is_some_and(|open| Arc::ptr_eq(open, begun)) {
            let forgotten = table.open.remove(id);
            drop(table);
            drop(forgotten);
        }
    }

    /// Takes out the sequence that is to begin anew and, now and then or where there is no room,
    /// those that are silent.
    fn make_room(
        &self,
        table: &mut Table,
        id: &SequenceId,
        now: Instant,
    ) -> Result<Vec<Arc<Open>>, SequenceError> {
        let mut forgotten: Vec<Arc<Open>> = table.open.remove(id).into_iter().collect();
        let is_due = table.next_sweep.is_none_or(|at| at <= now);
        if is_due || self.limits.max_open <= table.open.len() {
            table.next_sweep = now.checked_add(self.limits.max_idle);
            let silent = table.open.extract_if(|_, open| self.is_silent(open, 1, now));
            forgotten.extend(silent.map(|(_, open)| open));
        }
        if self.limits.max_open <= table.open.len() {
            return Err(SequenceError::TooMany(self.limits.max_open));
        }
        Ok(forgotten)
    }

    /// Whether nobody but the table (and whoever asks) holds it, and has not for too long.
    fn is_silent(&self, open: &Arc<Open>, holders: usize, now: Instant) -> bool {
        let last = *open.last_used.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::strong_count(open) <= holders
            && self.limits.max_idle < now.saturating_duration_since(last)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// It was used just now.
    pub(crate) fn touch(&self, now: Instant) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

impl fmt::Debug for Sequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequences").field("limits", &self.limits).finish_non_exhaustive()
    }
}
