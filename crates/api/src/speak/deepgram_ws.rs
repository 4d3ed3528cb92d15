//! A conversation by WebSocket: texts come in pieces, are spoken when the client says so, and can be
//! called back.

use std::{collections::VecDeque, time::Duration};

use futures_util::SinkExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message, protocol::CloseFrame};

use super::{
    body::Speech,
    deepgram::{Form, Wishes},
};
use crate::ws::{Streams, WebSocket};

/// Texts that wait to be spoken; then the client is told to wait.
const MAX_WAITING: usize = 64;

pub(super) struct Conversation {
    streams: Streams,
    wishes: Wishes,
    form: Form,
    id: String,
    /// What was said since the last flush.
    text: String,
    waiting: VecDeque<Job>,
    speech: Option<Speech>,
    /// The flush that is answered when the speech ends.
    owes: Option<u64>,
    n_flushes: u64,
    n_clears: u64,
    is_closing: bool,
}

/// A text to be spoken, and the flush that it is spoken for.
struct Job {
    text: String,
    flush: u64,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type")]
pub(super) enum Said {
    Speak { text: String },
    Flush,
    Clear,
    Close,
}

enum Happened {
    Heard(Option<Result<Message, Error>>),
    Made(Option<Result<Vec<u8>, paceline_pipeline::synthesis::SynthesisError>>),
    Stop,
    Idle,
}

/// The client is gone, or must go.
struct Over(Option<(u16, &'static str)>);

impl Conversation {
    pub(super) fn new(streams: Streams, wishes: Wishes, form: Form, id: String) -> Self {
        Self {
            streams,
            wishes,
            form,
            id,
            text: String::new(),
            waiting: VecDeque::new(),
            speech: None,
            owes: None,
            n_flushes: 0,
            n_clears: 0,
            is_closing: false,
        }
    }

    pub(super) async fn run(mut self, mut socket: WebSocket) {
        // Whoever closes wants to hear nothing more.
        socket.let_close();
        let Over(farewell) = match self.converse(&mut socket).await {
            Ok(()) => Over(Some((1000, ""))),
            Err(over) => over,
        };
        if let Some((code, reason)) = farewell {
            let frame = CloseFrame { code: code.into(), reason: reason.into() };
            let close = socket.send(Message::Close(Some(frame)));
            // Whoever is gone does not hear it.
            drop(timeout(self.streams.limits.close_timeout, close).await);
        }
    }

    async fn converse(&mut self, socket: &mut WebSocket) -> Result<(), Over> {
        let model = self.wishes.model_name().to_owned();
        let id = self.id.clone();
        let hello = json!({ "type": "Metadata", "request_id": id, "model_name": model,
            "model_version": env!("CARGO_PKG_VERSION"), "model_uuid": id });
        self.tell(socket, &hello).await?;
        loop {
            self.begin(socket).await?;
            if self.is_closing && self.speech.is_none() && self.waiting.is_empty() {
                return Ok(());
            }
            let idle = self.streams.limits.idle_timeout;
            let has_speech = self.speech.is_some();
            // CANCEL SAFETY: neither a message nor sound is lost when its future is dropped.
            let happened = tokio::select! {
                biased;
                () = self.streams.stop.cancelled(), if !self.is_closing => Happened::Stop,
                heard = socket.recv(), if !self.is_closing => Happened::Heard(heard),
                made = next(&mut self.speech), if has_speech => Happened::Made(made),
                () = tokio::time::sleep(idle), if !has_speech => Happened::Idle,
            };
            match happened {
                Happened::Stop => self.close(),
                Happened::Idle => return Err(Over(Some((1011, "NET-0001: nothing was sent")))),
                Happened::Heard(Some(Ok(message))) => self.hear(socket, message).await?,
                Happened::Heard(_) => return Err(Over(None)),
                Happened::Made(Some(Ok(bytes))) => {
                    self.send(socket, Message::Binary(bytes.into())).await?;
                }
                Happened::Made(Some(Err(error))) => {
                    self.warn(socket, &error.to_string()).await?;
                    self.end(socket).await?;
                }
                Happened::Made(None) => self.end(socket).await?,
            }
        }
    }

    /// Begins with the next text, if nothing is being spoken.
    async fn begin(&mut self, socket: &mut WebSocket) -> Result<(), Over> {
        while self.speech.is_none()
            && let Some(Job { text, flush }) = self.waiting.pop_front()
        {
            self.owes = Some(flush);
            let request = self.wishes.request(&self.streams.synthesis, text);
            let Form { container, rate } = self.form;
            let speech = Speech::begin(&self.streams.synthesis, &request, container, rate).await;
            match speech {
                Ok(speech) => self.speech = Some(speech),
                // A flush without words is answered all the same.
                Err(error) => {
                    if !request.text.trim().is_empty() {
                        self.warn(socket, &error.message).await?;
                    }
                    self.end(socket).await?;
                }
            }
        }
        Ok(())
    }

    async fn hear(&mut self, socket: &mut WebSocket, message: Message) -> Result<(), Over> {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => return Err(Over(Some((1000, "")))),
            Message::Binary(_) => return self.warn(socket, "text messages are expected").await,
            _ => return Ok(()),
        };
        match serde_json::from_str(&text) {
            Ok(Said::Speak { text }) => {
                let most = self.streams.synthesis.settings().max_text;
                if most < self.text.chars().count() + text.chars().count() {
                    return self.warn(socket, "too much text without a Flush").await;
                }
                self.text.push_str(&text);
            }
            Ok(Said::Flush) => {
                if MAX_WAITING <= self.waiting.len() {
                    return self
                        .warn(socket, "too many texts wait; read what was said first")
                        .await;
                }
                self.flush();
            }
            Ok(Said::Clear) => {
                self.text.clear();
                self.waiting.clear();
                self.speech = None;
                self.owes = None;
                let cleared = json!({ "type": "Cleared", "sequence_id": self.n_clears });
                self.n_clears += 1;
                self.tell(socket, &cleared).await?;
            }
            Ok(Said::Close) => self.close(),
            Err(_) => {
                let known = "Speak with a text, Flush, Clear and Close are understood";
                return self.warn(socket, known).await;
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.waiting.push_back(Job { text, flush: self.n_flushes });
        self.n_flushes += 1;
    }

    /// What was said is spoken, and then that is all.
    fn close(&mut self) {
        if !self.text.trim().is_empty() {
            self.flush();
        }
        self.is_closing = true;
    }

    /// A text was spoken, or cannot be.
    async fn end(&mut self, socket: &mut WebSocket) -> Result<(), Over> {
        self.speech = None;
        match self.owes.take() {
            Some(flush) => {
                self.tell(socket, &json!({ "type": "Flushed", "sequence_id": flush })).await
            }
            None => Ok(()),
        }
    }

    async fn warn(&mut self, socket: &mut WebSocket, description: &str) -> Result<(), Over> {
        let warning = json!({ "type": "Warning", "description": description, "code": "DATA-0000" });
        self.tell(socket, &warning).await
    }

    async fn tell(&mut self, socket: &mut WebSocket, words: &Value) -> Result<(), Over> {
        self.send(socket, Message::Text(words.to_string().into())).await
    }

    async fn send(&mut self, socket: &mut WebSocket, message: Message) -> Result<(), Over> {
        let most: Duration = self.streams.limits.write_timeout;
        match timeout(most, socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Over(None)),
        }
    }
}

async fn next(
    speech: &mut Option<Speech>,
) -> Option<Result<Vec<u8>, paceline_pipeline::synthesis::SynthesisError>> {
    match speech {
        Some(speech) => speech.next().await,
        None => std::future::pending().await,
    }
}
