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

#[cfg(test)]
mod tests {
    use paceline_text::Lexicon;

    use super::*;

    fn phones(max_sentence: usize) -> Phones {
        let lexicon = Lexicon::new("a\tax0\ncat\tk ae1 t\n".to_owned()).unwrap();
        let symbols = br#"{"symbols": ["pau", "_", "ax0", "k", "ae1", "t"]}"#;
        Phones { phonemiser: Phonemiser::new(lexicon, symbols).unwrap(), max_sentence }
    }

    #[test]
    fn phones_are_numbers_with_a_pause_at_each_end() {
        let said = phones(40).encode("A cat.").unwrap();

        let ids: Vec<u8> = [0, 1, 2, 1, 3, 4, 5, 0_i64].map(i64::to_le_bytes).concat();
        assert_eq!(
            (said.dtype(), said.shape(), &said.data()[..]),
            (DType::I64, &[1, 8][..], &*ids)
        );
        assert_eq!(phones(40).input(), "ids");
    }

    #[test]
    fn where_there_is_only_a_pause_nothing_is_said() {
        for silent in ["", "...", "- ?"] {
            assert!(phones(40).encode(silent).is_none(), "{silent:?}");
        }
        assert_eq!(phones(40).encode("a").unwrap().shape(), [1, 4], "one phone is enough");
    }

    #[test]
    fn a_text_is_cut_by_how_long_it_is_when_it_is_spoken() {
        let number = "It is 1,234,567.";
        let spoken = paceline_text::spell_out(number);
        assert!(number.len() < 40 && 40 < spoken.len());

        // No part is shorter than it makes sense.
        for max_sentence in [0, 40] {
            let parts = phones(max_sentence).split(number);
            assert!(1 < parts.len() && parts.iter().all(|part| part.len() <= 40), "{parts:?}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&parts.join(" ")), words(&spoken));
        }
        assert_eq!(phones(1000).split(number), [spoken]);
    }
}
