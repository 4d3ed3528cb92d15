//! What clients are told: one JSON text message for each event. It does not decide what is told.

use paceline_pipeline::{
    Model,
    speech::{Event, Lost, RATE, Report, Span},
};
use paceline_types::{ErrorCode, Tensor};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{ApiError, http::value::from_tensor, speech::dialect::Orders};

/// A message to a client.
#[derive(Debug, Serialize)]
pub(super) struct Reply<'a> {
    #[serde(flatten)]
    body: Body<'a>,
    channel: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Body<'a> {
    Segment {
        start_time: f64,
        end_time: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_final: Option<bool>,
        #[serde(flatten)]
        transcript: Option<Said<'a>>,
        #[serde(flatten)]
        outputs: Map<String, Value>,
    },
    Active {
        time: f64,
    },
    Inactive {
        time: f64,
    },
    Error {
        message: &'a str,
        code: &'static str,
        #[serde(flatten)]
        part: Option<Part>,
    },
    Warning {
        message: &'a str,
        code: &'static str,
    },
    Flushed {
        id: &'a Value,
    },
    End {
        end_time: f64,
        samples: u64,
        damaged: u64,
        left_over: u64,
        ignored: u64,
    },
}

/// What was said, and how much of that will not change.
#[derive(Debug, Serialize)]
struct Said<'a> {
    text: &'a str,
    stable: &'a str,
}

/// Where something happened.
#[derive(Debug, Serialize)]
struct Part {
    start_time: f64,
    end_time: f64,
}

/// Names that a segment has itself.
const TAKEN: [&str; 8] =
    ["type", "start_time", "end_time", "is_final", "text", "stable", "channel", "request_id"];

/// Writes messages, each with the request's id where it has one.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) request_id: Option<String>,
}

impl Writer {
    /// What a session said, unless that is for the connection alone.
    pub(super) fn event(&self, event: &Event, orders: &mut Orders) {
        let (channel, body) = match event {
            Event::Active { channel, at } => (*channel, Body::Active { time: RATE.seconds(*at) }),
            Event::Inactive { channel, at } => {
                (*channel, Body::Inactive { time: RATE.seconds(*at) })
            }
            Event::Segment { channel, span, is_final, model, output, transcript, .. } => {
                let (start_time, end_time) = span.seconds();
                let transcript = transcript
                    .as_ref()
                    .map(|said| Said { text: &said.text, stable: said.stable() });
                // What is told as text is not told a second time by its output's name.
                let output = if transcript.is_some() { &[][..] } else { output };
                match flatten(model, output) {
                    Ok(outputs) => {
                        let is_final = *is_final;
                        let segment =
                            Body::Segment { start_time, end_time, is_final, transcript, outputs };
                        (*channel, segment)
                    }
                    Err(error) => {
                        let lost = lost(span, error.code, &error.message);
                        return self.write(*channel, lost, orders);
                    }
                }
            }
            Event::Lost { channel, span, lost: Lost { code, message }, .. } => {
                (*channel, lost(span, *code, message))
            }
            Event::Undecodable(error) => {
                return self.error(error.code(), &error.to_string(), orders);
            }
            Event::Paused { .. } | Event::Room | Event::Flushed | Event::Ended(_) => return,
        };
        self.write(channel, body, orders);
    }

    /// Something is wrong with the stream as a whole.
    pub(super) fn error(&self, code: ErrorCode, message: &str, orders: &mut Orders) {
        self.write(0, Body::Error { message, code: code.as_str(), part: None }, orders);
    }

    /// Something that the client should know and that harms nothing.
    pub(super) fn warning(&self, code: &'static str, message: &str, orders: &mut Orders) {
        self.write(0, Body::Warning { message, code }, orders);
    }

    pub(super) fn flushed(&self, id: &Value, orders: &mut Orders) {
        self.write(0, Body::Flushed { id }, orders);
    }

    pub(super) fn end(&self, report: &Report, orders: &mut Orders) {
        let Report { ending, ignored, .. } = *report;
        let body = Body::End {
            end_time: RATE.seconds(ending.frames),
            samples: ending.frames,
            damaged: ending.damaged,
            left_over: ending.left_over,
            ignored,
        };
        self.write(0, body, orders);
    }

    fn write(&self, channel: usize, body: Body<'_>, orders: &mut Orders) {
        orders.say(&Reply { body, channel, request_id: self.request_id.as_deref() });
    }
}

/// A part has no result.
fn lost<'a>(span: &Span, code: ErrorCode, message: &'a str) -> Body<'a> {
    let (start_time, end_time) = span.seconds();
    Body::Error { message, code: code.as_str(), part: Some(Part { start_time, end_time }) }
}

/// The model's outputs by name.
fn flatten(model: &Model, output: &[Tensor]) -> Result<Map<String, Value>, ApiError> {
    let signature = model.signature();
    let mut outputs = Map::new();
    for (spec, tensor) in signature.outputs.iter().zip(output) {
        let mut name = spec.name.clone();
        if TAKEN.contains(&&*name) {
            name.push('_');
        }
        outputs.insert(name, from_tensor(tensor, signature.batched)?);
    }
    Ok(outputs)
}
