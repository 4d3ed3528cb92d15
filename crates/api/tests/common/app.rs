//! What stands behind a door: some models, nobody who loads others, no cameras, and streams that
//! nothing is said on.

use std::sync::Arc;

use paceline_api::{
    App, Readiness,
    http::Bodies,
    ws::{SocketLimits, Streams},
};
use paceline_pipeline::{
    Answer, Control, Known, Models, VoiceDetector, VoiceSettings,
    speech::{Bounds, Speech, SpeechLimits, SpeechSettings},
    synthesis::{Synthesis, SynthesisSettings},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// It is not ready yet.
pub(crate) fn app(models: &Arc<Models>) -> App {
    App {
        models: Arc::clone(models),
        streams: streams(models),
        readiness: Arc::new(Readiness::default()),
        control: Arc::new(Nothing),
        cameras: None,
        bodies: Bodies::new(1 << 20, 1 << 20),
        live: Arc::default(),
        metrics: None,
    }
}

fn streams(models: &Arc<Models>) -> Streams {
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

/// Loads nothing, and says so with success.
struct Nothing;

impl Control for Nothing {
    fn load<'a>(&'a self, _name: &'a str) -> Answer<'a> {
        Box::pin(async { Ok(()) })
    }

    fn unload<'a>(&'a self, name: &'a str) -> Answer<'a> {
        self.load(name)
    }

    fn known(&self) -> Vec<Known> {
        Vec::new()
    }
}
