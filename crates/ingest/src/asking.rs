//! One frame through the model, wherever it came from.

use std::sync::Arc;

use paceline_batch::Key;
use paceline_pipeline::{Ask, InferError, Model};

use crate::{Answer, Frame, Prepared, Unfit, common::Common, shard::stable_hash};

/// What became of a frame in the model.
pub(crate) enum Outcome {
    Answer(Answer),
    Unfit(Unfit),
    Failed(InferError),
    /// What prepares frames panicked.
    Panicked,
}

/// Prepares a frame and asks the model, in calls with those of the same `params`.
pub(crate) async fn through(common: &Arc<Common>, frame: &Frame, params: Key) -> Outcome {
    let model = match common.models.find(&common.config.model, None) {
        Ok(model) => model,
        Err(error) => return Outcome::Failed(error),
    };
    let prepared = match prepare(common, &model, frame).await {
        Ok(prepared) => prepared,
        Err(outcome) => return outcome,
    };
    let (inputs, finish) = match prepared {
        Prepared::Answer(answer) => return Outcome::Answer(answer),
        Prepared::Ask { inputs, finish } => (inputs, finish),
    };
    let stream = Some(stable_hash(frame.camera.as_bytes()));
    match model.infer(Ask { inputs, params, stream, ..Ask::default() }).await {
        Err(error) => Outcome::Failed(error),
        Ok((output, _)) => {
            let answer = match finish {
                Some(finish) => finish(&output),
                None => Ok(Answer::of_tensors(&output, model.signature())),
            };
            answer.map_or_else(Outcome::Unfit, Outcome::Answer)
        }
    }
}

/// Makes a frame's inputs, off the async threads where that takes long.
async fn prepare(
    common: &Arc<Common>,
    model: &Arc<Model>,
    frame: &Frame,
) -> Result<Prepared, Outcome> {
    if !common.payloads.is_heavy(frame) {
        return common.payloads.prepare(frame, model).map_err(Outcome::Unfit);
    }
    let Ok(_turn) = common.heavy.acquire().await else { return Err(Outcome::Panicked) };
    let (common, model, frame) = (Arc::clone(common), Arc::clone(model), frame.clone());
    let task = tokio::task::spawn_blocking(move || common.payloads.prepare(&frame, &model)).await;
    task.map_err(|_| Outcome::Panicked)?.map_err(Outcome::Unfit)
}

#[cfg(test)]
mod tests;
