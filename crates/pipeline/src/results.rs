//! The results of one request, as they come.

use std::{future::Future, pin::Pin};

use paceline_backend::Output;
use tokio::sync::mpsc::Receiver;

use crate::{
    InferError, Ride,
    counts::{Counting, First},
    submitted::Submitted,
    trace::Tracing,
};

/// What comes of a request.
pub(crate) type Answer = Result<(Output, Ride), InferError>;

/// The results of one request, as they come. Dropping them withdraws the request.
pub struct Results {
    early: Receiver<Output>,
    /// The last word; gone once it was heard.
    answer: Option<Pin<Box<dyn Future<Output = Answer> + Send>>>,
    /// What is left to say after the early results.
    last: Option<Result<Output, InferError>>,
    ride: Option<Ride>,
    /// Gone once there was a result.
    first: Option<First>,
}

impl Results {
    pub(crate) fn new(
        counting: Counting,
        tracing: Option<Tracing>,
        early: Receiver<Output>,
        submitted: Result<Submitted, InferError>,
    ) -> Self {
        let first = Some(counting.first());
        match submitted {
            Ok(submitted) => {
                let answer = async move {
                    let rows = submitted.rows;
                    let answer = submitted.wait().await;
                    counting.end(&answer, rows);
                    if let Some(tracing) = tracing {
                        tracing.end(&answer);
                    }
                    answer
                };
                Self { early, answer: Some(Box::pin(answer)), last: None, ride: None, first }
            }
            Err(error) => {
                counting.failed();
                let failed = Err::<(Output, Ride), _>(error);
                if let Some(tracing) = tracing {
                    tracing.end(&failed);
                }
                let last = failed.map(|(output, _)| output);
                Self { early, answer: None, last: Some(last), ride: None, first }
            }
        }
    }

    /// The next result; `None` after the last. An error is the last.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Output, InferError>> {
        let next = self.take_next().await;
        if let Some(Ok(_)) = &next
            && let Some(first) = self.first.take()
        {
            first.came();
        }
        next
    }

    async fn take_next(&mut self) -> Option<Result<Output, InferError>> {
        while let Some(answer) = &mut self.answer {
            tokio::select! {
                biased;
                Some(output) = self.early.recv() => return Some(Ok(output)),
                answer = answer => self.end(answer),
            }
        }
        // ORDER: what came early was sent before the answer, and may not have been read yet.
        match self.early.try_recv() {
            Ok(output) => Some(Ok(output)),
            Err(_) => self.last.take(),
        }
    }

    /// How the request travelled, once its last result is known.
    #[must_use]
    pub const fn ride(&self) -> Option<&Ride> {
        self.ride.as_ref()
    }

    fn end(&mut self, answer: Answer) {
        self.answer = None;
        self.last = match answer {
            Ok((output, ride)) => {
                self.ride = Some(ride);
                // A model that streams has said everything before.
                (!output.is_empty()).then_some(Ok(output))
            }
            Err(error) => Some(Err(error)),
        };
    }
}

impl std::fmt::Debug for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Results").field("ride", &self.ride).finish_non_exhaustive()
    }
}
