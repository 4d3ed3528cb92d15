//! One request, one answer: `ModelInfer`.

use std::sync::Arc;

use paceline_pipeline::{Ask, Model};
use tokio::time::Instant;

use super::caller::Caller;
use crate::{
    ApiError, App,
    client::Client,
    oip::{
        ask::{Pending, ask, respond},
        grpc::{decode_request, encode_response},
        parse_version,
        proto::{ModelInferRequest, ModelInferResponse},
    },
};

/// A request that is understood.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) model: Arc<Model>,
    pub(super) ask: Ask,
    pub(super) pending: Pending,
}

impl Question {
    /// Reads a request and finds its model.
    pub(super) fn read(
        app: &App,
        message: ModelInferRequest,
        caller: Caller,
    ) -> Result<Self, ApiError> {
        let model = app.models.find(&message.model_name, parse_version(&message.model_version)?)?;
        let (mut ask, pending) = decode_request(message)
            .and_then(|request| ask(request, &model))
            .map_err(|error| ApiError::about(&model, &error))?;
        ask.trace = caller.trace;
        ask.client = caller.client.map(Client::number);
        if let Some(deadline) = caller.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            ask.timeout = Some(ask.timeout.map_or(left, |timeout| timeout.min(left)));
        }
        Ok(Self { model, ask, pending })
    }
}

/// Asks a model. Dropping the future withdraws the request.
pub(super) async fn infer(
    app: &App,
    message: ModelInferRequest,
    caller: Caller,
) -> Result<ModelInferResponse, ApiError> {
    let Question { model, ask, pending } = Question::read(app, message, caller)?;
    let (outputs, ride) = model.infer(ask).await?;
    Ok(encode_response(respond(&model, pending, outputs, Some(&ride))))
}
