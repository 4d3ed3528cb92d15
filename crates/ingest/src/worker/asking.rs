//! Frames on their way through the model.

use std::{sync::Arc, time::Duration};

use paceline_batch::Key;
use paceline_pipeline::InferError;
use paceline_types::ErrorCode;
use tokio::time::{Instant, sleep};

use super::{Worker, replies::light};
use crate::{
    Frame, Unfit,
    asking::{Outcome, through},
    commit::{Settled, Standing, Verdict},
    common::now_ms,
    credit::Held,
    entry::EntryId,
    ledger::Reason,
    line::Place,
    shard::ShardId,
};

/// How long a frame waits before it is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A frame that was read and is not settled yet.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(super) stream: u64,
    pub(super) shard: ShardId,
    pub(super) id: EntryId,
    pub(super) frame: Frame,
    /// How often it was tried without a result, here or by those who had it before.
    pub(super) tries: u32,
    pub(super) standing: Standing,
    pub(super) held: Held,
}

/// What became of a frame in the model.
pub(super) struct Asked {
    place: Place,
    piece: Piece,
    outcome: Outcome,
}

impl Worker {
    /// Begins as many frames as may be in the model.
    pub(super) fn begin(&mut self) {
        let now = Instant::now();
        if now < self.ask_at {
            return;
        }
        while self.asking.len() < self.post.in_model {
            let mut dropped = Vec::new();
            let next = self.line.next(now_ms(), |piece, reason| dropped.push((piece, reason)));
            for (piece, reason) in dropped {
                self.drop_piece(piece, reason);
            }
            let Some((place, piece)) = next else { break };
            self.ask(place, piece, Duration::ZERO);
        }
    }

    fn ask(&mut self, place: Place, piece: Piece, after: Duration) {
        let common = Arc::clone(&self.common);
        self.asking.push(Box::pin(async move {
            if !after.is_zero() {
                sleep(after).await;
            }
            // A frame that failed more than once is suspected, and shares no call.
            let params = if 2 <= piece.tries {
                Key::of(&("alone", piece.id, &piece.frame.camera))
            } else {
                Key::ANY
            };
            let outcome = through(&common, &piece.frame, params).await;
            Asked { place, piece, outcome }
        }));
    }

    /// A frame came back from the model.
    pub(super) fn answered(&mut self, Asked { place, mut piece, outcome }: Asked) {
        if !self.line.holds(&place) {
            return; // Its shard was given up meanwhile.
        }
        let verdict = match outcome {
            Outcome::Answer(answer) => {
                self.model_is_well();
                Verdict::Result {
                    camera: std::mem::take(&mut piece.frame.camera),
                    seq: piece.frame.seq,
                    taken_ms: piece.frame.taken_ms,
                    answer,
                }
            }
            Outcome::Unfit(Unfit::Overwritten) => Verdict::Dropped(Reason::Overwritten),
            Outcome::Unfit(Unfit::Poison(reason)) => {
                Verdict::Dead { reason, tries: piece.tries + 1 }
            }
            Outcome::Panicked => {
                let reason = "preparing the frame panicked".to_owned();
                Verdict::Dead { reason, tries: piece.tries + 1 }
            }
            Outcome::Failed(error) => match judge(&error) {
                Blame::Frame => Verdict::Dead { reason: error.to_string(), tries: piece.tries + 1 },
                Blame::Moment => {
                    let pause = self.model_is_ill(&error);
                    self.ask(place, piece, pause);
                    return;
                }
                Blame::Unknown => {
                    piece.tries += 1;
                    if piece.tries < self.common.config.max_tries {
                        self.ask(place, piece, TRY_AGAIN_AFTER);
                        return;
                    }
                    let reason = format!("failed {} times, last: {error}", piece.tries);
                    Verdict::Dead { reason, tries: piece.tries }
                }
            },
        };
        let Piece { stream, shard, id, held, standing, .. } = piece;
        let settled = Settled { stream, shard, id, verdict, _held: held, standing };
        let mut released = Vec::new();
        self.line.finish(&place, settled, |settled| released.push(settled));
        for settled in released {
            self.settle(settled);
        }
    }

    /// Settles a frame that is dropped on purpose.
    pub(super) fn drop_piece(&mut self, piece: Piece, reason: Reason) {
        let Piece { stream, shard, id, held, standing, .. } = piece;
        let (verdict, held) = (Verdict::Dropped(reason), light(&held));
        self.settle(Settled { stream, shard, id, verdict, _held: held, standing });
    }

    fn model_is_well(&mut self) {
        if 0 < self.model_breaker.n_failures() {
            self.model_breaker.succeed();
            self.common.health.update(|health| health.has_model = true);
        }
    }

    /// The model takes nothing now: nothing new is begun for a while.
    fn model_is_ill(&mut self, error: &InferError) -> Duration {
        if error.code() == ErrorCode::Overloaded {
            return TRY_AGAIN_AFTER;
        }
        let now = Instant::now();
        if now < self.ask_at {
            return self.ask_at - now; // Many frames find out together; that is one failure.
        }
        let pause = self.model_breaker.fail(rand::random());
        if self.model_breaker.n_failures() == 1 {
            tracing::warn!(%error, "cameras: the model cannot be asked; frames wait");
        }
        self.common.health.update(|health| health.has_model = false);
        self.ask_at = now + pause;
        pause
    }
}

/// Whose fault a failure is.
enum Blame {
    /// The frame's: trying again cannot help.
    Frame,
    /// Nobody's: it was not tried.
    Moment,
    /// The frame's or the model's.
    Unknown,
}

fn judge(error: &InferError) -> Blame {
    match error.code() {
        ErrorCode::InvalidInput | ErrorCode::Unsupported => Blame::Frame,
        ErrorCode::NotFound
        | ErrorCode::Overloaded
        | ErrorCode::Unavailable
        | ErrorCode::Cancelled
        | ErrorCode::DeadlineExceeded => Blame::Moment,
        _ => Blame::Unknown,
    }
}

#[cfg(test)]
mod tests;
