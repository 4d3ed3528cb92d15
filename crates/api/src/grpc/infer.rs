//! One request, one answer: `ModelInfer`, and each request of a stream.

use tokio::time::Instant;

use crate::{
    ApiError, App,
    oip::{
        ask::{ask, respond},
        grpc::{decode_request, encode_response},
        parse_version,
        proto::{ModelInferRequest, ModelInferResponse},
    },
};

/// Asks a model. Dropping the future withdraws the request.
pub(super) async fn infer(
    app: &App,
    message: ModelInferRequest,
    deadline: Option<Instant>,
) -> Result<ModelInferResponse, ApiError> {
    let model = app.models.find(&message.model_name, parse_version(&message.model_version)?)?;
    let (mut question, pending) = decode_request(message)
        .and_then(|request| ask(request, &model))
        .map_err(|error| ApiError::about(&model, &error))?;
    if let Some(deadline) = deadline {
        let left = deadline.saturating_duration_since(Instant::now());
        question.timeout = Some(question.timeout.map_or(left, |timeout| timeout.min(left)));
    }
    let (outputs, ride) = model.infer(question).await?;
    Ok(encode_response(respond(&model, pending, outputs, &ride)))
}
