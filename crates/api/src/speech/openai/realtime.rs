//! `OpenAI`'s realtime transcription sessions, without their socket.
//!
//! Where the server detects turns, each utterance is an item. Where the client commits, everything
//! since its last commit is one, however many utterances that is.

use std::collections::VecDeque;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use paceline_pipeline::speech::{EndReason, Terms};
use serde_json::{Value, json};

use super::{fault, item::Item, settings::Settings};
use crate::{
    ApiError,
    speech::{
        conversation::Farewell,
        dialect::{Dialect, MAX_FAULTS, Orders, Parting},
        fields::{clip, wrong},
        heard::{Final, Heard},
        name,
    },
};

/// Samples in a millisecond.
const MILLISECOND: u64 = 16;
/// The least that can be committed, in samples.
const LEAST: u64 = 100 * MILLISECOND;

/// The model of ours that is meant by a name.
type Choose = Box<dyn Fn(Option<&str>) -> Result<String, ApiError> + Send + Sync>;

pub(in crate::speech) struct Realtime {
    choose: Choose,
    id: String,
    is_beta: bool,
    settings: Settings,
    is_open: bool,
    /// Whether the session that is open finds turns by itself.
    detects: bool,
    /// Samples of the sessions before this one, which had other settings.
    offset: u64,
    /// Bytes that came in this session, and how many of them were committed or cleared.
    received: u64,
    taken: u64,
    /// Items without a transcript, in the order of their audio.
    items: VecDeque<Item>,
    n_items: u64,
    /// The last item that was committed.
    previous: Option<String>,
    /// The client waits until what it asked for is done.
    pending: Option<Pending>,
    n_events: u64,
    n_faults: u32,
}

/// What a flush is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    /// What was committed is to be transcribed; whether an item of it was told.
    Commit { is_told: bool },
    /// What came before is to be forgotten.
    Clear,
}

impl Realtime {
    pub(super) fn new(choose: Choose, model: Option<String>, is_beta: bool) -> Self {
        Self {
            choose,
            id: format!("sess_{}", name::fresh().replace('-', "")),
            is_beta,
            settings: Settings { model, ..Settings::default() },
            is_open: false,
            detects: false,
            offset: 0,
            received: 0,
            taken: 0,
            items: VecDeque::new(),
            n_items: 0,
            previous: None,
            pending: None,
            n_events: 0,
            n_faults: 0,
        }
    }

    /// Says something, with a number of its own.
    fn say(&mut self, mut message: Value, orders: &mut Orders) {
        self.n_events += 1;
        message["event_id"] = json!(format!("event_{}", self.n_events));
        orders.say(&message);
    }

    fn say_session(&mut self, what: &str, orders: &mut Orders) {
        let kind = if self.is_beta { "transcription_session" } else { "session" };
        let session = self.settings.told(&self.id, self.is_beta);
        self.say(json!({ "type": format!("{kind}.{what}"), "session": session }), orders);
    }

    /// Tells the client of something that it did wrong, which harms nobody else.
    fn fault(&mut self, error: &ApiError, asked: &Value, orders: &mut Orders) {
        let mut told = fault(error);
        told["event_id"] = asked["event_id"].as_str().map_or(Value::Null, |id| json!(clip(id)));
        self.say(json!({ "type": "error", "error": told }), orders);
        self.n_faults += 1;
        if self.n_faults == MAX_FAULTS {
            orders.finish();
            orders.close(Farewell::FAULTS);
        }
    }

    fn update(&mut self, asked: &Value, orders: &mut Orders) -> Result<(), ApiError> {
        let changed = self.settings.changed(&asked["session"])?;
        // What came under the old settings is answered under them.
        if self.terms(&changed)? != self.terms(&self.settings)? && self.is_open {
            orders.finish();
        }
        self.settings = changed;
        self.say_session("updated", orders);
        Ok(())
    }

    /// What a session is opened with.
    fn terms(&self, settings: &Settings) -> Result<Terms, ApiError> {
        settings.terms(Some((self.choose)(settings.model.as_deref())?))
    }

