//! What a door without streams of audio needs of them.

use std::sync::Arc;

use paceline_api::ws::{SocketLimits, Streams};
use paceline_pipeline::{
    Models, VoiceDetector, VoiceSettings,
    speech::{Bounds, Speech, SpeechLimits, SpeechSettings},
    synthesis::{Synthesis, SynthesisSettings},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) fn no_streams(models: &Arc<Models>) -> Streams {
    let voices = VoiceDetector::start(VoiceSettings::default()).unwrap();
    let settings = SpeechSettings {
        model: "m".to_owned(),
        bounds: Bounds::default(),
        limits: SpeechLimits::default(),
    };
    Streams {
        speech: Speech::new(Arc::clone(models), voices, settings),
        synthesis: Synthesis::new(Arc::clone(models), SynthesisSettings::default()),
        limits: SocketLimits::default(),
        open: TaskTracker::new(),
        stop: CancellationToken::new(),
    }
}
