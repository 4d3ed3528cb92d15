//! Deepgram's protocol for streams, without its socket.

use bytes::Bytes;
use paceline_pipeline::speech::{EndReason, Span};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{
    message::{About, Alternatives, Asked, Reply, place, spoken},
    query::Query,
};
use crate::{
    ApiError,
    speech::{
        conversation::Farewell,
        dialect::{Dialect, MAX_FAULTS, Orders, Parting},
        fields::clip,
        heard::{Final, Heard, round, seconds},
        name,
    },
};

pub(in crate::speech) struct Live {
    query: Query,
    about: About,
    created: String,
    /// Of all audio that came.
    digest: Sha256,
    is_open: bool,
    /// The client asked for everything so far, of these channels.
    finalizing: Option<Which>,
    /// By channel, where what was told last ends, and whether it answered the request for everything.
    told: Vec<Told>,
    /// The client said that nothing more comes.
    is_closing: bool,
    n_faults: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Every,
    Only(usize),
}

#[derive(Debug, Clone, Copy, Default)]
struct Told {
    end: u64,
    is_finalized: bool,
}

/// A result, before it is written.
struct Result<'a> {
    channel: usize,
    span: Span,
    text: &'a str,
    is_final: bool,
    speech_final: bool,
    from_finalize: bool,
}

impl Live {
    pub(super) fn new(query: Query, request_id: &str) -> Self {
        Self {
            about: About::new(&query.model, request_id),
            query,
            created: name::now(),
            digest: Sha256::new(),
            is_open: false,
            finalizing: None,
            told: Vec::new(),
            is_closing: false,
            n_faults: 0,
        }
    }

    /// A channel, and how many there are.
    fn index(&self, channel: usize, orders: &Orders) -> [usize; 2] {
        let declared = self.query.source.format.map_or(1, |format| usize::from(format.channels));
        let n_channels = if self.query.multichannel { declared.max(orders.n_channels) } else { 1 };
        [channel, n_channels]
    }

    fn say(&self, result: &Result<'_>, orders: &mut Orders) {
        let (start, duration) = place(&result.span);
        orders.say(&Reply::Results {
            channel_index: self.index(result.channel, orders),
            duration,
            start,
            is_final: result.is_final,
            speech_final: result.speech_final,
            from_finalize: result.from_finalize,
            channel: Alternatives::of(result.text, spoken(result.text, &result.span)),
            metadata: &self.about,
        });
    }

    fn told(&mut self, channel: usize) -> &mut Told {
        if self.told.len() <= channel {
            self.told.resize(channel + 1, Told::default());
        }
        &mut self.told[channel]
    }

    fn say_final(&mut self, said: &Final, orders: &mut Orders) {
        let Final { channel, span, ref text, ended } = *said;
        let from_finalize = self.finalizing.is_some() && ended == EndReason::Flushed;
        let told = self.told(channel);
        told.end = span.end;
        told.is_finalized |= from_finalize;
        let speech_final = match ended {
            EndReason::Silence => self.query.endpointing.is_some(),
            EndReason::Flushed => true,
            EndReason::TooLong => false,
        };
        let result = Result { channel, span, text, is_final: true, speech_final, from_finalize };
        self.say(&result, orders);
    }

    /// Everything that came before is answered. Clients wait for a result that says so, on every
    /// channel that they named, so there is one even where nothing was said.
    fn finalized(&mut self, orders: &mut Orders) {
        let Some(which) = self.finalizing.take() else { return };
        let n_channels = self.index(0, orders)[1];
        let is_meant = |channel: &usize| which == Which::Every || which == Which::Only(*channel);
        for channel in (0..n_channels).filter(is_meant) {
            let told = std::mem::take(&mut self.told(channel).is_finalized);
            if !told {
                let end = self.told(channel).end;
                let span = Span { start: end, end };
                let result = Result {
                    channel,
                    span,
                    text: "",
                    is_final: true,
                    speech_final: true,
                    from_finalize: true,
                };
                self.say(&result, orders);
            }
        }
        self.told.iter_mut().for_each(|told| told.is_finalized = false);
    }

    fn end(&mut self, samples: u64, orders: &mut Orders) {
        let n_channels = match self.query.source.format {
            Some(format) => usize::from(format.channels),
            None => orders.n_channels.max(self.told.len()).max(1),
        };
        orders.say(&Reply::Metadata {
            transaction_key: "deprecated",
            request_id: &self.about.request_id,
            sha256: &name::hex(&std::mem::take(&mut self.digest).finalize()),
            created: &self.created,
            duration: round(seconds(samples)),
            channels: n_channels,
        });
    }

    fn close(&mut self, orders: &mut Orders) {
        self.is_closing = true;
        if self.is_open {
            orders.finish();
        } else {
            self.end(0, orders);
        }
        orders.close(Farewell::DONE);
    }

