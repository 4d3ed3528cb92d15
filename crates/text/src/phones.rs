//! How a text sounds: words by the lexicon, and where it has none, by their endings, their parts, or
//! letter by letter.

use std::collections::HashMap;

use crate::{Lexicon, LexiconError};

const PAUSE: &str = "pau";
const WORD: &str = "_";

/// Text to the symbols that a voice was trained on.
#[derive(Debug)]
pub struct Phonemiser {
    lexicon: Lexicon,
    ids: HashMap<String, u16>,
}

/// Words that the lexicon has not, or not so.
const OWN: [(&str, &str); 2] = [("weren't", "w er1 n t"), ("aren't", "aa1 r n t")];
const SHORT_NOT: [(&str, &str); 5] = [
    ("ca", "k ae1 n t"),
    ("wo", "w ow1 n t"),
    ("do", "d ow1 n t"),
    ("ai", "ey1 n t"),
    ("sha", "sh ae1 n t"),
];
const ENDINGS: [(&str, &str); 5] =
    [("'ll", "ax0 l"), ("'ve", "v"), ("'re", "r"), ("'d", "d"), ("'m", "m")];
const VOWELS: [&str; 16] = [
    "aa", "ae", "ah", "ao", "aw", "ax", "ay", "eh", "er", "ey", "ih", "iy", "ow", "oy", "uh", "uw",
];

impl Phonemiser {
    /// From a lexicon and a `phones.json`, whose `symbols` are numbered by their place.
    ///
    /// # Errors
    ///
    /// When there are no symbols to be numbered.
    pub fn new(lexicon: Lexicon, phones: &[u8]) -> Result<Self, LexiconError> {
        let wrong = |problem: &str| LexiconError::Symbols(problem.to_owned());
        let phones: serde_json::Value =
            serde_json::from_slice(phones).map_err(|error| wrong(&error.to_string()))?;
        let symbols = phones["symbols"].as_array().ok_or_else(|| wrong("it has no symbols"))?;
        let mut ids = HashMap::new();
        for (id, symbol) in symbols.iter().enumerate() {
            let symbol = symbol.as_str().ok_or_else(|| wrong("a symbol is no text"))?;
            ids.insert(symbol.to_owned(), u16::try_from(id).map_err(|_| wrong("too many"))?);
        }
        if !ids.contains_key(PAUSE) || !ids.contains_key(WORD) {
            return Err(wrong("one of the two is missing"));
        }
        Ok(Self { lexicon, ids })
    }

    /// The numbers of a text's symbols.
    #[must_use]
    pub fn ids(&self, text: &str) -> Vec<u16> {
        self.symbols(text).iter().filter_map(|symbol| self.ids.get(*symbol).copied()).collect()
    }

    /// A text's symbols: a pause, each word's phones behind a mark, a pause at every stop.
    #[must_use]
    pub fn symbols(&self, text: &str) -> Vec<&str> {
        let text = text.to_lowercase();
        let tokens = tokens(&text);
        let mut symbols = vec![PAUSE];
        for (at, token) in tokens.iter().enumerate() {
            let Token::Word(word) = token else {
                if symbols.last() != Some(&PAUSE) {
                    symbols.push(PAUSE);
                }
                continue;
            };
            let mut phones = self.word(word);
            if *word == "the"
                && let Some(Token::Word(next)) = tokens.get(at + 1)
                && self.word(next).first().is_some_and(|phone| is_vowel(phone))
            {
                phones = vec!["dh", "iy0"];
            }
            if !phones.is_empty() {
                symbols.push(WORD);
                symbols.extend(phones);
            }
        }
        if symbols.last() != Some(&PAUSE) {
            symbols.push(PAUSE);
        }
        symbols
    }

    /// The phones of one word, which may be a short form.
    fn word(&self, word: &str) -> Vec<&str> {
        if let Some(phones) = self.look_up(word) {
            return phones;
        }
        if let Some(stem) = word.strip_suffix("n't") {
            if let Some((_, whole)) = SHORT_NOT.iter().find(|(short, _)| *short == stem) {
                return whole.split(' ').collect();
            }
            return with(self.word(stem), "ax0 n t");
        }
        if let Some((stem, phones)) =
            ENDINGS.iter().find_map(|(end, phones)| Some((word.strip_suffix(end)?, phones)))
        {
            return with(self.word(stem), phones);
        }
        if let Some(stem) = word.strip_suffix("'s").or_else(|| word.strip_suffix("s'")) {
            let phones = self.word(stem);
            let ending = plural(phones.last().copied().unwrap_or("z"));
            return with(phones, ending);
        }
        self.inflected(word).or_else(|| self.compound(word)).unwrap_or_else(|| self.spelled(word))
    }

    fn look_up(&self, word: &str) -> Option<Vec<&str>> {
        let own = OWN.iter().find(|(own, _)| *own == word).map(|(_, phones)| *phones);
        own.or_else(|| self.lexicon.get(word)).map(|phones| phones.split(' ').collect())
    }

