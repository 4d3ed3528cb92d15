//! Why an item was refused, dropped, or has no result.

use std::{error::Error, sync::Arc};

use paceline_types::ErrorCode;

/// A failure of the model, shared by everyone it answers.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// Why an item was not taken. Nothing was kept of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// As many items wait as may.
    #[error("the queue is full: {0} items are waiting")]
    QueueFull(usize),
    /// The items that wait hold as much memory as they may.
    #[error("the queue is full: waiting items hold {0} bytes")]
    QueueBytesFull(usize),
    /// It has more rows than any batch may have.
    #[error("the item has {rows} rows, and a batch has at most {max}")]
    TooManyRows {
        /// Of the item.
        rows: usize,
        /// Of a batch.
        max: usize,
    },
    /// It costs more than any batch may cost.
    #[error("the item costs {cost}, and a batch costs at most {max}")]
    TooCostly {
        /// Of the item, padded to its length bucket.
        cost: u64,
        /// Of a batch.
        max: u64,
    },
    /// It takes more memory than the whole queue may.
    #[error("the item takes {bytes} bytes, and all that wait may take {max}")]
    TooManyBytes {
        /// Of the item.
        bytes: usize,
        /// Of the queue.
        max: usize,
    },
    /// It could not be answered in time whatever is done.
    #[error("no answer is possible within the deadline")]
    Hopeless,
    /// The batcher takes no more.
    #[error("the batcher is closed")]
    Closed,
}

impl Refused {
    /// What the outside is told.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::QueueFull(_) | Self::QueueBytesFull(_) => ErrorCode::Overloaded,
            Self::TooManyRows { .. } | Self::TooCostly { .. } | Self::TooManyBytes { .. } => {
                ErrorCode::InvalidInput
            }
            Self::Hopeless => ErrorCode::DeadlineExceeded,
            Self::Closed => ErrorCode::Unavailable,
        }
    }
}

/// Why an accepted item has no result.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Failure {
    /// Its deadline passed while it waited.
    #[error("the deadline passed while the item waited")]
    Expired,
    /// It could no longer have been answered in time, so it was dropped before it cost anything.
    #[error("the item could no longer be answered within its deadline")]
    TooLate,
    /// There was no room, and it was the newest of the client or the key that waited with most.
    #[error("the queue is full, and it gave way to others who wait with less")]
    GaveWay,
    /// The model refused or failed on it.
    #[error("the model failed: {0}")]
    Model(#[source] Cause),
    /// The model panicked on the batch it was in.
    #[error("the model panicked")]
    Panicked,
    /// The model's answers could not be told apart.
    #[error("the model answered wrongly: {0}")]
    WrongReplies(#[from] WrongReplies),
    /// The executor was gone before it answered.
    #[error("the executor is gone")]
    ExecutorGone,
}

impl Failure {
    /// What the outside is told.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Expired | Self::TooLate => ErrorCode::DeadlineExceeded,
            Self::GaveWay => ErrorCode::Overloaded,
            Self::Model(_) => ErrorCode::ModelFailed,
            Self::Panicked | Self::WrongReplies(_) | Self::ExecutorGone => ErrorCode::Internal,
        }
    }
}

/// Replies that do not belong to the items of the call, one to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WrongReplies {
    /// Too few or too many.
    #[error("{actual} replies to {expected} items")]
    Count {
        /// One for each item.
        expected: usize,
        /// What came.
        actual: usize,
    },
    /// A reply to an item that was not in the call, or a second one to the same item.
    #[error("a reply to an item that was not asked, or asked twice")]
    UnknownItem,
}

/// Why an item left the queue without a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// Its ticket was dropped.
    Cancelled,
    /// Its deadline passed.
    Expired,
    /// It could no longer have been answered in time.
    TooLate,
    /// There was no room, and somebody else waited with less.
    GaveWay,
}

impl Dropped {
    /// Every reason, in the order of [`Stats::dropped`](crate::Stats).
    pub const ALL: [Self; 4] = [Self::Cancelled, Self::Expired, Self::TooLate, Self::GaveWay];

    /// As written in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::TooLate => "too_late",
            Self::GaveWay => "gave_way",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_written_in_metrics_as_they_always_were() {
        assert_eq!(
            Dropped::ALL.map(Dropped::as_str),
            ["cancelled", "expired", "too_late", "gave_way"]
        );
    }
}
