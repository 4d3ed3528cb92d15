//! A pair on the paused clock, and what its sound must be.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use paceline_backend::{
    self as backend, Backend, BackendError, Early, EarlyOutputs, Instance, Item, Output, Outputs,
    Ragged, Stacked, StackedCall,
    simulated::{
        self, Answer,
        speech::{Mark, TOKEN_SAMPLES, token},
    },
};
use paceline_batch::{Call, Cause, Executor, Reply, Runner, Settings};
use paceline_pipeline::{
    Blueprint, Mode, Model, Models, SequenceLimits, VersionPolicy,
    synthesis::{
        ChunkShape, PairSettings, Parameter, PlainText, Request, Seam, Session, Synthesis,
        SynthesisError, SynthesisSettings, VoiceSettings,
    },
};
use paceline_types::{DType, Dim, Signature, Tensor, TensorSpec};
use tokio::time::sleep;

/// An instance that takes its time on the paused clock, and remembers how many rows its calls had.
struct Paced {
    instance: Instance,
    curve: fn(usize) -> Duration,
    calls: Arc<Mutex<Vec<usize>>>,
}

impl Executor<Item, Output, Vec<Tensor>> for Paced {
    async fn execute(
        &mut self,
        call: &Call<'_, Item, Output, Vec<Tensor>>,
        replies: &mut Vec<Reply<Output, Vec<Tensor>>>,
    ) -> Result<(), Cause> {
        self.calls.lock().unwrap().push(call.n_items());
        sleep((self.curve)(call.rows)).await;
        self.instance.execute(call, replies).await
    }
}

pub(crate) struct Rig {
    pub(crate) synthesis: Synthesis,
    pub(crate) models: Arc<Models>,
    /// Items of each call of the vocoder.
    pub(crate) calls: Arc<Mutex<Vec<usize>>>,
    /// The same of the token model.
    pub(crate) token_calls: Arc<Mutex<Vec<usize>>>,
}

/// A token model with a speed, which changes nothing. What begins with a star has one result,
/// without a token.
struct Muttering {
    tokens: Box<dyn Backend>,
    signature: Signature,
}

impl Muttering {
    fn new(tokens: Box<dyn Backend>) -> Self {
        let mut signature = tokens.signature().clone();
        let dims = vec![Dim::Fixed(1)];
        signature.inputs.push(TensorSpec { name: "speed".to_owned(), dtype: DType::F32, dims });
        Self { tokens, signature }
    }
}

impl Backend for Muttering {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn streams(&self) -> bool {
        true
    }

    fn run(&mut self, call: &backend::Call<'_>) -> Result<Outputs, BackendError> {
        self.tokens.run(&backend::Call { inputs: &call.inputs[..1], rows: call.rows })
    }

    fn run_stacked(
        &mut self,
        call: &StackedCall<'_>,
        early: &mut Early<'_>,
    ) -> Result<Outputs, BackendError> {
        let text = Stacked::to_tensor(&call.inputs[0]);
        if text.byte_elements().all(|text| text.starts_with(b"*")) {
            let outputs = self.tokens.run(&backend::Call { inputs: &[text], rows: call.rows })?;
            early(EarlyOutputs { outputs, silent: Vec::new() });
            return Ok(Outputs::default());
        }
        self.tokens.run_stacked(&StackedCall { inputs: &call.inputs[..1], ..*call }, early)
    }
}

/// How both models run.
pub(crate) struct Serving {
    /// Of the vocoder.
    pub(crate) batch: Settings,
    /// Of the token model.
    pub(crate) token_batch: Settings,
    pub(crate) token_curve: fn(usize) -> Duration,
    /// Whether the token model has a speed.
    pub(crate) mutters: bool,
}

impl From<Settings> for Serving {
    fn from(batch: Settings) -> Self {
        let (token_batch, token_curve) = (Settings::default(), |_| Duration::ZERO);
        Self { batch, token_batch, token_curve, mutters: false }
    }
}

/// 1, 8 and 32 rows take 50, 70 and 150 ms.
pub(crate) fn vocoder_curve(rows: usize) -> Duration {
    let millis = match rows {
        0..=1 => 50.0,
        2..=8 => 50.0 + 20.0 * (rows - 1) as f64 / 7.0,
        _ => 70.0 + 80.0 * (rows - 8) as f64 / 24.0,
    };
    Duration::from_secs_f64(millis / 1000.0)
}

pub(crate) fn shape() -> ChunkShape {
    ChunkShape { seam: Seam::None, ..ChunkShape::default() }
}

impl Rig {
    pub(crate) fn new(chunks: ChunkShape, serving: impl Into<Serving>) -> Self {
        Self::with(chunks, serving, SynthesisSettings::default(), &[])
    }

