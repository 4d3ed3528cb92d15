//! Streaming synthesis: text in, sound out in chunks, first sound soon and then without gaps.
//!
//! ```text
//! text ─▶ Reader ─▶ token model ─▶ Tape ─▶ Planner ─▶ vocoder ─▶ Joiner ─▶ Sound
//!         splits     streams tokens        windows     batched    crops, fades
//!                                   Listener: what is needed next, and by when; pure
//!                                   Session: waits; thin
//! ```
//!
//! Both models are ordinary ones, so that any backend can serve them. A chunk is wanted when its
//! listener would run dry; the batcher serves what is wanted first, and lets what is wanted later
//! wait for company. Items share a vocoder call only where everything that changes the result is
//! equal: the key is a fingerprint of content ([`PairSettings::per_row`] says what need not be).

mod bind;
mod counts;
mod error;
mod listener;
mod plan;
mod playback;
mod reader;
mod seam;
mod session;
mod settings;
mod shape;
mod tape;
mod voices;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use paceline_audio::{Bounds, DecodeError, Decoder, Encoding, Source};
use paceline_types::{Dim, Signature};
use tokio::sync::Semaphore;

pub use counts::SynthesisStats;
pub use error::SynthesisError;
pub use listener::{Listener, Next, Pace};
pub use paceline_audio::encode::{Container, EncodeError, Encoder, wav_header};
pub use plan::{Planner, Window};
pub use playback::Playback;
pub use reader::{Phones, PlainText, Reader};
pub use session::Session;
pub use settings::{PairSettings, Parameter, Reads, SynthesisSettings, VoiceSettings};
pub use shape::{ChunkShape, Seam, ShapeError};
pub use voices::{Content, Voice, VoiceLimits};

use self::{bind::Bound, counts::Counts, error::clip, session::Stage, voices::Voices};
use crate::{Model, Models};

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// What to say.
    pub text: String,
    /// The pair that says it; the default one where it is left out.
    pub model: Option<String>,
    /// The voice; the pair's default one where it is left out.
    pub voice: Option<String>,
    /// The language; the pair's first one where it is left out.
    pub language: Option<String>,
    /// What the client set, by the names of the models' inputs. What neither model takes is not
    /// looked at.
    pub parameters: BTreeMap<String, f32>,
}

/// A chunk of sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Sound {
    /// Samples, mostly from -1 to 1.
    pub samples: Vec<f32>,
    /// For how long the listener had heard nothing before it.
    pub gap: Option<Duration>,
}

/// A cheap handle to what all sessions share.
#[derive(Debug, Clone)]
pub struct Synthesis(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    models: Arc<Models>,
    settings: SynthesisSettings,
    /// In the order in which they were added; the first speaks for those who name none.
    pairs: RwLock<Vec<Arc<Pair>>>,
    /// Listeners that may still come.
    places: Arc<Semaphore>,
    counts: Arc<Counts>,
}

/// A pair of models that speaks.
#[derive(Debug)]
pub struct Pair {
    name: String,
    settings: PairSettings,
    reader: Box<dyn Reader>,
    voices: Voices,
    pace: Pace,
    /// Who holds it may ask for sound before its time. One over all: it fills a device that has
    /// nothing else to do, and is never much in the way of those who cannot wait.
    spare: Arc<Semaphore>,
    counts: Arc<Counts>,
    /// Which of the token model's outputs are the tokens, and how many are valid.
    tokens_output: usize,
    count_output: Option<usize>,
}

impl Synthesis {
    /// Synthesis with these models; nobody speaks yet.
    #[must_use]
    pub fn new(models: Arc<Models>, settings: SynthesisSettings) -> Self {
        let places = Arc::new(Semaphore::new(settings.max_listeners));
        let (pairs, counts) = (RwLock::default(), Arc::default());
        Self(Arc::new(Shared { models, settings, pairs, places, counts }))
    }

