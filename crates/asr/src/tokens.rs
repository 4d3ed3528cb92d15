//! Tokens to text.

use std::{fs, path::Path};

use crate::{LoadError, shape::VOCABULARY};

/// What each token says.
#[derive(Debug)]
pub struct Tokens {
    /// All of them, one after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

/// What the file has for a space: U+2581.
const SPACE: &[u8] = "\u{2581}".as_bytes();

impl Tokens {
    /// Reads `tokenizer.bin` from a model's folder.
    ///
    /// # Errors
    ///
    /// When it cannot be read or does not have the model's tokens.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = folder.as_ref().join("tokenizer.bin");
        match fs::read(&path) {
            Ok(file) => Self::parse(&file).map_err(|found| LoadError::WrongTokens {
                path,
                found,
                expected: VOCABULARY,
            }),
            Err(source) => Err(LoadError::Unreadable { path, source }),
        }
    }

    /// The tokens of a file, or how many there were when it was not as it should be.
    ///
    /// A token is its length and its bytes. A length of 128 or more has two bytes, the second of
    /// which counts 128 each.
    fn parse(mut file: &[u8]) -> Result<Self, usize> {
        let mut tokens = Self { bytes: Vec::with_capacity(file.len()), ends: Vec::new() };
        while let Some((token, rest)) = split(file) {
            if !is_silent(token) {
                tokens.push(token);
            }
            tokens.ends.push(tokens.bytes.len());
            file = rest;
        }
        let is_whole = file.is_empty() && tokens.ends.len() == VOCABULARY;
        if is_whole { Ok(tokens) } else { Err(tokens.ends.len()) }
    }

    fn push(&mut self, mut token: &[u8]) {
        while let Some(first) = token.first() {
            if let Some(rest) = token.strip_prefix(SPACE) {
                self.bytes.push(b' ');
                token = rest;
            } else {
                self.bytes.push(*first);
                token = &token[1..];
            }
        }
    }

    /// What tokens say together. What is no text becomes U+FFFD, since a letter may be more than
    /// one token and its end may be missing.
    #[must_use]
    pub fn text(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| self.bytes(*token)).copied().collect();
        String::from_utf8_lossy(&bytes).trim_start().to_owned()
    }

    fn bytes(&self, token: u32) -> &[u8] {
        let token = token as usize;
        let Some(end) = self.ends.get(token) else { return &[] };
        let start = token.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..*end]
    }
}

/// The first token of a file, and what follows it.
fn split(file: &[u8]) -> Option<(&[u8], &[u8])> {
    let (n_bytes, rest) = match *file {
        [low @ 128..=255, high, ref rest @ ..] => {
            (usize::from(high) * 128 + usize::from(low) - 128, rest)
        }
        [low @ 0..=127, ref rest @ ..] => (usize::from(low), rest),
        _ => return None,
    };
    rest.split_at_checked(n_bytes)
}

/// Whether a token is for the model and not for a reader.
fn is_silent(token: &[u8]) -> bool {
    [&b"<unk>"[..], b"<s>", b"</s>"].contains(&token) || token.starts_with(b"<<ST_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_ends_too_early_is_refused() {
        let file = include_bytes!("../../../models/moonshine/1/tokenizer.bin");
        assert!(Tokens::parse(file).is_ok());
        for n_bytes in [0, 1, 1000, file.len() - 1] {
            assert!(Tokens::parse(&file[..n_bytes]).is_err(), "{n_bytes}");
        }
        assert_eq!(Tokens::parse(&[file, &[1, b'x'][..]].concat()).unwrap_err(), VOCABULARY + 1);
    }

    #[test]
    fn tokens_become_text() {
        let tokens =
            Tokens::parse(include_bytes!("../../../models/moonshine/1/tokenizer.bin")).unwrap();
        let find = |text: &str| {
            (0..VOCABULARY as u32).find(|at| tokens.bytes(*at) == text.as_bytes()).unwrap()
        };
        assert_eq!(tokens.text(&[find(" the"), find(" and")]), "the and");
        // Control tokens, and one that there is not.
        assert_eq!(tokens.text(&[0, 1, 2, 32_000, 32_767, u32::MAX]), "");
        // An `é` in two bytes, and half of one.
        assert_eq!(tokens.text(&[3 + 0xc3, 3 + 0xa9]), "é");
        assert_eq!(tokens.text(&[3 + 0xc3]), "\u{fffd}");
    }
}
