//! The WebSocket protocol of vosk's server: raw 16-bit samples in, exactly one reply to each message.
//!
//! Its clients connect to the root of a port, so it has a listener of its own.

use std::{collections::VecDeque, sync::Arc};

use axum::{Router, extract::State, response::Response, routing::get};
use bytes::Bytes;
use paceline_batch::Key;
use paceline_pipeline::speech::{Encoding, INTERIM_INTERVAL, Source, Style, Terms, Utterances};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    conversation::{Conversation, Farewell},
    dialect::{Dialect, Orders},
    heard::{Final, Heard, join, words},
};
use crate::{
    ApiError,
    access::{Needs, Role},
    gate::{Gate, Guard, Wire},
    http::marked,
    ws::{Streams, Upgrade},
};

const ROUTE: (&str, Needs) = ("/", Needs::Role(Role::Stream));

/// The listener's one route, behind `gate`.
pub fn router(streams: Streams, gate: Gate) -> Router {
    let guard = Guard::new(Arc::new(gate), Wire::Http, [ROUTE]);
    marked(Router::new().route(ROUTE.0, get(open)), guard).with_state(streams)
}

async fn open(
    State(streams): State<Streams>,
    upgrade: Result<Upgrade, ApiError>,
) -> Result<Response, ApiError> {
    streams
        .clone()
        .open(upgrade?, move |socket| Conversation::new(socket, streams, Vosk::default()).run())
}

/// What a client sends as text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Asked {
    Config {
        config: Config,
    },
    Eof {
        #[expect(dead_code, reason = "that it is there is all that counts")]
        eof: Value,
    },
    Reset {
        #[expect(dead_code, reason = "that it is there is all that counts")]
        reset: Value,
    },
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Config {
    /// As the original's clients write it: `16000.000000`.
    #[serde(default = "telephone")]
    sample_rate: f64,
    #[serde(default)]
    words: bool,
}

/// The rate of clients that say none.
const fn telephone() -> f64 {
    8000.0
}

pub(super) struct Vosk {
    config: Config,
    is_open: bool,
    /// A message has no reply yet.
    owes_reply: bool,
    partial: String,
    /// Utterances that no reply has carried yet.
    said: VecDeque<Final>,
}

impl Default for Vosk {
    fn default() -> Self {
        Self {
            config: Config { sample_rate: telephone(), words: false },
            is_open: false,
            owes_reply: false,
            partial: String::new(),
            said: VecDeque::new(),
        }
    }
}

impl Vosk {
    fn terms(&self) -> Terms {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "what is out of bounds stays so, and the session says which these are"
        )]
        let rate = self.config.sample_rate as u32;
        let interim = Some(INTERIM_INTERVAL);
        Terms {
            source: Source::raw(Encoding::S16le, rate, 1),
            model: None,
            params: Key::ANY,
            style: Style::Segmented(Utterances { interim, ..Utterances::default() }),
            mix: true,
            trace: None,
        }
    }

    /// One reply: an utterance that has ended, or what there is of the one under way.
    fn reply(&mut self, orders: &mut Orders) {
        self.owes_reply = false;
        match self.said.pop_front() {
            Some(said) => orders.say(&self.result(&[said])),
            None => orders.say(&json!({ "partial": self.partial })),
        }
    }

    /// Everything that was not told yet, in one reply.
    fn reply_all(&mut self, orders: &mut Orders) {
        self.owes_reply = false;
        self.partial.clear();
        let said: Vec<Final> = std::mem::take(&mut self.said).into();
        orders.say(&self.result(&said));
    }

    fn result(&self, said: &[Final]) -> Value {
        let mut result = json!({ "text": join(said.iter().map(|said| &*said.text)) });
        if self.config.words && !said.is_empty() {
            let words = said.iter().flat_map(|said| words(&said.text, &said.span));
            let list = words.map(|word| {
                json!({ "conf": 1.0, "start": word.start, "end": word.end, "word": word.text })
            });
            result["result"] = list.collect();
        }
        result
    }
}

impl Dialect for Vosk {
    type Heard = Heard;

    fn audio(&mut self, bytes: Bytes, orders: &mut Orders) {
        self.owes_reply = true;
        if !std::mem::replace(&mut self.is_open, true) {
            orders.open(self.terms());
        }
        orders.push(bytes);
    }

    fn text(&mut self, text: &str, orders: &mut Orders) {
        match serde_json::from_str(text) {
            // As in the original, it has no reply, and counts for what is opened next.
            Ok(Asked::Config { config }) => self.config = config,
            Ok(Asked::Eof { .. }) if self.is_open => {
                orders.finish();
                orders.close(Farewell::DONE);
            }
            Ok(Asked::Eof { .. }) => {
                self.reply_all(orders);
                orders.close(Farewell::DONE);
            }
            Ok(Asked::Reset { .. }) if self.is_open => orders.flush(),
            Ok(Asked::Reset { .. }) => self.reply_all(orders),
            Err(_) => {
                orders.say(&json!({ "error": "config, eof and reset are known here" }));
            }
        }
    }

    fn event(&mut self, heard: Heard, orders: &mut Orders) {
        match heard {
            Heard::Interim { said, .. } => self.partial = said.text,
            Heard::Final(said) => {
                self.partial.clear();
                if !said.text.is_empty() {
                    self.said.push_back(said);
                }
            }
            Heard::Room if self.owes_reply => self.reply(orders),
            Heard::Flushed => self.reply_all(orders),
            Heard::Undecodable(_, message) => orders.say(&json!({ "error": message })),
            Heard::Ended(_) => {
                self.is_open = false;
                self.reply_all(orders);
                // It ended by itself only where the audio was more than a stream may have.
                orders.close(Farewell::DONE);
            }
            Heard::Lost { lost, .. } => tracing::debug!(?lost, "a part has no result"),
            _ => {}
        }
    }

    fn refused(&mut self, error: &ApiError, orders: &mut Orders) {
        self.is_open = false;
        self.owes_reply = false;
        orders.say(&json!({ "error": error.message }));
        orders.close(Farewell { code: 1008, reason: "the session could not be opened" });
    }
}

#[cfg(test)]
#[path = "vosk_tests.rs"]
mod tests;