    fn append(&mut self, asked: &Value, orders: &mut Orders) -> Result<(), ApiError> {
        let Some(text) = asked["audio"].as_str() else { return Err(wrong("audio is missing")) };
        let bytes = BASE64_STANDARD
            .decode(text)
            .map_err(|error| wrong(format!("audio is not base64: {error}")))?;
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.is_open {
            orders.open(self.terms(&self.settings)?);
            (self.is_open, self.detects) = (true, self.settings.turns.is_some());
        }
        self.received += bytes.len() as u64;
        orders.push(Bytes::from(bytes));
        Ok(())
    }

    fn commit(&mut self, orders: &mut Orders) -> Result<(), ApiError> {
        let (least, held) = (self.settings.format.bytes(LEAST), self.received - self.taken);
        if !self.is_open || held < least {
            return Err(wrong(format!(
                "the buffer is too small to be committed: it has {held} bytes, and 100 ms are {least}"
            )));
        }
        self.taken = self.received;
        self.pending = Some(Pending::Commit { is_told: false });
        if !self.detects {
            if self.items.is_empty() {
                self.begin_item();
            }
            self.commit_item(orders);
            self.say_news("", orders);
        }
        orders.flush();
        Ok(())
    }

    fn clear(&mut self, orders: &mut Orders) {
        self.taken = self.received;
        if let Some(item) = self.items.back_mut().filter(|item| !item.is_committed) {
            item.is_cleared = true;
        }
        if self.is_open {
            self.pending = Some(Pending::Clear);
            orders.flush();
        }
        self.say(json!({ "type": "input_audio_buffer.cleared" }), orders);
    }

    fn begin_item(&mut self) {
        self.n_items += 1;
        let is_cleared = self.pending == Some(Pending::Clear);
        self.items.push_back(Item::new(self.n_items, is_cleared));
    }

    /// Somebody begins or stops to speak, in the last item.
    fn say_voice(&mut self, what: &str, when: &str, at: u64, orders: &mut Orders) {
        let Some(item) = self.items.back().filter(|item| !item.is_cleared) else { return };
        let mut told = json!({ "type": format!("input_audio_buffer.{what}"), "item_id": item.id });
        told[when] = json!((self.offset + at) / MILLISECOND);
        self.say(told, orders);
    }

    /// The last item's audio is complete.
    fn commit_item(&mut self, orders: &mut Orders) {
        let Some(item) = self.items.back_mut() else { return };
        item.is_committed = true;
        if item.is_cleared {
            return;
        }
        let told = item.committed(self.previous.as_deref(), self.is_beta);
        self.previous = Some(item.id.clone());
        if let Some(Pending::Commit { is_told }) = &mut self.pending {
            *is_told = true;
        }
        for message in told {
            self.say(message, orders);
        }
    }

    /// An utterance belongs to the oldest item that has no transcript; where the client commits, to
    /// what it commits next.
    fn hear(&mut self, said: &Final, orders: &mut Orders) {
        if self.items.is_empty() {
            self.begin_item();
        }
        if let Some(item) = self.items.front_mut() {
            item.add(&said.text, said.span.n_samples());
        }
        self.say_news("", orders);
        self.end_turn(said.ended, orders);
    }

    /// What is new of the oldest item. Before it is an item, a client would not know what to do
    /// with its text.
    fn say_news(&mut self, stable: &str, orders: &mut Orders) {
        let is_known = |item: &&mut Item| !item.is_cleared && (item.is_committed || self.detects);
        let news = self.items.front_mut().filter(is_known).and_then(|item| item.news(stable));
        if let Some(news) = news {
            self.say(news, orders);
        }
    }

    /// An utterance is over, and with it the turn, unless it was only too long.
    fn end_turn(&mut self, ended: EndReason, orders: &mut Orders) {
        if self.detects && ended != EndReason::TooLong {
            self.complete(orders);
        }
    }

    /// The oldest item has its transcript, or none.
    fn complete(&mut self, orders: &mut Orders) {
        if let Some(item) = self.items.pop_front()
            && !item.is_cleared
        {
            self.say(item.outcome(), orders);
        }
    }

