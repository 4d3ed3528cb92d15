//! Items of a realtime session: what was said in one turn, from its beginning to its transcript.

use paceline_pipeline::speech::Lost;
use serde_json::{Value, json};

use super::format::usage;
use crate::speech::heard::{join, seconds};

/// An item that has no transcript yet.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: String,
    text: String,
    /// What the client knows of its text.
    told: String,
    samples: u64,
    /// Why a part of it has no text.
    lost: Option<Lost>,
    /// Whether its audio is complete, and the client was told.
    pub(super) is_committed: bool,
    /// The client took its audio back: nothing more is said of it.
    pub(super) is_cleared: bool,
}

impl Item {
    pub(super) fn new(number: u64, is_cleared: bool) -> Self {
        Self {
            id: format!("item_{number}"),
            text: String::new(),
            told: String::new(),
            samples: 0,
            lost: None,
            is_committed: false,
            is_cleared,
        }
    }

    /// More of its text.
    pub(super) fn add(&mut self, text: &str, samples: u64) {
        self.samples += samples;
        self.text = join([&*self.text, text]);
    }

    pub(super) fn lose(&mut self, lost: Lost) {
        self.lost.get_or_insert(lost);
    }

    /// What the client does not know yet of its text, and of the words after that which will not
    /// change any more. It can only follow what the client knows.
    pub(super) fn news(&mut self, stable: &str) -> Option<Value> {
        let known = join([&*self.text, stable]);
        let delta = known.strip_prefix(&*self.told).filter(|delta| !delta.is_empty())?;
        let delta = json!({
            "type": "conversation.item.input_audio_transcription.delta",
            "item_id": self.id, "content_index": 0, "delta": delta, "logprobs": null,
        });
        self.told = known;
        Some(delta)
    }

    /// Its transcript, or why it has none.
    pub(super) fn outcome(&self) -> Value {
        if let Some(Lost { code, message }) = &self.lost {
            return json!({
                "type": "conversation.item.input_audio_transcription.failed",
                "item_id": self.id, "content_index": 0,
                "error": {
                    "type": "transcription_error", "code": code.as_str(), "message": message,
                    "param": null,
                },
            });
        }
        json!({
            "type": "conversation.item.input_audio_transcription.completed",
            "item_id": self.id, "content_index": 0, "transcript": self.text,
            "usage": usage(seconds(self.samples)), "logprobs": null,
        })
    }

    /// That its audio is complete, after the item before it.
    pub(super) fn committed(&self, previous: Option<&str>, is_beta: bool) -> Vec<Value> {
        let item = json!({
            "id": self.id, "object": "realtime.item", "type": "message", "status": "completed",
            "role": "user", "content": [{ "type": "input_audio", "transcript": null }],
        });
        let told = |kind: &str| json!({ "type": kind, "previous_item_id": previous, "item": item });
        let committed = json!({
            "type": "input_audio_buffer.committed",
            "previous_item_id": previous, "item_id": self.id,
        });
        if is_beta {
            return vec![committed, told("conversation.item.created")];
        }
        vec![committed, told("conversation.item.added"), told("conversation.item.done")]
    }
}
