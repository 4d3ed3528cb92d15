//! Voices: those that belong to a model, and those that somebody registered. Bounded, and known by
//! their content: the same content is one voice, wherever it came from.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest as _, Sha256};

use super::error::{SynthesisError, clip};

/// What a voice gives to the inputs of the models, by their names.
pub type Content = BTreeMap<String, Arc<[f32]>>;

/// One voice.
#[derive(Debug, Clone, PartialEq)]
pub struct Voice {
    /// How it is asked for.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What it is like.
    pub description: String,
    /// Other names that mean it.
    pub aliases: Vec<String>,
    /// What it gives to the models.
    pub content: Arc<Content>,
    /// Whether it belongs to the model.
    pub is_built_in: bool,
}

/// Bounds on what is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoiceLimits {
    /// Most voices beside the model's own.
    pub max_voices: usize,
    /// Most numbers that all of them hold.
    pub max_values: usize,
}

impl Default for VoiceLimits {
    fn default() -> Self {
        Self { max_voices: 64, max_values: 16 << 20 }
    }
}

/// The voices of one pair.
#[derive(Debug)]
pub(crate) struct Voices {
    built_in: Vec<Voice>,
    default: String,
    limits: VoiceLimits,
    registered: Mutex<BTreeMap<String, Voice>>,
}

impl Voices {
    pub(crate) fn new(built_in: Vec<Voice>, default: Option<String>, limits: VoiceLimits) -> Self {
        let first = built_in.first().map(|voice| voice.id.clone()).unwrap_or_default();
        let default = default.unwrap_or(first);
        Self { built_in, default, limits, registered: Mutex::default() }
    }

    /// The voice that is asked for, or the default.
    pub(crate) fn find(&self, asked: Option<&str>) -> Result<Voice, SynthesisError> {
        let asked = asked.unwrap_or(&self.default);
        let is_meant = |voice: &&Voice| {
            let mut names = [&voice.id, &voice.name].into_iter().chain(&voice.aliases);
            names.any(|name| name.eq_ignore_ascii_case(asked))
        };
        if let Some(voice) = self.built_in.iter().find(is_meant) {
            return Ok(voice.clone());
        }
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        registered.values().find(is_meant).cloned().ok_or_else(|| {
            let names = self.built_in.iter().map(|voice| voice.id.as_str());
            let known: Vec<&str> = names.chain(registered.keys().map(String::as_str)).collect();
            SynthesisError::UnknownVoice { asked: clip(asked), known: known.join(", ") }
        })
    }

    /// All of them, the model's own first.
    pub(crate) fn list(&self) -> Vec<Voice> {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        self.built_in.iter().chain(registered.values()).cloned().collect()
    }

    /// Registers a voice by its content. The same content again is the same voice.
    pub(crate) fn register(&self, name: &str, content: Content) -> Result<Voice, SynthesisError> {
        let id = fingerprint(&content);
        let taken = self.built_in.iter().any(|voice| {
            voice.id.eq_ignore_ascii_case(name)
                || voice.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
        });
        if taken {
            return Err(SynthesisError::Voice(format!("the model has a voice `{}`", clip(name))));
        }
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = registered.get(&id) {
            return Ok(there.clone());
        }
        let VoiceLimits { max_voices, max_values } = self.limits;
        let values = |content: &Content| content.values().map(|values| values.len()).sum::<usize>();
        let held: usize = registered.values().map(|voice| values(&voice.content)).sum();
        if max_voices <= registered.len() || max_values < held + values(&content) {
            return Err(SynthesisError::Voice(format!(
                "{} voices of {held} numbers are registered, and {max_voices} of {max_values} \
                 are the most; delete one first",
                registered.len()
            )));
        }
        let voice = Voice {
            id: id.clone(),
            name: name.to_owned(),
            description: String::new(),
            aliases: Vec::new(),
            content: Arc::new(content),
            is_built_in: false,
        };
        registered.insert(id, voice.clone());
        Ok(voice)
    }

    /// Forgets a registered voice. Whoever listens to it hears it to the end.
    pub(crate) fn delete(&self, asked: &str) -> Result<Voice, SynthesisError> {
        let voice = self.find(Some(asked))?;
        if voice.is_built_in {
            return Err(SynthesisError::BuiltIn(voice.id));
        }
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).remove(&voice.id);
        Ok(voice)
    }
}

/// What content is known by.
fn fingerprint(content: &Content) -> String {
    let mut hash = Sha256::new();
    for (input, values) in content {
        hash.update((input.len() as u64).to_le_bytes());
        hash.update(input);
        hash.update((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| hash.update(value.to_bits().to_le_bytes()));
    }
    let digest = hash.finalize();
    let half = u64::from_be_bytes(std::array::from_fn(|at| digest[at]));
    format!("voice-{half:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(values: &[f32]) -> Content {
        BTreeMap::from([("embedding".to_owned(), values.into())])
    }

    fn voices(max_voices: usize) -> Voices {
        let own = Voice {
            id: "slt".to_owned(),
            name: "slt".to_owned(),
            description: String::new(),
            aliases: vec!["alloy".to_owned()],
            content: Arc::default(),
            is_built_in: true,
        };
        Voices::new(vec![own], None, VoiceLimits { max_voices, max_values: 100 })
    }

    #[test]
    fn the_same_content_is_one_voice_and_another_is_another() {
        let voices = voices(4);
        let ann = voices.register("ann", content(&[1.0, 2.0])).unwrap();

        assert_eq!(voices.register("ann again", content(&[1.0, 2.0])).unwrap().id, ann.id);
        assert_ne!(voices.register("bob", content(&[1.0, 3.0])).unwrap().id, ann.id);
        assert_eq!(voices.list().len(), 3);
        assert_eq!(voices.find(Some("ANN")).unwrap().id, ann.id);
        assert_eq!(voices.find(Some("alloy")).unwrap().id, "slt");
        assert_eq!(voices.find(None).unwrap().id, "slt");
    }

    #[test]
    fn what_is_unknown_is_answered_with_what_there_is_and_bounds_hold() {
        let voices = voices(1);
        let refused = voices.find(Some("nobody")).unwrap_err().to_string();
        assert_eq!(refused, "there is no voice `nobody`; there are slt");

        let ann = voices.register("ann", content(&[1.0])).unwrap();
        assert!(voices.register("bob", content(&[2.0])).is_err());
        assert!(voices.register("slt", content(&[3.0])).is_err());
        assert!(matches!(voices.delete("slt"), Err(SynthesisError::BuiltIn(_))));
        voices.delete(&ann.id).unwrap();
        assert!(voices.find(Some("ann")).is_err());
        voices.register("bob", content(&[2.0])).unwrap();
    }

    #[test]
    fn all_voices_together_hold_no_more_numbers_than_they_may() {
        let voices = voices(9);
        let values = |n: usize, value: f32| content(&vec![value; n]);

        voices.register("ann", values(60, 1.0)).unwrap();
        assert!(voices.register("bob", values(41, 2.0)).is_err());
        voices.register("bob", values(40, 2.0)).unwrap();
        assert!(voices.register("eve", values(1, 3.0)).is_err());
        assert!(voices.register("Alloy", values(0, 3.0)).is_err(), "another name of the model's");
    }
}