    fn fault(&mut self, description: &str, text: &str, orders: &mut Orders) {
        let message: String = text.chars().take(256).collect();
        orders.say(&Reply::Error { variant: "SchemaError", description, message: &message });
        self.n_faults += 1;
        if MAX_FAULTS <= self.n_faults {
            self.close(orders);
            orders.close(Farewell::FAULTS);
        }
    }

    /// Nothing of a stream can be changed; what is asked for without effect is not promised.
    fn configure(&self, wanted: &Map<String, Value>, orders: &mut Orders) {
        let request_id = &*self.about.request_id;
        let asked = wanted.iter().filter(|(_, value)| !value.is_null());
        let names: Vec<String> = asked.take(8).map(|(name, _)| clip(name)).collect();
        if names.is_empty() {
            return orders.say(&Reply::ConfigureSuccess { request_id });
        }
        let code = if wanted.contains_key("keyterms") {
            "CONFIGURE_KEYTERMS_NOT_SUPPORTED"
        } else {
            "CONFIGURE_NOT_SUPPORTED"
        };
        let description = format!("{} cannot be changed here; nothing was", names.join(", "));
        orders.say(&Reply::ConfigureFailure { request_id, code, description });
    }
}

impl Dialect for Live {
    type Heard = Heard;

    fn audio(&mut self, bytes: Bytes, orders: &mut Orders) {
        // The original ends a stream at an empty message, and old clients do so to end it.
        if bytes.is_empty() {
            return self.close(orders);
        }
        self.digest.update(&bytes);
        if !std::mem::replace(&mut self.is_open, true) {
            match self.query.terms() {
                Ok(terms) => orders.open(terms),
                Err(error) => return self.refused(&error, orders),
            }
        }
        orders.push(bytes);
    }

    fn text(&mut self, text: &str, orders: &mut Orders) {
        match serde_json::from_str(text) {
            Ok(Asked::KeepAlive {}) => {}
            Ok(Asked::Finalize { channel }) => {
                self.finalizing = Some(channel.map_or(Which::Every, Which::Only));
                if self.is_open {
                    orders.flush();
                } else {
                    self.finalized(orders);
                }
            }
            Ok(Asked::CloseStream {}) => self.close(orders),
            Ok(Asked::Configure { wanted }) => self.configure(&wanted, orders),
            Err(error) => {
                let what: String = error.to_string().chars().take(200).collect();
                self.fault(&format!("not a message that is understood: {what}"), text, orders);
            }
        }
    }

    fn event(&mut self, heard: Heard, orders: &mut Orders) {
        match heard {
            Heard::Active { channel, at } => {
                if self.query.vad_events {
                    let channel = self.index(channel, orders);
                    let timestamp = round(seconds(at));
                    orders.say(&Reply::SpeechStarted { channel, timestamp });
                }
            }
            Heard::Interim { channel, span, said } => {
                let text = &*said.text;
                let result = Result {
                    channel,
                    span,
                    text,
                    is_final: false,
                    speech_final: false,
                    from_finalize: false,
                };
                self.say(&result, orders);
            }
            Heard::Final(said) => self.say_final(&said, orders),
            Heard::Paused { channel, since } => {
                let channel = self.index(channel, orders);
                orders.say(&Reply::UtteranceEnd { channel, last_word_end: round(seconds(since)) });
            }
            Heard::Lost { channel, span, ended, lost } => {
                let description = format!("a part has no result: {}", lost.message);
                orders.say(&Reply::Error {
                    variant: "InferenceError",
                    description: &description,
                    message: lost.code.as_str(),
                });
                if let Some(ended) = ended {
                    let text = String::new();
                    self.say_final(&Final { channel, span, text, ended }, orders);
                }
            }
            Heard::Flushed => self.finalized(orders),
            Heard::Undecodable(_, message) => {
                orders.say(&Reply::Error {
                    variant: "DataError",
                    description: &message,
                    message: "DATA-0000",
                });
                orders.close(UNDECODABLE);
            }
            Heard::Ended(report) => {
                self.is_open = false;
                self.end(report.ending.frames, orders);
                // The round ended by itself only where the audio could not be decoded.
                if !self.is_closing {
                    orders.close(UNDECODABLE);
                }
            }
            Heard::Inactive { .. } | Heard::Room => {}
        }
    }

    fn refused(&mut self, error: &ApiError, orders: &mut Orders) {
        self.is_open = false;
        orders.say(&Reply::Error {
            variant: "DataError",
            description: &error.message,
            message: error.code.as_str(),
        });
        orders.close(UNDECODABLE);
    }

    fn farewell(&self, why: Parting, _orders: &mut Orders) -> Farewell {
        match why {
            Parting::Stopping => Farewell::GOING_AWAY,
            Parting::Idle => Farewell {
                code: 1011,
                reason: "NET-0001 no audio and no KeepAlive was received for 10 s",
            },
            Parting::Overloaded => Farewell {
                code: 1011,
                reason: "NET-0000 the server could not answer in time; try again later",
            },
        }
    }
}

const UNDECODABLE: Farewell =
    Farewell { code: 1008, reason: "DATA-0000 the payload cannot be decoded as audio" };

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
