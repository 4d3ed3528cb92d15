//! Spans as OpenTelemetry's protocol has them. Pure.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{
        ResourceSpans, ScopeSpans, Span, Status,
        span::{Link, SpanKind},
        status::StatusCode,
    },
};
use paceline_pipeline::{RequestSpan, Ride};
use paceline_types::TraceContext;

/// One message with a span for each request, and one for each call that any of them was in.
pub(super) fn message(service: &str, requests: &[RequestSpan]) -> ExportTraceServiceRequest {
    let mut calls: BTreeMap<(&str, u64, u64), Call<'_>> = BTreeMap::new();
    for request in requests {
        if let Ok(ride) = &request.outcome {
            let name = (&*request.model, request.version, ride.batch);
            calls.entry(name).or_insert_with(|| Call::new(request, ride)).join(request, ride);
        }
    }
    let spans = calls.values().map(Call::span).chain(requests.iter().map(of_request)).collect();
    let resource = Resource {
        attributes: vec![
            text("service.name", service),
            text("service.version", env!("CARGO_PKG_VERSION")),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope { name: "paceline".to_owned(), ..Default::default() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans,
            ..ResourceSpans::default()
        }],
    }
}

/// A call of a model, as those say who were in it.
struct Call<'a> {
    first: &'a RequestSpan,
    ride: &'a Ride,
    members: Vec<TraceContext>,
}

impl<'a> Call<'a> {
    const fn new(first: &'a RequestSpan, ride: &'a Ride) -> Self {
        Self { first, ride, members: Vec::new() }
    }

    fn join(&mut self, request: &'a RequestSpan, ride: &'a Ride) {
        if ride.position < self.ride.position {
            (self.first, self.ride) = (request, ride);
        }
        self.members.push(request.context);
    }

    /// The call's span belongs to the trace of the first that was in it, as what the model is told
    /// does, and is linked to all.
    fn span(&self) -> Span {
        let (request, ride) = (self.first, self.ride);
        let context = request.context.of_batch();
        // A call ends when it is answered, and then so does the request.
        let ended = nanos(request.began, request.took);
        Span {
            parent_span_id: request.context.span().to_be_bytes().into(),
            name: format!("batch {}", request.model),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: ended.saturating_sub(whole(ride.took)),
            end_time_unix_nano: ended,
            attributes: vec![
                text("paceline.model", &request.model),
                text("paceline.model.version", &request.version.to_string()),
                number("paceline.batch", ride.batch),
                number("paceline.batch.items", ride.items as u64),
                number("paceline.batch.rows", ride.rows as u64),
                text("paceline.batch.fired", ride.fired.as_str()),
            ],
            links: self.members.iter().map(link).collect(),
            ..identified(&context)
        }
    }
}

fn of_request(request: &RequestSpan) -> Span {
    let mut attributes = vec![
        text("paceline.model", &request.model),
        text("paceline.model.version", &request.version.to_string()),
    ];
    let mut status = None;
    match &request.outcome {
        Ok(ride) => attributes.extend([
            number("paceline.batch", ride.batch),
            number("paceline.batch.items", ride.items as u64),
            number("paceline.batch.rows", ride.rows as u64),
            number("paceline.parts", ride.parts as u64),
            text("paceline.batch.fired", ride.fired.as_str()),
            number("paceline.waited_us", whole(ride.waited) / 1000),
            number("paceline.took_us", whole(ride.took) / 1000),
        ]),
        Err(code) => {
            attributes.push(text("error.type", code.as_str()));
            let message = request.message.chars().take(256).collect();
            status = Some(Status { message, code: StatusCode::Error.into() });
        }
    }
    Span {
        parent_span_id: request
            .parent
            .map(|parent| parent.to_be_bytes().into())
            .unwrap_or_default(),
        name: format!("infer {}", request.model),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: nanos(request.began, Duration::ZERO),
        end_time_unix_nano: nanos(request.began, request.took),
        attributes,
        status,
        ..identified(&request.context)
    }
}

fn identified(context: &TraceContext) -> Span {
    Span {
        trace_id: context.trace().to_be_bytes().into(),
        span_id: context.span().to_be_bytes().into(),
        flags: 1,
        ..Span::default()
    }
}

fn link(context: &TraceContext) -> Link {
    Link {
        trace_id: context.trace().to_be_bytes().into(),
        span_id: context.span().to_be_bytes().into(),
        flags: 1,
        ..Link::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn nanos(began: SystemTime, after: Duration) -> u64 {
    whole(began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + after)
}

fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use paceline_batch::FireReason;
    use paceline_types::ErrorCode;

    use super::*;

    fn request(span: u64, outcome: Result<Ride, ErrorCode>) -> RequestSpan {
        RequestSpan {
            context: TraceContext::new(7, span, true).unwrap(),
            parent: None,
            model: "m".into(),
            version: 1,
            began: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
            took: Duration::from_millis(10),
            outcome,
            message: "why".to_owned(),
        }
    }

    fn ride(batch: u64, position: usize) -> Ride {
        Ride {
            parts: 1,
            batch,
            items: 2,
            rows: 2,
            position,
            waited: Duration::from_millis(3),
            took: Duration::from_millis(4),
            fired: FireReason::Full,
        }
    }

    fn spans(requests: &[RequestSpan]) -> Vec<Span> {
        message("s", requests).resource_spans.remove(0).scope_spans.remove(0).spans
    }

    #[test]
    fn a_call_is_told_once_and_linked_to_all_that_shared_it() {
        let shared = [request(21, Ok(ride(5, 1))), request(20, Ok(ride(5, 0)))];
        let alone = request(22, Ok(ride(6, 0)));

        let spans = spans(&[shared[0].clone(), shared[1].clone(), alone]);

        let calls: Vec<&Span> = spans.iter().filter(|span| span.name == "batch m").collect();
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0].links.len(), 2);
        assert_eq!(calls[0].parent_span_id, 20_u64.to_be_bytes(), "the first in the call");
        let own = shared[1].context.of_batch().span();
        assert_eq!(calls[0].span_id, own.to_be_bytes(), "as the model was told");
        let took = calls[0].end_time_unix_nano - calls[0].start_time_unix_nano;
        assert_eq!((took, calls[0].end_time_unix_nano), (4_000_000, 1_010_000_000));
    }

    #[test]
    fn a_failure_is_told_with_its_code() {
        let spans = spans(&[request(20, Err(ErrorCode::Overloaded))]);

        assert_eq!(spans.len(), 1, "it was in no call");
        let status = spans[0].status.as_ref().unwrap();
        assert_eq!((status.code, &*status.message), (StatusCode::Error.into(), "why"));
        assert!(spans[0].attributes.contains(&text("error.type", "overloaded")));
    }
}
