//! Wyoming, the protocol of Home Assistant's voice services: lines of JSON with data and audio
//! behind them, over plain TCP.
//!
//! It has no tokens and no TLS, so whoever can reach its listener can use it.

pub(super) mod frame;

use std::{future::Future, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{SinkExt as _, TryStreamExt as _};
use paceline_batch::Key;
use paceline_pipeline::speech::{Encoding, Source, Terms};
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tokio_tungstenite::tungstenite::Error;
use tokio_util::{codec::Framed, sync::CancellationToken, task::TaskTracker};

use self::frame::Frames;
use super::{
    conversation::{Conversation, Farewell},
    dialect::{Dialect, Orders},
    fields::wrong,
    heard::{Heard, join},
    name::{self, Chosen},
    recital,
};
use crate::{
    ApiError,
    http::{Places, accept},
    ws::Streams,
};

/// Serves until `stop`; connections run among `connections`, and each ends with its last round.
pub async fn serve(
    listener: TcpListener,
    streams: Streams,
    places: Arc<Places>,
    connections: TaskTracker,
    stop: CancellationToken,
) {
    // ORDER: as for other doors, one that is accepted just now is waited for.
    let _open = connections.token();
    loop {
        // CANCEL SAFETY: a connection that is accepted and has no place yet is closed.
        let (stream, place) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = accept(&listener, &places) => match accepted {
                Ok(Some(accepted)) => accepted,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let conversation = converse(stream, streams.clone());
        connections.spawn(async move {
            conversation.await;
            drop(place);
        });
    }
}

fn converse(stream: TcpStream, mut streams: Streams) -> impl Future<Output = ()> + Send {
    let frames = Frames::new(streams.limits.max_message);
    let broken = |error| Error::Io(io::Error::other(error));
    let transport = Framed::new(stream, frames).sink_map_err(broken).map_err(broken);
    // Its clients do not answer pings; who sends nothing for too long is closed all the same.
    streams.limits.ping_interval = streams.limits.idle_timeout * 2;
    let admitted = streams.admit();
    let dialect = Wyoming {
        served: name::model(&streams.speech, None).ok(),
        refusal: admitted.as_ref().err().map(|error| error.message.clone()),
        ..Wyoming::default()
    };
    async move {
        Conversation::new(transport, streams, dialect).run().await;
        drop(admitted);
    }
}

#[derive(Debug)]
pub(super) struct Wyoming {
    /// The model of those who name none.
    served: Option<Chosen>,
    /// Why nothing is heard here.
    refusal: Option<String>,
    /// The model that was asked for.
    model: Option<String>,
    source: Source,
    is_open: bool,
    said: Vec<String>,
}

impl Default for Wyoming {
    fn default() -> Self {
        Self {
            served: None,
            refusal: None,
            model: None,
            source: Source::raw(Encoding::S16le, 16_000, 1),
            is_open: false,
            said: Vec::new(),
        }
    }
}

impl Wyoming {
    fn say(kind: &str, data: &Value, orders: &mut Orders) {
        orders.say(&json!({ "type": kind, "data": data }));
    }

    fn fail(message: &str, code: &str, orders: &mut Orders) {
        Self::say("error", &json!({ "text": message, "code": code }), orders);
    }

    fn info(&self) -> Value {
        let attribution = json!({ "name": "Paceline", "url": "" });
        let about = |name: &str, version: &str| {
            json!({
                "name": name, "attribution": attribution, "installed": true,
                "description": "speech to text", "version": version,
            })
        };
        let models: Vec<Value> = self
            .served
            .iter()
            .map(|model| {
                let mut about = about(&model.name, &model.version);
                about["languages"] = json!(["en"]);
                about
            })
            .collect();
        let mut program = about("paceline", env!("CARGO_PKG_VERSION"));
        program["models"] = json!(models);
        program["supports_transcript_streaming"] = json!(true);
        json!({
            "asr": [program],
            "tts": [], "handle": [], "intent": [], "wake": [], "mic": [], "snd": [],
        })
    }

    fn start(&mut self, data: &Value, orders: &mut Orders) -> Result<(), ApiError> {
        let number = |name: &str, usual| data.get(name).and_then(Value::as_u64).unwrap_or(usual);
        let encoding = match number("width", 2) {
            2 => Encoding::S16le,
            3 => Encoding::S24le,
            4 => Encoding::S32le,
            other => return Err(wrong(format!("width is {other}; it is 2, 3 or 4 bytes"))),
        };
        // What does not fit is out of bounds all the more; the session says which these are.
        let rate = u32::try_from(number("rate", 16_000)).unwrap_or(u32::MAX);
        let channels = u16::try_from(number("channels", 1)).unwrap_or(u16::MAX);
        self.source = Source::raw(encoding, rate, channels);
        if self.is_open {
            orders.finish();
        }
        Ok(())
    }

    /// What was said in this round, whole.
    fn end(&mut self, orders: &mut Orders) {
        if self.said.is_empty() {
            Self::say("transcript-start", &json!({}), orders);
        }
        let text = join(self.said.iter().map(String::as_str));
        self.said.clear();
        Self::say("transcript", &json!({ "text": text }), orders);
        Self::say("transcript-stop", &json!({}), orders);
    }
}

impl Dialect for Wyoming {
    type Heard = Heard;

    fn begin(&mut self, orders: &mut Orders) {
        if let Some(message) = self.refusal.take() {
            Self::fail(&message, "overloaded", orders);
            orders.close(Farewell::OVERLOADED);
        }
    }

    fn audio(&mut self, bytes: Bytes, orders: &mut Orders) {
        if !std::mem::replace(&mut self.is_open, true) {
            orders.open(Terms {
                source: self.source,
                model: self.model.clone(),
                params: Key::ANY,
                style: recital::style(),
                mix: true,
                trace: None,
            });
        }
        orders.push(bytes);
    }

    fn text(&mut self, text: &str, orders: &mut Orders) {
        let asked: Value = serde_json::from_str(text).unwrap_or_default();
        let data = &asked["data"];
        match asked["type"].as_str().unwrap_or_default() {
            "describe" => Self::say("info", &self.info(), orders),
            "transcribe" => self.model = data["name"].as_str().map(str::to_owned),
            "audio-start" => {
                if let Err(error) = self.start(data, orders) {
                    Self::fail(&error.message, error.code.as_str(), orders);
                }
            }
            "audio-stop" if self.is_open => orders.finish(),
            "audio-stop" => self.end(orders),
            "ping" => Self::say("pong", data, orders),
            // As the original's servers do with what they do not know.
            _ => {}
        }
    }

    fn event(&mut self, heard: Heard, orders: &mut Orders) {
        match heard {
            Heard::Final(said) if !said.text.is_empty() => {
                let is_first = self.said.is_empty();
                if is_first {
                    Self::say("transcript-start", &json!({}), orders);
                }
                let space = if is_first { "" } else { " " };
                let chunk = json!({ "text": format!("{space}{}", said.text) });
                Self::say("transcript-chunk", &chunk, orders);
                self.said.push(said.text);
            }
            Heard::Lost { ended: Some(_), lost, .. } => {
                Self::fail(&lost.message, lost.code.as_str(), orders);
            }
            Heard::Undecodable(code, message) => Self::fail(&message, code.as_str(), orders),
            Heard::Ended(_) => {
                self.is_open = false;
                self.end(orders);
            }
            _ => {}
        }
    }

    fn refused(&mut self, error: &ApiError, orders: &mut Orders) {
        self.is_open = false;
        Self::fail(&error.message, error.code.as_str(), orders);
        orders.close(Farewell::DONE);
    }
}

#[cfg(test)]
#[path = "wyoming_tests.rs"]
mod tests;