    /// What a commit or a clear waited for is done.
    fn flushed(&mut self, orders: &mut Orders) {
        match self.pending.take() {
            Some(Pending::Commit { is_told }) => {
                if !is_told {
                    // Nobody spoke, and that is what the client gets.
                    self.begin_item();
                    self.commit_item(orders);
                }
                self.complete_all(orders);
            }
            Some(Pending::Clear) => self.items.retain(|item| !item.is_cleared),
            None => {}
        }
    }

    /// Everything is answered, so items that were committed have all their text.
    fn complete_all(&mut self, orders: &mut Orders) {
        while self.items.front().is_some_and(|item| item.is_committed) {
            self.complete(orders);
        }
    }
}

impl Dialect for Realtime {
    type Heard = Heard;

    fn begin(&mut self, orders: &mut Orders) {
        self.say_session("created", orders);
    }

    fn audio(&mut self, _bytes: Bytes, orders: &mut Orders) {
        let error = wrong("audio is sent as base64 in input_audio_buffer.append, not as binary");
        self.fault(&error, &Value::Null, orders);
    }

    fn text(&mut self, text: &str, orders: &mut Orders) {
        let asked: Value = match serde_json::from_str(text) {
            Ok(asked) => asked,
            Err(error) => {
                let error = wrong(format!("not JSON: {error}"));
                return self.fault(&error, &Value::Null, orders);
            }
        };
        let done = match asked["type"].as_str().unwrap_or_default() {
            "session.update" | "transcription_session.update" => self.update(&asked, orders),
            "input_audio_buffer.append" => self.append(&asked, orders),
            "input_audio_buffer.commit" => self.commit(orders),
            "input_audio_buffer.clear" => {
                self.clear(orders);
                Ok(())
            }
            other => Err(wrong(format!(
                "`{}` is not known here: session.update and input_audio_buffer.append, .commit \
                 and .clear are",
                clip(other)
            ))),
        };
        if let Err(error) = done {
            self.fault(&error, &asked, orders);
        }
    }

    fn event(&mut self, heard: Heard, orders: &mut Orders) {
        match heard {
            Heard::Active { at, .. } if self.detects => {
                self.begin_item();
                self.say_voice("speech_started", "audio_start_ms", at, orders);
            }
            Heard::Inactive { at, .. } if self.detects => {
                self.say_voice("speech_stopped", "audio_end_ms", at, orders);
                // What came after this is not a part of the turn.
                let end = self.settings.format.bytes(at).min(self.received);
                self.taken = self.taken.max(end);
                self.commit_item(orders);
            }
            Heard::Interim { said, .. } if self.detects => self.say_news(said.stable(), orders),
            Heard::Final(said) => self.hear(&said, orders),
            Heard::Lost { ended: Some(ended), lost, .. } => {
                if self.items.is_empty() {
                    self.begin_item();
                }
                self.items.iter_mut().take(1).for_each(|item| item.lose(lost.clone()));
                self.end_turn(ended, orders);
            }
            Heard::Flushed => self.flushed(orders),
            Heard::Undecodable(code, message) => {
                self.fault(&ApiError::new(code, message), &Value::Null, orders);
            }
            Heard::Ended(report) => {
                self.is_open = false;
                (self.received, self.taken) = (0, 0);
                self.offset += report.ending.frames;
                self.pending = None;
                self.complete_all(orders);
                if self.settings.turns.is_some() {
                    // What was not committed cannot be committed any more.
                    self.items.clear();
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, error: &ApiError, orders: &mut Orders) {
        self.is_open = false;
        (self.received, self.taken) = (0, 0);
        self.fault(error, &Value::Null, orders);
    }

    fn farewell(&self, why: Parting, _orders: &mut Orders) -> Farewell {
        match why {
            Parting::Idle => Farewell { code: 1000, reason: "nothing was sent for too long" },
            Parting::Stopping | Parting::Overloaded => why.farewell(),
        }
    }
}

#[cfg(test)]
#[path = "realtime_tests.rs"]
mod tests;
