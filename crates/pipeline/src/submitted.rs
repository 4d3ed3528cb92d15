//! A request that was taken in: in one piece, in parts, or on its sequence's lane.

use std::sync::Arc;

use paceline_backend::Output;
use paceline_batch::Ticket;
use tokio::time::Instant;

use crate::{InferError, Ride, parts, sequences::Open};

/// A request that was taken in. Dropping it, or one part's failure, withdraws whatever of it has
/// not left yet.
pub(crate) struct Submitted {
    /// Of the request, or of its first part.
    pub(crate) first: Ticket<Output>,
    /// Of its further parts, in order.
    pub(crate) rest: Vec<Ticket<Output>>,
    /// The sequence that it is of.
    pub(crate) open: Option<Arc<Open>>,
    /// How many rows it has.
    pub(crate) rows: u64,
}

impl Submitted {
    /// Waits for its result.
    pub(crate) async fn wait(self) -> Result<(Output, Ride), InferError> {
        let Self { first, rest, open, .. } = self;
        let (output, ride) = first.with_ride().await?;
        let mut ride = Ride::from(ride);
        if let Some(open) = open {
            open.touch(Instant::now());
        }
        if rest.is_empty() {
            return Ok((output, ride));
        }
        let mut outputs = Vec::with_capacity(1 + rest.len());
        outputs.push(output);
        for part in rest {
            let (output, own) = part.with_ride().await?;
            outputs.push(output);
            ride = ride.and(own.into());
        }
        Ok((parts::join(&outputs)?, ride))
    }
}