    /// A known word with an ending: walks, stopped, making, carries.
    fn inflected(&self, word: &str) -> Option<Vec<&str>> {
        for suffix in ["s", "ed", "ing"] {
            let Some(rest) = word.strip_suffix(suffix).filter(|rest| 2 < rest.len()) else {
                continue;
            };
            let shorter = &rest[..rest.len() - 1];
            let last = &rest[rest.len() - 1..];
            let is_doubled = shorter.ends_with(last);
            let bases = [
                Some(rest.to_owned()),
                Some(format!("{rest}e")),
                is_doubled.then(|| shorter.to_owned()),
                (suffix == "s" && last == "e").then(|| shorter.to_owned()),
                (last == "i").then(|| format!("{shorter}y")),
            ];
            for base in bases.into_iter().flatten() {
                let Some(phones) = self.look_up(&base) else { continue };
                let end = phones.last().copied().unwrap_or_default();
                let ending = match suffix {
                    "ing" => "ih0 ng",
                    "ed" if ["t", "d"].contains(&end) => "ih0 d",
                    "ed" if ["p", "k", "f", "th", "s", "sh", "ch"].contains(&end) => "t",
                    "ed" => "d",
                    _ => plural(end),
                };
                return Some(with(phones, ending));
            }
        }
        None
    }

    /// Two known words in one, the first as long as can be.
    fn compound(&self, word: &str) -> Option<Vec<&str>> {
        (3..=word.len().saturating_sub(3)).rev().find_map(|at| {
            let (first, second) = word.split_at_checked(at)?;
            let mut phones = self.look_up(first)?;
            phones.extend(self.look_up(second)?);
            Some(phones)
        })
    }

    fn spelled(&self, word: &str) -> Vec<&str> {
        let mut letters = word.char_indices().map(|(at, letter)| &word[at..at + letter.len_utf8()]);
        let mut phones = Vec::new();
        for letter in &mut letters {
            match letter {
                // The letter, and not the article.
                "a" => phones.push("ey1"),
                _ => phones.extend(self.lexicon.get(letter).unwrap_or_default().split_whitespace()),
            }
        }
        phones
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Stop,
}

/// Words, with an ending behind an apostrophe, and stops. Everything else is between them.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let run = |text: &str| text.bytes().take_while(u8::is_ascii_lowercase).count();
        let n_letters = run(rest);
        if 0 < n_letters {
            let behind = rest[n_letters..].strip_prefix('\'').map_or(0, run);
            let end = n_letters + if behind == 0 { 0 } else { 1 + behind };
            tokens.push(Token::Word(&rest[..end]));
            rest = &rest[end..];
            continue;
        }
        if ",;:.?!".contains(letter) || rest.starts_with("--") {
            tokens.push(Token::Stop);
        }
        rest = &rest[letter.len_utf8()..];
    }
    tokens
}

fn with<'a>(mut phones: Vec<&'a str>, more: &'a str) -> Vec<&'a str> {
    phones.extend(more.split(' '));
    phones
}

/// How an `s` sounds after a phone.
fn plural(last: &str) -> &'static str {
    match last {
        "s" | "z" | "sh" | "zh" | "ch" | "jh" => "ax0 z",
        "p" | "t" | "k" | "f" | "th" => "s",
        _ => "z",
    }
}

fn is_vowel(phone: &str) -> bool {
    let bare = phone.strip_suffix(['0', '1']);
    bare.is_some_and(|bare| VOWELS.contains(&bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phonemiser() -> Phonemiser {
        let lexicon = "a\tax0\napple\tae1 p ax0 l\nb\tb iy1\ncarry\tk ae1 r iy0\ncat\tk ae1 t\n\
                       dog\td ao1 g\nhouse\th aw1 s\nq\tk y uw1\nstop\ts t aa1 p\nthe\tdh ax0\n\
                       they\tdh ey1\n";
        let symbols = r#"{"symbols": ["<pad>", "pau", "_", "dh", "ax0"]}"#;
        let lexicon = Lexicon::new(lexicon.to_owned()).unwrap();
        Phonemiser::new(lexicon, symbols.as_bytes()).unwrap()
    }

    fn said(text: &str) -> String {
        phonemiser().symbols(text).join(" ")
    }

    #[test]
    fn words_sound_as_listed_or_as_they_are_built() {
        for (text, symbols) in [
            ("The cat.", "pau _ dh ax0 _ k ae1 t pau"),
            ("the apple", "pau _ dh iy0 _ ae1 p ax0 l pau"),
            ("Cats, dogs; houses!", "pau _ k ae1 t s pau _ d ao1 g z pau _ h aw1 s ax0 z pau"),
            ("stopped carried", "pau _ s t aa1 p t _ k ae1 r iy0 d pau"),
            ("stopping", "pau _ s t aa1 p ih0 ng pau"),
            ("the cat's", "pau _ dh ax0 _ k ae1 t s pau"),
            ("they'll don't", "pau _ dh ey1 ax0 l _ d ow1 n t pau"),
            ("doghouse", "pau _ d ao1 g h aw1 s pau"),
            ("qba", "pau _ k y uw1 b iy1 ey1 pau"),
            ("...", "pau"),
            ("-- é €", "pau"),
        ] {
            assert_eq!(said(text), symbols, "{text}");
        }
        assert_eq!(phonemiser().ids("the"), [1, 2, 3, 4, 1]);
    }
}