    /// Lets a pair speak, under the name of its token model. Both models must be served.
    ///
    /// # Errors
    ///
    /// When its settings make no sense, or the models do not fit them.
    pub fn add(
        &self,
        name: &str,
        settings: PairSettings,
        reader: Box<dyn Reader>,
    ) -> Result<(), SynthesisError> {
        let setup = |message: String| SynthesisError::Setup(format!("`{name}`: {message}"));
        settings.chunks.validate().map_err(|error| setup(error.to_string()))?;
        let tokens = self.0.models.find(name, None)?;
        let vocoder = self.0.models.find(&settings.vocoder, None)?;
        let has_main = tokens.signature().inputs.iter().any(|spec| spec.name == reader.input());
        if !has_main {
            return Err(setup(format!("the token model has no input `{}`", reader.input())));
        }
        main_input(&vocoder).ok_or_else(|| {
            setup(format!("vocoder `{}` has no input of free length", settings.vocoder))
        })?;
        let outputs = &tokens.signature().outputs;
        let place = |output: &String| outputs.iter().position(|spec| spec.name == *output);
        let count_output = match &settings.count {
            Some(count) => {
                let missing = || setup(format!("the token model has no output `{count}`"));
                Some(place(count).ok_or_else(missing)?)
            }
            None => None,
        };
        let built_in = settings.voices.iter().map(|(id, voice)| Voice {
            id: id.clone(),
            name: id.clone(),
            description: voice.description.clone(),
            aliases: voice.aliases.clone(),
            content: Arc::new(
                voice
                    .inputs
                    .iter()
                    .map(|(name, values)| (name.clone(), values[..].into()))
                    .collect(),
            ),
            is_built_in: true,
        });
        let voices =
            Voices::new(built_in.collect(), settings.default_voice.clone(), self.0.settings.voices);
        let pair = Arc::new(Pair {
            name: name.to_owned(),
            reader,
            voices,
            pace: self.0.settings.pace,
            spare: Arc::new(Semaphore::new(1)),
            counts: Arc::clone(&self.0.counts),
            tokens_output: 0,
            count_output,
            settings,
        });
        // A voice that gives too little is found now and not by its first listener.
        for voice in pair.voices.list() {
            pair.stages(&self.0.models, &voice.content, &BTreeMap::new())?;
        }
        let mut pairs = self.0.pairs.write().unwrap_or_else(PoisonError::into_inner);
        pairs.retain(|pair| pair.name != name);
        pairs.push(pair);
        Ok(())
    }

    /// Begins to speak.
    ///
    /// # Errors
    ///
    /// When what is asked for is not there, or makes no sense, or too many listen.
    pub fn open(&self, request: &Request) -> Result<Session, SynthesisError> {
        let (pair, stages) = self.prepare(request)?;
        let parts = pair.reader.split(&request.text);
        let parts: VecDeque<_> = parts.iter().filter_map(|part| pair.reader.encode(part)).collect();
        if parts.is_empty() {
            return Err(SynthesisError::NothingToSay);
        }
        let place = Arc::clone(&self.0.places).try_acquire_owned().map_err(|_| {
            self.0.counts.change(|counts| counts.refused += 1);
            SynthesisError::Full
        })?;
        Ok(Session::new(pair, stages, parts, place))
    }

    /// Whether what is asked for is there, whatever is to be said.
    ///
    /// # Errors
    ///
    /// When it is not, and what is.
    pub fn check(&self, request: &Request) -> Result<(), SynthesisError> {
        self.prepare(request).map(drop)
    }

    fn prepare(&self, request: &Request) -> Result<(Arc<Pair>, (Stage, Stage)), SynthesisError> {
        let pair = self.pair(request.model.as_deref())?;
        let voice = pair.voices.find(request.voice.as_deref())?;
        let (actual, limit) = (request.text.chars().count(), self.0.settings.max_text);
        if limit < actual {
            return Err(SynthesisError::TooLong { actual, limit });
        }
        pair.check_language(request.language.as_deref())?;
        let stages = pair.stages(&self.0.models, &voice.content, &request.parameters)?;
        pair.check_speed(&stages, &request.parameters)?;
        Ok((pair, stages))
    }

