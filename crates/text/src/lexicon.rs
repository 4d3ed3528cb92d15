//! How words sound, by a list of them.

use std::io::Read as _;

/// Words and their phones: lines of a word, a tab and phones with spaces between, sorted by word.
/// Kept as the one text it came as, and searched in place: a tenth of what a table would take.
#[derive(Debug)]
pub struct Lexicon {
    text: String,
    /// Where each line begins.
    lines: Vec<u32>,
}

/// A lexicon that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LexiconError {
    /// It cannot be unpacked.
    #[error("it is not gzipped UTF-8 text: {0}")]
    Packed(#[from] std::io::Error),
    /// It is larger than any is.
    #[error("it unpacks to more than 64 MiB")]
    TooLarge,
    /// A line is not as it must be.
    #[error("line {0} is not a word, a tab and phones, or does not sort after the one before")]
    Line(usize),
    /// The list of symbols.
    #[error("phones.json has no list of symbols with `pau` and `_` among them: {0}")]
    Symbols(String),
}

const MAX_BYTES: u64 = 64 << 20;

impl Lexicon {
    /// Unpacks and checks one.
    ///
    /// # Errors
    ///
    /// When it is not what it should be.
    pub fn unpack(gzipped: &[u8]) -> Result<Self, LexiconError> {
        let mut text = String::new();
        flate2::read::GzDecoder::new(gzipped).take(MAX_BYTES).read_to_string(&mut text)?;
        if MAX_BYTES <= text.len() as u64 {
            return Err(LexiconError::TooLarge);
        }
        Self::new(text)
    }

    /// Checks one.
    ///
    /// # Errors
    ///
    /// When a line is wrong.
    pub fn new(text: String) -> Result<Self, LexiconError> {
        let mut lines = Vec::new();
        let (mut at, mut before) = (0, "");
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let word = line.split_once('\t').map(|(word, _)| word);
            let Some(word) = word.filter(|word| before < *word) else {
                return Err(LexiconError::Line(number + 1));
            };
            lines.push(u32::try_from(at).map_err(|_| LexiconError::TooLarge)?);
            at += line.len();
            before = word;
        }
        Ok(Self { text, lines })
    }

    /// The phones of a word, with spaces between.
    #[must_use]
    pub fn get(&self, word: &str) -> Option<&str> {
        let found = self.lines.binary_search_by(|&line| self.line(line).0.cmp(word)).ok()?;
        Some(self.line(self.lines[found]).1)
    }

    /// How many words it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn line(&self, at: u32) -> (&str, &str) {
        let rest = &self.text[at as usize..];
        let line = rest.split('\n').next().unwrap_or(rest);
        line.split_once('\t').unwrap_or((line, ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_and_disorder_is_named() {
        let lexicon = Lexicon::new("a\tax0\ncat\tk ae1 t\ndog\td ao1 g\n".to_owned()).unwrap();

        assert_eq!(lexicon.get("cat"), Some("k ae1 t"));
        assert_eq!((lexicon.get("ca"), lexicon.get("cats"), lexicon.len()), (None, None, 3));
        let refused = |text: &str| Lexicon::new(text.to_owned()).unwrap_err().to_string();
        assert!(refused("b\tb\na\ta\n").starts_with("line 2 "));
        assert!(refused("word\n").starts_with("line 1 "));
        assert!(Lexicon::unpack(b"no gzip").is_err());
    }
}
