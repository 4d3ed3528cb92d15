//! Models that say how much they heard, and rounds with them.

use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use futures_util::FutureExt as _;
use paceline_backend::{Backend, BackendError, Call, Outputs, Ragged};
use paceline_batch::{Key, Settings};
use paceline_pipeline::{
    Blueprint, Mode, Model, Models, SequenceLimits, VersionPolicy, VoiceDetector, VoiceSettings,
    speech::{
        Bounds, Encoding, Event, Session, Source, Span, Speech, SpeechLimits, SpeechSettings,
        Style, Terms,
    },
};
use paceline_types::{DType, Dim, Signature, Tensor, TensorSpec};

/// A first sample that the model fails on, in its own words.
pub(crate) const UNBEARABLE: f32 = -0.75;
/// One that it panics on.
pub(crate) const DEADLY: f32 = -0.875;

/// Models wait while somebody has shut it.
#[derive(Default)]
pub(crate) struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
    /// Of each call that has passed, how many samples and which first one.
    passed: Mutex<Vec<(usize, f32)>>,
}

/// Opens the gate again when it is dropped.
pub(crate) struct Shut<'a>(&'a Gate);

impl Gate {
    pub(crate) fn shut(&self) -> Shut<'_> {
        *self.is_shut.lock().unwrap() = true;
        Shut(self)
    }

    /// The calls that have passed since this was last asked, one after the other.
    pub(crate) fn passed(&self) -> Vec<(usize, f32)> {
        std::mem::take(&mut self.passed.lock().unwrap())
    }

    fn pass(&self) {
        let is_shut = self.is_shut.lock().unwrap();
        drop(self.opened.wait_while(is_shut, |is_shut| *is_shut).unwrap());
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        *self.0.is_shut.lock().unwrap() = false;
        self.0.opened.notify_all();
    }
}

/// Says how many samples it heard, and in which language. Waits at its gate before.
struct Counting {
    signature: Signature,
    gate: Arc<Gate>,
    /// Instead, it says a word for each quarter of a second.
    is_wordy: bool,
}

impl Backend for Counting {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        self.gate.pass();
        let samples = call.inputs[0].to_f32().unwrap();
        let n_samples = call.inputs[0].shape()[1];
        let first = samples.first().copied().unwrap_or_default();
        self.gate.passed.lock().unwrap().push((n_samples, first));
        let mut outputs = Outputs::default();
        let mut texts = Vec::new();
        for row in 0..call.rows {
            let first = samples.get(row * n_samples).copied();
            assert_ne!(first, Some(DEADLY), "as it was told");
            if first == Some(UNBEARABLE) {
                outputs.failed.push((row, "that was too loud".to_owned()));
            }
            let language = call.inputs.get(1).and_then(|input| input.byte_elements().nth(row));
            let language = String::from_utf8_lossy(language.unwrap_or_default());
            let text =
                if self.is_wordy { words(n_samples) } else { format!("{n_samples}{language}") };
            texts.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            texts.extend(text.as_bytes());
        }
        let shape = [call.rows, 1].as_slice().into();
        outputs.tensors.push(Tensor::build(DType::Bytes, shape, texts.into()).unwrap());
        Ok(outputs)
    }
}

/// What the wordy model says of so many samples.
pub(crate) fn words(n_samples: usize) -> String {
    let words: Vec<String> = (0..n_samples / 4000).map(|at| format!("word{at}")).collect();
    words.join(" ")
}

pub(crate) struct Rig {
    pub(crate) models: Arc<Models>,
    pub(crate) speech: Speech,
    pub(crate) voices: VoiceDetector,
    /// Of all models.
    pub(crate) gate: Arc<Gate>,
}

fn spec(name: &str, dtype: DType, dim: Dim) -> TensorSpec {
    TensorSpec { name: name.to_owned(), dtype, dims: vec![dim] }
}

/// Serves a model of this name with these inputs, of which one is audio.
fn serve(models: &Models, name: &str, gate: &Arc<Gate>, inputs: Vec<TensorSpec>) {
    serve_with(models, name, gate, (inputs, Settings::default()));
}

