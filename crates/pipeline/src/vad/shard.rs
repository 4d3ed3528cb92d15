//! What runs on one shard's thread: the frames of the moment of all its streams, in one call.

use std::sync::Arc;

use paceline_audio::silero::{Rate, Silero, StreamState};
use paceline_batch::{Call, Cause, Executor, Reply};
use smallvec::SmallVec;

/// Frames of one stream, one after the other.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) rate: Rate,
    pub(super) samples: Vec<f32>,
}

/// How likely each of some frames is speech.
pub type Probabilities = SmallVec<[f32; 4]>;

/// Boxed, so that the state moves with an item as a pointer and a lane's slot stays small.
pub(super) type State = Box<StreamState>;

/// Streams in a call without another allocation.
const FEW: usize = 32;

/// The owner of a shard's detectors, one for each rate that was ever asked for.
#[derive(Debug, Default)]
pub(super) struct Shard {
    narrow: Option<Silero>,
    wide: Option<Silero>,
}

impl Shard {
    fn detector(&mut self, rate: Rate) -> &mut Silero {
        let detector = match rate {
            Rate::Hz8000 => &mut self.narrow,
            Rate::Hz16000 => &mut self.wide,
        };
        detector.get_or_insert_with(|| Silero::new(rate))
    }
}

/// One stream's part of a call.
struct Row<'a> {
    samples: &'a [f32],
    state: State,
    probabilities: Probabilities,
}

impl Executor<Frames, Probabilities, State> for Shard {
    async fn execute(
        &mut self,
        call: &Call<'_, Frames, Probabilities, State>,
        replies: &mut Vec<Reply<Probabilities, State>>,
    ) -> Result<(), Cause> {
        // One key, so one rate.
        let Some(rate) = call.riders().next().map(|rider| rider.item.rate) else { return Ok(()) };
        let detector = self.detector(rate);
        let mut rows: SmallVec<[Row<'_>; FEW]> = SmallVec::with_capacity(call.n_items());
        for rider in call.riders() {
            let Some(state) = rider.state else { return Err(Arc::new(NoLane)) };
            rows.push(Row {
                samples: &rider.item.samples,
                state: state.clone(),
                probabilities: Probabilities::new(),
            });
        }
        // A stream's frames go one after the other; streams that have more go on without the rest.
        while step(detector, &mut rows) {}
        replies.extend(call.riders().zip(rows).map(|(rider, row)| Reply {
            id: rider.id,
            outcome: Ok(row.probabilities),
            state: Some(row.state),
        }));
        Ok(())
    }
}

/// Runs the next frame of every row that has one; says whether any had.
fn step(detector: &mut Silero, rows: &mut [Row<'_>]) -> bool {
    let mut frames = SmallVec::<[&[f32]; FEW]>::new();
    let mut states = SmallVec::<[&mut StreamState; FEW]>::new();
    let mut answers = SmallVec::<[&mut Probabilities; FEW]>::new();
    for Row { samples, state, probabilities } in rows {
        let Some((frame, rest)) = samples.split_at_checked(detector.rate().frame()) else {
            continue;
        };
        *samples = rest;
        frames.push(frame);
        states.push(state);
        answers.push(probabilities);
    }
    let mut probabilities = SmallVec::<[f32; FEW]>::from_elem(0.0, frames.len());
    detector.detect(&frames, &mut states, &mut probabilities);
    for (answer, probability) in answers.into_iter().zip(&probabilities) {
        answer.push(*probability);
    }
    !frames.is_empty()
}

/// An item that belongs to no stream; the detector submits none.
#[derive(Debug, thiserror::Error)]
#[error("frames of no stream")]
struct NoLane;