    pub(crate) fn with(
        chunks: ChunkShape,
        serving: impl Into<Serving>,
        settings: SynthesisSettings,
        per_row: &[&str],
    ) -> Self {
        let models = Arc::new(Models::default());
        let (calls, token_calls) = (Arc::default(), Arc::default());
        let Serving { batch, token_batch, token_curve, mutters } = serving.into();
        let voice: Make = |sound| sound;
        let tokens: Make = if mutters { |tokens| Box::new(Muttering::new(tokens)) } else { voice };
        open(&models, (Answer::Tokens, tokens), token_batch, token_curve, &token_calls);
        open(&models, (Answer::Sound, voice), batch, vocoder_curve, &calls);
        let synthesis = Synthesis::new(Arc::clone(&models), settings);
        let voice = |code: f32| VoiceSettings {
            inputs: BTreeMap::from([("embedding".to_owned(), vec![code])]),
            ..VoiceSettings::default()
        };
        let pair = PairSettings {
            voices: (0_u8..8).map(|code| (format!("v{code}"), voice(code.into()))).collect(),
            per_row: per_row.iter().map(|&name| name.to_owned()).collect(),
            parameters: BTreeMap::from([
                ("diffusion_steps".to_owned(), Parameter { default: 5.0, min: 1.0, max: 7.0 }),
                ("speed".to_owned(), Parameter { default: 1.0, min: 0.5, max: 2.0 }),
            ]),
            count: Some("count".to_owned()),
            chunks,
            ..PairSettings::default()
        };
        synthesis.add("tokens", pair, Box::new(PlainText { max_sentence: 0 })).unwrap();
        Self { synthesis, models, calls, token_calls }
    }

    pub(crate) fn speak(
        &self,
        text: &str,
        voice: &str,
        steps: u8,
    ) -> Result<Session, SynthesisError> {
        self.synthesis.open(&Request {
            text: text.to_owned(),
            voice: Some(voice.to_owned()),
            parameters: BTreeMap::from([("diffusion_steps".to_owned(), steps.into())]),
            ..Request::default()
        })
    }

    pub(crate) fn calls(&self) -> Vec<usize> {
        self.calls.lock().unwrap().clone()
    }
}

/// What a model is made of.
type Make = fn(Box<dyn Backend>) -> Box<dyn Backend>;

fn open(
    models: &Models,
    (answer, make): (Answer, Make),
    batch: Settings,
    curve: fn(usize) -> Duration,
    calls: &Arc<Mutex<Vec<usize>>>,
) {
    let settings = simulated::Settings { answer, ..simulated::Settings::default() };
    let is_vocoder = answer == Answer::Sound;
    let name = if is_vocoder { "vocoder" } else { "tokens" };
    let blueprint = Blueprint {
        name: name.to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "paceline_simulated".to_owned(),
        mode: Mode::Batch,
        batch,
        instances: 1,
        build: Arc::new(move |instance| {
            Ok(make(simulated::build(&settings, instance as u64).unwrap()))
        }),
        ragged: Box::new(move |_| {
            Ok(Ragged {
                inputs: if is_vocoder { vec![(0, 1)] } else { Vec::new() },
                lengths: is_vocoder.then_some((1, DType::I32)),
                ..Ragged::default()
            })
        }),
        sequences: SequenceLimits::default(),
        warm_up_length: 4,
        adapter: None,
    };
    let (model, clock) = Model::open_on(blueprint, &mut |_, puller, instance, ended| {
        let paced = Paced { instance, curve, calls: Arc::clone(calls) };
        tokio::spawn(async move { ended(Runner::new(puller, paced).run().await) });
        Ok(())
    })
    .unwrap();
    tokio::spawn(clock.run());
    models.replace(name, vec![model]);
}

/// Everything that is said, whole.
pub(crate) async fn all(mut session: Session) -> Result<Vec<f32>, SynthesisError> {
    let mut sound = Vec::new();
    while let Some(chunk) = session.next().await {
        sound.extend(chunk?.samples);
    }
    Ok(sound)
}

/// What a text must sound like, sample by sample.
pub(crate) fn expected(text: &str, voice: u8, steps: u8) -> Vec<f32> {
    let tokens: Vec<u8> = text.bytes().enumerate().map(|(at, byte)| token(byte, at)).collect();
    let mut sound = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        for place in 0..TOKEN_SAMPLES {
            let before = if at == 0 { 0 } else { tokens[at - 1] };
            let is_end = at + 1 == tokens.len() && place + 1 == TOKEN_SAMPLES;
            sound.push(
                Mark {
                    voice,
                    steps,
                    token: if place == 0 { before } else { *token },
                    place: if is_end { 1023 } else { u16::try_from(place).unwrap() },
                }
                .sample(),
            );
        }
    }
    sound
}
