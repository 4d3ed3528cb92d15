//! What can be set: about a pair of models that speaks, and about synthesis as a whole.

use std::{collections::BTreeMap, time::Duration};

use super::{listener::Pace, shape::ChunkShape, voices::VoiceLimits};

/// A pair of models that speaks: the `[synthesis]` table of a token model.
#[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PairSettings {
    /// The model that turns windows of tokens into sound.
    pub vocoder: String,
    /// What the token model reads.
    pub reads: Reads,
    /// Languages that it speaks, the default one first.
    pub languages: Vec<String>,
    /// The voice of those who name none; the first one where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_voice: Option<String>,
    /// The model's own voices.
    pub voices: BTreeMap<String, VoiceSettings>,
    /// Inputs, of either model, that may differ from row to row of one call. All others but text
    /// and tokens make items that differ in them go in calls of their own.
    pub per_row: Vec<String>,
    /// Inputs, of either model, that clients may set, and what they are otherwise.
    pub parameters: BTreeMap<String, Parameter>,
    /// The token model's output that says how many of its tokens are valid; all, where it is left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
    /// Longest text, in characters, that goes into one call of the token model; longer ones are
    /// cut at the end of a sentence, or of a clause, or of a word. 0 for any length.
    pub max_sentence: usize,
    /// How tokens become chunks of sound.
    pub chunks: ChunkShape,
}

/// What a token model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// The text itself, in an input `text` of `BYTES`.
    #[default]
    Text,
    /// Phones, in an input `ids`, made of English text with the `lexicon.tsv.gz` and the
    /// `phones.json` of the model's folder.
    Phones,
}

/// One of a model's own voices.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct VoiceSettings {
    /// What it is like.
    pub description: String,
    /// Other names that mean it.
    pub aliases: Vec<String>,
    /// What it gives to the inputs of the models.
    pub inputs: BTreeMap<String, Vec<f32>>,
}

/// An input that clients may set.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// What it is where a client does not say.
    pub default: f32,
    /// The least that it may be.
    pub min: f32,
    /// The most that it may be.
    pub max: f32,
}

impl Default for PairSettings {
    fn default() -> Self {
        Self {
            vocoder: "vocoder".to_owned(),
            reads: Reads::Text,
            languages: vec!["en".to_owned()],
            default_voice: None,
            voices: BTreeMap::new(),
            per_row: Vec::new(),
            parameters: BTreeMap::new(),
            count: None,
            max_sentence: 0,
            chunks: ChunkShape::default(),
        }
    }
}

/// Synthesis as a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct SynthesisSettings {
    /// The pair of those who name none; the first one where it is left out.
    pub model: Option<String>,
    /// Listeners at once.
    pub max_listeners: usize,
    /// Longest text, in characters.
    pub max_text: usize,
    /// How far ahead of a listener's ear sound is made.
    pub pace: Pace,
    /// Bounds on registered voices, of each pair.
    pub voices: VoiceLimits,
}

impl Default for SynthesisSettings {
    fn default() -> Self {
        Self {
            model: None,
            max_listeners: 1000,
            max_text: 10_000,
            pace: Pace { ahead: Duration::from_millis(1200), ..Pace::default() },
            voices: VoiceLimits::default(),
        }
    }
}
