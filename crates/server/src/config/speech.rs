//! `[speech]`: streams of audio.

use std::{num::NonZeroUsize, time::Duration};

use paceline_api::ws::SocketLimits;
use paceline_pipeline::{
    Models, VoiceSettings,
    speech::{Bounds, SpeechLimits, SpeechSettings},
};
use serde::{Deserialize, Serialize};

use super::duration;

/// Streams of audio.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpeechSection {
    /// The model of clients who name none; where it is left out, `moonshine`, or `simulated-speech`
    /// where that is not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Threads that detect voices; as many as there are cores where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice_threads: Option<NonZeroUsize>,
    /// Most streams that share a call of the voice detector; with 1, each has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice_batch: Option<NonZeroUsize>,
    /// Streams at once.
    pub max_streams: usize,
    /// Segments that are with models at once, over all streams.
    pub max_in_flight: usize,
    /// Of these, interim ones.
    pub max_interims: usize,
    /// Segments of one audio channel that are with the model at once.
    pub stream_in_flight: usize,
    /// Audio of one channel that waits for the model before the client is slowed down.
    #[serde(with = "duration")]
    pub max_backlog: Duration,
    /// The longest a round may last, in audio time.
    #[serde(with = "duration")]
    pub max_duration: Duration,
    /// The most audio channels of a stream.
    pub max_channels: u16,
    /// The shortest interval of interim results that a client may ask for.
    #[serde(with = "duration")]
    pub min_interim: Duration,
    /// About how many times an utterance is heard for interim results: the longer it is, the further
    /// apart they are.
    pub interim_cost: u32,
    /// Largest WebSocket message in bytes.
    pub max_message: usize,
    /// How often clients are asked whether they are there.
    #[serde(with = "duration")]
    pub ping_interval: Duration,
    /// How long a client may send nothing at all.
    #[serde(with = "duration")]
    pub idle_timeout: Duration,
    /// How long a client may not read what is ready for it.
    #[serde(with = "duration")]
    pub write_timeout: Duration,
    /// How long nothing of a stream may be done before its client is told so.
    #[serde(with = "duration")]
    pub stall_warning: Duration,
    /// How long nothing of a stream may be done before it is closed.
    #[serde(with = "duration")]
    pub stall_timeout: Duration,
}

impl Default for SpeechSection {
    fn default() -> Self {
        let SpeechLimits {
            max_streams,
            max_in_flight,
            max_interims,
            stream_in_flight,
            max_backlog,
            min_interim,
            interim_cost,
        } = SpeechLimits::default();
        let socket = SocketLimits::default();
        let bounds = Bounds::default();
        Self {
            model: None,
            voice_threads: None,
            voice_batch: None,
            max_streams,
            max_in_flight,
            max_interims,
            stream_in_flight,
            max_backlog,
            max_duration: bounds.max_duration,
            max_channels: bounds.max_channels,
            min_interim,
            interim_cost,
            max_message: socket.max_message,
            ping_interval: socket.ping_interval,
            idle_timeout: socket.idle_timeout,
            write_timeout: socket.write_timeout,
            stall_warning: socket.stall_warning,
            stall_timeout: socket.stall_timeout,
        }
    }
}

impl SpeechSection {
    /// What sessions on these models are bound by.
    #[must_use]
    pub fn settings(&self, models: &Models) -> SpeechSettings {
        let model = self.model.as_deref().unwrap_or_else(|| {
            if models.find("moonshine", None).is_ok() { "moonshine" } else { "simulated-speech" }
        });
        SpeechSettings {
            model: model.to_owned(),
            bounds: Bounds {
                max_channels: self.max_channels,
                max_duration: self.max_duration,
                ..Bounds::default()
            },
            limits: SpeechLimits {
                max_streams: self.max_streams,
                max_in_flight: self.max_in_flight.max(1),
                max_interims: self.max_interims.max(1),
                stream_in_flight: self.stream_in_flight.max(1),
                max_backlog: self.max_backlog,
                min_interim: self.min_interim,
                interim_cost: self.interim_cost.max(1),
            },
        }
    }

    /// What sockets are bound by.
    #[must_use]
    pub fn sockets(&self) -> SocketLimits {
        SocketLimits {
            max_message: self.max_message,
            ping_interval: self.ping_interval,
            idle_timeout: self.idle_timeout,
            write_timeout: self.write_timeout,
            stall_warning: self.stall_warning,
            stall_timeout: self.stall_timeout,
            ..SocketLimits::default()
        }
    }

    /// How voices are detected.
    #[must_use]
    pub fn voices(&self) -> VoiceSettings {
        VoiceSettings {
            shards: self.voice_threads,
            max_streams: self.voice_batch,
            ..VoiceSettings::default()
        }
    }
}
