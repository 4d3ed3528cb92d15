//! One question to the model, from a segment's samples to its outputs.

use std::sync::{Arc, atomic::Ordering};

use paceline_backend::Output;
use paceline_batch::{Failure, Key, Priority};
use paceline_types::{DType, Dim, ErrorCode, Tensor, TensorSpec, TraceContext};
use smallvec::SmallVec;
use tokio::sync::Semaphore;

use super::{
    Speech, SpeechError, Values, channel::Job, counts::Counts, event::Lost, values::is_value,
};
use crate::{Ask, InferError, Model};

/// What a model said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) model: Arc<Model>,
    pub(super) output: Output,
}

/// Who asks, and whom.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    pub(super) speech: Speech,
    pub(super) model: Arc<str>,
    pub(super) params: Key,
    /// For the model's further inputs.
    pub(super) values: Values,
    /// Whose question it is, for fairness among streams.
    pub(super) stream: u64,
    /// Where its client stands in a trace.
    pub(super) trace: Option<TraceContext>,
}

/// Whether a model can be asked about audio: it has one input for that, and the others are such as
/// a client's parameters can fill.
pub(super) fn takes_audio(model: &Model) -> bool {
    let inputs = &model.signature().inputs;
    inputs.iter().filter(|input| is_audio(input)).count() == 1
        && inputs.iter().all(|input| is_audio(input) || is_value(input))
}

fn is_audio(input: &TensorSpec) -> bool {
    input.dtype == DType::F32 && input.dims == [Dim::Any]
}

impl Answer {
    /// What the model said in words, where its one output is text.
    pub(super) fn text(&self) -> Option<String> {
        let [text] = &*self.output else { return None };
        let mut texts = text.byte_elements();
        let only = texts.next().filter(|_| texts.next().is_none());
        only.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

impl Asker {
    pub(super) fn counts(&self) -> &Counts {
        &self.speech.0.counts
    }

    /// Places for heavy decoding.
    pub(super) fn decoders(&self) -> &Arc<Semaphore> {
        &self.speech.0.decoders
    }

    /// The model in its latest version.
    pub(super) fn find(&self) -> Result<Arc<Model>, SpeechError> {
        self.speech.model(Some(&self.model))
    }

    /// Asks, waiting for room as long as it takes.
    pub(super) async fn ask(self, job: Job) -> Result<Answer, Lost> {
        // The semaphores are never closed.
        let _interim =
            if job.is_interim() { self.speech.0.interims.acquire().await.ok() } else { None };
        let _flight = self.speech.0.flights.acquire().await.ok();
        self.try_ask(&job).await.map_err(|error| lost(&error))
    }

    /// The model's inputs: these samples, and what the client said.
    pub(super) fn inputs(
        &self,
        model: &Model,
        samples: &[f32],
    ) -> Result<SmallVec<[Tensor; 2]>, SpeechError> {
        let signature = model.signature();
        let shape: &[usize] =
            if signature.batched { &[1, samples.len()] } else { &[samples.len()] };
        let input = |spec: &TensorSpec| {
            if is_audio(spec) {
                return Ok(Tensor::from_f32(shape, samples).expect("as many as there are"));
            }
            self.values.tensor(spec, signature.batched)
        };
        signature.inputs.iter().map(input).collect()
    }

    async fn try_ask(&self, job: &Job) -> Result<Answer, SpeechError> {
        let model = self.find()?;
        let ask = Ask {
            inputs: self.inputs(&model, &job.samples)?,
            params: self.params,
            priority: if job.is_interim() { Priority::LOW } else { Priority::NORMAL },
            stream: Some(self.stream),
            waits_for_room: true,
            trace: self.trace,
            ..Ask::default()
        };
        let (output, ride) = model.infer(ask).await?;
        let own = ride.took.as_nanos() / ride.items.max(1) as u128;
        let own = u64::try_from(own).unwrap_or(u64::MAX);
        self.counts().model_ns.fetch_add(own, Ordering::Relaxed);
        self.counts().model_samples.fetch_add(job.samples.len() as u64, Ordering::Relaxed);
        Ok(Answer { model, output })
    }
}

/// What a client is told: the model's own words, and of our faults nothing but that.
fn lost(error: &SpeechError) -> Lost {
    let code = error.code();
    if code == ErrorCode::Internal {
        tracing::error!(%error, "a segment has no result");
        return Lost { code, message: "Internal server error".to_owned() };
    }
    let message = match error {
        SpeechError::Model(InferError::Failed(Failure::Model(cause))) => cause.to_string(),
        error => error.to_string(),
    };
    Lost { code, message }
}
