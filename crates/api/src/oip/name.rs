//! Names that strangers chose, made safe to repeat in an error or a log line.

use std::fmt;

/// Most characters of a foreign name that are repeated.
const LIMIT: usize = 64;

/// A foreign name cut to 64 characters, with control characters escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(Box<str>);

impl Name {
    /// The same for a sentence that has foreign words in it, cut to `limit` characters.
    pub(super) fn clipped(text: &str, limit: usize) -> Self {
        let escape = |letter: char| {
            // Quotes are harmless in both places, and a sentence reads better with them.
            let plain = matches!(letter, '"' | '\'').then_some(letter);
            plain.into_iter().chain(letter.escape_debug().take(if plain.is_some() {
                0
            } else {
                16
            }))
        };
        let mut shown: String = text.chars().take(limit).flat_map(escape).collect();
        if text.chars().nth(limit).is_some() {
            shown.push('…');
        }
        Self(shown.into())
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self::clipped(name, LIMIT)
    }
}

impl From<&[u8]> for Name {
    fn from(name: &[u8]) -> Self {
        // Four bytes make at most one character, so the cut loses nothing that would be shown.
        let shown = &name[..name.len().min(4 * (LIMIT + 1))];
        Self::from(&*String::from_utf8_lossy(shown))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_is_cut_and_cannot_break_a_line() {
        let long = Name::from(&*"x".repeat(100_000)).to_string();
        let split = Name::from("a\n{\"level\":\"ERROR\"}\u{1b}[31m\u{2028}").to_string();

        assert_eq!(long.chars().count(), LIMIT + 1);
        assert!(!split.contains(['\n', '\u{1b}', '\u{2028}']), "{split}");
        assert!(Name::from(&[0xff; 9999][..]).to_string().len() < 400);
    }
}