    /// The pairs that speak.
    #[must_use]
    pub fn pairs(&self) -> Vec<Arc<Pair>> {
        self.0.pairs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The pair that is asked for, or the default one.
    ///
    /// # Errors
    ///
    /// When there is no such pair.
    pub fn pair(&self, asked: Option<&str>) -> Result<Arc<Pair>, SynthesisError> {
        let pairs = self.0.pairs.read().unwrap_or_else(PoisonError::into_inner);
        let Some(asked) = asked.or(self.0.settings.model.as_deref()) else {
            return pairs.first().cloned().ok_or(SynthesisError::None);
        };
        let names = || pairs.iter().map(|pair| pair.name.as_str()).collect::<Vec<_>>().join(", ");
        pairs.iter().find(|pair| pair.name == asked).cloned().ok_or_else(|| match pairs.len() {
            0 => SynthesisError::None,
            _ => SynthesisError::UnknownModel { asked: clip(asked), known: names() },
        })
    }

    /// Bounds and defaults.
    #[must_use]
    pub fn settings(&self) -> &SynthesisSettings {
        &self.0.settings
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> SynthesisStats {
        let mut stats = self.0.counts.read();
        stats.listening = self.0.settings.max_listeners - self.0.places.available_permits();
        let mut names: Vec<String> = self
            .pairs()
            .iter()
            .flat_map(|pair| [pair.name.clone(), pair.settings.vocoder.clone()])
            .collect();
        names.sort_unstable();
        names.dedup();
        stats.batchers = names
            .into_iter()
            .filter_map(|name| {
                let model = self.0.models.find(&name, None).ok()?;
                Some((name, model.batch_stats()))
            })
            .collect();
        stats
    }
}

impl Pair {
    /// The name of its token model, by which it is asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it was set up.
    #[must_use]
    pub const fn settings(&self) -> &PairSettings {
        &self.settings
    }

    /// Its voices, its own first.
    #[must_use]
    pub fn voices(&self) -> Vec<Voice> {
        self.voices.list()
    }

    /// Registers a voice by what it gives to the models' inputs.
    ///
    /// # Errors
    ///
    /// When neither model takes that, the name is taken, or there is no room.
    pub fn register(
        &self,
        models: &Models,
        name: &str,
        content: Content,
    ) -> Result<Voice, SynthesisError> {
        let mut taken = Vec::new();
        for model in [&self.name, &self.settings.vocoder] {
            let model = models.find(model, None)?;
            taken.extend(model.signature().inputs.iter().map(|spec| spec.name.clone()));
        }
        if let Some(given) = content.keys().find(|given| !taken.contains(given)) {
            return Err(SynthesisError::Voice(format!(
                "neither model takes `{}`; they take {}",
                clip(given),
                taken.join(", ")
            )));
        }
        // What a new voice leaves out is as the default voice has it.
        let mut whole =
            self.voices.find(None).map(|voice| (*voice.content).clone()).unwrap_or_default();
        whole.extend(content);
        self.stages(models, &whole, &BTreeMap::new())
            .map_err(|error| SynthesisError::Voice(error.to_string()))?;
        self.voices.register(name, whole)
    }

    /// Forgets a registered voice.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or it belongs to the model.
    pub fn delete(&self, voice: &str) -> Result<Voice, SynthesisError> {
        self.voices.delete(voice)
    }

    /// Both models as they are served now, and what a request gives to them.
    fn stages(
        &self,
        models: &Models,
        voice: &Content,
        wishes: &BTreeMap<String, f32>,
    ) -> Result<(Stage, Stage), SynthesisError> {
        let stage = |model: Arc<Model>, main: &str| {
            let bound = Bound::new(model.signature(), main, &self.settings, voice, wishes)?;
            Ok::<_, SynthesisError>(Stage { model, bound })
        };
        let tokens = stage(models.find(&self.name, None)?, self.reader.input())?;
        let vocoder = models.find(&self.settings.vocoder, None)?;
        let main = main_input(&vocoder).unwrap_or_default();
        Ok((tokens, stage(vocoder, &main)?))
    }

    fn check_language(&self, asked: Option<&str>) -> Result<(), SynthesisError> {
        let languages = &self.settings.languages;
        // `en-US` is spoken where `en` is.
        let is_spoken = |asked: &str| {
            let general = asked.split(['-', '_']).next().unwrap_or(asked);
            languages
                .iter()
                .any(|own| own.eq_ignore_ascii_case(asked) || own.eq_ignore_ascii_case(general))
        };
        match asked {
            Some(asked) if !is_spoken(asked) => Err(SynthesisError::UnknownLanguage {
                asked: clip(asked),
                known: languages.join(", "),
            }),
            _ => Ok(()),
        }
    }

    /// A speed is not to be passed over in silence by models that have none.
    fn check_speed(
        &self,
        (tokens, vocoder): &(Stage, Stage),
        wishes: &BTreeMap<String, f32>,
    ) -> Result<(), SynthesisError> {
        const SPEED: &str = "speed";
        let takes = |signature: &Signature| signature.inputs.iter().any(|spec| spec.name == SPEED);
        let value = wishes.get(SPEED).copied().unwrap_or(1.0);
        let is_one = (value - 1.0).abs() < f32::EPSILON;
        if is_one || takes(tokens.model.signature()) || takes(vocoder.model.signature()) {
            return Ok(());
        }
        let allowed = format!("`{}` speaks at one speed; leave it out", self.name);
        Err(SynthesisError::Parameter { name: SPEED.to_owned(), value, allowed })
    }
}

/// The vocoder's input that takes tokens: the first one whose last extent is free.
fn main_input(vocoder: &Model) -> Option<String> {
    let inputs = &vocoder.signature().inputs;
    let main = inputs.iter().find(|spec| spec.dims.last() == Some(&Dim::Any))?;
    Some(main.name.clone())
}

/// The samples of a recording that says how somebody sounds, at this rate and in mono.
///
/// # Errors
///
/// When it cannot be read.
pub fn reference(recording: &[u8], rate: u32) -> Result<Vec<f32>, DecodeError> {
    let bounds = Bounds { max_duration: MAX_REFERENCE, ..Bounds::default() };
    let mut decoder = Decoder::new(Source::container(Encoding::Auto), rate, &bounds)?;
    let mut planes: Vec<Vec<f32>> = Vec::new();
    decoder.push(recording, &mut planes)?;
    decoder.finish(&mut planes)?;
    let mut planes = planes.into_iter();
    Ok(planes.next().unwrap_or_default())
}

/// Longest recording of a voice.
const MAX_REFERENCE: Duration = Duration::from_mins(1);