fn serve_with(
    models: &Models,
    name: &str,
    gate: &Arc<Gate>,
    (inputs, batch): (Vec<TensorSpec>, Settings),
) {
    let is_wordy = name == "wordy";
    let signature = Signature {
        inputs,
        outputs: vec![spec("text", DType::Bytes, Dim::Fixed(1))],
        batched: true,
    };
    let gate = Arc::clone(gate);
    let (model, clock) = Model::open(Blueprint {
        name: name.to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "test".to_owned(),
        mode: Mode::Batch,
        batch,
        instances: 1,
        build: Arc::new(move |_| {
            let (signature, gate) = (signature.clone(), Arc::clone(&gate));
            Ok(Box::new(Counting { signature, gate, is_wordy }) as Box<dyn Backend>)
        }),
        ragged: Box::new(|_| Ok(Ragged::default())),
        sequences: SequenceLimits::default(),
        warm_up_length: 4,
        adapter: None,
    })
    .unwrap();
    tokio::spawn(clock.run());
    models.replace(name, vec![model]);
}

impl Rig {
    pub(crate) fn new(limits: SpeechLimits) -> Self {
        let (models, gate) = (Arc::new(Models::default()), Arc::<Gate>::default());
        let audio = || spec("audio", DType::F32, Dim::Any);
        let language = || spec("language", DType::Bytes, Dim::Fixed(1));
        serve(&models, "plain", &gate, vec![audio()]);
        serve(&models, "polyglot", &gate, vec![audio(), language()]);
        serve(&models, "stereo", &gate, vec![audio(), spec("other", DType::F32, Dim::Any)]);
        serve(&models, "wide", &gate, vec![audio(), spec("code", DType::F32, Dim::Fixed(2))]);
        serve(&models, "tuned", &gate, vec![audio(), spec("beam", DType::F32, Dim::Fixed(1))]);
        serve(&models, "wordy", &gate, vec![audio()]);
        // One at a time, and four that wait.
        let narrow = Settings { max_items: Some(1), queue_items: Some(4), ..Settings::default() };
        serve_with(&models, "narrow", &gate, (vec![audio()], narrow));
        gate.passed();
        let voices = VoiceDetector::start(VoiceSettings::default()).unwrap();
        let settings =
            SpeechSettings { model: "plain".to_owned(), bounds: Bounds::default(), limits };
        let speech = Speech::new(Arc::clone(&models), voices.clone(), settings);
        Self { models, speech, voices, gate }
    }

    pub(crate) fn open(&self, style: Style) -> Session {
        self.speech.open(terms(style)).unwrap()
    }
}

/// Carries a session on, which has nothing to say but that somebody speaks, until so many of its
/// and others' segments wait for the model.
pub(crate) async fn until_waiting(session: &mut Session, model: &Model, n_items: usize) {
    loop {
        if let Some(said) = session.next().now_or_never() {
            assert!(matches!(said, Event::Active { .. } | Event::Room), "{said:?}");
        }
        let stats = model.batch_stats();
        if stats.in_flight == 1 && stats.waiting_items == n_items {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// One channel of samples as they are.
pub(crate) fn terms(style: Style) -> Terms {
    Terms {
        source: Source::raw(Encoding::F32le, 16_000, 1),
        model: None,
        params: Key::default(),
        style,
        mix: false,
        trace: None,
    }
}

pub(crate) fn bytes(samples: &[f32]) -> Bytes {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

/// Sends all of it, as there is room, and gives everything that is said.
pub(crate) async fn hear(session: &mut Session, mut bytes: Bytes, chunk: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        while !session.has_room() {
            events.push(session.next().await);
            if matches!(events.last(), Some(Event::Ended(_))) {
                return events;
            }
        }
        session.push(bytes.split_to(chunk.min(bytes.len())));
    }
    session.finish();
    events.extend(until_ended(session).await);
    events
}

pub(crate) async fn until_ended(session: &mut Session) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        events.push(session.next().await);
        if matches!(events.last(), Some(Event::Ended(_))) {
            return events;
        }
    }
}

pub(crate) async fn until_flushed(session: &mut Session) -> Vec<Event> {
    let mut events = Vec::new();
    while !matches!(events.last(), Some(Event::Flushed)) {
        events.push(session.next().await);
    }
    events
}

/// The channel and span of each segment, its text, and how much of that is stable.
pub(crate) fn segments(events: &[Event]) -> Vec<(usize, Span, String, usize)> {
    let segment = |event: &Event| match event {
        Event::Segment { channel, span, transcript: Some(said), .. } => {
            Some((*channel, *span, said.text.clone(), said.stable))
        }
        _ => None,
    };
    events.iter().filter_map(segment).collect()
}
