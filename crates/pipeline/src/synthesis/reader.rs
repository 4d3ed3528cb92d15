//! What a token model reads of a text: the text itself, or phones. Pure.

use std::fmt;

use paceline_text::{Phonemiser, sentences};
use paceline_types::{DType, Shape, Tensor};

/// Makes a token model's main input of a text.
pub trait Reader: fmt::Debug + Send + Sync {
    /// The name of that input.
    fn input(&self) -> &'static str;

    /// Cuts a text into what goes into one call each, in order.
    fn split(&self, text: &str) -> Vec<String>;

    /// One row of that input; `None` where there is nothing to say.
    fn encode(&self, part: &str) -> Option<Tensor>;
}

/// The text itself.
#[derive(Debug, Clone, Copy)]
pub struct PlainText {
    /// Longest part in characters; 0 for any length.
    pub max_sentence: usize,
}

impl Reader for PlainText {
    fn input(&self) -> &'static str {
        "text"
    }

    fn split(&self, text: &str) -> Vec<String> {
        match self.max_sentence {
            0 => vec![text.to_owned()],
            most => sentences(text, most),
        }
    }

    fn encode(&self, part: &str) -> Option<Tensor> {
        let length = u32::try_from(part.len()).ok().filter(|_| !part.trim().is_empty())?;
        let data: Vec<u8> = length.to_le_bytes().into_iter().chain(part.bytes()).collect();
        Tensor::build(DType::Bytes, Shape::from_slice(&[1, 1]), data.into()).ok()
    }
}

/// English phones.
#[derive(Debug)]
pub struct Phones {
    /// What knows how words sound.
    pub phonemiser: Phonemiser,
    /// Longest part in characters.
    pub max_sentence: usize,
}

impl Reader for Phones {
    fn input(&self) -> &'static str {
        "ids"
    }

    fn split(&self, text: &str) -> Vec<String> {
        // Spelled out first: what is written `1,234,567` is long when spoken.
        sentences(&paceline_text::spell_out(text), self.max_sentence.max(40))
    }

    fn encode(&self, part: &str) -> Option<Tensor> {
        let ids = self.phonemiser.ids(part);
        // A pause at each end and nothing between.
        let n_ids = Some(ids.len()).filter(|n_ids| 2 < *n_ids)?;
        let data: Vec<u8> = ids.iter().flat_map(|id| i64::from(*id).to_le_bytes()).collect();
        Tensor::build(DType::I64, Shape::from_slice(&[1, n_ids]), data.into()).ok()
    }
}
