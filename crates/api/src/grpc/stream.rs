//! Many requests in one stream: `ModelStreamInfer`.
//!
//! Requests are taken in the order in which they come and answered as they are done. An error is
//! an answer like any other, unless the client asked for a status; then it is the last one.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
};

use futures_util::{Stream, StreamExt as _, stream};
use paceline_types::ErrorCode;
use tokio_util::sync::CancellationToken;
use tonic::{Status, metadata::MetadataMap};

use super::{caller::Caller, infer::Question};
use crate::{
    ApiError, App,
    oip::{
        ask::respond,
        grpc::{encode_response, encode_stream_error},
        proto::{
            InferParameter, ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
            infer_parameter::ParameterChoice,
        },
    },
};

/// What a client of a stream reads.
pub(super) type Answers =
    Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

/// Most requests of one stream that are with the models at once; further ones wait unread, which
/// slows the client down.
const MAX_OPEN: usize = 256;

/// How a stream tells its client of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errors {
    /// As answers; the stream stays open.
    Answer,
    /// As the status that ends the stream.
    Status,
}

impl Errors {
    /// As the client asked.
    pub(super) fn wanted(metadata: &MetadataMap) -> Self {
        let value = metadata.get("triton_grpc_error").and_then(|value| value.to_str().ok());
        if value.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            Self::Status
        } else {
            Self::Answer
        }
    }

    /// An error of one request, which ends it.
    fn tell(self, id: String, error: ApiError) -> Result<ModelStreamInferResponse, Status> {
        match self {
            Self::Status => Err(error.into()),
            Self::Answer => {
                let mut answer = encode_stream_error(Some(id), error.message);
                answer.infer_response.iter_mut().for_each(|response| mark(response, true));
                Ok(answer)
            }
        }
    }
}

/// Answers `requests` until they end or `stop`. What was taken in is answered in either case, and
/// the last word is why the stream ended.
pub(super) fn answers<R>(
    app: App,
    requests: R,
    caller: Caller,
    errors: Errors,
    stop: CancellationToken,
) -> Answers
where
    R: Stream<Item = Result<ModelInferRequest, Status>> + Send + Unpin + 'static,
{
    let ending = Arc::new(OnceLock::new());
    let taken = take(requests, stop, Arc::clone(&ending));
    let answers = taken.map(move |message| answers_to(&app, message, caller, errors));
    // ORDER: why the stream ended is told after everything that was taken in is answered.
    let last = stream::once(async move { ending.get().cloned().map(Err) });
    Box::pin(answers.flatten_unordered(MAX_OPEN).chain(last.filter_map(std::future::ready)))
}

/// The requests, until they end by themselves, break off, or are stopped.
fn take<R>(
    requests: R,
    stop: CancellationToken,
    ending: Arc<OnceLock<Status>>,
) -> impl Stream<Item = ModelInferRequest> + Send
where
    R: Stream<Item = Result<ModelInferRequest, Status>> + Send + Unpin + 'static,
{
    stream::unfold((requests, stop, ending), async |(mut requests, stop, ending)| {
        // CANCEL SAFETY: reading the next request loses nothing when dropped.
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => {
                let message = "the server is shutting down and takes no more requests";
                Some(Err(ApiError::new(ErrorCode::Unavailable, message).into()))
            }
            next = requests.next() => next,
        };
        match next? {
            Ok(message) => Some((message, (requests, stop, ending))),
            Err(status) => {
                ending.get_or_init(|| status);
                None
            }
        }
    })
}

/// The answers to one request: one, or several where the model streams.
fn answers_to(app: &App, message: ModelInferRequest, caller: Caller, errors: Errors) -> Answers {
    let id = message.id.clone();
    let Question { model, ask, pending } = match Question::read(app, message, caller) {
        Ok(question) => question,
        Err(error) => return Box::pin(stream::once(async move { errors.tell(id, error) })),
    };
    let results = model.infer_stream(ask);
    Box::pin(stream::unfold(Some(results), move |results| {
        let (model, pending, id) = (Arc::clone(&model), pending.clone(), id.clone());
        async move {
            let mut results = results?;
            let streams = model.facts().streams;
            let (outputs, is_last) = match results.next().await {
                Some(Ok(outputs)) => (outputs, !streams),
                Some(Err(error)) => return Some((errors.tell(id, error.into()), None)),
                // Nothing but the end is left, which is told to those who asked for it.
                None if streams && pending.empty_final_response => (Vec::new(), true),
                None => return None,
            };
            let response = respond(&model, pending, outputs, results.ride());
            let mut response = encode_response(response);
            mark(&mut response, is_last);
            let answer = ModelStreamInferResponse {
                error_message: String::new(),
                infer_response: Some(response),
            };
            Some((Ok(answer), (!is_last).then_some(results)))
        }
    }))
}

/// Says whether an answer is the last of its request.
fn mark(response: &mut ModelInferResponse, is_last: bool) {
    let value = InferParameter { parameter_choice: Some(ParameterChoice::BoolParam(is_last)) };
    response.parameters.insert("triton_final_response".to_owned(), value);
}
